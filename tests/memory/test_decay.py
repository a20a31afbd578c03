"""The linear recurrence by doubling: against its definition, by hand, at its bounds, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.memory.decay import as_complex, decayed_sum


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(seed))


def by_definition(
    x: torch.Tensor, decay: torch.Tensor, state: torch.Tensor, begin: torch.Tensor
) -> torch.Tensor:
    states = []
    for x_t, begin_t in zip(x, begin, strict=True):
        state = decay * torch.where(begin_t.view(-1, *(1,) * (state.dim() - 1)), 0, state) + x_t
        states.append(state)
    return torch.stack(states)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(1, 40),
    shape=st.sampled_from([(3,), (2, 3)]),
    seed=st.integers(0, 1000),
    rate=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
)
def test_the_definition(steps, shape, seed, rate):
    g = torch.Generator().manual_seed(seed)
    x, state = drawn(steps, 2, *shape, seed=seed), drawn(2, *shape, seed=seed + 1)
    decay = torch.polar(
        torch.rand(shape, generator=g, dtype=torch.float64), torch.rand(shape, generator=g).double() * 7
    )
    begin = torch.rand(steps, 2, generator=g) < rate
    weights, results = drawn(steps, 2, *shape, seed=seed + 2), []
    for run in (decayed_sum, by_definition):
        leaves = [leaf.clone().requires_grad_() for leaf in (x, decay, state)]
        out = run(*leaves, begin)
        found = torch.autograd.grad((out * weights).real.sum(), leaves)
        results.append((out, *found))
    for fast, slow in zip(*results, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-11)


def test_by_hand():
    """Half is kept and turned by a right angle at each step; the second environment begins anew at its third."""
    decay = torch.tensor([0.5j], dtype=torch.complex128)
    x = torch.ones(4, 2, 1, dtype=torch.complex128)
    state = torch.tensor([[4.0], [0.0]], dtype=torch.complex128)
    begin = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 0]]).bool()
    out = decayed_sum(x, decay, state, begin)[..., 0]
    assert out[:, 0].tolist() == [1 + 2j, 0 + 0.5j, 0.75 + 0j, 1 + 0.375j]
    assert out[:, 1].tolist() == [1, 1 + 0.5j, 1, 1 + 0.5j]


def test_gradcheck():
    decay = torch.polar(torch.tensor([0.9, 0.3]).double(), torch.tensor([0.4, 2.0]).double()).requires_grad_()
    x, state = drawn(5, 2, 2, seed=0).requires_grad_(), drawn(2, 2, seed=1).requires_grad_()
    begin = torch.tensor([[0, 1], [0, 0], [0, 1], [1, 0], [0, 0]]).bool()
    assert torch.autograd.gradcheck(lambda *leaves: decayed_sum(*leaves, begin), (x, decay, state))


@pytest.mark.parametrize("size", [0.0, 1e-30, 0.5, 1.0])
def test_nothing_overflows_in_single_precision(size):
    """A thousand steps: a closed form by powers of 1 / decay would be infinite for all but the last of these."""
    decay = torch.polar(torch.tensor([size]), torch.tensor([0.1])).requires_grad_()
    x = torch.ones(1000, 1, 1, dtype=torch.complex64, requires_grad=True)
    begin = torch.zeros(1000, 1, dtype=torch.bool)
    out = decayed_sum(x, decay, torch.zeros(1, 1, dtype=torch.complex64), begin)
    limit = 1 / abs(1 - complex(size * math.cos(0.1), size * math.sin(0.1)))  # of the geometric series
    assert float(out.detach().abs().max()) <= 2 * limit + 1e-3
    out.real.sum().backward()
    assert bool(torch.isfinite(decay.grad).all()) and bool(torch.isfinite(x.grad).all())


def test_what_lies_before_a_reset_is_left_out_even_if_it_is_no_number():
    x = torch.ones(5, 1, 1, dtype=torch.complex128)
    x[1] = math.nan
    begin = torch.tensor([[0], [0], [1], [0], [0]]).bool()
    leaves = [x.requires_grad_(), torch.tensor([0.5 + 0j], dtype=torch.complex128, requires_grad=True)]
    out = decayed_sum(*leaves, torch.zeros(1, 1, dtype=torch.complex128), begin)[2:]
    assert out.flatten().tolist() == [1, 1.5, 1.75]
    grad_x, _ = torch.autograd.grad(out.real.sum(), leaves)
    assert grad_x.flatten().tolist() == [0, 0, 1.75, 1.5, 1]


def test_pairs_are_complex_numbers():
    pairs = torch.tensor([[[1.0, 2.0]], [[3.0, -4.0]]]).transpose(0, 1)
    assert as_complex(pairs).tolist() == [[1 + 2j, 3 - 4j]]
