"""The terms of the loss worked out by hand, and where the clip, the mask and the schedule let a gradient through."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from egomap.agents.agent import AgentOutput
from egomap.config import LearnerSettings
from egomap.rl.rollout import Batch
from egomap.rl.teaching import NO_LESSON, Lesson, lesson_at
from egomap.rl.terms import TERMS, Loss, imitation_term, loss_of

HALF = torch.zeros(1, 1, 2)  # two actions, each with probability 1/2
ACTION = torch.zeros(1, 1, dtype=torch.int64)
A2C = LearnerSettings(value_weight=0.5, entropy_weight=0.1)
PPO = LearnerSettings(algorithm="ppo", clip=0.2, value_weight=0.5, entropy_weight=0.0)


def number(value: float) -> Tensor:
    return torch.tensor([[value]])


def said(logits: Tensor, value: Tensor | None = None) -> AgentOutput:
    value = torch.zeros(logits.shape[:2], dtype=logits.dtype) if value is None else value
    return AgentOutput(logits, value, (), torch.zeros(*logits.shape[:2], 1))


def rows(*, advantage: Tensor, target: Tensor | None = None, old: float = 0.5, **more: Tensor) -> Batch:
    shape = advantage.shape
    target = torch.zeros_like(advantage) if target is None else target
    action = torch.zeros(shape, dtype=torch.int64)
    start = torch.zeros(shape, dtype=torch.bool)
    return Batch({}, (), start, action, torch.full_like(advantage, math.log(old)), advantage, target, **more)


def test_a2c_by_hand() -> None:
    batch = rows(advantage=number(2.0), target=number(1.5))
    loss = loss_of(said(HALF, number(0.5)), batch, A2C)
    assert loss.figures["policy_loss"].item() == pytest.approx(2 * math.log(2))
    assert loss.figures["value_loss"].item() == pytest.approx(1.0)
    assert loss.figures["entropy"].item() == pytest.approx(math.log(2))
    assert loss.total.item() == pytest.approx(2 * math.log(2) + 0.5 - 0.1 * math.log(2))


def ppo(logits: Tensor, *, old: float, advantage: float) -> Loss:
    return loss_of(said(logits), rows(advantage=number(advantage), old=old), PPO)


def test_ppo_by_hand() -> None:
    # Probability 1/2 now, 1/3 then: the ratio 1.5 counts as 1.2 for a good action and in full for a bad one.
    good, bad = ppo(HALF, old=1 / 3, advantage=2.0), ppo(HALF, old=1 / 3, advantage=-2.0)
    assert good.figures["policy_loss"].item() == pytest.approx(-2.4)
    assert bad.figures["policy_loss"].item() == pytest.approx(3.0)
    assert good.figures["clipped"].item() == 1.0
    assert good.figures["divergence"].item() == pytest.approx(0.5 - math.log(1.5))


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
    settings = replace(A2C, entropy_weight=0.0)
    loss_of(said(logits), rows(advantage=number(1.0)), settings).total.backward()
    # d(-log p_0)/d logit_0 = p_0 - 1.
    torch.testing.assert_close(logits.grad, torch.tensor([[[-0.5, 0.5]]]))


def test_imitation_by_hand() -> None:
    """Probabilities 1/4, 3/4 and a label of each: the mean of log 4 and log 4/3, and one of two agrees."""
    logits = torch.tensor([[[0.0, math.log(3)], [0.0, math.log(3)]]])
    label = torch.tensor([[0, 1]])
    none = torch.zeros(1, 2, dtype=torch.bool)
    batch = rows(advantage=torch.zeros(1, 2), driven=none, label=label)
    loss, figures = imitation_term(said(logits), batch, A2C)
    assert loss.item() == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)
    assert figures["imitation_agreement"].item() == 0.5
    settings = replace(A2C, entropy_weight=0.0, imitation_weight=0.8, imitation_decay=0.5)
    for spent, weight in ((0.0, 0.8), (0.25, 0.4), (0.5, 0.0), (0.9, 0.0)):
        assert loss_of(said(logits), batch, settings, spent).total.item() == pytest.approx(
            weight * loss.item()
        )


def test_gradient_of_imitation() -> None:
    """By hand, (p - 1[label]) / rows, and by differences in double precision."""
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, 5, generator=g, dtype=torch.float64).requires_grad_()
    label = torch.randint(5, (3, 2), generator=g)
    batch = rows(advantage=torch.zeros(3, 2, dtype=torch.float64), label=label)

    def term(logits: Tensor) -> Tensor:
        return imitation_term(said(logits), batch, A2C)[0]

    assert torch.autograd.gradcheck(term, (logits,))
    (found,) = torch.autograd.grad(term(logits), logits)
    expected = (logits.softmax(-1) - torch.nn.functional.one_hot(label, 5)) / 6
    torch.testing.assert_close(found, expected.detach())


@pytest.mark.parametrize("settings", [A2C, PPO], ids=["a2c", "ppo"])
def test_rows_that_the_teacher_drives_teach_the_policy_nothing(settings: LearnerSettings) -> None:
    """No gradient from their reward; the others have the gradient that they would have without them."""
    settings = replace(settings, entropy_weight=0.0, imitation_weight=0.0)
    driven = torch.tensor([[False, True]])
    label = torch.zeros(1, 2, dtype=torch.int64)
    advantage = torch.tensor([[1.0, 5.0]])
    logits = torch.zeros(1, 2, 2, requires_grad=True)
    value = torch.zeros(1, 2, requires_grad=True)
    batch = rows(advantage=advantage, target=torch.ones(1, 2), driven=driven, label=label)
    loss = loss_of(said(logits, value), batch, settings)
    loss.total.backward()
    # Half of what the first row would have alone: means are over all rows.
    torch.testing.assert_close(logits.grad, torch.tensor([[[-0.25, 0.25], [0.0, 0.0]]]))
    # d/dV of 0.5 * mean (1 - V)^2, in both rows.
    torch.testing.assert_close(value.grad, torch.tensor([[-0.5, -0.5]]))
    assert loss.figures["clipped"].item() == loss.figures["divergence"].item() == 0.0


def test_a_driven_row_imitates() -> None:
    settings = replace(A2C, entropy_weight=0.0, imitation_weight=1.0)
    logits = torch.zeros(1, 1, 2, requires_grad=True)
    batch = rows(advantage=number(3.0), driven=torch.tensor([[True]]), label=torch.tensor([[1]]))
    loss_of(said(logits), batch, settings).total.backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[[0.5, -0.5]]]))


def test_without_labels_there_is_no_imitation() -> None:
    figures = loss_of(said(HALF), rows(advantage=number(0.0)), A2C).figures
    assert set(figures) == {"policy_loss", "divergence", "clipped", "value_loss", "entropy"}
    assert list(TERMS) == ["policy", "value", "entropy", "imitation", "auxiliary", "hindsight"]


def test_lessons_by_hand() -> None:
    settings = LearnerSettings(num_envs=16, imitation_weight=0.4, imitation_decay=0.8, teacher_share=0.5)
    lessons = {spent: lesson_at(settings, spent) for spent in (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)}
    weights = [lesson.weight for lesson in lessons.values()]
    assert weights == pytest.approx([0.4, 0.35, 0.3, 0.2, 0.1, 0.0, 0.0])
    assert [lesson.driven for lesson in lessons.values()] == [8, 6, 4, 0, 0, 0, 0]
    assert [lesson.taught for lesson in lessons.values()] == [True] * 5 + [False] * 2
    assert lesson_at(replace(settings, imitation_decay=0.0), 1.0) == Lesson(0.4, 8)
    assert Lesson(0.4, 4, 2).figures(16) == {
        "imitation_weight": 0.4,
        "teacher_share": 0.25,
        "head_start": 0.125,
    }


def test_head_starts_by_hand() -> None:
    settings = LearnerSettings(
        num_envs=32, head_start=0.5, head_start_decay=0.5, imitation_weight=2.0, imitation_decay=0.8
    )
    assert lesson_at(settings, 0.0) == Lesson(2.0, 8, 16)
    assert lesson_at(replace(settings, head_start=1.0), 0.0) == Lesson(2.0, 8, 24)  # nobody is left
    assert lesson_at(settings, 0.25, imitate=False) == Lesson(0.0, 0, 8)
    assert lesson_at(settings, 0.5, imitate=False) == lesson_at(settings, 0.9) == NO_LESSON


@pytest.mark.parametrize(
    "name", ["imitation_weight", "imitation_decay", "teacher_share", "head_start", "head_start_decay"]
)
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_wrong_settings_are_told(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name.replace("_", "-")):
        replace(A2C, **{name: value}).validate()  # type: ignore[arg-type]
