"""Helpers of the memory tests: random inputs, and the comparison of `unroll` with a loop of `step`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from egomap.memory.protocol import MemoryInputs, MemoryState, reset_state
from egomap.memory.reads import ContextRead

EXTENT = 100.0
Run = Callable[[torch.nn.Module, MemoryInputs, MemoryState], tuple[Tensor, MemoryState]]
"""One way to compute a sequence: memory, inputs, state before -> outputs, state after."""


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


def double(tensor: Tensor) -> Tensor:
    """The same numbers in float64; counts and flags stay what they are."""
    return tensor.double() if tensor.is_floating_point() else tensor


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


def largest(tensor: Tensor) -> float:
    """The largest absolute value."""
    return float(tensor.double().abs().max())


def rounding(inputs: MemoryInputs) -> float:
    """What a sum over all views may lose, relative to its size: roundings add up like a random walk's steps."""
    return 3 * torch.finfo(inputs.features.dtype).eps * inputs.features.numel() ** 0.5


def replayed(
    run: Run,
    memory: torch.nn.Module,
    inputs: MemoryInputs,
    state: MemoryState,
    *,
    gradients: bool = True,
    state_gradients: bool = True,
) -> list[Tensor]:
    """Outputs, last state, and of a weighted sum of both the gradients of parameters, features and start state."""
    features, *start = (s.clone() for s in (inputs.features, *state))
    wanted = (features, *start) if state_gradients else (features,)
    leaves = [leaf.requires_grad_() for leaf in wanted if leaf.is_floating_point()]
    out, last = run(memory, inputs._replace(features=features), tuple(start))
    results = [out, *last]
    if gradients:
        weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        loss = (out * weights).sum() + sum(s.sin().sum() for s in last)
        leaves = [*memory.parameters(), *leaves]
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
        results += [torch.zeros_like(at) if g is None else g for g, at in zip(found, leaves, strict=True)]
    return [result.detach() for result in results]


def conditioning(
    run: Run, memory: torch.nn.Module, inputs: MemoryInputs, state: MemoryState, **which: bool
) -> list[float]:
    """How far each of `replayed` moves, in float64, per relative change of parameters, features and state.

    Rounding of the first sums is such a change, so no way to compute keeps more digits than this leaves: a layer
    norm of units that are nearly equal, for one, divides by the little that tells them apart. Depth and pose are
    left alone: the cell of a feature jumps.
    """
    draw, change = torch.Generator().manual_seed(0), torch.finfo(torch.float32).eps

    def moved(tensor: Tensor) -> Tensor:
        signs = torch.randint(0, 2, tensor.shape, generator=draw) * 2 - 1
        return tensor * (1 + change * signs) if tensor.is_floating_point() else tensor

    exact, inputs, state = copy.deepcopy(memory).double(), inputs.each(double), tuple(map(double, state))
    still = replayed(run, exact, inputs, state, **which)
    furthest = [0.0] * len(still)
    for _ in range(3):
        other = copy.deepcopy(exact)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.copy_(moved(parameter))
        found = replayed(
            run,
            other,
            inputs._replace(features=moved(inputs.features), ego_motion=moved(inputs.ego_motion)),
            tuple(map(moved, state)),
            **which,
        )
        distances = (largest(a.double() - b.double()) for a, b in zip(found, still, strict=True))
        furthest = [max(pair) for pair in zip(furthest, distances, strict=True)]
    return [distance / change for distance in furthest]


def within(found: Tensor, expected: Tensor, bound: float) -> bool:
    """Whether two tensors differ by no more than that anywhere; other than floats, not at all."""
    if not found.is_floating_point():
        return torch.equal(found, expected)
    return largest(found - expected) <= bound


def assert_unroll_equals_steps(
    memory: torch.nn.Module,
    inputs: MemoryInputs,
    state: MemoryState,
    episode_start: Tensor,
    *,
    compare_gradients: bool = True,
    state_gradients: bool = True,
) -> None:
    """Outputs, last state, and gradients of parameters, features and start state agree as far as rounding lets them.

    Without `state_gradients` the start state is data, as in training: a shorter way for some kernels.
    """
    which = {"gradients": compare_gradients, "state_gradients": state_gradients}
    ways: tuple[Run, Run] = (
        lambda memory, *at: memory.unroll(*at, episode_start),
        partial(loop_of_steps, episode_start=episode_start),
    )
    fast, slow = (replayed(way, memory, inputs, state, **which) for way in ways)
    tolerance = rounding(inputs)
    bounds = [tolerance * max(1.0, largest(expected)) for expected in slow]
    if not all(map(within, fast, slow, bounds)):  # rare, and takes long
        lost = conditioning(ways[0], memory, inputs, state, **which)
        eps = torch.finfo(inputs.features.dtype).eps
        bounds = [bound + 10 * eps * more for bound, more in zip(bounds, lost, strict=True)]
    for found, expected, bound in zip(fast, slow, bounds, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=bound if found.is_floating_point() else 0)
