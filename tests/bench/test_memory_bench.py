"""The memory bench with a tiny batch: what it promises to report, and that it computes what it says."""

from __future__ import annotations

import math

import torch

from egomap.bench.memory import (
    AT_LEAST,
    AT_MOST,
    learn_by_steps,
    learn_by_unroll,
    make_agent,
    measure_memory,
    synthetic_batch,
    take_turns,
    torch_threads,
    used_state,
)

SECONDS = ("gru", "egomap", "egomap_torch", "neural_map", "egomap_steps", "steps", "unroll")
RATIOS = (
    "egomap_over_gru",
    "neural_map_over_gru",
    "torch_over_kernels",
    "egomap_steps_over_unroll",
    "steps_over_unroll",
)


def test_what_is_reported():
    before = torch.get_num_threads()
    found = measure_memory(steps=3, num_envs=2, threads=1, repeats=2, others=("frame-stack",))
    names = [f"{name}_seconds" for name in (*SECONDS, "frame_stack")] + [
        *RATIOS,
        "frame_stack_over_gru",
        "egomap_peak_mb",
    ]
    assert sorted(found) == sorted(f"memory.{name}" for name in names)
    assert all(math.isfinite(value) and value > 0 for value in found.values())
    assert {*AT_LEAST, *AT_MOST} <= set(found)
    assert torch.get_num_threads() == before


def test_steps_and_unroll_do_the_same_work():
    agent, batch = make_agent("egomap"), synthetic_batch(6, 3)
    state = used_state(agent, batch)
    assert all(not tensor.requires_grad for tensor in state) and bool(state[1].any())
    gradients = []
    for learn in (learn_by_unroll, learn_by_steps):
        learn(agent, batch, state)
        gradients.append([parameter.grad.clone() for parameter in agent.parameters()])
    for fast, slow in zip(*gradients, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-3, atol=1e-4 * max(1.0, float(slow.abs().max())))


def test_variants_take_turns():
    order = []
    times = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 4 and [len(times[name]) for name in ("a", "b")] == [3, 3]


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_batch_is_like_the_real_one():
    seen, episode_start, _ = synthetic_batch(100, 8)
    assert (
        seen["rgb"].shape == (100, 8, 3, 64, 112) and seen["rgb"].stride(-3) == 1
    )  # channels last in memory
    assert 0 < episode_start.float().mean() < 0.05
    assert torch.isinf(seen["depth"]).any() and (seen["depth"] > 0).all()
