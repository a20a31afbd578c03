"""Helpers of the memory tests: random inputs, and the comparison of `unroll` with a loop of `step`."""

from __future__ import annotations

import torch
from torch import Tensor

from egomap.memory.protocol import MemoryInputs, MemoryState, reset_state

EXTENT = 100.0


def random_inputs(
    steps: int, num_envs: int, seed: int, *, dtype: torch.dtype = torch.float32
) -> MemoryInputs:
    """Features (T, N, 16, 4, 10), a depth image, poses all over the map and a little beyond, motions."""
    g = torch.Generator().manual_seed(seed)
    lead = (steps, num_envs)
    pose = (torch.rand(*lead, 3, generator=g, dtype=dtype) - 0.5) * torch.tensor([120.0, 120.0, 12.0])
    return MemoryInputs(
        features=torch.randn(*lead, 16, 4, 10, generator=g, dtype=dtype),
        depth=torch.rand(*lead, 64, 112, generator=g, dtype=dtype) * 60 + 1,
        pose=pose.to(dtype),
        ego_motion=torch.randn(*lead, 3, generator=g, dtype=dtype),
    )


def random_state(memory: torch.nn.Module, num_envs: int, seed: int) -> MemoryState:
    g = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(num_envs, *spec.shape, generator=g, dtype=spec.dtype) for spec in memory.state_spec
    )


def loop_of_steps(
    memory: torch.nn.Module, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
) -> tuple[Tensor, MemoryState]:
    outs = []
    for t in range(episode_start.shape[0]):
        state = reset_state(memory, state, episode_start[t])
        out, state = memory.step(MemoryInputs(*(x[t] for x in inputs)), state)
        outs.append(out)
    return torch.stack(outs), state


def assert_unroll_equals_steps(
    memory: torch.nn.Module,
    inputs: MemoryInputs,
    state: MemoryState,
    episode_start: Tensor,
    *,
    tolerance: float,
) -> None:
    """Outputs, last state, and gradients of parameters, features and start state agree, absolute and relative."""
    results = []
    for run in (memory.unroll, lambda *args: loop_of_steps(memory, *args)):
        leaves = [inputs.features.clone().requires_grad_(), *(s.clone().requires_grad_() for s in state)]
        out, last = run(inputs._replace(features=leaves[0]), tuple(leaves[1:]), episode_start)
        weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        loss = (out * weights).sum() + sum(s.sin().sum() for s in last)
        gradients = torch.autograd.grad(loss, (*memory.parameters(), *leaves))
        results.append((out, *last, *gradients))
    for fast, slow in zip(*results, strict=True):
        scale = max(1.0, float(slow.detach().abs().max()))
        torch.testing.assert_close(fast, slow, rtol=tolerance, atol=tolerance * scale)
