"""The coverage bonus: by hand, over several rollouts, and in a rollout of the real engine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from egomap.agents import build_agent
from egomap.config import AgentConfig, LearnerSettings, Task
from egomap.envs import DoomVectorEnv
from egomap.rl.bonuses import Bonuses, newly_visited
from egomap.rl.collect import Collector
from egomap.rl.schedules import falling
from egomap.rl.update import prepare
from egomap.scenarios.dataset import ScenarioSet

LEARNER = LearnerSettings(coverage_bonus=0.5, coverage_decay=0.0)


def walk(*cells: int) -> np.ndarray:
    """One environment, a corridor: (T + 1, 1, 2)."""
    return np.array([[[cell, 0]] for cell in cells])


def starts(count: int, *where: int) -> np.ndarray:
    found = np.zeros((count, 1), bool)
    found[list(where)] = True
    return found


def test_new_cells_by_hand() -> None:
    found, after = newly_visited(walk(0, 1, 0, 2, 2), starts(5, 0), [frozenset()])
    assert found[:, 0].tolist() == [True, False, True, False]
    assert after == [frozenset({(0, 0), (1, 0), (2, 0)})]


def test_an_episode_that_goes_on_in_the_next_rollout() -> None:
    whole, end = newly_visited(walk(0, 1, 2, 1, 3, 0, 4), starts(7, 0), [frozenset()])
    first, between = newly_visited(walk(0, 1, 2, 1), starts(4, 0), [frozenset()])
    second, after = newly_visited(walk(1, 3, 0, 4), starts(4), between)
    assert np.concatenate((first, second)).tolist() == whole.tolist()
    assert after == end


def test_a_new_episode_forgets_and_the_last_decision_of_the_old_one_brings_nothing() -> None:
    found, after = newly_visited(walk(0, 1, 5, 0, 5), starts(5, 0, 2), [frozenset()])
    assert found[:, 0].tolist() == [True, False, True, False]
    assert after == [frozenset({(5, 0), (0, 0)})]


def test_it_falls_to_nothing() -> None:
    assert [falling(2.0, 0.5, spent) for spent in (0.0, 0.25, 0.5, 0.9)] == [2.0, 1.0, 0.0, 0.0]
    assert falling(2.0, 0.0, 0.9) == 2.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("coverage_bonus", -1.0),
        ("coverage_decay", 1.5),
        ("coverage_cell", 0.0),
        ("coverage_bonus", float("nan")),
    ],
)
def test_wrong_settings_are_told(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name.replace("_", "-")):
        dataclasses.replace(LEARNER, **{name: value}).validate()


def test_real_rollouts(sets: dict[Task, ScenarioSet]) -> None:
    """The learner gets both rewards; the task's own are as they were. Counted anew here, pose by pose."""
    env = DoomVectorEnv(4, scenarios=sets["labyrinth"], frame_skip=35, copy=False)
    try:
        agent = build_agent(AgentConfig(kind="none"), env.camera, env.extent)
        collector, bonuses = Collector(env, agent, steps=24), Bonuses(LEARNER)
        seen: list[set[tuple[float, float]]] = [set() for _ in range(4)]
        begun = 0
        for _ in range(4):
            collector.collect()
            rollout = collector.rollout
            reward = rollout.reward.clone()
            figures = bonuses.pay(rollout, spent=0.3)
            prepare(rollout, dataclasses.replace(LEARNER, trace_decay=0.0, discount=0.0))
            torch.testing.assert_close(rollout.target, reward + rollout.bonus)
            assert torch.equal(rollout.reward, reward)
            expected = torch.zeros(24, 4)
            for n in range(4):
                for t in range(25):
                    x, y, _ = rollout.arrays["pose"][t, n].tolist()
                    cell = (x // 64, y // 64)
                    if rollout.episode_start[t, n]:
                        seen[n] = set()
                        begun += t > 0
                    elif t and cell not in seen[n]:
                        expected[t - 1, n] = 0.5
                    seen[n].add(cell)
            assert torch.equal(rollout.bonus, expected) and expected.any()
            assert figures["coverage_bonus"] == pytest.approx(0.5 * figures["coverage"])
            assert figures["coverage_bonus"] == pytest.approx(float(expected.mean()), rel=1e-5)
        assert begun > 0
        assert Bonuses(LearnerSettings()).pay(rollout, 0.0) == {} and not rollout.bonus.any()
    finally:
        env.close()
