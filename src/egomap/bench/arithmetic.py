"""What this machine computes at best, and what an agent has to compute: the arithmetic part of the ceiling.

Input: an agent. Output: its floating-point operations for each decision, and seconds for them at the
speed that this machine's convolutions and matrix products reach alone, on all cores, in large batches. Everything
else (the map's writes and reads, the recurrence, the optimiser, Python) is not in the ceiling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from egomap.agents import Agent
from egomap.bench.memory import learn_by_unroll, synthetic_batch, used_state

BATCH = 512


class Operations(NamedTuple):
    """Floating-point operations; a multiplication with its addition counts two."""

    convolution: float
    convolution_backward: float
    matrix: float

    @staticmethod
    def of(run: Callable[[], object], samples: int) -> Operations:
        """Those of `run`, for each of so many samples."""
        with FlopCounterMode(display=False) as counter:
            run()
        counts = {str(name): count / samples for name, count in counter.get_flop_counts()["Global"].items()}
        forward, backward = counts.pop("aten.convolution", 0.0), counts.pop("aten.convolution_backward", 0.0)
        return Operations(forward, backward, sum(counts.values()))


class Speed(NamedTuple):
    """Floating-point operations a second that this machine reaches."""

    convolution: float
    convolution_backward: float
    matrix: float

    def seconds(self, operations: Operations) -> float:
        """How long the operations take at this speed."""
        return sum(count / speed for count, speed in zip(operations, self, strict=True))


def operations_of(agent: Agent) -> tuple[Operations, Operations]:
    """For each decision: to decide it, and to learn from it once (forward and backward)."""
    steps, num_envs = 4, 4
    batch = synthetic_batch(steps, num_envs)
    state = used_state(agent, batch)
    first = {name: tensor[0] for name, tensor in batch.observations.items()}
    with torch.no_grad():
        decide = Operations.of(lambda: agent.step(first, state, batch.episode_start[0]), num_envs)
    learn = Operations.of(lambda: learn_by_unroll(agent, batch, state), steps * num_envs)
    return decide, learn


def measure_speed(*, repeats: int = 7) -> Speed:
    """The best of `repeats`: the convolutions of the agents' perception, and a product of large matrices."""
    layers = [(4, 16, 8, 4, 64, 112), (16, 32, 4, 2, 15, 27), (32, 16, 3, 1, 6, 12)]
    forward, backward, count_forward, count_backward = 0.0, 0.0, 0.0, 0.0
    for channels, out, kernel, stride, height, width in layers:
        layer = nn.Conv2d(channels, out, kernel, stride)
        layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
        image = torch.randn(BATCH, channels, height, width).contiguous(memory_format=torch.channels_last)
        image.requires_grad_(channels != layers[0][0])  # no gradient of the image is needed
        shown = layer(image)
        ones = torch.ones_like(shown)

        def back(shown: torch.Tensor = shown, ones: torch.Tensor = ones) -> None:
            shown.backward(ones, retain_graph=True)

        def run(layer: nn.Conv2d = layer, image: torch.Tensor = image) -> None:
            with torch.no_grad():
                layer(image)

        count_forward += Operations.of(run, 1).convolution
        count_backward += Operations.of(back, 1).convolution_backward
        forward += _best(run, repeats)
        backward += _best(back, repeats)
    side = 1024
    left, right = torch.randn(side, side), torch.randn(side, side)
    matrix = 2.0 * side**3 / _best(lambda: left @ right, repeats)
    return Speed(count_forward / forward, count_backward / backward, matrix)


def _best(run: Callable[[], object], repeats: int) -> float:
    times = []
    run()
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)
