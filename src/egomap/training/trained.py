"""A trained agent, wherever it lies: its weights in a module, with the settings and the moment that they are of.

What comes in: a path or a name (`egomap.training.names`), and which checkpoint. What goes out: a `Trained`.
Nothing is written, no lock is taken, and a folder that may only be read is enough.
"""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple, get_args

from egomap.agents.agent import Agent
from egomap.config import TrainConfig, require
from egomap.training.checkpoint import Checkpoint
from egomap.training.exported import WEIGHTS, read_exported
from egomap.training.names import Source, find_source
from egomap.training.run import agent_of, load_agent, open_run, run_spec
from egomap.worlds.api import WorldSpec

Which = Literal["first", "last", "best"]
"""Of a run's checkpoints: the first that is still there (a training keeps its latest two), the last, or the best on
held-out mazes."""


class Trained(NamedTuple):
    """An agent and what is known of it."""

    source: Source
    agent: Agent
    config: TrainConfig
    extent: float
    """Side of the arenas that it was made for, in map units."""
    weights: Checkpoint
    spec: WorldSpec
    """What it knows of its world."""
    decisions: int
    """That it was trained for."""
    which: str
    """Which of its run's checkpoints it is."""
    card: dict[str, Any] | None
    """Of an exported agent."""


def find_agent(name: str | os.PathLike[str], *, which: str = "last") -> Trained:
    """The agent that is meant by `name`.

    Args:
        name: A run folder, an exported agent, the name of a released one, or `hub:OWNER/NAME`.
        which: A run's `first`, `last` or `best` checkpoint. An export holds one, which `last` means, too.

    Raises:
        ValueError: There is none, or it is damaged.
    """
    require(which in get_args(Which), f"which must be first, last or best; got {which!r:.80}.")
    source = find_source(name)
    return _of_run(source, which) if source.is_run else _of_export(source, which)


def settings_of(name: str | os.PathLike[str]) -> TrainConfig:
    """The settings with which the agent that is meant by `name` was trained; see `find_agent`."""
    source = find_source(name)
    return open_run(source.folder)[1] if source.is_run else read_exported(source.folder).config


def _of_run(source: Source, which: str) -> Trained:
    agent, config, found = load_agent(source.folder, which=which)
    decisions = int(found.data["counters"]["decisions"])
    extent, spec = open_run(source.folder)[2], run_spec(source.folder)
    return Trained(source, agent, config, extent, found, spec, decisions, which, None)


def _of_export(source: Source, which: str) -> Trained:
    found = read_exported(source.folder)
    own = found.card["training"]["checkpoint"]
    require(
        which in ("last", own),
        f"{source.name} holds one agent, the {own} of its run, and not the {which}.",
    )
    agent = agent_of(found.config, found.spec, found.weights, source.folder / WEIGHTS)
    decisions = int(found.card["training"]["decisions"])
    return Trained(
        *(source, agent, found.config, found.extent, found.weights, found.spec, decisions, own, found.card)
    )
