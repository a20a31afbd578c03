"""Recordings of real episodes, made once: small mazes, untrained agents, one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from egomap.agents.agent import Agent
from egomap.config import AgentConfig, EnvSettings, MapSettings, Task
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.inspector.mind import Mind
from egomap.inspector.record import Stage, driver_of
from egomap.inspector.recording import Recording
from egomap.inspector.subject import untrained
from egomap.scenarios.dataset import ScenarioSet

MAP_SIZE = 16


def small_agent(kind: str, worlds: Worlds, **settings: object) -> Agent:
    chosen: dict[str, Any] = {"map_size": MAP_SIZE, **settings}
    config = AgentConfig(kind=kind, map=MapSettings(**chosen))  # type: ignore[arg-type]
    return untrained(config, EnvSettings(), worlds.extent, seed=0)


Recorder = Callable[..., Recording]


@pytest.fixture(scope="session")
def recorded(sets: dict[Task, ScenarioSet]) -> Recorder:
    """recorded(task, kind, driver, layout=0, **settings of the map): the episode, kept for the next who asks."""
    kept: dict[object, Recording] = {}

    def get(
        task: Task, kind: str | None, driver: str, *, layout: int = 0, noise: float = 0.0, **settings: object
    ) -> Recording:
        key = (task, kind, driver, layout, noise, tuple(settings.items()))
        if key not in kept:
            torch.set_num_threads(1)
            worlds = worlds_of_set(sets[task], "test")
            mind = None if kind is None else Mind(small_agent(kind, worlds, **settings))
            with Stage(worlds, EnvSettings(ego_motion_noise=noise)) as stage:
                kept[key] = stage.play(
                    layout,
                    driver_of(driver),
                    mind=mind,
                    agent=f"{kind or driver}, untrained",
                    driven_by="" if driver == "self" else driver,
                    split="test",
                )
        return kept[key]

    return get
