"""Where the worlds of a run come from: one row for each kind of simulator.

What comes in: the settings of a run. What goes out: its `Source`. A simulator is imported when it is asked for, so
that nobody needs one that is not used. To add a simulator without a line here: `egomap train --env` takes any
Gymnasium environment by name (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable

from egomap.config import TrainConfig
from egomap.worlds.api import Source


def _doom(config: TrainConfig) -> Source:
    from egomap.envs.source import DoomSource

    return DoomSource(config)


def _gymnasium(config: TrainConfig) -> Source:
    from egomap.worlds.source import GymSource

    return GymSource(config)


def _miniworld(config: TrainConfig) -> Source:
    from egomap.simulators.miniworld import MiniWorldSource

    return MiniWorldSource(config)


SOURCES: dict[str, Callable[[TrainConfig], Source]] = {
    "doom": _doom,
    "miniworld": _miniworld,
    "gymnasium": _gymnasium,
}
"""Every kind of simulator."""


def source_of(config: TrainConfig) -> Source:
    """Where the worlds of a run come from."""
    return SOURCES[config.env.simulator](config)
