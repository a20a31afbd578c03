"""The comparison that the other tests make: what rounding explains is let pass, and nothing else."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from replay import assert_unroll_equals_steps, conditioning, loop_of_steps, random_inputs, random_state
from torch import Tensor

from egomap.memory import MemoryInputs, MemoryState
from egomap.memory.lru import LRUMemory

WELL, ILL = 0, 273
"""Seeds; with the second, units that a layer norm tells apart are nearly equal."""
TOO_LARGE = 1e-3


class SteepLRU(LRUMemory):
    """Right outputs; gradients of the features are too large by 0.1 % where all steps are computed at once."""

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        features = inputs.features
        steep = features + TOO_LARGE * (features - features.detach())
        return super().unroll(inputs._replace(features=steep), state, episode_start)


def case(
    kind: type[LRUMemory], seed: int, dtype: torch.dtype = torch.float32
) -> tuple[LRUMemory, MemoryInputs, MemoryState, Tensor]:
    torch.manual_seed(seed)
    memory = kind(hidden_size=8, use_reward=True).to(dtype)
    begin = torch.zeros(13, 1, dtype=torch.bool)
    return memory, random_inputs(13, 1, seed, dtype=dtype), random_state(memory, 1, seed), begin


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [WELL, ILL])
def test_a_wrong_gradient_is_seen(seed: int, dtype: torch.dtype) -> None:
    assert_unroll_equals_steps(*case(LRUMemory, seed, dtype))
    with pytest.raises(AssertionError, match="not close"):
        assert_unroll_equals_steps(*case(SteepLRU, seed, dtype))


def test_conditioning() -> None:
    """The gradients of the second case move more than ten times as far as those of the first."""
    reach = []
    for seed in (WELL, ILL):
        memory, inputs, state, begin = case(LRUMemory, seed)
        moved = conditioning(partial(loop_of_steps, episode_start=begin), memory, inputs, state)
        reach.append(max(moved))
    assert reach[0] * 10 < reach[1] < 1e6, reach
