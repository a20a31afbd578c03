"""`unroll` equals a loop of `step`: outputs, last state and gradients, every switch, any start state."""

from __future__ import annotations

import math

import pytest
import torch
from egomaps import ABLATIONS, never, small, with_biases
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import (
    assert_unroll_equals_steps,
    gradients_are_smooth,
    largest,
    loop_of_steps,
    random_inputs,
    random_state,
    rounding,
)

from egomap.memory import MemoryInputs, native

PRECISION = (torch.float32, torch.float64)
BACKENDS = ["torch", *(["numba"] if native.available() else [])]


def starts(steps: int, num_envs: int, seed: int, rate: float) -> torch.Tensor:
    return torch.rand(steps, num_envs, generator=torch.Generator().manual_seed(seed)) < rate


def inputs_with_gaps(steps: int, num_envs: int, seed: int, dtype: torch.dtype) -> MemoryInputs:
    """Random inputs in which some depths are unknown, in each of the three ways to say so."""
    inputs = random_inputs(steps, num_envs, seed, dtype=dtype)
    draw = torch.rand(inputs.depth.shape, generator=torch.Generator().manual_seed(seed))
    depth = inputs.depth.masked_fill(draw < 0.2, math.inf)
    depth = depth.masked_fill((draw > 0.4) & (draw < 0.5), 0.0).masked_fill(draw > 0.9, math.nan)
    return inputs._replace(depth=depth, ego_motion=inputs.ego_motion * torch.tensor([6, 6, 0.5]).to(dtype))


def check(name: str, steps: int, num_envs: int, seed: int, rate: float, *, fresh: bool = False) -> bool:
    """Asserts; returns whether the gradients could be compared in float32 too (in float64 they always are)."""
    smooth = {}
    for dtype in PRECISION:
        torch.manual_seed(seed)
        memory = with_biases(small(**ABLATIONS[name]).to(dtype))
        state = memory.initial_state(num_envs) if fresh else random_state(memory, num_envs, seed)
        inputs, begin = inputs_with_gaps(steps, num_envs, seed, dtype), starts(steps, num_envs, seed, rate)
        smooth[dtype] = gradients_are_smooth(memory, inputs, state, begin)
        for state_gradients in (True, False):
            assert_unroll_equals_steps(
                memory, inputs, state, begin,
                compare_gradients=smooth[dtype], state_gradients=state_gradients,
            )  # fmt: skip
    return smooth[torch.float32]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ABLATIONS)
def test_every_switch(name, backend):
    with native.use_kernels(backend):
        assert any(check(name, steps=5, num_envs=2, seed=seed, rate=0.25) for seed in (3, 4, 5))


@settings(max_examples=12)
@given(
    name=st.sampled_from(sorted(ABLATIONS)),
    steps=st.integers(1, 10),
    num_envs=st.integers(1, 4),
    seed=st.integers(0, 10**4),
    rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    fresh=st.booleans(),
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_length_number_of_environments_and_episode_starts(
    backend, name, steps, num_envs, seed, rate, fresh
):
    with native.use_kernels(backend):
        check(name, steps, num_envs, seed, rate, fresh=fresh)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_size_of_the_paper(backend):
    """16 x 24 x 24 cells, 128 units, and more steps than the scan takes at once."""
    with native.use_kernels(backend):
        for dtype in PRECISION:
            torch.manual_seed(0)
            memory = with_biases(small(map_size=24, hidden_size=128).to(dtype))
            assert_unroll_equals_steps(
                memory, random_inputs(20, 2, 0, dtype=dtype), random_state(memory, 2, 0),
                starts(20, 2, 0, 0.1), compare_gradients=dtype == torch.float64,
            )  # fmt: skip


@pytest.mark.parametrize("name", ["paper", "naive", "anchored at the start", "write gradient of 3"])
def test_two_unrolls_are_one(name):
    """A rollout may be cut anywhere: the state carries all that the next part needs."""
    torch.manual_seed(0)
    memory = small(**ABLATIONS[name]).double()
    inputs, begin = random_inputs(9, 3, 0, dtype=torch.float64), starts(9, 3, 1, 0.2)
    whole, last = memory.unroll(inputs, memory.initial_state(3), begin)
    first, state = memory.unroll(inputs.at(slice(4)), memory.initial_state(3), begin[:4])
    second, state = memory.unroll(inputs.at(slice(4, None)), state, begin[4:])
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=1e-12, atol=1e-12)
    for got, expected in zip(state, last, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["paper", "naive", "anchored at the start"])
