"""A tiny run, trained and scored once on the real engine, and what was exported of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from egomap.cli import main
from egomap.config import AgentConfig, EnvSettings, MapSettings, Task, TrainConfig
from egomap.presets import FAST_LEARNER
from egomap.scenarios.dataset import ScenarioSet
from egomap.sharing.export import export
from egomap.training.command import train


@pytest.fixture(scope="session")
def tiny_config(sets: dict[Task, ScenarioSet]) -> TrainConfig:
    return TrainConfig(
        agent=AgentConfig(map=MapSettings(map_size=16), use_reward=True),
        scenario=sets["labyrinth"].config,
        scenarios=str(sets["labyrinth"].folder),
        learner=dataclasses.replace(FAST_LEARNER, num_envs=2, rollout_steps=16, minibatches=2),
        # Decisions five times as long: an episode of an agent that has learned nothing is over after a hundred.
        # An engine on a busy machine may be slow to start.
        env=EnvSettings(frame_skip=20, watchdog=120.0),
        budget=96,
        evaluate_every=0,
        checkpoint_every=32,
    )


@pytest.fixture(scope="session")
def run(tiny_config: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three updates, with scores and lesions in its folder."""
    path = tmp_path_factory.mktemp("sharing") / "tiny"
    train(tiny_config, path)
    assert main(["evaluate", str(path), "--lesion", "hidden", "--num-envs", "2"]) == 0
    return path


@pytest.fixture(scope="session")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "tiny-egomap"
    export(run, path)
    return path
