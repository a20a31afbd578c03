"""The engine's pictures, read where the engine writes them: in the memory that it shares with ViZDoom.

What comes in: the name of a running engine and a state that ViZDoom made of it. What goes out: read-only views that
always show what the engine drew last. ViZDoom itself hands out fresh copies, which cost as much as the rest of our
bookkeeping. Where in the shared memory a picture lies is found by its content, so nothing is taken for granted; where
it cannot be found (another version, a system without /dev/shm), there are no views and ViZDoom's copies are used.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SHARED_MEMORY = Path("/dev/shm")


class Frame(NamedTuple):
    """What the engine drew."""

    screen: np.ndarray
    """(height, width, 3) uint8."""
    depth: np.ndarray
    """(height, width) uint8, levels."""


def copied_frame(state: Any) -> Frame:
    """ViZDoom's copies."""
    return Frame(state.screen_buffer, state.depth_buffer)


def shared_frame(instance: str, state: Any) -> Frame | None:
    """Views of the memory in which `state` was found, or None if it was not found there exactly once."""
    path = SHARED_MEMORY / f"ViZDoomSM{instance}"
    expected = copied_frame(state)
    try:
        # Read, not mapped: the file is mostly holes, and looking into a mapped hole fills it with memory.
        content = path.read_bytes()
        places = [_only_place(content, picture.tobytes()) for picture in expected]
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except (OSError, ValueError):
        return None
    return Frame(
        *(
            np.frombuffer(memory, np.uint8, picture.size, place).reshape(picture.shape)
            for picture, place in zip(expected, places, strict=True)
        )
    )


def _only_place(content: bytes, part: bytes) -> int:
    place = content.index(part)
    if content.find(part, place + 1) >= 0:
        raise ValueError("this occurs twice")
    return place
