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


def test_depth_pose_and_actions_agree(env: GymVectorEnv) -> None:
    """Whoever walks ahead sees the wall ahead nearer by as much as the pose says."""
    spec = env.world_spec
    assert (spec.camera.width, spec.camera.height, spec.num_actions) == (64, 64, 6)
    observation, _ = env.reset(seed=1)
    compared = 0
    for action in [FORWARD] * 6 + [LEFT] * 4:
        before = observation["depth"][0].copy()
        observation = env.step(np.array([action]))[0]
        (right, ahead, turn), after = observation["ego_motion"][0], observation["depth"][0]
        level = slice(26, 30)  # the camera looks down a little: the horizon is above the middle
        near, far = after[level, 30:34], before[level, 30:34]
        flat = np.ptp(near) < 0.02 * near.mean() and np.ptp(far) < 0.02 * far.mean()
        if action == FORWARD and flat and turn == 0:
            assert near.mean() == pytest.approx(far.mean() - ahead, abs=1.0)  # map units; a cell has 58
            compared += 1
        if action == FORWARD:
            assert ahead >= abs(right)
        else:
            assert turn > math.radians(10)
    assert compared >= 3
    assert (np.abs(observation["pose"][0, :2]) < spec.extent / 2).all()
    border = observation["rgb"][0, :, 0, 5]
    assert np.abs(COLOURS - border).max(axis=1).min() < 2


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
