"""Small scenario sets and a cache of their own for the tests of the environments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from egomap.config import Task
from egomap.envs import DoomEnv, DoomVectorEnv
from egomap.scenarios.dataset import ScenarioSet

TASKS: tuple[Task, ...] = ("labyrinth", "find-return", "ordered-items")
IDS = {
    "labyrinth": "EgoMap/Labyrinth-v0",
    "find-return": "EgoMap/FindReturn-v0",
    "ordered-items": "EgoMap/OrderedItems-v0",
}


@pytest.fixture
def doom(sets: dict[Task, ScenarioSet]) -> Iterator[Callable[..., DoomEnv]]:
    """doom("labyrinth", ...): a single environment on the small set, closed after the test."""
    made: list[DoomEnv] = []

    def make(task: Task | None = None, **options: Any) -> DoomEnv:
        if task is not None:
            options = {"task": task, "scenarios": sets[task], **options}
        made.append(DoomEnv(**options))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def vector(sets: dict[Task, ScenarioSet]) -> Iterator[Callable[..., DoomVectorEnv]]:
    """vector("labyrinth", 4, ...): a vector environment on the small set, closed after the test."""
    made: list[DoomVectorEnv] = []

    def make(task: Task, num_envs: int, **options: Any) -> DoomVectorEnv:
        made.append(DoomVectorEnv(num_envs, **{"scenarios": sets[task], **options}))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture(scope="session")
def reference_scenarios() -> Path:
    """The authors' own files, where they are at hand."""
    folder = os.environ.get("EGOMAP_REFERENCE_SCENARIOS")
    if not folder:
        pytest.skip("EGOMAP_REFERENCE_SCENARIOS does not name the folder of the authors' scenario files")
    assert Path(folder).is_dir(), f"EGOMAP_REFERENCE_SCENARIOS is {folder}, which is not a folder"
    return Path(folder)
