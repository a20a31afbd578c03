from __future__ import annotations

import math

import pytest
import torch
from egomaps import with_biases
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import EXTENT, assert_unroll_equals_steps, gradients_are_smooth, random_inputs, random_state

from egomap.memory.neural_map import NeuralMapMemory, heading_bin
from egomap.memory.protocol import MemoryInputs


def small(**changes) -> NeuralMapMemory:
    return NeuralMapMemory(EXTENT, **{"channels": 4, "map_size": 12, "hidden_size": 8, **changes})


def starts(steps: int, num_envs: int, seed: int) -> torch.Tensor:
    return torch.rand(steps, num_envs, generator=torch.Generator().manual_seed(seed)) < 0.3


@settings(max_examples=8, deadline=None)
@given(steps=st.integers(1, 6), num_envs=st.integers(1, 3), seed=st.integers(0, 1000))
def test_unroll_equals_a_loop_of_steps(steps, num_envs, seed):
    torch.manual_seed(seed)
    for dtype in (torch.float32, torch.float64):
        memory = with_biases(small().to(dtype))
        sequence = (
            random_inputs(steps, num_envs, seed, dtype=dtype),
            random_state(memory, num_envs, seed),
            starts(steps, num_envs, seed),
        )
        smooth = gradients_are_smooth(memory, *sequence)
        assert_unroll_equals_steps(memory, *sequence, compare_gradients=smooth)


def test_heading_bins_by_hand():
    degrees = torch.tensor([0.0, 44.0, 46.0, 90.0, 180.0, -180.0, 270.0, -90.0, -44.0, 350.0, 720.0])
    assert heading_bin(degrees * math.pi / 180).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0]


def test_only_the_agents_own_cell_and_heading_is_written():
    torch.manual_seed(0)
    memory = small()
    # The centre of the cell in row 2, column 7 of 12, facing north; and a place far outside, facing west.
    side = EXTENT / 12
    pose = torch.tensor(
        [[(7.5 - 6) * side, (6 - 2.5) * side, math.pi / 2], [-9 * EXTENT, 9 * EXTENT, math.pi]]
    )
    inputs = MemoryInputs(torch.randn(2, 16, 4, 10), torch.ones(2, 64, 112), pose, torch.zeros(2, 3))
    before = random_state(memory, 2, 0)
    trace: dict[str, torch.Tensor] = {}
    out, after = memory.step(inputs, before, trace=trace)
    changed = (after[0] != before[0]).any(-1)
    assert changed.sum(1).tolist() == [1, 1]
    assert changed[0, (2 * 12 + 7) * 4 + 1] and changed[1, (0 * 12 + 0) * 4 + 2]
    # What was written is the last part of the output, and is what the trace shows at that place.
    torch.testing.assert_close(trace["map_world"][0, 1, :, 2, 7], out[0, -4:])
    torch.testing.assert_close(trace["attention"].sum((1, 2, 3)), torch.ones(2))


def test_context_reads_what_was_written_elsewhere():
    torch.manual_seed(0)
    memory = small().double()
    with torch.no_grad():
        memory.query.weight.zero_()
        memory.query.bias.copy_(torch.tensor([50.0, 0, 0, 0]))  # ask for the first channel
    state = memory.initial_state(1)
    place = 5 * 4 + 3
    state[0][0, place] = torch.tensor([1.0, -2.0, 3.0, 4.0])
    inputs = random_inputs(1, 1, 0, dtype=torch.float64).each(lambda x: x[0])
    out, _ = memory.step(inputs, state)
    torch.testing.assert_close(out[0, 32:36], state[0][0, place])


def test_gradients_reach_a_view_a_hundred_steps_ago():
    torch.manual_seed(0)
    memory = small().double()
    inputs = random_inputs(101, 1, 3, dtype=torch.float64)
    inputs = inputs._replace(features=inputs.features.requires_grad_())
    out, _ = memory.unroll(inputs, memory.initial_state(1), torch.zeros(101, 1, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(out[-1].sum(), inputs.features)
    assert gradient[0].abs().max() > 0
    assert torch.isfinite(gradient).all()


def test_gradcheck_of_the_write_and_read():
    torch.manual_seed(0)
    memory = small(feature_shape=(1, 1, 2), hidden_size=3, channels=2).double()
    pose = torch.tensor([[[0.0, 0.0, 0.0]], [[30.0, 5.0, 2.0]], [[0.5, 0.5, 0.1]]], dtype=torch.float64)

    def run(features, maps):
        inputs = MemoryInputs(features, pose, pose, pose)
        return memory.unroll(inputs, (maps,), torch.zeros(3, 1, dtype=torch.bool))[0]

    features = torch.rand(3, 1, 1, 1, 2, dtype=torch.float64) + 0.5
    maps = torch.randn(1, 12 * 12 * 4, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(run, (features.requires_grad_(), maps.requires_grad_()), fast_mode=True)


def test_default_sizes():
    memory = NeuralMapMemory(1000.0)
    assert memory.reduce.in_features == 640
    assert memory.output_size == 32 + 32 + 32
    assert memory.state_spec[0].shape == (15 * 15 * 4, 32)
    assert memory.initial_state(2)[0].shape == (2, 900, 32)


@pytest.mark.slow
def test_compiled_unroll_is_the_same():
    torch.manual_seed(0)
    memory = small()
    inputs, state, episode_start = random_inputs(2, 2, 0), random_state(memory, 2, 0), starts(2, 2, 0)
    expected, _ = memory.unroll(inputs, state, episode_start)
    out, _ = torch.compile(memory.unroll, backend="aot_eager")(inputs, state, episode_start)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, s, e: (i._replace(features=i.features[..., :3]), s, e), "features must have shape"),
        (lambda i, s, e: (i._replace(pose=i.pose[..., :2]), s, e), "pose must have shape"),
        (lambda i, s, e: (i._replace(pose=i.pose[:1]), s, e), "pose must be"),
        (lambda i, s, e: (i._replace(pose=i.pose + math.nan), s, e), "must be finite .* got 4 that are not"),
        (lambda i, s, e: (i, s, e[:1]), "episode_start must be bool"),
        (lambda i, s, e: (i, (s[0][:, :5],), e), "the state must be"),
    ],
)
def test_wrong_shapes_are_told(change, message):
    memory = small()
    arguments = (random_inputs(2, 2, 0), memory.initial_state(2), starts(2, 2, 0))
    memory.unroll(*arguments)
    with pytest.raises(ValueError, match=message):
        memory.unroll(*change(*arguments))


def test_wrong_settings_are_told():
    with pytest.raises(ValueError, match="extent must be a positive length"):
        NeuralMapMemory(-1.0)
    with pytest.raises(ValueError, match="channels must be 1 or more"):
        small(channels=0)
    with pytest.raises(ValueError, match="map_size must be 12 or more"):
        small(map_size=8)
