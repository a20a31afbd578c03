"""The loss: a sum of terms, one row of a table each, as pure functions.

Input: the agent's output for a batch, the batch, the settings, and how much of the budget is spent. What goes
out: a loss, and figures for the log, as tensors without gradient. All means are over every row of the batch, so that
the mean of a batch is the weighted mean of its parts.

To add a term: a function, and a row in `TERMS`; or its address in `LearnerSettings.terms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from egomap.agents.agent import AgentOutput
from egomap.agents.heads import entropy, log_prob
from egomap.config import LearnerSettings, require, weighted
from egomap.memory.protocol import NOTE, PAID_AT
from egomap.rl.auxiliary import auxiliary_loss
from egomap.rl.rollout import Batch
from egomap.rl.schedules import falling
from egomap.util.named import import_named

Figures = dict[str, Tensor]
Measure = Callable[[AgentOutput, Batch, LearnerSettings], tuple[Tensor, Figures]]


class Loss(NamedTuple):
    """A loss and the figures of its terms."""

    total: Tensor
    """Scalar with gradient."""
    figures: Figures
    """Scalars without gradient, by their names in the log."""


def _always(batch: Batch) -> bool:
    return True


class Term(NamedTuple):
    """A row of the table."""

    weight: Callable[[LearnerSettings, float], float]
    """From the settings and the share of the budget that is spent."""
    measure: Measure
    """A scalar, which is added to the loss by its weight, and figures."""
    given: Callable[[Batch], bool] = _always
    """Whether the batch has what this term needs; it is left out otherwise."""


def _own(rows: Tensor, batch: Batch) -> Tensor:
    """The rows, with 0 where the action was not drawn from the policy."""
    return rows if batch.driven is None else rows.masked_fill(batch.driven, 0.0)


def a2c_policy(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """Advantage actor-critic: -log pi(a) * A."""
    policy = -_own(log_prob(output.logits, batch.action) * batch.advantage, batch).mean()
    nothing = torch.zeros_like(policy.detach())
    return policy, {"policy_loss": policy, "divergence": nothing, "clipped": nothing}


def ppo_policy(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """Proximal policy optimisation: the clipped surrogate.

    Its figures: `divergence`, an estimate of KL(old || new), how far the policy has moved since the rollout; and
    `clipped`, the share of rows whose ratio was clipped.
    """
    change = _own(log_prob(output.logits, batch.action) - batch.log_prob, batch)
    ratio = change.exp()
    clip, advantage = settings.clip, batch.advantage
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    policy = -_own(gain, batch).mean()
    with torch.no_grad():
        divergence = ((ratio - 1) - change).mean()
        clipped = ((ratio - 1).abs() > clip).float().mean()
    return policy, {"policy_loss": policy, "divergence": divergence, "clipped": clipped}


POLICIES: dict[str, Measure] = {"a2c": a2c_policy, "ppo": ppo_policy}
"""The policy's term, by the algorithm."""


def policy_term(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """The algorithm's policy term; rows whose action the teacher chose count as 0."""
    return POLICIES[settings.algorithm](output, batch, settings)


def value_term(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """(target - V)^2."""
    loss = F.mse_loss(output.value, batch.target)
    return loss, {"value_loss": loss}


def entropy_term(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """Entropy of the policy in nats, as `egomap.agents.heads.entropy` counts it; its weight is negative."""
    spread = entropy(output.logits, output.num_actions).mean()
    return spread, {"entropy": spread}


def imitation_term(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """-log pi(what the teacher would do), in every row; and how often the most probable action is the teacher's."""
    assert batch.label is not None
    logits = output.policy
    loss = -log_prob(logits, batch.label).mean()
    with torch.no_grad():
        agreement = (logits.argmax(-1) == batch.label).to(loss.dtype).mean()
    return loss, {"imitation_loss": loss, "imitation_agreement": agreement}


def auxiliary_term(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """How wrong the auxiliary head is (`egomap.rl.auxiliary`)."""
    assert output.auxiliary is not None and batch.auxiliary is not None
    loss = auxiliary_loss(settings, output.auxiliary, batch.auxiliary)
    return loss, {"auxiliary_loss": loss}


def hindsight_term(output: AgentOutput, batch: Batch, settings: LearnerSettings) -> tuple[Tensor, Figures]:
    """-log of the pointer's attention near the place of the episode's next reward (`egomap.rl.hindsight`).

    Rows without a later reward, or without a known path to its place, count as 0; `hindsight_told` is the
    share of the others.
    """
    share = output.output[..., -1]
    loss = -share.mean()
    return loss, {"hindsight_loss": loss, "hindsight_told": (share != 0).to(share.dtype).mean()}


def for_the_log(figures: dict[str, float]) -> dict[str, float]:
    """Means over batches as they are logged.

    Those of hindsight become `pointing_share`, the geometric mean of the pointer's attention near the place, over the
    rows that have one; left out where none has.
    """
    figures = dict(figures)
    loss, told = figures.pop("hindsight_loss", 0.0), figures.pop("hindsight_told", 0.0)
    return {**figures, "pointing_share": math.exp(-loss / told)} if told > 0 else figures


def imitation_weight(settings: LearnerSettings, spent: float) -> float:
    """Weight of the imitation term when a share `spent` of the budget is spent."""
    return falling(settings.imitation_weight, settings.imitation_decay, spent)


TERMS: dict[str, Term] = {
    "policy": Term(lambda settings, spent: 1.0, policy_term),
    "value": Term(lambda settings, spent: settings.value_weight, value_term),
    "entropy": Term(lambda settings, spent: -settings.entropy_weight, entropy_term),
    "imitation": Term(imitation_weight, imitation_term, lambda batch: batch.label is not None),
    "auxiliary": Term(
        lambda settings, spent: settings.auxiliary_weight,
        auxiliary_term,
        lambda batch: batch.auxiliary is not None,
    ),
    "hindsight": Term(
        lambda settings, spent: settings.hindsight_weight,
        hindsight_term,
        lambda batch: NOTE + PAID_AT in batch.observations,
    ),
}
"""Every term that egomap ships; they are added up in this order."""


@lru_cache
def terms_of(settings: LearnerSettings) -> dict[str, Term]:
    """Every term of the loss: those of `TERMS`, and those that the settings name by their address.

    Raises:
        ValueError: There is no such function.
    """
    found = dict(TERMS)
    for text in settings.terms:
        address, weight = weighted(text, "terms")
        measure = import_named(address)
        require(callable(measure), f"{address} is not a term of the loss: it must be a function.")
        found[address] = Term(_constant(weight), measure)
    return found


def _constant(weight: float) -> Callable[[LearnerSettings, float], float]:
    return lambda settings, spent: weight


def loss_of(output: AgentOutput, batch: Batch, settings: LearnerSettings, spent: float = 0.0) -> Loss:
    """The sum of the terms that the batch allows.

    Args:
        output: The agent's output for the batch's rows.
        batch: The rows.
        settings: The algorithm and its weights.
        spent: Share of the budget that is spent.
    """
    parts: list[Tensor] = []
    figures: Figures = {}
    for term in terms_of(settings).values():
        if term.given(batch):
            value, told = term.measure(output, batch, settings)
            parts.append(term.weight(settings, spent) * value)
            figures |= {name: figure.detach() for name, figure in told.items()}
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return Loss(total, figures)
