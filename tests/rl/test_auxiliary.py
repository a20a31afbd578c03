"""The auxiliary head: its targets by hand, its gradient, and what stays as it is without one."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from pathlib import Path

import pytest
import torch
from test_threads import CAMERA, ENVS, EXTENT, STEPS, filled

from egomap.agents import Agent, build_agent
from egomap.bench.memory import synthetic_batch, used_state
from egomap.config import AgentConfig, LearnerSettings
from egomap.presets import FAST_LEARNER
from egomap.rl.auxiliary import UNIT, Home, Targets, auxiliary_loss, auxiliary_size
from egomap.rl.bonuses import bonuses_of
from egomap.rl.rollout import Rollout
from egomap.rl.terms import terms_of
from egomap.rl.threads import GradientThreads
from egomap.rl.update import make_optimizer, update

ON = LearnerSettings(auxiliary_weight=0.5, rollout_steps=STEPS, num_envs=ENVS)


def walked(poses: list[tuple[float, float, float]], starts: list[int]) -> Rollout:
    rollout = Rollout(len(poses) - 1, 1)
    rollout.observations["pose"].copy_(torch.tensor(poses)[:, None])
    rollout.episode_start[starts] = True
    return rollout


def test_the_way_home_by_hand() -> None:
    north, east = math.pi / 2, 0.0
    task = Home()
    first = walked([(0, 0, north), (0, 300, north), (0, 300, east), (9, 9, east)], [0, 3])
    found = task.targets(first)[:, 0] * UNIT
    # At home; 300 behind; after a turn to the right the way home, south, is to the right.
    torch.testing.assert_close(
        found, torch.tensor([[0.0, 0.0], [0.0, -300.0], [300.0, 0.0]]), atol=1e-3, rtol=0
    )
    # The last row becomes the first of the next rollout, whose episode began there.
    after = walked([(9, 9, east), (109, 9, east), (5, 5, north), (5, 6, north)], [0, 2])
    found = task.targets(after)[:, 0] * UNIT
    torch.testing.assert_close(
        found, torch.tensor([[0.0, 0.0], [0.0, -100.0], [0.0, 0.0]]), atol=1e-3, rtol=0
    )
    # And of an episode that goes on over the border between two rollouts.
    more = walked([(5, 6, north), (5, 25, north)], [])
    torch.testing.assert_close(
        task.targets(more)[:, 0] * UNIT, torch.tensor([[0.0, -1.0]]), atol=1e-3, rtol=0
    )


def test_rows_without_a_target_count_as_nothing() -> None:
    target = torch.tensor([[[1.0, 2.0], [math.nan, 1.0]]])  # (T = 1, B = 2, 2)
    told = torch.zeros(1, 2, 2, requires_grad=True)
    loss = auxiliary_loss(ON, told, target)
    assert loss.item() == pytest.approx((1 + 4) / 2 / 2)
    loss.backward()
    torch.testing.assert_close(told.grad, torch.tensor([[[-0.5, -1.0], [0.0, 0.0]]]))


def agent_for(learner: LearnerSettings, kind: str = "gru") -> Agent:
    torch.manual_seed(0)
    return build_agent(AgentConfig(kind=kind), CAMERA, EXTENT, auxiliary_size=auxiliary_size(learner))


def test_without_it_nothing_is_there_and_with_it_the_rest_is_the_same() -> None:
    off, on = agent_for(LearnerSettings()), agent_for(ON)
    assert auxiliary_size(LearnerSettings()) == 0 and off.auxiliary is None
    assert "auxiliary" not in off.parameter_groups()
    assert set(on.state_dict()) - set(off.state_dict()) == {"auxiliary.weight", "auxiliary.bias"}
    for name, weight in off.state_dict().items():
        assert torch.equal(weight, on.state_dict()[name])
    rollout = filled()
    Targets(LearnerSettings()).fill(rollout)
    assert rollout.auxiliary is None and rollout.batch().auxiliary is None
    Targets(ON).fill(rollout)
    assert rollout.batch(torch.tensor([1])).auxiliary.shape == (STEPS, 1, 2)


@pytest.mark.parametrize("base", [LearnerSettings(), dataclasses.replace(FAST_LEARNER, minibatches=2)])
def test_it_learns_alike_by_one_thread_and_by_three(base: LearnerSettings) -> None:
    learner = dataclasses.replace(base, auxiliary_weight=0.5, rollout_steps=STEPS, num_envs=ENVS)

    def learned(count: int) -> tuple[Agent, dict[str, float]]:
        agent, rollout = agent_for(learner).double(), filled()
        rollout.state = used_state(agent, synthetic_batch(STEPS, ENVS))
        Targets(learner).fill(rollout)
        with contextlib.closing(GradientThreads(count)) as threads:
            figures = update(
                agent.unroll,
                rollout,
                make_optimizer(agent, learner),
                learner,
                generator=torch.Generator().manual_seed(1),
                threads=threads,
                groups=agent.parameter_groups(),
            )
        return agent, figures

    (one, figures), (three, same) = learned(1), learned(3)
    assert figures["auxiliary_loss"] > 0 and figures["gradient_auxiliary"] > 0
    assert same == pytest.approx(figures, abs=1e-6)
    for a, b in zip(one.parameters(), three.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-7)
    before = agent_for(learner).double()
    assert not torch.equal(before.auxiliary.weight, one.auxiliary.weight)


def test_it_teaches_the_memory() -> None:
    """Its gradient reaches the memory and perception, through nothing but its own head."""
    agent, rollout = agent_for(ON), filled()
    rollout.state = agent.initial_state(ENVS)
    Targets(ON).fill(rollout)
    batch = rollout.batch()
    output = agent.unroll(batch.observations, batch.state, batch.episode_start)
    auxiliary_loss(ON, output.auxiliary, batch.auxiliary).backward()
    for name, parameter in agent.named_parameters():
        taught = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert taught == (not name.startswith("heads.")), name


OWN = """
def calm(output, batch, settings):
    return output.value.mean(), {}

