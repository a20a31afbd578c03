"""What the engine shows, read where the engine writes it: in the memory that it shares with ViZDoom.

What comes in: the name of a running engine and what ViZDoom says it shows now. What goes out: read-only views that
always hold what the engine shows. ViZDoom itself hands out fresh copies and answers one question at a time, which
costs as much as the rest of our bookkeeping. Where in the shared memory something lies is found by its content, so
nothing is taken for granted; where it is not found (another version, a system without /dev/shm), there are no views
and ViZDoom is asked.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

SHARED_MEMORY = Path("/dev/shm")


class Frame(NamedTuple):
    """What the engine shows."""

    screen: np.ndarray
    """(height, width, 3) uint8."""
    depth: np.ndarray
    """(height, width) uint8, levels."""
    place: np.ndarray
    """(4,) float64: the player's x, y, z in map units and heading in degrees, counter-clockwise from +x."""


def shared_frame(instance: str, now: Frame) -> Frame | None:
    """Views of the memory in which `now` lies, or None if a part of it does not lie there exactly once."""
    path = SHARED_MEMORY / f"ViZDoomSM{instance}"
    try:
        # Read, not mapped: the file is mostly holes, and looking into a mapped hole fills it with memory.
        content = path.read_bytes()
        places = [_only_place(content, part.tobytes()) for part in now]
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except (OSError, ValueError):
        return None
    return Frame(
        *(
            np.frombuffer(memory, part.dtype, part.size, place).reshape(part.shape)
            for part, place in zip(now, places, strict=True)
        )
    )


def _only_place(content: bytes, part: bytes) -> int:
    place = content.index(part)
    if content.find(part, place + 1) >= 0:
        raise ValueError("this occurs twice")
    return place
