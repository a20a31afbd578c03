"""Ego-motion: hand values, and noise that is multiplicative, accumulated and seeded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egomap.envs import DoomEnv
from egomap.envs.accounts import Accounts
from egomap.worlds.ego_motion import EgoMotion, Odometry, Pose, ego_motion_between, moved, wrap, wrap_all

from .helpers import FORWARD, LEFT, random_actions

Make = Callable[..., DoomEnv]
QUARTER = math.pi / 2
numbers = st.floats(-1e4, 1e4)
angles = st.floats(-50, 50)


@pytest.mark.parametrize(
    ("before", "after", "motion"),
    [
        # Facing east (phi 0): north is to the left.
        (Pose(0, 0, 0), Pose(3, 0, 0), EgoMotion(0, 3, 0)),
        (Pose(0, 0, 0), Pose(0, 2, 0), EgoMotion(-2, 0, 0)),
        (Pose(5, 7, 0), Pose(5, 5, 0.5), EgoMotion(2, 0, 0.5)),
        # Facing north: east is to the right.
        (Pose(0, 0, QUARTER), Pose(4, 1, QUARTER), EgoMotion(4, 1, 0)),
        # The frame is the one *before* the motion, however far the turn.
        (Pose(0, 0, 0), Pose(1, 0, QUARTER), EgoMotion(0, 1, QUARTER)),
        # Turns go the short way round.
        (Pose(0, 0, 3.0), Pose(0, 0, -3.0), EgoMotion(0, 0, math.tau - 6)),
        (Pose(0, 0, -3.0), Pose(0, 0, 3.0), EgoMotion(0, 0, 6 - math.tau)),
    ],
)
def test_hand_values(before: Pose, after: Pose, motion: EgoMotion) -> None:
    assert ego_motion_between(before, after) == pytest.approx(motion, abs=1e-12)
    assert moved(before, motion) == pytest.approx(after, abs=1e-12)


@given(st.tuples(numbers, numbers, angles), st.tuples(numbers, numbers, angles))
def test_moved_undoes_ego_motion_between(before: tuple[float, ...], after: tuple[float, ...]) -> None:
    first, second = Pose(*before), Pose(*after)
    motion = ego_motion_between(first, second)
    assert -math.pi < motion.dphi <= math.pi
    back = moved(first, motion)
    assert back[:2] == pytest.approx(second[:2], abs=1e-7)
    assert wrap(back.phi - second.phi) == pytest.approx(0.0, abs=1e-9)


@given(angles)
def test_wrap_is_the_same_angle_in_half_open_range(angle: float) -> None:
    for wrapped in (wrap(angle), float(wrap_all(np.array(angle)))):
        assert -math.pi < wrapped <= math.pi + 1e-12
        assert math.cos(wrapped) == pytest.approx(math.cos(angle), abs=1e-9)
        assert math.sin(wrapped) == pytest.approx(math.sin(angle), abs=1e-9)


def test_wrap_at_the_seam() -> None:
    assert wrap(math.pi) == wrap(-math.pi) == wrap(3 * math.pi) == math.pi
    assert wrap_all(np.array([math.pi, -math.pi, 0.0, 1.5])).tolist() == [math.pi, math.pi, 0.0, 1.5]


def walk(count: int, steps: int = 30) -> np.ndarray:
    """(steps, count, 3) poses of players who turn and walk."""
    rng = np.random.default_rng(4)
    poses = np.cumsum(rng.normal(0, [20, 20, 0.4], (steps, count, 3)), axis=0)
    poses[..., 2] = wrap_all(poses[..., 2])
    return poses


def test_without_noise_the_pose_is_the_simulators_own() -> None:
    odometry, poses = Odometry(0.0, 3), walk(3)
    for agent in range(3):
        odometry.reset(agent, Pose(*poses[0, agent]), seed=1)
    for before, after in itertools.pairwise(poses):
        motion = odometry.update(slice(None), after)
        np.testing.assert_array_equal(odometry.pose, after)
        expected = [ego_motion_between(Pose(*a), Pose(*b)) for a, b in zip(before, after, strict=True)]
        np.testing.assert_allclose(motion, expected, atol=1e-12)


def follow(
    sigma: float, seeds: list[int], poses: np.ndarray, *, together: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(steps, N, 3) motions and believed poses of N agents, updated all together or one after the other."""
    odometry = Odometry(sigma, len(seeds))
    for agent, seed in enumerate(seeds):
        odometry.reset(agent, Pose(*poses[0, agent]), seed)
    motions, believed = [], []
    for after in poses[1:]:
        if together:
            motions.append(odometry.update(slice(None), after))
        else:
            order = range(len(seeds))[::-1]
            parts = [odometry.update([agent], after[[agent]])[0] for agent in order]
            motions.append(np.array(parts[::-1]))
        believed.append(odometry.pose.copy())
    return np.array(motions), np.array(believed)


