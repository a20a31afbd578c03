from __future__ import annotations

import math

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

from egomap.memory.protocol import reset_state
from egomap.memory.recurrent import GRUCore, LSTMCore, RecurrentMemory, ego_motion_features

CELLS = ["gru", "lstm"]


def starts(steps: int, num_envs: int, seed: int, rate: float = 0.3) -> torch.Tensor:
    return torch.rand(steps, num_envs, generator=torch.Generator().manual_seed(seed)) < rate


@pytest.mark.parametrize("cell", CELLS)
@settings(max_examples=12, deadline=None)
@given(steps=st.integers(1, 9), num_envs=st.integers(1, 4), seed=st.integers(0, 1000))
def test_unroll_equals_a_loop_of_steps(cell, steps, num_envs, seed):
    torch.manual_seed(seed)
    for dtype in (torch.float32, torch.float64):
        memory = RecurrentMemory(cell=cell, hidden_size=16).to(dtype)
        sequence = (
            random_inputs(steps, num_envs, seed, dtype=dtype),
            random_state(memory, num_envs, seed),
            starts(steps, num_envs, seed),
        )
        smooth = gradients_are_smooth(memory, *sequence)
        assert_unroll_equals_steps(memory, *sequence, compare_gradients=smooth)


@pytest.mark.parametrize(("core_type", "module"), [(GRUCore, torch.nn.GRU), (LSTMCore, torch.nn.LSTM)])
def test_core_is_the_torch_recurrence(core_type, module):
    torch.manual_seed(0)
    core, reference = core_type(7, 5).double(), module(7, 5).double()
    with torch.no_grad():
        for name, parameter in core.named_parameters():
            parameter.copy_(getattr(reference, f"{name}_l0"))
    x = torch.randn(6, 3, 7, dtype=torch.float64)
    state = [torch.randn(3, 5, dtype=torch.float64) for _ in range(core.states)]
    out, *last = core.unroll(x, *state, torch.zeros(6, 3, dtype=torch.bool))
    start = state[0][None] if core.states == 1 else (state[0][None], state[1][None])
    expected, expected_last = reference(x, start)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.stack(last), torch.cat(tuple(expected_last)).view(-1, 3, 5))


@pytest.mark.parametrize("core_type", [GRUCore, LSTMCore])
def test_gradcheck(core_type):
    torch.manual_seed(1)
    core = core_type(3, 2).double()
    names = [name for name, _ in core.named_parameters()]
    episode_start = torch.tensor([[False, True], [False, False], [True, False]])

    def run(x, *rest):
        state, parameters = rest[: core.states], dict(zip(names, rest[core.states :], strict=True))
        return torch.func.functional_call(_Unroll(core), _prefixed(parameters), (x, state, episode_start))

    x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(core.states)]
    parameters = [torch.randn_like(p).requires_grad_() for p in core.parameters()]
    assert torch.autograd.gradcheck(run, (x, *state, *parameters))


class _Unroll(torch.nn.Module):
    def __init__(self, core):
        super().__init__()
        self.core = core

    def forward(self, x, state, episode_start):
        return self.core.unroll(x, *state, episode_start)


def _prefixed(parameters):
    return {f"core.{name}": value for name, value in parameters.items()}


@pytest.mark.parametrize("cell", CELLS)
def test_the_start_of_one_episode_leaves_the_others_alone(cell):
    torch.manual_seed(0)
    memory = RecurrentMemory(cell=cell, hidden_size=8)
    inputs, state = random_inputs(5, 3, 0), random_state(memory, 3, 1)
    calm = torch.zeros(5, 3, dtype=torch.bool)
    one = calm.clone()
    one[2, 1] = True
    without, _ = memory.unroll(inputs, state, calm)
    with_one, _ = memory.unroll(inputs, state, one)
    assert torch.equal(without[:, [0, 2]], with_one[:, [0, 2]])
    assert torch.equal(without[:2, 1], with_one[:2, 1])
    assert not torch.allclose(without[2:, 1], with_one[2:, 1])
    fresh, _ = memory.unroll(inputs.at(slice(2, None)),
                             memory.initial_state(3), calm[2:])  # fmt: skip
    torch.testing.assert_close(with_one[2:, 1], fresh[:, 1])


