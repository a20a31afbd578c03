"""Whoever watches an evaluation: told by the runner what happens in each environment.

What comes in: the beginnings, decisions and rewards of N environments. What goes out: what the watcher tells of an
episode that has ended. `Nobody` watches nothing; `egomap.evaluation.tracks` records the legs in our mazes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from egomap.worlds.api import World
from egomap.worlds.episodes import Episode

if TYPE_CHECKING:  # it knows what a layout is
    from egomap.evaluation.legs import Leg


class Watcher(Protocol):
    """Whoever is told by the runner what happens in N environments."""

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Environment `index` begins an episode."""
        ...

    def deciding(self, playing: np.ndarray) -> None:
        """A decision is about to be made in all that are `playing`."""
        ...

    def paid(self, playing: np.ndarray, rewards: np.ndarray) -> None:
        """What it paid; where an episode has ended, the environment is in the next one already."""
        ...

    def legs(self, index: int, *, timed_out: bool) -> tuple[Leg, ...] | None:
        """The legs of the episode that has just ended; None if they cannot be told."""
        ...


class Nobody:
    """Watches nothing, and knows of no legs."""

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Ignored."""

    def deciding(self, playing: np.ndarray) -> None:
        """Ignored."""

    def paid(self, playing: np.ndarray, rewards: np.ndarray) -> None:
        """Ignored."""

    def legs(self, index: int, *, timed_out: bool) -> tuple[Leg, ...] | None:
        """None."""
        return None


NOBODY = Nobody()