class Wrong:
    size = 2

class Long:
    size, loss = 3, None
    def targets(self, rollout):
        return rollout.observations["pose"]

class Coverage:
    def measure(self, rollout): ...
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "somebodys_losses.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "somebodys_losses"
    sys.modules.pop("somebodys_losses", None)


def test_names_of_your_own_that_are_refused(own: str) -> None:
    for changes, message in (
        ({"auxiliary": "way"}, "auxiliary must be home, paid or package.module:Class of your own; got 'way'"),
        ({"terms": (f"{own}:calm",)}, "terms must be package.module:NAME=WEIGHT, such as my_losses:calm=0.1"),
        ({"bonuses": ("calm=1",)}, "bonuses must be package.module:NAME=WEIGHT"),
        ({"terms": (f"{own}:calm=nan",)}, "terms must be package.module:NAME=WEIGHT"),
        ({"terms": (f"{own}:calm=1", f"{own}:calm=2")}, "terms has the same address twice"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(ON, **changes).validate()
    for function, changes, message in (
        (terms_of, {"terms": ("no_such_losses:calm=1",)}, "there is no module no_such_losses"),
        (terms_of, {"terms": (f"{own}:Missing=1",)}, "somebodys_losses has no 'Missing'"),
        (bonuses_of, {"bonuses": (f"{own}:calm=1",)}, "it must be a class with a method measure"),
        (bonuses_of, {"bonuses": (f"{own}:Coverage=1",)}, "two bonuses are called coverage"),
        (auxiliary_size, {"auxiliary": f"{own}:Wrong"}, "it must be a class with size, targets and loss"),
    ):
        with pytest.raises(ValueError, match=message):
            function(dataclasses.replace(ON, **changes).validate())
    with pytest.raises(ValueError, match=r"Long\.targets must be"):
        Targets(dataclasses.replace(ON, auxiliary=f"{own}:Long")).fill(filled())
