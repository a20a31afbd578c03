"""The authors' own files through `EgoMap/Doom-v0`: they load, run, and pay what their tables say.

The files are not part of this project: EGOMAP_REFERENCE_SCENARIOS names the folder that holds some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from egomap.config import Task
from egomap.envs import DoomEnv, DoomVectorEnv
from egomap.scenarios.layout import Layout
from egomap.scenarios.reference import read_reference

from .helpers import FORWARD, LEFT, Step, can_be_walked, events, finish, legs, walk

pytestmark = pytest.mark.slow

SETS: dict[str, Task] = {
    "labyrinth-9": "labyrinth",
    "find_return-5": "find-return",
    "find_return-9": "find-return",
    "kitem-4": "ordered-items",
    "kitem-6": "ordered-items",
}


def files(folder: Path, name: str) -> list[Path]:
    found = sorted((folder / name).glob("*.cfg"))
    if not found:
        pytest.skip(f"{folder} has no {name}")
    return found


def layouts(paths: list[Path], task: Task) -> list[Layout]:
    """Their layouts, in our frame: the centre of the arena is the origin."""
    return [read_reference(path.with_suffix(".json"), task).layout for path in paths]


@pytest.fixture
def play(
    reference_scenarios: Path, doom: Callable[..., DoomEnv]
) -> Callable[..., tuple[DoomEnv, list[Layout]]]:
    def make(name: str) -> tuple[DoomEnv, list[Layout]]:
        paths = files(reference_scenarios, name)
        return doom(config=paths), layouts(paths, SETS[name])

    return make


@pytest.mark.parametrize("name", SETS)
def test_they_load_and_run(name: str, play: Callable[..., tuple[DoomEnv, list[Layout]]]) -> None:
    env, found = play(name)
    assert len(env.worlds) == len(found)
    ids = set()
    for index, layout in enumerate(found):
        observation, info = env.reset(seed=index, options={"layout": index})
        assert env.observation_space.contains(observation)
        assert env.world.extent == layout.size * layout.cell
        x, y = layout.center(layout.start)
        # In find and return the player stands beside the pillar in the middle of the start cell.
        away = 32 * math.sqrt(2) if layout.task == "find-return" else 0.0
        assert math.dist(observation["pose"][:2], (x, y)) == pytest.approx(away, abs=0.1)
        ids.add(info["layout_id"])
        for _ in range(5):
            _, reward, terminated, truncated, _ = env.step(LEFT)
            assert reward == pytest.approx(-0.0004) and not terminated and not truncated
    assert len(ids) == len(found)


def test_one_file_alone_is_the_same_world(reference_scenarios: Path) -> None:
    path = files(reference_scenarios, "labyrinth-9")[0]
    env = gymnasium.make("EgoMap/Doom-v0", config=str(path))
    try:
        env.reset(seed=0)
        assert len(env.unwrapped.worlds) == 1
        terminated = truncated = False
        while not terminated and not truncated:
            _, _, terminated, truncated, info = env.step(LEFT)
        assert truncated and info["decisions"] == 525
        assert info["return"] == pytest.approx(-0.21, abs=1e-6) and not info["success"]
    finally:
        env.close()


def collect(env: DoomEnv, layout: Layout, index: int, order: list[int]) -> list[Step]:
    observation, _ = env.reset(seed=0, options={"layout": index})
    steps: list[Step] = []
    for points in legs(layout, order):
        steps += walk(env, observation, points)
        observation = steps[-1].observation
    return finish(env, steps)


def test_labyrinth_pays_one(play: Callable[..., tuple[DoomEnv, list[Layout]]]) -> None:
    env, found = play("labyrinth-9")
    for index, layout in enumerate(found[:2]):
        steps = collect(env, layout, index, [0])
        assert events(steps) == [1.0]
        assert steps[-1].terminated and steps[-1].info["success"]


@pytest.mark.parametrize("name", ["find_return-5", "find_return-9"])
def test_find_and_return_pays_half_and_half(
    name: str, play: Callable[..., tuple[DoomEnv, list[Layout]]]
) -> None:
    env, found = play(name)
    for index, layout in enumerate(found[:2]):
        steps = collect(env, layout, index, [0, 1])
        assert events(steps) == [0.5, 0.5]
        assert (steps[-1].terminated, steps[-1].truncated) == (True, False)
        assert steps[-1].info["success"]


@pytest.mark.parametrize(("name", "items"), [("kitem-4", 4), ("kitem-6", 6)])
def test_items_pay_half_and_the_last_one(
    name: str, items: int, play: Callable[..., tuple[DoomEnv, list[Layout]]]
) -> None:
    env, found = play(name)
    order = list(range(items))
    index, layout = next((i, layout) for i, layout in enumerate(found) if can_be_walked(layout, order))
    steps = collect(env, layout, index, order)
    assert events(steps) == [0.5] * (items - 1) + [1.0]
    assert steps[-1].terminated and steps[-1].info["success"]


def test_a_wrong_item_costs_a_quarter_and_ends(play: Callable[..., tuple[DoomEnv, list[Layout]]]) -> None:
    env, found = play("kitem-4")
    index, layout, wrong = next(
        (i, layout, item)
        for i, layout in enumerate(found)
        for item in (1, 2, 3)
        if can_be_walked(layout, [item])
    )
    steps = collect(env, layout, index, [wrong])
    assert events(steps) == [-0.25]
    assert (steps[-1].terminated, steps[-1].info["success"]) == (True, False)


def test_a_vector_of_all_their_files(reference_scenarios: Path) -> None:
    """Different families, one engine each, by one glob pattern."""
    paths = [path for name in SETS for path in files(reference_scenarios, name)]
    env = DoomVectorEnv(
        2, config=str(reference_scenarios / "*" / "*.cfg"), episodes_per_layout=1, frame_skip=35
    )
    try:
        assert len(env.worlds) >= len(paths)
        env.reset(seed=0)
        ended: list[int] = []
        while not env.exhausted:
            *_, info = env.step(np.full(2, FORWARD))
            ended += [
                int(info["final_info"]["layout"][i]) for i in np.flatnonzero(info.get("_final_info", []))
            ]
        assert sorted(ended) == list(range(len(env.worlds)))
    finally:
        env.close()
