"""A square room, drawn with numpy: what stands on its four walls is all that there is to see.

Input: a pose and the colours of the walls, or the colour of a card that is held before the eyes. What goes
out: a picture and its depth, as a pinhole camera sees them. It deliberately has no light and no texture.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from egomap.config import Camera

HEIGHT, WIDTH = 44, 60
"""Of the pictures, in pixels: the smallest that make 2 x 4 features."""
CAMERA = Camera.from_fov(WIDTH, HEIGHT, horizontal=math.pi / 2, vertical=math.pi / 3)
HALF = 256.0
"""Half the side of the room, in map units."""
EYES, CEILING = 40.0, 40.0
"""Map units from the camera down to the floor, and up to the ceiling."""
CARD_DISTANCE = 16.0
"""Map units in front of the eyes."""

Colour = tuple[int, int, int]
GREY: Colour = (128, 128, 128)
FOG: Colour = (90, 90, 90)
FLOOR: Colour = (60, 50, 40)
TOP: Colour = (170, 170, 180)

Picture = tuple[np.ndarray, np.ndarray]
"""rgb (3, HEIGHT, WIDTH) uint8, depth (HEIGHT, WIDTH) float32: forward distance, map units."""


@functools.cache
def _rays() -> tuple[np.ndarray, np.ndarray]:
    """How far right (WIDTH,) and down (HEIGHT,) each pixel's ray goes while it goes 1 ahead."""
    right = (np.arange(WIDTH) + 0.5 - CAMERA.cx) / CAMERA.fx
    down = (np.arange(HEIGHT) + 0.5 - CAMERA.cy) / CAMERA.fy
    return right, down


def card(colour: Colour) -> Picture:
    """A card of one colour that fills the view."""
    rgb = np.empty((3, HEIGHT, WIDTH), np.uint8)
    rgb[:] = np.array(colour, np.uint8)[:, None, None]
    return rgb, np.full((HEIGHT, WIDTH), CARD_DISTANCE, np.float32)


def fog() -> Picture:
    """Nothing to see, at no distance that is known."""
    rgb, depth = card(FOG)
    depth[:] = np.inf
    return rgb, depth


def room(pose: np.ndarray, walls: tuple[Colour, Colour, Colour, Colour]) -> Picture:
    """What is seen of the room.

    Convention: the room's centre is the origin; its walls are named east (x = HALF), north, west, south. Camera
    axes: x right, y down, z forward; depth is z.

    Args:
        pose: (3,) x, y (map units, within the room), phi (radians, counter-clockwise from east).
        walls: Colours of the east, north, west and south wall.

    Returns:
        The picture.
    """
    x, y, phi = pose
    right, down = _rays()
    east, north = math.cos(phi) + right * math.sin(phi), math.sin(phi) - right * math.cos(phi)
    with np.errstate(divide="ignore"):
        ways = np.stack(((HALF - x) / east, (HALF - y) / north, (-HALF - x) / east, (-HALF - y) / north))
        ground = np.where(down > 0, EYES / down, -CEILING / down)[:, None]  # (HEIGHT, 1)
    ways[~(ways > 0)] = np.inf
    wall, distance = ways.argmin(0), ways.min(0)  # (WIDTH,)
    colours = np.array(walls, np.uint8)[wall].T[:, None, :]  # (3, 1, WIDTH)
    level = np.where(down[:, None] > 0, np.array(FLOOR)[:, None, None], np.array(TOP)[:, None, None])
    rgb = np.where(distance <= ground, colours, level).astype(np.uint8)
    return rgb, np.minimum(distance, ground).astype(np.float32)
