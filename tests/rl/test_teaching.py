"""A teacher beside the collector, on the real engine: what it is asked, what it drives, what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from egomap.agents import build_agent
from egomap.agents.explorer.walker import TEACHING
from egomap.agents.heads import log_prob
from egomap.config import AgentConfig, Task
from egomap.envs import DoomVectorEnv
from egomap.envs.worlds import World
from egomap.mazes.explorer import ExplorerPlayer
from egomap.mazes.teacher import ExplorerTeacher
from egomap.rl.collect import Collector
from egomap.rl.teaching import NO_LESSON, Lesson
from egomap.scenarios.dataset import ScenarioSet

pytestmark = pytest.mark.slow

ENVS, STEPS = 4, 24


@pytest.fixture
def env(sets: dict[Task, ScenarioSet]) -> Iterator[DoomVectorEnv]:
    """Decisions of one second, so that episodes end within a few rollouts."""
    made = DoomVectorEnv(ENVS, scenarios=sets["labyrinth"], frame_skip=35, copy=False)
    yield made
    made.close()


def collector_for(env: DoomVectorEnv, *, taught: bool = True, kind: str = "gru") -> Collector:
    torch.manual_seed(0)
    agent = build_agent(AgentConfig(kind=kind), env.camera, env.extent)
    return Collector(env, agent, STEPS, seed=3, teacher=ExplorerTeacher(env) if taught else None)


class Replay:
    """An `ExplorerPlayer` that is shown recorded rollouts, one after the other."""

    def __init__(self, env: DoomVectorEnv) -> None:
        self.player = ExplorerPlayer(ENVS, env.camera, frame_skip=env.settings.frame_skip, habit=TEACHING)
        self.world: World = env.worlds[0]  # one task, so one set of rules
        self.episode = env.episode(0)

    def labels(self, collector: Collector) -> np.ndarray:
        rollout, found = collector.rollout, []
        for t in range(STEPS):
            for index in torch.nonzero(rollout.episode_start[t]).flatten().tolist():
                self.player.begin(index, self.world, self.episode)
            observation = {name: array[t] for name, array in rollout.arrays.items()}
            found.append(self.player.act(observation, np.ones(ENVS, bool)))
            self.player.watch(collector.agent.taken(rollout.action[t]).numpy())
            self.player.hear(rollout.reward[t].numpy())
        return np.stack(found)


@pytest.mark.parametrize("kind", ["gru", "guided"])
def test_labels_are_what_the_explorer_says_in_the_learners_states(env: DoomVectorEnv, kind: str) -> None:
    """Over several rollouts, episode ends and a restart, whoever drives; each label is asked for once.

    An agent with guides chooses entries of a table; the teacher hears the actions that they stand for.
    """
    collector, replay, begun = collector_for(env, kind=kind), Replay(env), 0
    for number, driven in enumerate((0, 2, 4, 1)):
        if number == 2:
            collector.restart()
        collector.collect(Lesson(0.5, driven))
        rollout = collector.rollout
        np.testing.assert_array_equal(rollout.label.numpy(), replay.labels(collector))
        begun += int(rollout.episode_start[1:].sum())
        assert rollout.driven[:, :driven].all() and not rollout.driven[:, driven:].any()
        assert torch.equal(rollout.action[:, :driven], rollout.label[:, :driven])
        own = rollout.action[:, driven:]
        assert driven == ENVS or not torch.equal(own, rollout.label[:, driven:])
    assert begun > 0


def test_only_what_the_policy_drew_has_its_log_probability(env: DoomVectorEnv) -> None:
    collector = collector_for(env)
    collector.collect(Lesson(0.5, 2))
    batch = collector.rollout.batch()
    with torch.no_grad():
        output = collector.agent.unroll(*batch[:3])
    said = log_prob(output.logits, batch.action)
    torch.testing.assert_close(said[:, 2:], batch.log_prob[:, 2:], atol=2e-5, rtol=1e-4)
    assert output.output.shape == (STEPS, ENVS, collector.agent.memory.output_size)
    part = collector.rollout.batch(torch.tensor([3, 1]))
    assert part.driven is not None and part.label is not None
    assert part.driven.tolist() == [[False, True]] * STEPS
    assert torch.equal(part.label, collector.rollout.label[:, [3, 1]])


def test_a_teacher_that_only_watches_changes_nothing(sets: dict[Task, ScenarioSet]) -> None:
    """The same actions and rewards with labels, without a lesson, and without a teacher."""
    found = []
    for taught, lesson in ((True, Lesson(0.5, 0)), (True, NO_LESSON), (False, Lesson(0.5, 2))):
        env = DoomVectorEnv(ENVS, scenarios=sets["labyrinth"], copy=False)
        try:
            collector = collector_for(env, taught=taught)
            collector.collect(lesson)
            batch = collector.rollout.batch()
            found.append((collector.rollout.action.clone(), collector.rollout.reward.clone()))
            assert (batch.label is None) == (batch.driven is None) == (lesson == NO_LESSON or not taught)
        finally:
            env.close()
    for actions, rewards in found[1:]:
        assert torch.equal(actions, found[0][0]) and torch.equal(rewards, found[0][1])


def test_episodes_that_the_teacher_helped_in_are_marked(env: DoomVectorEnv) -> None:
    """Also if it helped at their beginning alone; the next episode there is the learner's own."""
    collector = collector_for(env)
    helped = np.zeros(ENVS, bool)
    marks, expected = [], []
    for driven in (ENVS, 0, 0, 0, 0):
        ended = collector.collect(Lesson(0.5, driven))
        rollout = collector.rollout
        for t in range(STEPS):
            helped &= ~rollout.episode_start[t].numpy()
            helped |= np.arange(ENVS) < driven
            expected += helped[rollout.episode_start[t + 1].numpy()].tolist()
        marks += [episode.helped for episode in ended]
    assert marks == expected and set(marks) == {True, False}