def test_ego_motion_features_by_hand():
    motion = torch.tensor([[16.0, -64.0, math.pi / 6]])
    torch.testing.assert_close(
        ego_motion_features(motion), torch.tensor([[0.5, -2.0, 0.5, math.sqrt(3) / 2]])
    )


def test_sizes_of_the_paper_and_the_feature_order():
    memory = RecurrentMemory()
    assert memory.reduce.weight.shape == (128, 640 + 4)
    assert memory.core.weight_hh.shape == (3 * 128, 128)
    assert memory.output_size == 128
    # The memory layout of the features is no part of their value.
    inputs, state = random_inputs(2, 3, 0), memory.initial_state(3)
    last = inputs.features.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (2, 3))
    assert last.stride() != inputs.features.stride()
    episode_start = torch.zeros(2, 3, dtype=torch.bool)
    expected, _ = memory.unroll(inputs, state, episode_start)
    torch.testing.assert_close(
        memory.unroll(inputs._replace(features=last), state, episode_start)[0], expected
    )


def test_negative_features_are_cut_and_depth_and_pose_ignored():
    memory = RecurrentMemory(hidden_size=8)
    inputs, state = random_inputs(1, 2, 0), memory.initial_state(2)
    now = inputs.at(0)
    expected, _ = memory.step(now, state)
    changed = now._replace(
        features=torch.where(now.features < 0, now.features - 3, now.features),
        depth=now.depth * 2,
        pose=now.pose + 1,
    )
    assert torch.equal(memory.step(changed, state)[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_compiled_unroll_is_the_same(cell):
    torch.manual_seed(0)
    memory = RecurrentMemory(cell=cell, hidden_size=8).double()
    inputs, state = random_inputs(4, 2, 0, dtype=torch.float64), random_state(memory, 2, 0)
    episode_start = starts(4, 2, 0)
    expected, _ = memory.unroll(inputs, state, episode_start)
    expected.sum().backward()
    gradients = [p.grad.clone() for p in memory.parameters()]
    memory.zero_grad()
    out, _ = torch.compile(memory.unroll, backend="aot_eager")(inputs, state, episode_start)
    out.sum().backward()
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close([p.grad for p in memory.parameters()], gradients)


def test_trace_shows_the_hidden_state():
    memory = RecurrentMemory(hidden_size=8)
    inputs = random_inputs(1, 2, 0)
    trace: dict[str, torch.Tensor] = {}
    out, _ = memory.step(inputs.at(0), memory.initial_state(2), trace=trace)
    assert torch.equal(trace["hidden"], out)


def test_state_spec_is_the_initial_state():
    for cell in CELLS:
        memory = RecurrentMemory(cell=cell, hidden_size=8).double()
        state = memory.initial_state(3)
        assert [(tuple(s.shape[1:]), s.dtype) for s in state] == [tuple(spec) for spec in memory.state_spec]
        assert all(s.shape[0] == 3 for s in state)
        again = reset_state(memory, random_state(memory, 3, 0), torch.tensor([True, True, True]))
        assert all(torch.equal(a, b) for a, b in zip(state, again, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, s, e: (i._replace(features=i.features[..., :3]), s, e), "features must be"),
        (lambda i, s, e: (i._replace(ego_motion=i.ego_motion[..., :2]), s, e), "ego_motion must be"),
        (lambda i, s, e: (i, s, e[:1]), "episode_start must be bool"),
        (lambda i, s, e: (i, s, e.float()), "episode_start must be bool"),
        (lambda i, s, e: (i, (s[0][:1],), e), "the state must be"),
    ],
)
def test_wrong_shapes_are_told(change, message):
    memory = RecurrentMemory(hidden_size=8)
    arguments = (random_inputs(3, 2, 0), memory.initial_state(2), starts(3, 2, 0))
    loop_of_steps(memory, *arguments)
    with pytest.raises(ValueError, match=message):
        memory.unroll(*change(*arguments))


def test_wrong_settings_are_told():
    with pytest.raises(ValueError, match="cell must be 'gru' or 'lstm'; got 'rnn'"):
        RecurrentMemory(cell="rnn")
    with pytest.raises(ValueError, match="motion_unit"):
        RecurrentMemory(motion_unit=0)
    with pytest.raises(ValueError, match="hidden_size"):
        RecurrentMemory(hidden_size=0)
