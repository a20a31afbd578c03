"""Small runs, trained once: enough decisions for a checkpoint, too few to learn anything."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from egomap.config import AgentConfig, EnvSettings, MapSettings, Task, TrainConfig
from egomap.presets import FAST_LEARNER
from egomap.scenarios.dataset import ScenarioSet
from egomap.training.command import train


@pytest.fixture(scope="session")
def small_config(sets: dict[Task, ScenarioSet]) -> TrainConfig:
    return TrainConfig(
        agent=AgentConfig(map=MapSettings(map_size=16)),
        scenario=sets["labyrinth"].config,
        scenarios=str(sets["labyrinth"].folder),
        learner=dataclasses.replace(FAST_LEARNER, num_envs=4, rollout_steps=16, minibatches=2),
        # Decisions five times as long: an episode of an agent that has learned nothing is over after a hundred.
        env=EnvSettings(frame_skip=20),
        budget=128,
        evaluate_every=0,
    )


@pytest.fixture(scope="session")
def runs(small_config: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two EgoMaps that differ in their seed, and a GRU."""
    folder = tmp_path_factory.mktemp("runs")
    gru = dataclasses.replace(small_config.agent, kind="gru")
    configs = {
        "egomap-s0": small_config,
        "egomap-s1": dataclasses.replace(small_config, seed=1),
        "gru": dataclasses.replace(small_config, agent=gru),
    }
    for name, config in configs.items():
        train(config, folder / name)
    return {name: folder / name for name in configs}