def test_noise_multiplies_each_reading_by_its_own_factor_and_accumulates() -> None:
    poses, sigma = walk(2, 200), 0.2
    motions, believed = follow(sigma, [7, 8], poses, together=True)
    for agent in range(2):
        true = np.array(
            [
                ego_motion_between(Pose(*a), Pose(*b))
                for a, b in zip(poses[:-1, agent], poses[1:, agent], strict=True)
            ]
        )
        factors = motions[:, agent] / true
        assert abs(factors.mean() - 1) < 0.03 and abs(factors.std() - sigma) < 0.03
        correlation = np.corrcoef(factors.T)
        assert np.abs(correlation - np.eye(3)).max() < 0.3, "each component has its own"
        pose = Pose(*poses[0, agent])
        for motion, expected in zip(motions[:, agent], believed[:, agent], strict=True):
            pose = moved(pose, EgoMotion(*motion))  # from the believed pose, not from the true one
            np.testing.assert_allclose(pose, expected, atol=1e-9)
        drift = np.linalg.norm(believed[:, agent, :2] - poses[1:, agent, :2], axis=1)
        assert drift[-50:].mean() > 3 * drift[:10].mean()


def test_noise_follows_the_seed_alone() -> None:
    poses = walk(2)
    first = follow(0.3, [5, 6], poses, together=True)
    again = follow(0.3, [5, 6], poses, together=False)
    np.testing.assert_array_equal(first, again)
    other = follow(0.3, [5, 9], poses, together=True)
    np.testing.assert_array_equal(first[0][:, 0], other[0][:, 0])
    assert (first[0][:, 1] != other[0][:, 1]).all()


def test_standing_still_has_no_noise() -> None:
    odometry = Odometry(1.0, 1)
    odometry.reset(0, Pose(10, 20, 1), seed=1)
    for _ in range(5):
        assert not odometry.update(slice(None), np.array([[10.0, 20.0, 1.0]])).any()
    np.testing.assert_array_equal(odometry.pose, [[10, 20, 1]])


def test_accounts_keep_rows_apart() -> None:
    accounts = Accounts(3, 0.0)
    for row in range(3):
        accounts.begin(row, np.array([10.0 * row, 5.0, 0.0, 270.0]), (1.0, 2.0), -0.0004, seed=row)
    np.testing.assert_allclose(
        accounts.odometry.pose, [[-1, 3, -QUARTER], [9, 3, -QUARTER], [19, 3, -QUARTER]]
    )
    accounts.count([0, 2], np.array([0.4996, -0.0004]))
    assert accounts.decisions.tolist() == [1, 0, 1]
    np.testing.assert_allclose(accounts.total_reward, [0.4996, 0, -0.0004])
    assert accounts.decisions_since_event.tolist() == [0, 0, 1]
    np.testing.assert_allclose(accounts.last_event, [0.4996, 0, 0])
    # Facing south, 7 units south is forward; 4 units west is to the right.
    motion = accounts.move([2], np.array([[16.0, -2.0, 0.0, 280.0]]))
    np.testing.assert_allclose(motion, [[4, 7, math.radians(10)]])
    assert accounts.odometry.pose[0].tolist() == pytest.approx([-1, 3, -QUARTER])
    accounts.begin(0, np.zeros(4), (0.0, 0.0), -0.0004, seed=0)
    assert (accounts.decisions[0], accounts.total_reward[0], accounts.last_event[0]) == (0, 0, 0)


# ------------------------------------------------------------------------------------------------- in the environment


def test_the_environments_ego_motion_leads_from_pose_to_pose(doom: Make) -> None:
    env = doom("labyrinth")
    observation, info = env.reset(seed=3)
    np.testing.assert_array_equal(observation["ego_motion"], 0)
    for action in random_actions(0, 60):
        before = Pose(*observation["pose"].tolist())
        observation, *_, info = env.step(action)
        expected = moved(before, EgoMotion(*observation["ego_motion"].tolist()))
        np.testing.assert_allclose(observation["pose"], expected, atol=2e-3)
        np.testing.assert_array_equal(observation["pose"], info["true_pose"])


def test_actions_move_as_documented(doom: Make) -> None:
    env = doom("labyrinth")
    env.reset(seed=3)
    turns = [math.degrees(env.step(LEFT)[0]["ego_motion"][2]) for _ in range(3)]
    np.testing.assert_allclose(turns, [7.03, 12.30, 14.06], atol=0.05)
    env.reset(seed=3)
    motion = env.step(FORWARD)[0]["ego_motion"]
    np.testing.assert_allclose(motion, [0, 7.1, 0], atol=0.05)


def test_noisy_environment_believes_another_pose_and_says_the_true_one(doom: Make) -> None:
    actions = random_actions(2, 60)

    def play(env: DoomEnv, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        observation, info = env.reset(seed=seed, options={"layout": 1})
        np.testing.assert_array_equal(observation["pose"], info["true_pose"])
        believed, true, motions = [], [], []
        for action in actions:
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
            believed.append(observation["pose"])
            true.append(info["true_pose"])
            motions.append(observation["ego_motion"])
        return np.array(believed), np.array(true), np.array(motions)

    env, quiet = doom("labyrinth", ego_motion_noise=0.1), doom("labyrinth")
    believed, true, motions = play(env)
    exact, exact_true, exact_motions = play(quiet)
    np.testing.assert_array_equal(true, exact_true)
    np.testing.assert_array_equal(exact, exact_true)
    assert np.abs(believed[-1] - true[-1]).max() > 1e-3
    moving = np.abs(exact_motions) > 0.05
    factors = motions[moving] / exact_motions[moving]
    assert factors.std() == pytest.approx(0.1, abs=0.04) and factors.mean() == pytest.approx(1, abs=0.05)
    again = play(env)
    np.testing.assert_array_equal(again[0], believed)
    assert (play(env, seed=6)[2][:5] != motions[:5]).any()
