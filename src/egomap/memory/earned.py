"""The reward earned in an episode so far: the sum of the rewards above 0, kept beside a memory that gets rewards."""

from __future__ import annotations

import torch
from torch import Tensor

from egomap.memory.protocol import MemoryInputs


def earned_so_far(inputs: MemoryInputs, before: Tensor, episode_start: Tensor) -> Tensor:
    """What was earned up to each of T steps.

    Args:
        inputs: (T, N, ...), or (N, ...) of one step; at an episode's start the reward is 0.
        before: (N,) what was earned before the first step.
        episode_start: (T, N) bool.

    Returns:
        (T, N).
    """
    paid = inputs.told.detach().float().clamp(min=0).view(episode_start.shape)
    rows = []
    for paid_t, start in zip(paid.unbind(0), episode_start.unbind(0), strict=True):
        before = torch.where(start, 0.0, before) + paid_t
        rows.append(before)
    return torch.stack(rows)
