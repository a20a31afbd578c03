from __future__ import annotations

import math

import torch

from egomap.memory import MemoryInputs
from egomap.memory.decay import decayed_sum
from egomap.memory.lru import FASTEST, LARGEST_PHASE, SLOWEST, LRUMemory


def test_a_new_memory_is_drawn_from_the_ring_and_normalised():
    torch.manual_seed(0)
    memory = LRUMemory().double()
    decay = memory._decay().detach()
    assert FASTEST <= float(decay.abs().min()) < float(decay.abs().max()) <= SLOWEST
    assert float(decay.angle().min()) > 0 and float(decay.angle().max()) <= LARGEST_PHASE + 1e-9
    torch.testing.assert_close(
        memory.gamma_log.exp().square() + decay.abs().square(), torch.ones(128).double()
    )


def test_states_are_of_the_size_of_what_is_written_whatever_their_pace():
    """Gamma: on white noise the mean square of a state is that of B u, sum |B|^2, for slow units and fast ones."""
    torch.manual_seed(0)
    memory = LRUMemory(hidden_size=32)
    noise, never = torch.randn(4000, 16, 32), torch.zeros(4000, 16, dtype=torch.bool)
    with torch.no_grad():
        start = torch.zeros(16, 32, dtype=torch.complex64)
        states = decayed_sum(memory._written(noise), memory._decay(), start, never)
        expected = memory.write.weight.view(2, 32, 32).square().sum((0, 2))
    found = states[2000:].abs().square().mean((0, 1))
    assert bool((found / expected > 0.6).all()) and bool((found / expected < 1.6).all())


def test_whatever_is_learned_the_decay_is_inside_the_circle():
    memory = LRUMemory(hidden_size=4).double()
    for value in (-30.0, 0.0, 30.0):
        with torch.no_grad():
            memory.nu.fill_(value)
            memory.theta.fill_(value / 10)
        assert float(memory._decay().detach().abs().max()) <= 1.0


def test_one_unit_by_hand():
    """x = 2 at both steps; a norm that passes its bias 1 on; so u = 1 at every step."""
    memory = LRUMemory((1, 1, 1), hidden_size=1).double()
    with torch.no_grad():
        for parameter in memory.parameters():
            parameter.zero_()
        memory.reduce.linear.bias.fill_(2.0)
        memory.norm.bias.fill_(1.0)
        memory.nu.fill_(math.log(math.log(2.0)))  # |lambda| = 1/2
        memory.theta.fill_(math.log(math.pi / 2))  # turned by a right angle
        memory.gamma_log.fill_(math.log(3.0))
        memory.write.weight.copy_(torch.tensor([[1.0], [2.0]]))  # B = 1 + 2i
        memory.read.weight.copy_(torch.tensor([[1.0, 10.0]]))  # C = 1 - 10i
        memory.direct.fill_(0.5)  # D
        memory.gate.bias.copy_(torch.tensor([0.0, 0.0]))
        memory.gate.weight.copy_(torch.tensor([[1.0], [0.0]]))  # half of GELU(y)
    zero = torch.zeros(2, 1, 1, 1, 1, dtype=torch.float64)
    inputs = MemoryInputs(
        zero, zero[..., 0], zero[..., 0, 0].expand(2, 1, 3), zero[..., 0, 0].expand(2, 1, 3)
    )
    out, (last,) = memory.unroll(inputs, memory.initial_state(1), torch.zeros(2, 1, dtype=torch.bool))
    # h_1 = 3 (1 + 2i); h_2 = i/2 h_1 + 3 (1 + 2i) = (-3 + 1.5i) + (3 + 6i) = 7.5i
    torch.testing.assert_close(last, torch.tensor([[[0.0, 7.5]]], dtype=torch.float64))
    y = torch.tensor(
        [3 + 60 + 0.5, 0 + 75 + 0.5], dtype=torch.float64
    )  # GELU leaves numbers so large as they are
    torch.testing.assert_close(out.flatten(), 2 + y / 2)


def test_figures_by_hand():
    memory = LRUMemory(hidden_size=3)
    with torch.no_grad():
        memory.nu.copy_(torch.tensor([0.5, 0.1, 0.01]).log())
    found = memory.figures({"units": torch.tensor([[1.0, 2.0, 3.0]])})
    assert found["state_size"] == 2.0 and abs(found["span"] - 10) < 1e-4
