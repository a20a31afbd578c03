"""Losses worked out by hand, and where the clip lets a gradient through."""

from __future__ import annotations

import math

import pytest
import torch

from egomap.rl.losses import Loss, a2c_loss, ppo_loss

HALF = torch.zeros(1, 1, 2)  # two actions, each with probability 1/2
ACTION = torch.zeros(1, 1, dtype=torch.int64)


def number(value: float) -> torch.Tensor:
    return torch.tensor([[value]])


def test_a2c_by_hand() -> None:
    loss = a2c_loss(
        HALF,
        number(0.5),
        action=ACTION,
        advantage=number(2.0),
        target=number(1.5),
        value_weight=0.5,
        entropy_weight=0.1,
    )
    assert loss.policy.item() == pytest.approx(2 * math.log(2))
    assert loss.value.item() == pytest.approx(1.0)
    assert loss.entropy.item() == pytest.approx(math.log(2))
    assert loss.total.item() == pytest.approx(2 * math.log(2) + 0.5 - 0.1 * math.log(2))


def ppo(logits: torch.Tensor, *, old: float, advantage: float) -> Loss:
    return ppo_loss(
        logits,
        number(0.0),
        action=ACTION,
        old_log_prob=number(math.log(old)),
        advantage=number(advantage),
        target=number(0.0),
        clip=0.2,
        value_weight=0.5,
        entropy_weight=0.0,
    )


def test_ppo_by_hand() -> None:
    # Probability 1/2 now, 1/3 then: the ratio 1.5 counts as 1.2 for a good action and in full for a bad one.
    good, bad = ppo(HALF, old=1 / 3, advantage=2.0), ppo(HALF, old=1 / 3, advantage=-2.0)
    assert good.policy.item() == pytest.approx(-2.4)
    assert bad.policy.item() == pytest.approx(3.0)
    assert good.clipped.item() == 1.0
    assert good.divergence.item() == pytest.approx(0.5 - math.log(1.5))


@pytest.mark.parametrize(
    ("old", "advantage", "moves"), [(1 / 3, 2.0, False), (1 / 3, -2.0, True), (0.5, 2.0, True)]
)
def test_the_clip_stops_the_gradient(old: float, advantage: float, moves: bool) -> None:
    logits = HALF.clone().requires_grad_()
    ppo(logits, old=old, advantage=advantage).total.backward()
    assert logits.grad is not None
    assert bool(logits.grad.abs().sum() > 0) == moves


def test_gradient_of_a2c_pushes_a_good_action() -> None:
    logits = HALF.clone().requires_grad_()
    loss = a2c_loss(
        logits,
        number(0.0),
        action=ACTION,
        advantage=number(1.0),
        target=number(0.0),
        value_weight=0.5,
        entropy_weight=0.0,
    )
    loss.total.backward()
    # d(-log p_0)/d logit_0 = p_0 - 1.
    torch.testing.assert_close(logits.grad, torch.tensor([[[-0.5, 0.5]]]))
