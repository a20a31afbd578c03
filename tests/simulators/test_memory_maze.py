"""Memory Maze behind the seam: pose, depth and actions agree; seeds; what is found out about it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from egomap.config import EnvSettings
from egomap.simulators.memory_maze import ACTIONS, maze_9x9
from egomap.worlds.gym import describe
from egomap.worlds.vector import GymVectorEnv
from egomap.worlds.worker import examine_apart

NAME = "egomap.simulators.memory_maze:maze_9x9"
pytestmark = [pytest.mark.slow(seconds=8), pytest.mark.usefixtures("memory_maze")]
WAIT, FORWARD, LEFT = (ACTIONS.index(name) for name in ("wait", "forward", "turn left"))
COLOURS = np.array([(170, 38, 30), (99, 170, 88), (39, 140, 217)]) / 220 * 255 * 0.7
"""Of the three targets as they are asked for."""


@pytest.fixture
def env() -> Iterator[GymVectorEnv]:
    made = GymVectorEnv(describe(maze_9x9(), EnvSettings(id=NAME)), 1, workers=1)
    yield made
    made.close()


def test_depth_pose_and_actions_agree() -> None:
    """Whoever walks ahead sees the wall ahead nearer by as much as the pose says. Metres."""
    maze = maze_9x9()
    try:
        for seed in (1, 2):
            seen, _ = maze.reset(seed=seed)
            for action in [FORWARD] * 6 + [LEFT] * 4:
                (x, y, phi), far = (
                    seen["pose"],
                    seen["depth"][26:30, 30:34].mean(),
                )  # the camera looks down a little
                seen = maze.step(action)[0]
                dx, dy, turn = seen["pose"] - (x, y, phi)
                ahead, right = (
                    dx * math.cos(phi) + dy * math.sin(phi),
                    dx * math.sin(phi) - dy * math.cos(phi),
                )
                if action == FORWARD:
                    assert 0.2 < ahead < 0.51 and abs(right) < 0.01 and abs(turn) < 0.01
                    assert seen["depth"][26:30, 30:34].mean() == pytest.approx(far - ahead, abs=0.03)
                else:
                    assert math.radians(14) < math.remainder(turn, math.tau) < math.radians(19)
            border = seen["rgb"][0, 5].astype(float)
            assert np.abs(COLOURS - border).max(axis=1).min() < 2
    finally:
        maze.close()


def test_the_seed_says_it_all(env: GymVectorEnv) -> None:
    views = []
    for seed in (3, 3, 4):
        first = {name: array.copy() for name, array in env.reset(seed=seed)[0].items()}
        env.step(np.array([WAIT]))
        views.append(first)
    for name in views[0]:
        np.testing.assert_array_equal(views[0][name], views[1][name])
    assert not np.array_equal(views[0]["rgb"], views[2]["rgb"])


@pytest.mark.slow(seconds=15)
@pytest.mark.timeout(600)
def test_it_is_examined_as_any_environment_is() -> None:
    spec = examine_apart(EnvSettings(id=NAME))
    assert spec.actions == ACTIONS
    assert spec.depth_range is not None and spec.depth_range > spec.extent == pytest.approx(640)
    assert spec.statistics is not None and 0 < spec.statistics.mean[3] < spec.extent
