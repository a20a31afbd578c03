from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import (
    assert_unroll_equals_steps,
    gradients_are_smooth,
    loop_of_steps,
    random_inputs,
    random_state,
)

from egomap.memory import FrameStackMemory, MemoryInputs, NoMemory
from egomap.memory.protocol import reset_state
from egomap.memory.recurrent import ego_motion_features

MAKERS = {
    "none": lambda: NoMemory(hidden_size=16),
    "two": lambda: FrameStackMemory(hidden_size=16, stack_size=2),
    "four": lambda: FrameStackMemory(hidden_size=16),
    "more than the sequence": lambda: FrameStackMemory(hidden_size=16, stack_size=12),
}


@pytest.mark.parametrize("name", sorted(MAKERS))
@settings(max_examples=12, deadline=None)
@given(
    steps=st.integers(1, 9),
    num_envs=st.integers(1, 4),
    seed=st.integers(0, 1000),
    rate=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_unroll_equals_a_loop_of_steps(name, steps, num_envs, seed, rate):
    torch.manual_seed(seed)
    begin = torch.rand(steps, num_envs, generator=torch.Generator().manual_seed(seed)) < rate
    for dtype in (torch.float32, torch.float64):
        memory = MAKERS[name]().to(dtype)
        sequence = (
            random_inputs(steps, num_envs, seed, dtype=dtype),
            random_state(memory, num_envs, seed),
            begin,
        )
        smooth = gradients_are_smooth(memory, *sequence)
        assert_unroll_equals_steps(memory, *sequence, compare_gradients=smooth)


def taken_in(inputs: MemoryInputs) -> torch.Tensor:
    """What the layer sees of each observation (T, N, 644), worked out anew: places, then channels, then motion."""
    features = inputs.features.clamp(min=0).permute(0, 1, 3, 4, 2).reshape(*inputs.pose.shape[:2], 640)
    return torch.cat((features, ego_motion_features(inputs.ego_motion)), -1)


def test_a_stack_by_hand():
    """Each output is the layer over the latest k observations of its own episode, zeros where there were fewer."""
    torch.manual_seed(0)
    memory = FrameStackMemory(hidden_size=5, stack_size=3).double()
    inputs = random_inputs(6, 2, 0, dtype=torch.float64)
    begin = torch.tensor([[1, 0, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0]]).bool().T
    state = random_state(memory, 2, 3)
    out, (last,) = memory.unroll(inputs, state, begin)
    x, zero = taken_in(inputs), torch.zeros(644, dtype=torch.float64)
    before = state[0]  # environment 1 goes on with its episode
    stacks = {
        0: [[x[0, 0], zero, zero], [x[1, 0], x[0, 0], zero], [x[2, 0], x[1, 0], x[0, 0]],
            [x[3, 0], x[2, 0], x[1, 0]], [x[4, 0], zero, zero], [x[5, 0], x[4, 0], zero]],
        1: [[x[0, 1], before[1, 0], before[1, 1]], [x[1, 1], x[0, 1], before[1, 0]], [x[2, 1], zero, zero],
            [x[3, 1], zero, zero], [x[4, 1], x[3, 1], zero], [x[5, 1], x[4, 1], x[3, 1]]],
    }  # fmt: skip
    for n, rows in stacks.items():
        expected = torch.stack([memory.reduce(torch.cat(row)).relu() for row in rows])
        torch.testing.assert_close(out[:, n], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(last[n], torch.stack(rows[-1][:2]), rtol=0, atol=0)


def test_a_stack_forgets_after_k_observations():
    torch.manual_seed(0)
    memory = FrameStackMemory(hidden_size=8, stack_size=4)
    inputs, calm = random_inputs(8, 2, 0), torch.zeros(8, 2, dtype=torch.bool)
    one, _ = memory.unroll(inputs, random_state(memory, 2, 1), calm)
    two, _ = memory.unroll(inputs, random_state(memory, 2, 2), calm)
    assert not torch.isclose(one[:3], two[:3]).all(-1).any()
    assert torch.equal(one[3:], two[3:])


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_reset_state_is_the_initial_one_even_if_it_was_no_number(name):
    memory = MAKERS[name]()
    inputs = random_inputs(3, 2, 0)
    broken = tuple(torch.full_like(tensor, torch.nan) for tensor in memory.initial_state(2))
    begin = torch.tensor([[True, True], [False, False], [False, False]])
    fresh, _ = memory.unroll(inputs, memory.initial_state(2), begin)
    for run in (memory.unroll, lambda *args: loop_of_steps(memory, *args)):
        torch.testing.assert_close(run(inputs, broken, begin)[0], fresh)
    for old, new in zip(reset_state(memory, broken, begin[0]), memory.initial_state(2), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_depth_and_pose_are_not_looked_at(name):
    torch.manual_seed(0)
    memory = MAKERS[name]()
    inputs, begin = random_inputs(4, 2, 0), torch.zeros(4, 2, dtype=torch.bool)
    changed = inputs._replace(depth=inputs.depth * 2, pose=inputs.pose + 1)
    state = memory.initial_state(2)
    assert torch.equal(memory.unroll(changed, state, begin)[0], memory.unroll(inputs, state, begin)[0])


def test_wrong_shapes_are_told():
    memory = FrameStackMemory(hidden_size=8)
    inputs, begin = random_inputs(4, 2, 0), torch.zeros(4, 2, dtype=torch.bool)
    state = memory.initial_state(2)
    with pytest.raises(ValueError, match="stack_size must be 2 or more"):
        FrameStackMemory(stack_size=1)
    with pytest.raises(ValueError, match="the state must be one tensor"):
        memory.unroll(inputs, memory.initial_state(3), begin)
    with pytest.raises(ValueError, match="episode_start must be bool"):
        memory.unroll(inputs, state, begin[:3])
    for one in (memory, NoMemory(hidden_size=8)):
        with pytest.raises(ValueError, match="features must be"):
            one.unroll(inputs._replace(features=inputs.features[..., :9]), one.initial_state(2), begin)
        with pytest.raises(ValueError, match="ego_motion must be"):
            one.unroll(inputs._replace(ego_motion=inputs.ego_motion[:3]), one.initial_state(2), begin)
