"""Hindsight by hand: which decisions are told of which payment, and in whose frame; and its term."""

from __future__ import annotations

import math

import pytest
import torch

from egomap.agents.agent import AgentOutput
from egomap.config import LearnerSettings
from egomap.memory.protocol import NOTE, PAID_AT
from egomap.rl import hindsight
from egomap.rl.rollout import Batch, Rollout
from egomap.rl.terms import for_the_log, hindsight_term, loss_of

NORTH, EAST = math.pi / 2, 0.0


def walked(*, ended: tuple[int, ...] = (), paid: tuple[int, ...] = ()) -> Rollout:
    """Four decisions of one environment: north by 100, a turn to the east, east by 50."""
    rollout = Rollout(4, 1)
    poses = [(0, 0, NORTH), (0, 100, NORTH), (0, 100, EAST), (50, 100, EAST), (50, 100, EAST)]
    rollout.observations["pose"].copy_(torch.tensor(poses)[:, None])
    rollout.reward[:] = -0.1
    rollout.reward[list(paid)] = 0.5
    rollout.terminated[list(ended)] = True
    return rollout


def test_the_place_of_the_next_payment_is_told_in_each_decisions_own_frame() -> None:
    found = hindsight.next_paid(walked(paid=(3,)))[:, 0]
    # (50, 100) is 50 to the right and 100 ahead; 50 to the right; 50 ahead, after the turn; here.
    expected = torch.tensor([[50.0, 100.0], [50.0, 0.0], [0.0, 50.0], [0.0, 0.0]])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_each_decision_is_told_of_the_payment_that_comes_first() -> None:
    found = hindsight.next_paid(walked(paid=(1, 3)))[:, 0]
    expected = torch.tensor([[0.0, 100.0], [0.0, 0.0], [0.0, 50.0], [0.0, 0.0]])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_nothing_is_told_over_the_end_of_an_episode_or_of_what_is_never_paid() -> None:
    found = hindsight.next_paid(walked(paid=(3,), ended=(1,)))[:, 0]
    assert found.isnan().any(-1).tolist() == [True, True, False, False]
    ends_with_it = hindsight.next_paid(walked(paid=(1,), ended=(1,)))[:, 0]
    assert ends_with_it.isnan().any(-1).tolist() == [False, False, True, True]


@pytest.mark.parametrize(("points", "weight"), [(True, 0.5), (True, 0.0), (False, 0.5)])
def test_only_a_memory_that_points_is_told_and_only_if_it_counts(points: bool, weight: float) -> None:
    rollout = walked(paid=(3,))
    hindsight.fill(rollout, type("Memory", (), {"points": points})(), weight)
    assert (NOTE + PAID_AT in rollout.batch().observations) is (points and weight > 0)


def test_the_term_by_hand() -> None:
    share = torch.tensor([[math.log(0.5)], [0.0], [math.log(0.125)], [0.0]], requires_grad=True)
    output = AgentOutput(torch.zeros(4, 1, 2), torch.zeros(4, 1), (), torch.stack((share, share), -1))
    rows = torch.zeros(4, 1)
    start = torch.zeros(4, 1, dtype=torch.bool)
    batch = Batch({NOTE + PAID_AT: rows[..., None]}, (), start, rows.long(), rows, rows, rows)
    settings = LearnerSettings(hindsight_weight=0.5, entropy_weight=0.0)
    loss, figures = hindsight_term(output, batch, settings)
    assert loss.item() == pytest.approx(4 * math.log(2) / 4)
    assert loss_of(output, batch, settings).total.item() == pytest.approx(0.5 * math.log(2))
    assert "hindsight_loss" not in loss_of(output, batch._replace(observations={}), settings).figures
    logged = for_the_log({name: figure.item() for name, figure in figures.items()})
    assert logged == {"pointing_share": pytest.approx(0.25)}


def test_batches_in_which_nothing_is_paid_do_not_change_the_share_that_is_logged() -> None:
    paid = {"hindsight_loss": 4 * math.log(2) / 4, "hindsight_told": 0.5, "entropy": 1.0}
    nothing = {"hindsight_loss": 0.0, "hindsight_told": 0.0, "entropy": 2.0}
    assert for_the_log(nothing) == {"entropy": 2.0}
    mean = {name: (paid[name] + nothing[name]) / 2 for name in paid}
    assert for_the_log(mean) == {"entropy": 1.5, "pointing_share": pytest.approx(0.25)}
