"""Recordings of real episodes, made once: small mazes, untrained agents, one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from egomap.agents.agent import Agent
from egomap.config import AgentConfig, EnvSettings, MapSettings, Task
from egomap.envs.doom import doom_spec
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.evaluation.lesions import lesion_surgery
from egomap.evaluation.network import NetworkPlayer
from egomap.inspector.lesioned import intact_record, lesion_names, with_lesions
from egomap.inspector.mind import Mind
from egomap.inspector.record import Stage, driver_of
from egomap.inspector.recording import Recording
from egomap.inspector.subject import untrained
from egomap.scenarios.dataset import ScenarioSet
from egomap.worlds.episodes import Episode, episode_seed

MAP_SIZE = 16


def small_agent(kind: str, worlds: Worlds, **settings: object) -> Agent:
    chosen: dict[str, Any] = {"map_size": MAP_SIZE, **settings}
    config = AgentConfig(kind=kind, map=MapSettings(**chosen))  # type: ignore[arg-type]
    return untrained(config, doom_spec(EnvSettings(), worlds.extent), seed=0)


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


class Lesioned(NamedTuple):
    """An episode that an untrained EgoMap agent played, with every lesion of it."""

    agent: Agent
    recording: Recording
    live: dict[str, np.ndarray]
    """What each lesioned copy said while the episode was being played, (T, actions)."""


@pytest.fixture(scope="session")
def lesioned(sets: dict[Task, ScenarioSet]) -> Lesioned:
    torch.set_num_threads(1)
    worlds, settings, layout, seed = worlds_of_set(sets["find-return"], "test"), EnvSettings(), 1, 3
    agent = small_agent("egomap", worlds)
    names = lesion_names(agent.memory, ["each"])
    record = intact_record(agent, names, worlds, settings, seed=seed)
    surgeries = {name: lesion_surgery(agent, name, record, 1) for name in names}
    players = {name: NetworkPlayer(agent, 1, surgery=surgery) for name, surgery in surgeries.items()}
    for player in players.values():
        player.begin(0, worlds[layout], Episode(layout, episode_seed(seed, layout, 0)))
    said: dict[str, list[np.ndarray]] = {name: [] for name in names}

    def show(observation: Any, *_: object) -> None:
        for name, player in players.items():
            with surgeries[name]:
                batch = {key: array[None] for key, array in observation.items()}
                said[name].append(player.policy(batch, np.array([True]))[0])

    with Stage(worlds, settings) as stage:
        found = stage.play(layout, driver_of("planner"), mind=Mind(agent), seed=seed, show=show)
    found = with_lesions(found, agent, names, worlds[layout], record)
    return Lesioned(agent, found, {name: np.stack(rows) for name, rows in said.items()})
