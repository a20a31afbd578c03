"""Memory: whether there is enough for a training, and keeping what is freed in the process.

`require_memory` estimates before anything is allocated, for a system that runs out ends the process without a word.

`keep_memory` tells the C library's allocator, and returns whether it could. By default glibc takes each large block
as fresh pages from the system and returns them when it is freed. A training batch frees and asks again for hundreds
of megabytes, and the system clears every page again: about half of the time of an EgoMap batch. The arithmetic is
not touched. Call it before the first large tensor is made. It deliberately does nothing where it does not know the
allocator (macOS, Windows, musl).
"""

from __future__ import annotations

import ctypes
import math
import os

from egomap.config import OBSERVATION_HEIGHT, OBSERVATION_WIDTH, LearnerSettings, require
from egomap.memory.protocol import Memory

PIXEL_BYTES = 3 + 4
"""Colours as bytes, depth as a float."""

# The numbers of <malloc.h>, with which mallopt names its settings.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4

_TOP_PAD_BYTES = 64 << 20


def keep_memory() -> bool:
    """Let malloc serve large blocks from a heap that never shrinks; True if the C library is glibc.

    The price: a process holds on to the most that it ever needed at once. Calling it again changes nothing.

    Example:
        >>> keep_memory() in (True, False)
        True
    """
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  (others may have a mallopt with other numbers)
        mallopt = libc.mallopt
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no such handle
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    # No block by mmap, whatever its size (M_MMAP_THRESHOLD is capped at 32 MB in older versions), nothing
    # given back (-1 is the greatest size), and the heap grown in large steps.
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, _TOP_PAD_BYTES))
    done = [mallopt(name, value) == 1 for name, value in settings]  # all of them, whatever the first says
    return all(done)


def require_memory(
    learner: LearnerSettings, memory: Memory, *, pixels: int = OBSERVATION_HEIGHT * OBSERVATION_WIDTH
) -> None:
    """Raise a ValueError if rollouts, and the states of the memory that one pass over them keeps, cannot fit.

    Args:
        learner: For the sizes of a rollout.
        memory: For the size of a state.
        pixels: Of one observation.
    """
    decisions = learner.rollout_steps * learner.num_envs
    state = sum(math.prod(spec.shape) * spec.dtype.itemsize for spec in memory.state_spec)
    needed = decisions * (PIXEL_BYTES * pixels + state // learner.minibatches)
    there = _physical_memory()
    require(
        needed <= there,
        f"a training with rollouts of {learner.rollout_steps} x {learner.num_envs} decisions and a memory of "
        f"{state / 1e3:,.0f} kB for each needs {needed / 1e9:,.0f} GB at least, and this machine has "
        f"{there / 1e9:,.0f} GB; lower --learner.rollout-steps, --learner.num-envs or --map.map-size.",
    )


def _physical_memory() -> float:
    """Bytes; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf
