"""How a network computes: on which device, how precisely, and in how many threads.

What comes in: `--device` and `--precision`. What goes out: a `Compute`, which an agent, its rollouts and its learner
share. Simulators stay on the CPU: observations are copied to the device when the network needs them (from pinned
memory, without waiting, where the device is CUDA), actions come back.

bfloat16 is mixed precision: weights, states of memories, poses, depth, map coordinates, heads and the optimiser stay
float32; convolutions and matrix products of perception and memory are computed on rounded copies (torch's autocast).
A bfloat16 has float32's range and 8 bits of its mantissa, so no loss has to be scaled.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from egomap.config import DeviceKind, Precision, require

WORTH_IT = 0.7
"""`--precision auto` takes bfloat16 where the probe needs less than this part of the time that float32 needs."""


class Compute(NamedTuple):
    """Where a network is, and what it computes products in."""

    device: torch.device = torch.device("cpu")
    dtype: torch.dtype = torch.float32
    """Of convolutions and matrix products: float32 or bfloat16."""

    @property
    def on_cpu(self) -> bool:
        """Whether the simulators' memory is the network's."""
        return self.device.type == "cpu"

    @property
    def overlaps(self) -> bool:
        """Whether the program may go on while a copy is under way. MPS would read sources that are gone by then."""
        return self.device.type == "cuda"

    def put(self, tensor: Tensor) -> Tensor:
        """The tensor on the device; on CUDA a copy from pinned memory is not waited for."""
        return tensor.to(self.device, non_blocking=self.overlaps)

    def host(self, tensor: Tensor) -> Tensor:
        """A tensor of the CPU as it is best copied to the device and back: pinned for CUDA."""
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    @contextlib.contextmanager
    def casting(self) -> Iterator[None]:
        """Within the block, products are computed in `dtype`."""
        if self.dtype == torch.float32:
            yield
            return
        with torch.autocast(self.device.type, self.dtype):
            yield

    def random_state(self) -> Tensor | None:
        """The state of the device's generator of random numbers; None on the CPU, whose is torch's own."""
        return None if self.on_cpu else cast(Tensor, _generator(self.device).get_rng_state())

    def set_random_state(self, state: Tensor) -> None:
        """Give back what `random_state` took."""
        _generator(self.device).set_rng_state(state)


def _generator(device: torch.device) -> Any:
    """`torch.cuda` or `torch.mps`."""
    return getattr(torch, device.type)


def lower(like: Tensor) -> torch.dtype | None:
    """The dtype of products on the device of `like` under autocast; None without it."""
    kind = like.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


@contextlib.contextmanager
def exactly(like: Tensor) -> Iterator[None]:
    """Within the block nothing is rounded to less than its own dtype: for poses and coordinates of maps."""
    if lower(like) is None:
        yield
        return
    with torch.autocast(like.device.type, enabled=False):
        yield


def choose_device(kind: DeviceKind, *, local_rank: int = 0) -> torch.device:
    """The device of that kind.

    Args:
        kind: auto: CUDA, Apple's MPS or the CPU, the first that there is.
        local_rank: Ranks of one machine take its GPUs in turn.

    Raises:
        ValueError: This machine, or this torch, has none.
    """
    there: dict[DeviceKind, bool] = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if kind == "auto":
        kind = next(name for name, found in there.items() if found)
    require(there[kind], f"torch {torch.__version__} finds no device {kind} here; choose auto or cpu.")
    if kind == "cuda":
        return torch.device("cuda", local_rank % torch.cuda.device_count())
    return torch.device(kind)


def choose(kind: DeviceKind, precision: Precision, *, local_rank: int = 0) -> Compute:
    """How to compute, as settings say it."""
    device = choose_device(kind, local_rank=local_rank)
    if precision == "auto":
        precision = fastest_precision(device)
    return Compute(device, torch.bfloat16 if precision == "bfloat16" else torch.float32)


@functools.cache
def fastest_precision(device: torch.device) -> Precision:
    """bfloat16 where it is clearly faster on this device, by a measurement of some milliseconds; else float32."""
    times = {dtype: min(_probe(device, dtype) for _ in range(3)) for dtype in (torch.float32, torch.bfloat16)}
    return "bfloat16" if times[torch.bfloat16] < WORTH_IT * times[torch.float32] else "float32"


def _probe(device: torch.device, dtype: torch.dtype) -> float:
    """Seconds for a convolution of perception's size and its gradients; on a CPU its own, not those of others."""
    cpu = device.type == "cpu"
    clock = time.process_time if cpu else time.perf_counter
    x = torch.zeros(128, 16, 15, 27, device=device, dtype=dtype).contiguous(memory_format=torch.channels_last)
    weight = torch.zeros(32, 16, 4, 4, device=device, dtype=dtype, requires_grad=True)
    begin = 0.0
    for repeat in range(4):
        if repeat == 1:  # the first one prepares what the others use
            _wait_for(device)
            begin = clock()
        F.conv2d(x, weight, stride=2).sum().backward()
    _wait_for(device)
    return clock() - begin


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within the block torch computes with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
