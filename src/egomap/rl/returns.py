"""Returns and advantages of a rollout, as pure functions over (T, N) tensors.

Input: rewards, values and how episodes ended. Output: targets for the value and advantages for the
policy. Paper: A2C with discounted returns of 128 steps; generalised advantages (Schulman et al. 2016) for PPO.

Time convention: row t holds the reward of the action taken at observation t. `terminated[t]`: that action ended the
episode for good, so nothing follows. `truncated[t]`: time ran out (or an engine died) after it; the world went on,
but what came next was never seen. `next_value` (N,) is the value of the observation after row T - 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def following_values(
    values: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, *, bootstrap_timeouts: bool
) -> Tensor:
    """V of what follows each row (T, N): 0 after a true end.

    Choice: the observation at a time-out is never seen (the engine shows nothing), so with `bootstrap_timeouts` the
    value of the last one seen stands in for it; without, a time-out counts as an end, as in the paper's code.
    """
    following = torch.cat((values[1:], next_value[None]))
    at_timeout = values if bootstrap_timeouts else torch.zeros_like(values)
    following = torch.where(truncated, at_timeout, following)
    return following.masked_fill(terminated, 0.0)


def generalised_advantages(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    ended: Tensor,
    *,
    discount: float,
    trace_decay: float,
) -> Tensor:
    """Advantages (T, N): discounted sums of one-step errors within each episode.

    Args:
        rewards: (T, N).
        values: (T, N) value of each row's observation.
        following: (T, N) from `following_values`.
        ended: (T, N) bool, terminated or truncated: no later row adds to this one.
        discount: gamma.
        trace_decay: lambda; 1 gives discounted returns minus values, 0 one-step errors.
    """
    errors = rewards + discount * following - values
    carry = (~ended).to(errors.dtype) * (discount * trace_decay)
    advantages = torch.empty_like(errors)
    running = torch.zeros_like(errors[0])
    for t in range(len(errors) - 1, -1, -1):
        running = errors[t] + carry[t] * running
        advantages[t] = running
    return advantages


class RunningScale:
    """How large advantages are, over the latest rollouts.

    Rewards are rare here. In a rollout, and even more so in a part of one, in which nothing happened, advantages are
    the value's errors alone; brought to deviation 1 on their own they would push the policy as hard as a found item
    does, and its entropy collapses. Over many rollouts the scale is that of what is worth learning. It must forget,
    too: a new agent's values may be wide of the mark, and its first advantages larger than any that follow.

    Args:
        decay: How much of the old scale is left after one rollout.
    """

    def __init__(self, decay: float = 0.9) -> None:
        self.decay = decay
        self.mean_square = 0.0
        self.weight = 0.0
        """Of what has been seen so far: 1 - decay^n, so that the first rollouts are not taken for small."""

    def add(self, mean_square: float) -> None:
        """Take in a rollout whose advantages, less their mean, have this mean square."""
        self.mean_square = self.decay * self.mean_square + (1 - self.decay) * mean_square
        self.weight = self.decay * self.weight + (1 - self.decay)

    @property
    def deviation(self) -> float:
        """The advantages' deviation over what was taken in."""
        return math.sqrt(self.mean_square / self.weight) if self.weight else 1.0