def test_a_head_start_ends_when_something_is_paid(sets: dict[Task, ScenarioSet]) -> None:
    """The second and third environment are led to the first goal of every episode; nothing is labelled elsewhere."""
    env = DoomVectorEnv(ENVS, scenarios=sets["find-return"], frame_skip=12, copy=False)
    try:
        collector = collector_for(env)
        leads, led, handed_over, marks = np.zeros(ENVS, bool), np.array([False, True, True, False]), 0, []
        for _ in range(6):
            ended = collector.collect(Lesson(driven=1, led=2))
            rollout = collector.rollout
            assert rollout.taught and not rollout.labelled and rollout.batch().label is None
            assert collector.rollout.batch().driven is not None
            for t in range(STEPS):
                leads = np.where(rollout.episode_start[t].numpy(), led, leads)
                expected = leads | (np.arange(ENVS) == 0)
                np.testing.assert_array_equal(rollout.driven[t].numpy(), expected)
                followed = rollout.action[t][expected] == rollout.label[t][expected]
                assert followed.all()
                paid = rollout.reward[t].numpy() > 0
                handed_over += int((leads & paid).sum())
                leads &= ~paid
            marks += [episode.helped for episode in ended]
        assert handed_over > 1 and any(marks)
        collector.collect(NO_LESSON)
        assert not collector.rollout.taught and collector.rollout.batch().driven is None
    finally:
        env.close()


def test_worlds_without_rules_are_refused(sets: dict[Task, ScenarioSet]) -> None:
    cfg: Path = sets["labyrinth"].cfg("train")
    env = DoomVectorEnv(1, config=cfg, copy=False)
    try:
        with pytest.raises(ValueError, match="rules of the task") as told:
            ExplorerTeacher(env)
        assert str(told.value).count(". ") == 0
    finally:
        env.close()
