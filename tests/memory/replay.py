"""Helpers of the memory tests: random inputs, and the comparison of `unroll` with a loop of `step`."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from egomap.memory.protocol import MemoryInputs, MemoryState, reset_state
from egomap.memory.reads import ContextRead

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
        reward=torch.randn(*lead, generator=g, dtype=dtype),
    )


def random_state(memory: torch.nn.Module, num_envs: int, seed: int) -> MemoryState:
    """Any state at all: random numbers, flags and counts."""
    g = torch.Generator().manual_seed(seed)

    def draw(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        if dtype.is_floating_point:
            return torch.randn(num_envs, *shape, generator=g, dtype=dtype)
        return torch.randint(0, 2 if dtype == torch.bool else 6, (num_envs, *shape), generator=g).to(dtype)

    return tuple(draw(spec.shape, spec.dtype) for spec in memory.state_spec)


def loop_of_steps(
    memory: torch.nn.Module, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
) -> tuple[Tensor, MemoryState]:
    outs = []
    for t in range(episode_start.shape[0]):
        state = reset_state(memory, state, episode_start[t])
        out, state = memory.step(inputs.at(t), state)
        outs.append(out)
    return torch.stack(outs), state


def distance_to_kinks(
    memory: torch.nn.Module, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
) -> float:
    """How near the argument of any ReLU, or of L1's absolute value, comes to 0.

    There a gradient jumps, and the last digit of a float32 decides to which side; there is no right answer to
    compare with. Every layer is taken for one that a ReLU follows.
    """
    exact, nearest = copy.deepcopy(memory).double(), [math.inf]

    def note(module: torch.nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        nearest.append(float(output.abs().min()))

    def note_l1(module: ContextRead, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        hidden, map_ego = arguments
        query = module.query(hidden)[:, : module.channels, None, None]
        nearest.append(float((map_ego - query).abs().min()))

    for layer in exact.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_hook(note)
        elif isinstance(layer, ContextRead) and layer.similarity == "l1":
            layer.register_forward_hook(note_l1)

    def double(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    with torch.no_grad():
        loop_of_steps(exact, inputs.each(double), tuple(map(double, state)), episode_start)
    assert len(nearest) > 1, "no layer was seen"
    return min(nearest)


def gradients_are_smooth(
    memory: torch.nn.Module, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
) -> bool:
    """Whether two ways to compute must find the same gradients: no kink is within what rounding can move."""
    if inputs.features.dtype == torch.float64:
        return True  # a kink within 1e-14 will not be drawn
    return distance_to_kinks(memory, inputs, state, episode_start) > 5e-6


def assert_unroll_equals_steps(
    memory: torch.nn.Module,
    inputs: MemoryInputs,
    state: MemoryState,
    episode_start: Tensor,
    *,
    tolerance: float,
    compare_gradients: bool = True,
    state_gradients: bool = True,
) -> None:
    """Outputs, last state, and gradients of parameters, features and start state agree, absolute and relative.

    Without `state_gradients` the start state is data, as in training: a shorter way for some kernels.
    """
    results = []
    for run in (memory.unroll, lambda *args: loop_of_steps(memory, *args)):
        features, *start = (s.clone() for s in (inputs.features, *state))
        wanted = (features, *start) if state_gradients else (features,)
        leaves = [leaf.requires_grad_() for leaf in wanted if leaf.is_floating_point()]
        out, last = run(inputs._replace(features=features), tuple(start), episode_start)
        weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        loss = (out * weights).sum() + sum(s.sin().sum() for s in last)
        leaves = [*memory.parameters(), *leaves]
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        found = (torch.zeros_like(at) if g is None else g for g, at in zip(gradients, leaves, strict=True))
        results.append((out, *last, *(found if compare_gradients else ())))
    for fast, slow in zip(*results, strict=True):
        assert fast.dtype == slow.dtype
        if not slow.is_floating_point():
            assert torch.equal(fast, slow)
            continue
        scale = max(1.0, float(slow.detach().abs().max()))
        torch.testing.assert_close(fast, slow, rtol=tolerance, atol=tolerance * scale)
