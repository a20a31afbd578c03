from __future__ import annotations

import math

import pytest
import torch
from replay import random_inputs, random_state

from egomap.geometry import compose
from egomap.memory.smt import AttentionBlock, SMTMemory, where_and_when


def small(window: int = 4) -> SMTMemory:
    torch.manual_seed(0)
    return SMTMemory(hidden_size=8, size=8, heads=2, window=window, pose_unit=50.0).double()


def never(steps: int, num_envs: int) -> torch.Tensor:
    return torch.zeros(steps, num_envs, dtype=torch.bool)


def test_where_and_when_by_hand():
    """The agent stands at (10, 0) and looks north; scenes ahead of it, to its right, and its own."""
    north = torch.tensor([10.0, 0.0, math.pi / 2], dtype=torch.float64)
    scenes = [[10.0, 100.0, math.pi], [60.0, 0.0, math.pi / 2], [10.0, 0.0, math.pi / 2]]
    found = where_and_when(
        north, torch.tensor(scenes, dtype=torch.float64), torch.tensor([2, 1, 0]), unit=100.0, window=4
    )
    expected = [[0, 1, 0, 1, math.exp(-0.5)], [0.5, 0, 1, 0, math.exp(-0.25)], [0, 0, 1, 0, 1]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_place_of_the_world_does_not_matter():
    """A world that is moved and turned is the same to the agent: poses count relative to the present one alone."""
    memory, inputs = small(), random_inputs(7, 2, 0, dtype=torch.float64)
    move = torch.tensor([300.0, -40.0, 2.0], dtype=torch.float64).expand_as(inputs.pose)
    state, begin = memory.initial_state(2), never(7, 2)
    begin[3, 1] = True
    pose = compose(move, inputs.pose)  # places turn by the heading of `move` from north
    there = inputs._replace(pose=pose - torch.tensor([0.0, 0.0, math.pi / 2], dtype=torch.float64))
    one, two = (memory.unroll(each, state, begin)[0] for each in (inputs, there))
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)
    elsewhere = inputs._replace(pose=inputs.pose * 1.5)
    assert not torch.isclose(memory.unroll(elsewhere, state, begin)[0][1:3], one[1:3]).all(-1).any()


def test_poses_are_data():
    memory, inputs = small(), random_inputs(3, 1, 0, dtype=torch.float64)
    pose = inputs.pose.clone().requires_grad_()
    out, _ = memory.unroll(inputs._replace(pose=pose), memory.initial_state(1), never(3, 1))
    assert not torch.autograd.grad(out.sum(), pose, allow_unused=True)[0]


def test_scenes_leave_the_window():
    memory, inputs = small(window=4), random_inputs(6, 2, 0, dtype=torch.float64)
    full = torch.full((2,), 3)
    one, two = (
        memory.unroll(inputs, (*random_state(memory, 2, seed)[:2], full), never(6, 2))[0] for seed in (1, 2)
    )
    assert not torch.isclose(one[:3], two[:3]).all(-1).any()
    torch.testing.assert_close(one[3:], two[3:], rtol=1e-12, atol=1e-12)


def test_what_was_not_seen_is_not_attended_to():
    memory, inputs = small(window=3), random_inputs(4, 1, 0, dtype=torch.float64)
    with torch.no_grad():  # no score: the attention is flat over what is visible
        memory.decoder.query.weight.zero_()
        memory.decoder.query.bias.zero_()
    state, shares = memory.initial_state(1), []
    for t in range(4):
        trace: dict[str, torch.Tensor] = {}
        _, state = memory.step(inputs.at(t), state, trace=trace)
        shares.append(trace["attended"][0, 0].tolist())
        found = memory.figures(trace)
    torch.testing.assert_close(
        torch.tensor(shares), torch.tensor([[0, 0, 1], [0, 1 / 2, 1 / 2], [1 / 3] * 3, [1 / 3] * 3])
    )
    assert found["lookback"] == pytest.approx(1.0) and found["attention_past"] == pytest.approx(2 / 3)


def test_a_block_by_definition():
    torch.manual_seed(0)
    block = AttentionBlock(4, 2).double()
    x, y = torch.randn(2, 1, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    visible = torch.tensor([[True, True, True], [False, True, True]])
    found, looked = block(x, y, visible), block.attention(x, y, visible)
    w_k, w_v = block.key_value.weight.chunk(2)
    b_k, b_v = block.key_value.bias.chunk(2)
    for b in range(2):
        rows = [s for s in range(3) if visible[b, s]]
        read = []
        for head in range(2):
            part = slice(2 * head, 2 * head + 2)
            query = (block.query.weight @ x[b, 0] + block.query.bias)[part]
            keys = torch.stack([(w_k @ y[b, s] + b_k)[part] for s in rows])
            values = torch.stack([(w_v @ y[b, s] + b_v)[part] for s in rows])
            weights = (keys @ query / math.sqrt(2)).softmax(0)
            torch.testing.assert_close(looked[b, head, 0, rows], weights)
            read.append(weights @ values)
        h = block.norm(block.out(torch.cat(read)) + x[b, 0])
        torch.testing.assert_close(found[b, 0], block.last_norm(block.linear(h).relu() + h))
    assert float(looked[1, :, 0, 0].abs().max().detach()) == 0


def test_gradcheck_of_a_block():
    torch.manual_seed(0)
    block = AttentionBlock(4, 2).double()
    visible = torch.tensor([[True, True, True], [False, True, True]])

    def run(x: torch.Tensor, y: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(dict(block.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(block, named, (x, y, visible))

    leaves = (torch.randn(2, 2, 4), torch.randn(2, 3, 4), *(p.detach() for p in block.parameters()))
    assert torch.autograd.gradcheck(run, tuple(leaf.double().clone().requires_grad_() for leaf in leaves))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"size": 10, "heads": 4}, "size must be a multiple of heads"),
        ({"window": 1}, "window must be 2 or more"),
        ({"pose_unit": 0.0}, "pose_unit must be a length"),
    ],
)
def test_wrong_settings_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        SMTMemory(**settings)


def test_a_pose_that_is_no_number_is_told():
    memory, inputs = small(), random_inputs(2, 1, 0, dtype=torch.float64)
    inputs.pose[1, 0, 2] = math.nan
    with pytest.raises(ValueError, match="poses and motions must be finite"):
        memory.unroll(inputs, memory.initial_state(1), never(2, 1))
