from __future__ import annotations

import math

import pytest
import torch

from egomap.memory import MemoryInputs
from egomap.memory.ffm import LONGEST, FFMMemory


def blank(steps: int) -> MemoryInputs:
    """Nothing to see or feel, one feature: the layers' biases say what is taken in."""
    zero = torch.zeros(steps, 1, 1, 1, 1, dtype=torch.float64)
    still = torch.zeros(steps, 1, 3, dtype=torch.float64)
    return MemoryInputs(zero, zero[..., 0], still, still)


def test_a_new_memory_has_paces_from_one_step_to_many():
    memory = FFMMemory().double()
    gamma = memory._gamma().detach()
    assert gamma.shape == (48, 4)
    spans = -1 / gamma.abs().log()
    torch.testing.assert_close(
        spans[[0, -1], 0], torch.tensor([1.0, LONGEST], dtype=torch.float64), rtol=1e-3, atol=0
    )
    torch.testing.assert_close(spans, spans[:, :1].expand_as(spans), rtol=1e-9, atol=0)
    periods = 2 * math.pi / memory.omega.detach()
    torch.testing.assert_close(
        periods[[0, -1]], torch.tensor([2.0, LONGEST], dtype=torch.float64), rtol=1e-3, atol=0
    )


def test_one_sum_by_hand():
    memory = FFMMemory((1, 1, 1), hidden_size=2, trace_size=1, context_size=1).double()
    with torch.no_grad():
        for parameter in memory.parameters():
            parameter.zero_()
        memory.alpha.fill_(-math.log(2.0))  # its sign does not matter: half is kept,
        memory.omega.fill_(math.pi / 2)  # turned by a right angle
        memory.keep.bias.fill_(3.0)
        memory.keep_gate.bias.fill_(math.log(2.0))  # two thirds pass: 2 is added at each step
        memory.read.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))  # z = (Re S, Im S)
        memory.out_gate.bias.copy_(torch.tensor([math.log(3.0), -math.log(3.0)]))  # 3/4 and 1/4
        memory.skip.bias.copy_(torch.tensor([8.0, 4.0]))
    out, (last,) = memory.unroll(blank(3), memory.initial_state(1), torch.tensor([[False], [False], [True]]))
    torch.testing.assert_close(last, torch.tensor([[[[2.0, 0.0]]]], dtype=torch.float64))  # began anew
    # S_1 = 2, S_2 = i/2 * 2 + 2 = 2 + i: both times Re > Im, which LayerNorm makes 1 and -1
    expected = torch.tensor([0.75 * 1 + 0.25 * 8, 0.25 * -1 + 0.75 * 4], dtype=torch.float64)
    torch.testing.assert_close(out[:, 0], expected.expand(3, 2), rtol=1e-4, atol=0)
    middle = memory.unroll(blank(2), memory.initial_state(1), torch.zeros(2, 1, dtype=torch.bool))[1][0]
    torch.testing.assert_close(middle, torch.tensor([[[[2.0, 1.0]]]], dtype=torch.float64))


def test_a_sum_is_bounded_by_its_episode():
    """As told: |S_t| <= t times the largest that is kept, also with decays that were learned away."""
    torch.manual_seed(0)
    memory = FFMMemory((1, 1, 1), hidden_size=4, trace_size=3, context_size=2).double()
    with torch.no_grad():
        memory.alpha.zero_()
    inputs = blank(50)._replace(features=torch.randn(50, 1, 1, 1, 1, dtype=torch.float64))
    x = memory.reduce(inputs, axes=2)
    largest = (memory.keep(x) * memory.keep_gate(x).sigmoid()).abs().max()
    _, (last,) = memory.unroll(inputs, memory.initial_state(1), torch.zeros(50, 1, dtype=torch.bool))
    assert float(torch.view_as_complex(last.detach().contiguous()).abs().max()) <= 50 * float(
        largest.detach()
    )


@pytest.mark.parametrize("sizes", [{"trace_size": 0}, {"context_size": 0}])
def test_wrong_settings_are_told(sizes):
    with pytest.raises(ValueError, match="trace_size and context_size must be 1 or more"):
        FFMMemory(**sizes)
