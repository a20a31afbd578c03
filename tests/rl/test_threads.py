"""Gradients that several threads compute together are those of the whole batch."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from egomap import kinds
from egomap.agents import build_agent
from egomap.bench.memory import CAMERA, EXTENT, synthetic_batch, used_state
from egomap.compute import torch_threads
from egomap.config import AgentConfig, AgentKind, LearnerSettings
from egomap.presets import FAST_LEARNER
from egomap.rl.rollout import Rollout
from egomap.rl.terms import Loss
from egomap.rl.threads import GradientThreads
from egomap.rl.update import make_optimizer, update

ENVS, STEPS = 8, 6


def regression(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[Tensor], Loss]:
    def loss_of(envs: Tensor) -> Loss:
        error = (model(x[envs]) - y[envs]).square().mean()
        return Loss(error, {"error": error.detach()})

    return loss_of


@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_the_sum_of_the_shares_is_the_gradient_of_the_whole(count: int) -> None:
    """Also where the shares are not equal, and where there are more threads than environments."""
    g = torch.Generator().manual_seed(0)
    x, y = (torch.randn(ENVS, 3, generator=g, dtype=torch.float64) for _ in range(2))
    model = nn.Linear(3, 3).double()
    unused = nn.Parameter(torch.ones(2))
    loss_of = regression(model, x, y)
    expected = torch.autograd.grad(loss_of(torch.arange(ENVS)).total, list(model.parameters()))
    with contextlib.closing(GradientThreads(count)) as threads:
        loss = threads.differentiate(loss_of, torch.arange(ENVS), [*model.parameters(), unused])
    torch.testing.assert_close(loss.total, loss_of(torch.arange(ENVS)).total.detach())
    torch.testing.assert_close(loss.figures["error"], loss.total)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    assert unused.grad is None
    assert not loss.total.requires_grad


def test_each_share_is_computed_in_a_thread_of_its_own() -> None:
    """Both wait for each other: this ends only if they run at the same time."""
    meeting = threading.Barrier(2, timeout=60)
    model = nn.Linear(2, 1)
    seen: list[tuple[str, int, int]] = []

    def loss_of(envs: Tensor) -> Loss:
        meeting.wait()
        seen.append((threading.current_thread().name, torch.get_num_threads(), len(envs)))
        total = model(torch.ones(len(envs), 2)).mean()
        return Loss(total, {})

    with torch_threads(2), contextlib.closing(GradientThreads(2)) as threads:
        threads.differentiate(loss_of, torch.arange(6), list(model.parameters()))
        assert torch.get_num_threads() == 2  # as before
    assert {name for name, _, _ in seen} == {"egomap-gradient_0", "egomap-gradient_1"}
    assert [(each, length) for _, each, length in seen] == [(1, 3), (1, 3)]


def test_what_a_thread_raises_is_raised() -> None:
    def loss_of(envs: Tensor) -> Loss:
        raise ValueError("no such environment")

    with (
        contextlib.closing(GradientThreads(2)) as threads,
        pytest.raises(ValueError, match="no such environment"),
    ):
        threads.differentiate(loss_of, torch.arange(4), [nn.Parameter(torch.ones(1))])


@pytest.mark.parametrize("kind", list(kinds.KINDS))
@pytest.mark.parametrize(
    "learner",
    [
        LearnerSettings(rollout_steps=STEPS, num_envs=ENVS),
        dataclasses.replace(FAST_LEARNER, rollout_steps=STEPS, num_envs=ENVS, minibatches=2),
    ],
    ids=["a2c", "ppo"],
)
def test_an_update_by_threads_is_the_update_by_one(kind: AgentKind, learner: LearnerSettings) -> None:
    """In double precision the weights agree; and the same threads find the same bits every time."""

    def weights(count: int) -> tuple[list[Tensor], dict[str, float]]:
        torch.manual_seed(0)
        agent = build_agent(AgentConfig(kind=kind), CAMERA, EXTENT).double()
        rollout = filled()
        rollout.state = used_state(agent, synthetic_batch(STEPS, ENVS))
        optimizer = make_optimizer(agent, learner)
        with contextlib.closing(GradientThreads(count)) as threads:
            figures = update(
                agent.unroll,
                rollout,
                optimizer,
                learner,
                generator=torch.Generator().manual_seed(1),
                threads=threads,
            )
        return [parameter.detach() for parameter in agent.parameters()], figures

    one, figures_one = weights(1)
    three, figures_three = weights(3)
    for a, b in zip(one, three, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-7)
    assert figures_three == pytest.approx(figures_one, abs=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(three, weights(3)[0], strict=True))


def filled() -> Rollout:
    """A rollout of synthetic observations and random rewards."""
    batch, rollout = synthetic_batch(STEPS + 1, ENVS), Rollout(STEPS, ENVS)
    for name, tensor in batch.observations.items():
        rollout.observations[name].copy_(tensor)
    rollout.episode_start.copy_(batch.episode_start)
    rollout.action.copy_(batch.action[:STEPS])
    g, dtype = torch.Generator().manual_seed(2), torch.float64
    rollout.reward = torch.randn(STEPS, ENVS, generator=g, dtype=dtype)
    rollout.log_prob = torch.full((STEPS, ENVS), -1.6, dtype=dtype)
    rollout.value = torch.zeros(STEPS, ENVS, dtype=dtype)
    rollout.next_value = torch.zeros(ENVS, dtype=dtype)
    return rollout
