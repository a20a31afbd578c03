"""Recordings are true: the same episode as an evaluation plays, rewards and events that agree, minds that watch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from egomap.config import EnvSettings, Task
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import worlds_of_set
from egomap.evaluation.network import NetworkPlayer
from egomap.evaluation.runner import play
from egomap.inspector.events import events, goals_reached
from egomap.inspector.mind import Mind
from egomap.inspector.record import NetworkDriver, Stage
from egomap.scenarios.dataset import ScenarioSet
from egomap.scenarios.tasks import player_start
from egomap.ways.guides import GUIDES
from egomap.worlds.ego_motion import Pose, ego_motion_between

from .conftest import MAP_SIZE, Recorder, small_agent

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["gru", "guided"])
def test_an_inspected_episode_is_the_one_that_was_evaluated(sets: dict[Task, ScenarioSet], kind: str) -> None:
    worlds = worlds_of_set(sets["labyrinth"], "test")
    agent = small_agent(kind, worlds)
    env = DoomVectorEnv(len(worlds), worlds=worlds, episodes_per_layout=1)
    try:
        evaluated = play(env, NetworkPlayer(agent, env.num_envs), seed=7)
    finally:
        env.close()
    with Stage(worlds) as stage:
        for result in evaluated[:2]:
            seen = stage.play(result.layout, NetworkDriver(), mind=Mind(agent), seed=7)
            assert (len(seen), seen.outcome == "solved") == (result.decisions, result.success)
            assert seen.total_reward == pytest.approx(result.total_reward, abs=1e-6)


def test_whom_an_agent_follows_is_recorded(sets: dict[Task, ScenarioSet]) -> None:
    """Its choices are those that it drew, its shares are of the policy, and home is where the episode began."""
    worlds = worlds_of_set(sets["find-return"], "test")
    with Stage(worlds) as stage:
        found = stage.play(0, NetworkDriver(), mind=Mind(small_agent("egomap+", worlds)), seed=1)
    guides, count = found.guides, len(found)
    assert guides is not None and guides.names == ("itself", "outward", "homeward", "pointer")
    np.testing.assert_array_equal(guides.choice % 5, found.action)
    np.testing.assert_allclose(guides.shares.sum(1), 1, atol=1e-5)
    assert len(set(guides.whom.tolist())) > 2 and guides.ways.shape == (count, 2, 3)
    assert guides.pointing is not None
    assert guides.pointing.shape == (count, MAP_SIZE, MAP_SIZE)
    np.testing.assert_allclose(guides.pointing.sum((1, 2)), 1, atol=1e-4)
    homeward = guides.ways[:, GUIDES.index("homeward")]
    known = homeward[:, 2] > 0
    np.testing.assert_allclose(np.hypot(homeward[known, 0], homeward[known, 1]), 1, atol=1e-5)
    assert known.any() and homeward[:, 2].max() > 1  # decisions, not parts of an episode


def test_shapes_and_the_way_from_the_start(recorded: Recorder) -> None:
    found = recorded("find-return", "egomap", "planner")
    count = len(found)
    assert found.outcome == "solved" and found.rgb.shape == (count, 64, 112, 3)
    assert found.depth.shape == (count, 64, 112) and np.isfinite(found.depth).any()
    assert found.layout is not None
    assert found.true_pose[0, :2] == pytest.approx(player_start(found.layout))
    # Without noise the agent knows where it is, and no decision carries it farther than a player can get.
    assert found.pose == pytest.approx(found.true_pose, abs=1e-3)
    steps = [
        ego_motion_between(Pose(*before), Pose(*after))
        for before, after in zip(found.pose[:-1], found.pose[1:], strict=True)
    ]
    assert 5 < max(np.hypot(step.dx, step.dy) for step in steps) < 34
    assert found.map is not None and found.map.features.shape == (count, 1, 16, MAP_SIZE, MAP_SIZE)


def test_attention_and_arrow_are_the_memory_s_own(recorded: Recorder) -> None:
    found = recorded("find-return", "egomap", "planner").map
    assert found is not None and found.attention is not None and found.position is not None
    assert found.attention.sum((1, 2, 3)) == pytest.approx(1.0, abs=1e-5)
    # The position that is read is the mean place of the attention, x to the right and y ahead.
    places = (np.arange(MAP_SIZE) + 0.5) * 2 / MAP_SIZE - 1
    right = (found.attention[:, 0].sum(1) * places).sum(1)
    ahead = (found.attention[:, 0].sum(2) * -places).sum(1)
    assert found.position == pytest.approx(np.stack((right, ahead), 1), abs=1e-5)
    assert found.beta is not None and (found.beta >= 1).all()


def test_known_cells_hold_something_and_others_nothing(recorded: Recorder) -> None:
    for kind in ("egomap", "neural-map"):
        found = recorded("find-return", kind, "planner").map
        assert found is not None
        assert (found.norms[found.known] > 0).mean() > 0.99
        # Less than a thousandth of a cell may reach over from a known one.
        assert found.norms[~found.known].max() < 2e-3 * found.norms.max()
        assert found.known[-1].sum() > found.known[0].sum() > 0


def test_the_naive_map_can_be_seen_too(recorded: Recorder) -> None:
    found = recorded("find-return", "egomap", "planner", map_frame="ego").map
    assert found is not None and found.frame == "ego"
    assert found.known[-1].any() and found.norms[~found.known].max() < 0.01 * found.norms.max()


def test_agents_without_a_map_give_what_they_have(recorded: Recorder) -> None:
    gru = recorded("labyrinth", "gru", "planner").mind
    assert gru is not None and gru.map is None and gru.hidden is not None and gru.hidden.shape[1] == 128
    assert gru.probabilities.sum(1) == pytest.approx(1.0, abs=1e-5)
    assert recorded("labyrinth", None, "planner").mind is None


def test_no_query_no_attention(recorded: Recorder) -> None:
    found = recorded("labyrinth", "egomap", "planner", use_query=False).map
    assert found is not None and found.attention is None and found.position is None and found.beta is None


def test_noise_is_in_the_believed_pose_only(recorded: Recorder) -> None:
    found = recorded("find-return", "egomap", "planner", noise=0.2)
    assert found.outcome == "solved", "the planner is told the true pose"
    assert np.abs(found.pose - found.true_pose)[:, :2].max() > 2
    assert found.pose[0] == pytest.approx(found.true_pose[0], abs=1e-3)


def test_events_are_the_rewards(recorded: Recorder) -> None:
    found = recorded("ordered-items", "egomap", "planner")
    marks = events(found)
    assert [mark.goals for mark in marks] == [(0,), (1,), (2,), (3,)]
    assert [mark.name for mark in marks] == [
        "1: green armour",
        "2: blue armour",
        "3: medikit",
        "4: soul sphere",
    ]
    assert [mark.decision for mark in marks] == np.flatnonzero(found.reward > 0.1).tolist()
    assert [round(mark.reward, 2) for mark in marks] == [0.5, 0.5, 0.5, 1.0]
    reached = goals_reached(found)
    for goal, mark in enumerate(marks):
        assert not reached[: mark.decision, goal].any() and reached[mark.decision :, goal].all()
    pillars = events(recorded("find-return", "egomap", "planner"))
    assert [mark.name for mark in pillars] == ["red pillar found", "green pillar found"]
    assert len({mark.colour for mark in pillars}) == 2


def test_a_wrong_item_and_a_time_out_are_events(recorded: Recorder) -> None:
    found = recorded("ordered-items", None, "planner")
    reward, event = np.full(4, -0.0004), np.array([False, True, False, True])
    reward[1], reward[3] = 0.4996, -0.2504
    wrong = dataclasses.replace(
        found, reward=reward, event=event, outcome="failed", action=found.action[:4], rgb=found.rgb[:4]
    )
    assert [mark.name for mark in events(wrong)] == ["1: green armour", "wrong item"]
    late = dataclasses.replace(wrong, event=np.zeros(4, bool), outcome="time is up")
    assert [(mark.name, mark.decision) for mark in events(late)] == [("time is up", 3)]
    unknown = dataclasses.replace(wrong, layout=None)
    assert [mark.name for mark in events(unknown)] == ["+0.50", "-0.25"]


def test_the_same_seed_gives_the_same_episode_and_another_does_not(sets: dict[Task, ScenarioSet]) -> None:
    worlds = worlds_of_set(sets["labyrinth"], "test")
    mind = Mind(small_agent("egomap", worlds))
    with Stage(worlds, EnvSettings()) as stage:
        one, again, other = (stage.play(1, NetworkDriver(), mind=mind, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.rgb, again.rgb) and np.array_equal(one.action, again.action)
    assert one.mind is not None and again.mind is not None
    assert np.array_equal(one.mind.value, again.mind.value)
    assert len(one) != len(other) or not np.array_equal(one.action, other.action)
