"""The losses of A2C and PPO, as pure functions; all means are over every row of the batch.

What comes in: what the agent says now (logits, values), what was done, advantages and targets. What goes out: a
loss to descend and what it is made of, as tensors without gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from egomap.agents.heads import entropy, log_prob


class Loss(NamedTuple):
    """A loss and its parts."""

    total: Tensor
    """Scalar with gradient."""
    policy: Tensor
    value: Tensor
    entropy: Tensor
    """Mean entropy of the policy in nats."""
    divergence: Tensor
    """Estimate of KL(old || new): how far the policy has moved since the rollout."""
    clipped: Tensor
    """Share of rows whose ratio was clipped (PPO)."""


def a2c_loss(
    logits: Tensor,
    value: Tensor,
    *,
    action: Tensor,
    advantage: Tensor,
    target: Tensor,
    value_weight: float,
    entropy_weight: float,
) -> Loss:
    """Advantage actor-critic: -log pi(a) * A + value_weight * (target - V)^2 - entropy_weight * H."""
    policy = -(log_prob(logits, action) * advantage).mean()
    value_loss = F.mse_loss(value, target)
    spread = entropy(logits).mean()
    total = policy + value_weight * value_loss - entropy_weight * spread
    nothing = torch.zeros(())
    return Loss(total, policy.detach(), value_loss.detach(), spread.detach(), nothing, nothing)


def ppo_loss(
    logits: Tensor,
    value: Tensor,
    *,
    action: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    target: Tensor,
    clip: float,
    value_weight: float,
    entropy_weight: float,
) -> Loss:
    """Proximal policy optimisation: the clipped surrogate instead of A2C's policy term."""
    change = log_prob(logits, action) - old_log_prob
    ratio = change.exp()
    policy = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
    value_loss = F.mse_loss(value, target)
    spread = entropy(logits).mean()
    total = policy + value_weight * value_loss - entropy_weight * spread
    with torch.no_grad():
        divergence = ((ratio - 1) - change).mean()
        clipped = ((ratio - 1).abs() > clip).float().mean()
    return Loss(total, policy.detach(), value_loss.detach(), spread.detach(), divergence, clipped)