def test_the_start_of_one_episode_leaves_the_others_alone(name):
    torch.manual_seed(0)
    memory = small(**ABLATIONS[name]).double()
    inputs, state = random_inputs(6, 3, 0, dtype=torch.float64), random_state(memory, 3, 1)
    one = never(6, 3)
    one[2, 1] = True
    without, _ = memory.unroll(inputs, state, never(6, 3))
    with_one, _ = memory.unroll(inputs, state, one)
    torch.testing.assert_close(without[:, [0, 2]], with_one[:, [0, 2]], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(without[:2, 1], with_one[:2, 1], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(without[2:, 1], with_one[2:, 1])
    later = inputs.at(slice(2, None))
    fresh, _ = memory.unroll(later, memory.initial_state(3), never(4, 3))
    torch.testing.assert_close(with_one[2:, 1], fresh[:, 1], rtol=1e-12, atol=1e-12)


def test_environments_do_not_mix():
    """N environments at once are N times one."""
    torch.manual_seed(0)
    memory = small().double()
    inputs, state = random_inputs(5, 4, 0, dtype=torch.float64), random_state(memory, 4, 1)
    begin = starts(5, 4, 2, 0.2)
    together, _ = memory.unroll(inputs, state, begin)
    for n in range(4):
        alone = inputs.at((slice(None), slice(n, n + 1)))
        out, _ = memory.unroll(alone, tuple(s[n : n + 1] for s in state), begin[:, n : n + 1])
        torch.testing.assert_close(out, together[:, n : n + 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("map_frame", ["global", "ego"])
def test_strided_inputs(backend, map_frame):
    """Batches as a trainer may cut them: channels-last features, every other environment, time second."""
    torch.manual_seed(0)
    memory = small(map_frame=map_frame).double()
    inputs, state = random_inputs(4, 6, 0, dtype=torch.float64), random_state(memory, 6, 1)
    begin = starts(4, 6, 2, 0.3)
    odd = inputs.each(lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)[:, ::2])
    last = odd.features.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (4, 3))
    odd_state = tuple(s[::2] for s in state)
    plain = odd.each(lambda x: x.contiguous())
    with native.use_kernels(backend):
        out, _ = memory.unroll(odd._replace(features=last), odd_state, begin[:, ::2])
        expected, _ = loop_of_steps(memory, plain, tuple(s.contiguous() for s in odd_state), begin[:, ::2])
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


def test_inputs_and_state_are_left_as_they_were():
    torch.manual_seed(0)
    for name in ("paper", "naive"):
        memory = small(**ABLATIONS[name])
        inputs, state, begin = random_inputs(4, 2, 0), random_state(memory, 2, 0), starts(4, 2, 0, 0.5)
        copies = [tensor.clone() for tensor in (*inputs[:-1], *state, begin)]
        memory.unroll(inputs, state, begin)
        loop_of_steps(memory, inputs, state, begin)
        for tensor, before in zip((*inputs[:-1], *state, begin), copies, strict=True):
            assert torch.equal(tensor, before)


@settings(max_examples=20)
@given(
    name=st.sampled_from(sorted(ABLATIONS)),
    num_envs=st.integers(1, 4),
    seed=st.integers(0, 10**4),
    fresh=st.booleans(),
)
@pytest.mark.parametrize("dtype", PRECISION)
def test_steps_of_a_rollout_equal_those_that_are_differentiated(dtype, name, num_envs, seed, fresh):
    """Where nobody differentiates a kernel writes and warps; the reference is what `step` does otherwise."""
    torch.manual_seed(seed)
    memory = with_biases(small(**ABLATIONS[name]).to(dtype))
    state = memory.initial_state(num_envs) if fresh else random_state(memory, num_envs, seed)
    inputs, begin = inputs_with_gaps(6, num_envs, seed, dtype), starts(6, num_envs, seed, 0.2)
    with native.use_kernels("torch"):
        expected, expected_state = loop_of_steps(memory, inputs, state, begin)
    kept = [tensor.clone() for tensor in state]
    with torch.no_grad():
        found, found_state = loop_of_steps(memory, inputs, state, begin)
    for one, other in zip((found, *found_state), (expected, *expected_state), strict=True):
        bound = rounding(inputs) * max(1.0, largest(other.detach())) if other.is_floating_point() else 0
        torch.testing.assert_close(one, other.detach(), rtol=0, atol=bound)
    assert all(torch.equal(one, other) for one, other in zip(state, kept, strict=True))  # not written over
