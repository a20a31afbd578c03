"""A run folder: `config.json`, `metrics.csv`, `tensorboard/`, `checkpoints/`, `evaluation/`.

What comes in: a path. What goes out: a run to begin, to go on with, or an agent to evaluate: the folder is enough.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from egomap.agents.agent import Agent, build_agent
from egomap.config import Camera, ScenarioConfig, TrainConfig, as_float, require
from egomap.envs.doom import find_worlds
from egomap.envs.rendering import render_mode
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.reading import read_json
from egomap.scenarios.dataset import default_set
from egomap.training.checkpoint import (
    BEST,
    Checkpoint,
    latest,
    load_checkpoint,
    load_module,
    require_run,
)
from egomap.training.files import write_whole

CONFIG = "config.json"


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


def begin_run(path: Path, config: TrainConfig, extent: float) -> RunFolder:
    """A new run folder for `config`.

    Raises:
        ValueError: The folder holds something already.
    """
    run = RunFolder(path)
    if run.config.exists():
        raise ValueError(f"{path} holds a run already; go on with it by --resume, or give another folder.")
    require(not path.exists() or path.is_dir(), f"{path} is a file; give a folder.")
    require(
        # What a kill in this very moment can leave behind begins with a dot.
        not path.exists() or all(entry.name.startswith(".") for entry in path.iterdir()),
        f"{path} holds other files; give a new or empty folder.",
    )
    path.mkdir(parents=True, exist_ok=True)
    write_whole(run.config, json.dumps({"extent": extent, **config.to_json()}, indent=1) + "\n")
    return open_run(path)[0]


def open_run(path: Path) -> tuple[RunFolder, TrainConfig, float]:
    """The run in `path`, its config, and the side of the arena that its agent was made for.

    Raises:
        ValueError: There is none, or its config cannot be read.
    """
    run = RunFolder(path)
    require(run.config.exists(), f"{path} holds no run: it has no {CONFIG}.")
    try:
        data: dict[str, Any] = read_json(run.config)
        extent = as_float(data.pop("extent"))
        require(0 < extent < math.inf, f"extent must be a positive length; got {extent}")
        config = TrainConfig.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{run.config} is damaged: {str(error).rstrip('.')}.") from error
    for folder in (run.checkpoints, run.evaluation):
        folder.mkdir(exist_ok=True)
    return run, config, extent


def observation_camera(config: TrainConfig) -> Camera:
    """The camera that the agent of a run sees through."""
    return render_mode(config.env.rendering).observation_camera


def load_agent(path: Path, *, which: str = "last") -> tuple[Agent, TrainConfig, Checkpoint]:
    """The agent of a run: its "last" or its "best" checkpoint."""
    run, config, extent = open_run(path)
    if which == "best":
        where = run.checkpoints / BEST
        found = load_checkpoint(where)
    else:
        where, found = latest(run.checkpoints)
    require_run(found, config, extent, where)
    agent = build_agent(config.agent, observation_camera(config), extent)
    load_module(agent, found.tensors, where)
    agent.eval()
    return agent, config, found


def worlds_of(config: TrainConfig, split: str, *, size: int | None = None) -> Worlds:
    """The worlds of a run: of its curriculum's last stage, or of the stage with mazes of `size`."""
    if config.scenarios is not None:
        return find_worlds(scenarios=config.scenarios, split=split)
    if size is None and config.curriculum:
        size = config.curriculum[-1]
    return worlds_of_set(default_set(scenario_of(config, size)), split)


def scenario_of(config: TrainConfig, size: int | None = None) -> ScenarioConfig:
    """The scenario set of a run, or of one stage of its curriculum."""
    from dataclasses import replace

    return config.scenario if size is None else replace(config.scenario, size=size)
