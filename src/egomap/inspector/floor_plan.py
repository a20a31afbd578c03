"""The planes of places as one picture: floor, walls, and the trail of the agent over them.

Input: the values of the planes at one decision. Output: colours. Numpy only. The page draws the same
by its own script, in the colours of its theme.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from egomap.memory.places import PLANES

Colour = tuple[int, int, int]


class Palette(NamedTuple):
    """Red, green and blue of each."""

    unknown: Colour
    free: Colour
    wall: Colour
    early: Colour
    """Where the agent first was early in the episode."""
    recent: Colour
    """Where it was just now."""


LIGHT = Palette((217, 216, 210), (255, 254, 251), (58, 65, 72), (151, 117, 250), (11, 114, 133))
DARK = Palette((11, 14, 17), (43, 50, 59), (138, 149, 161), (112, 72, 232), (102, 217, 232))


def floor_plan(values: np.ndarray, palette: Palette) -> np.ndarray:
    """(size, size, 3) uint8: what planes (planes, size, size) say of each cell, the trail laid over it.

    Args:
        values: From 0 to 1; the first four are free, blocked, recent and old (`egomap.memory.places.PLANES`).
        palette: Its colours.
    """
    plane = {name: values[index][..., None] for index, name in enumerate(PLANES)}
    colour = np.array(palette.free, np.float32)
    for name, over in (("blocked", palette.wall), ("old", palette.early), ("recent", palette.recent)):
        colour = colour + (np.array(over, np.float32) - colour) * plane[name]
    seen = np.maximum.reduce([plane[name] for name in ("free", "blocked", "old", "recent")])
    unknown = np.array(palette.unknown, np.float32)
    return np.round(unknown + (colour - unknown) * seen).astype(np.uint8)
