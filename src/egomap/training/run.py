"""A run folder: `config.json`, `metrics.csv`, `tensorboard/`, `checkpoints/`, `evaluation/`.

What comes in: a path. What goes out: a run to begin, to resume, or an agent to evaluate: the folder is enough.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from egomap.agents.agent import Agent
from egomap.agents.fitting import agent_for
from egomap.config import TrainConfig, as_float, require
from egomap.kinds import kind_of
from egomap.rl.auxiliary import auxiliary_size
from egomap.training.checkpoint import (
    BEST,
    Checkpoint,
    checkpoints,
    latest,
    load_checkpoint,
    load_module,
    require_run,
)
from egomap.training.names import CONFIG, require_run_folder
from egomap.training.sources import source_of
from egomap.util.files import write_whole
from egomap.util.named import require_outside
from egomap.util.reading import read_json
from egomap.worlds.api import WorldSpec

WORLD = "world"
"""What `config.json` calls the description of a world, where it has one."""


class RunFolder(NamedTuple):
    """The places in a run folder."""

    path: Path

    @property
    def config(self) -> Path:
        """The settings."""
        return self.path / CONFIG

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def evaluation(self) -> Path:
        """The folder of evaluations."""
        return self.path / "evaluation"

    def make(self) -> None:
        """Make the folders that a training and an evaluation write to."""
        self.path.mkdir(parents=True, exist_ok=True)  # first, so that an error names what was asked for
        for folder in (self.checkpoints, self.evaluation):
            folder.mkdir(exist_ok=True)


def begin_run(path: Path, config: TrainConfig, extent: float, world: WorldSpec | None = None) -> RunFolder:
    """A new run folder for `config`.

    Args:
        path: New or empty.
        config: What is trained.
        extent: Side of a square that holds every arena, in map units.
        world: What agents must know of the world, unless the config says it all, as for Doom.

    Raises:
        ValueError: The folder holds something already.
    """
    run = RunFolder(path)
    if run.config.exists():
        raise ValueError(f"{path} already holds a run; continue it with --resume, or give another folder.")
    require(not path.exists() or path.is_dir(), f"{path} is a file; give a folder.")
    require(
        # What a kill in this very moment can leave behind begins with a dot.
        not path.exists() or all(entry.name.startswith(".") for entry in path.iterdir()),
        f"{path} holds other files; give a new or empty folder.",
    )
    run.make()
    told = {} if world is None else {WORLD: world.to_json()}
    write_whole(run.config, json.dumps({"extent": extent, **told, **config.to_json()}, indent=1) + "\n")
    return open_run(path)[0]


def open_run(path: Path) -> tuple[RunFolder, TrainConfig, float]:
    """The run in `path`, its config, and the side of the arena that its agent was made for. Nothing is written.

    Raises:
        ValueError: There is none, or its config cannot be read.
    """
    run = RunFolder(path)
    require_run_folder(path)
    try:
        data: dict[str, Any] = read_json(run.config)
        extent = as_float(data.pop("extent"))
        data.pop(WORLD, None)
        require(0 < extent < math.inf, f"extent must be a positive length; got {extent}")
        config = TrainConfig.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{run.config} is damaged: {str(error).rstrip('.')}.") from error
    require_own(config, path)
    return run, config, extent


def require_own(config: TrainConfig, folder: Path) -> None:
    """Raise a ValueError if settings name code that would be imported from the folder that they were found in."""
    for address in (kind_of(config.agent.kind).address, *config.learner.addresses):
        require_outside(address, folder)
    if config.env.id:
        from egomap.worlds.gym import require_outside as require_env_outside  # for it brings Gymnasium along

        require_env_outside(config.env.id, folder)


def run_spec(path: Path) -> WorldSpec:
    """What the agent of a run must know of its world.

    Raises:
        ValueError: There is no run, or its config cannot be read.
    """
    run, config, extent = open_run(path)
    try:
        return source_of(config).recall(extent, read_json(run.config).get(WORLD))
    except ValueError as error:
        raise ValueError(f"{run.config} is damaged: {str(error).rstrip('.')}.") from error


def new_agent(config: TrainConfig, spec: WorldSpec) -> Agent:
    """A new agent of a run, initialised from torch's global generator.

    Args:
        config: Of the run.
        spec: What it must know of its world.
    """
    return agent_for(config.agent, spec, auxiliary_size=auxiliary_size(config.learner))


def load_agent(path: Path, *, which: str = "last") -> tuple[Agent, TrainConfig, Checkpoint]:
    """The agent of a run: its "last" or "best" checkpoint, or the "first" that is still there."""
    run, config, extent = open_run(path)
    if which == "last":
        where, found = latest(run.checkpoints)
    else:
        kept = checkpoints(run.checkpoints)
        require(which == "best" or bool(kept), f"there is no checkpoint in {run.checkpoints}.")
        where = run.checkpoints / BEST if which == "best" else kept[-1]
        found = load_checkpoint(where)
    require_run(found, config, extent, where)
    return agent_of(config, run_spec(path), found, where), config, found


def agent_of(config: TrainConfig, spec: WorldSpec, found: Checkpoint, where: Path) -> Agent:
    """A new agent with the weights that were found at `where`, ready to play."""
    agent = new_agent(config, spec)
    load_module(agent, found.tensors, where)
    return agent.eval()


def worlds_of(config: TrainConfig, split: str, *, size: int | None = None) -> Any:
    """The worlds of a run: of its curriculum's last stage, or of the stage with mazes of `size`."""
    return source_of(config).worlds(split, size=size)
