"""Collecting on the real engine: rows, states and episode starts are what a plain loop sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from egomap import kinds
from egomap.agents import Agent, build_agent
from egomap.agents.heads import log_prob
from egomap.config import AgentConfig, LearnerSettings, MapSettings, Task
from egomap.envs import DoomVectorEnv
from egomap.presets import FAST_LEARNER
from egomap.rl.collect import Collector
from egomap.rl.returns import RunningScale
from egomap.rl.update import Diverged, make_optimizer, prepare, set_learning_rate, update
from egomap.scenarios.dataset import ScenarioSet

pytestmark = pytest.mark.slow

KINDS = tuple(kinds.KINDS)


@pytest.fixture
def env(sets: dict[Task, ScenarioSet]) -> Iterator[DoomVectorEnv]:
    made = DoomVectorEnv(4, scenarios=sets["labyrinth"], frame_skip=35, copy=False)
    yield made
    made.close()


def agent_for(env: DoomVectorEnv, kind: str = "gru") -> Agent:
    torch.manual_seed(0)
    return build_agent(AgentConfig(kind=kind), env.camera, env.extent)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_unroll_says_what_the_steps_said(env: DoomVectorEnv, kind: str) -> None:
    """Over several rollouts, with episodes that end within them (a decision of one second, sixty to a time-out)."""
    agent = agent_for(env, kind)
    collector = Collector(env, agent, steps=24)
    starts = 0
    for _ in range(4):
        collector.collect()
        rollout = collector.rollout
        starts += int(rollout.episode_start[1:].sum())
        with torch.no_grad():
            output = agent.unroll(*rollout.batch()[:3])
        said = log_prob(output.logits, rollout.action)
        torch.testing.assert_close(said, rollout.log_prob, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(output.value, rollout.value, atol=2e-5, rtol=1e-4)
    assert starts > 0


def test_rows_follow_each_other(env: DoomVectorEnv) -> None:
    collector = Collector(env, agent_for(env), steps=5)
    collector.collect()
    last = {name: array[-1].copy() for name, array in collector.rollout.arrays.items()}
    collector.collect()
    for name, array in collector.rollout.arrays.items():
        np.testing.assert_array_equal(array[0], last[name])
    moved = collector.rollout.arrays["pose"][1:] != collector.rollout.arrays["pose"][:-1]
    assert moved.any(axis=(1, 2)).all()


def test_some_environments_are_those_environments(env: DoomVectorEnv) -> None:
    collector = Collector(env, agent_for(env, "egomap"), steps=6)
    collector.collect()
    collector.collect()
    prepare(collector.rollout, LearnerSettings())
    whole, part = collector.rollout.batch(), collector.rollout.batch(torch.tensor([2, 0]))
    for name, tensor in part.observations.items():
        assert torch.equal(tensor, whole.observations[name][:, [2, 0]])
    assert part.observations["rgb"][0].is_contiguous(memory_format=torch.channels_last)
    for mine, theirs in zip(part.state, whole.state, strict=True):
        assert torch.equal(mine, theirs[[2, 0]])
    for field in ("episode_start", "action", "log_prob", "advantage", "target"):
        assert torch.equal(getattr(part, field), getattr(whole, field)[:, [2, 0]])


def test_same_seed_same_rollouts(sets: dict[Task, ScenarioSet]) -> None:
    found = []
    for _ in range(2):
        env = DoomVectorEnv(2, scenarios=sets["labyrinth"], copy=False)
        try:
            agent = agent_for(env)
            torch.manual_seed(3)
            collector = Collector(env, agent, steps=16, seed=9)
            collector.collect()
            found.append((collector.rollout.action.clone(), collector.rollout.arrays["rgb"].copy()))
        finally:
            env.close()
    assert torch.equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize(
    "learner", [LearnerSettings(learning_rate=1e-4), dataclasses.replace(FAST_LEARNER, minibatches=2)]
)
def test_an_update_lowers_the_loss_that_it_descends(env: DoomVectorEnv, learner: LearnerSettings) -> None:
    agent = agent_for(env, "egomap")
    collector = Collector(env, agent, steps=16)
    optimizer = make_optimizer(agent, learner)
    generator = torch.Generator().manual_seed(0)
    collector.collect()
    # The same rollout again and again: the value loss must fall.
    first = update(agent.unroll, collector.rollout, optimizer, learner, generator=generator)
    for _ in range(12):
        last = update(agent.unroll, collector.rollout, optimizer, learner, generator=generator)
    assert last["value_loss"] < 0.9 * first["value_loss"]
    assert all(np.isfinite(value) for value in last.values())


def test_the_first_pass_of_ppo_moves_from_where_the_rollout_was(env: DoomVectorEnv) -> None:
    learner = dataclasses.replace(FAST_LEARNER, epochs=1, minibatches=1)
    agent = agent_for(env, "egomap")
    collector = Collector(env, agent, steps=16)
    optimizer = make_optimizer(agent, learner)
    collector.collect()
    figures = update(agent.unroll, collector.rollout, optimizer, learner, generator=torch.Generator())
    assert abs(figures["divergence"]) < 1e-6
    assert figures["clipped"] == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_perception_and_the_reads_of_a_map_have_rates_of_their_own(env: DoomVectorEnv, kind: str) -> None:
    learner = LearnerSettings(optimizer="adam", learning_rate=1e-2, read_rate=0.1, perception_rate=0.5)
    agent = agent_for(env, kind)
    optimizer = make_optimizer(agent, learner)
    set_learning_rate(optimizer, 1e-3)
    before = {name: parameter.detach().clone() for name, parameter in agent.named_parameters()}
    for parameter in agent.parameters():
        parameter.grad = torch.ones_like(parameter)
    reads = ("global_read", "context_read")
    optimizer.step()  # Adam's first step is as long as the rate, whatever the gradient
    for name, parameter in agent.named_parameters():
        rate = 1e-4 if any(read in name for read in reads) else 5e-4 if "perception" in name else 1e-3
        torch.testing.assert_close(
            before[name] - parameter, torch.full_like(parameter, rate), rtol=0.01, atol=1e-6
        )
    known = {name for name in before if any(read in name for read in reads)}
    assert known or kind not in ("egomap", "neural-map", "egomap-places", "egomap+")
    assert len(make_optimizer(agent, LearnerSettings()).param_groups) == 1


def test_a_loss_that_is_no_number_changes_nothing(env: DoomVectorEnv) -> None:
    agent = agent_for(env)
    collector = Collector(env, agent, steps=4)
    collector.collect()
    collector.rollout.reward[1, 2] = float("nan")
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    optimizer = make_optimizer(agent, LearnerSettings())
    with pytest.raises(Diverged, match="learning rate"):
        update(agent.unroll, collector.rollout, optimizer, LearnerSettings(), generator=torch.Generator())
    for name, tensor in agent.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_advantages_are_scaled_by_what_many_rollouts_showed(env: DoomVectorEnv) -> None:
    learner = dataclasses.replace(FAST_LEARNER, epochs=1, minibatches=1)
    agent = agent_for(env)
    collector = Collector(env, agent, steps=8)
    optimizer = make_optimizer(agent, learner)
    scale = RunningScale()
    for _ in range(3):
        collector.collect()
        prepare(collector.rollout, learner)
        raw = collector.rollout.advantage.clone()
        update(agent.unroll, collector.rollout, optimizer, learner, generator=torch.Generator(), scale=scale)
        centred = raw - raw.mean()
        torch.testing.assert_close(
            collector.rollout.advantage, centred / scale.deviation, atol=1e-5, rtol=1e-4
        )
        target = collector.rollout.target
        torch.testing.assert_close(
            target, raw + collector.rollout.value
        )  # values learn from unscaled returns
    assert scale.weight == pytest.approx(1 - 0.9**3)


def test_a_memory_of_ones_own(env: DoomVectorEnv) -> None:
    """The trainer side never looks into a state: ablations and sizes make no difference to it."""
    config = AgentConfig(map=MapSettings(use_query=False, map_size=16))
    agent = build_agent(config, env.camera, env.extent)
    collector = Collector(env, agent, steps=8)
    collector.collect()
    optimizer = make_optimizer(agent, LearnerSettings())
    update(agent.unroll, collector.rollout, optimizer, LearnerSettings(), generator=torch.Generator())
