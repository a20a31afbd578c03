"""The map itself: a layout and its things as UDMF text (the TEXTMAP lump).

What comes in: a layout (walls of a grid) and the things that the task places. What goes out: bytes. The arena
is one sector; walls are void behind one-sided lines, so the depth buffer sees them as they are. Walls are 16
units thick, 8 on either side of the cell border; the outer border has no thickness inside: its face is the
arena's edge. The same layout gives the same bytes. No nodes are built here: the engine builds them when it
loads the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egomap.scenarios.layout import Layout

WALL_THICKNESS = 16
WALL_TEXTURE = "STONE2"
FLOOR_TEXTURE = "FLAT1_1"
CEILING_TEXTURE = "MFLR8_1"
CEILING_HEIGHT = 128
LIGHT_LEVEL = 160

Point = tuple[float, float]


@dataclass(frozen=True)
class Thing:
    """Something placed in the map: a start, an item, a pillar. Coordinates in map units, angle in degrees."""

    x: float
    y: float
    type: int
    tid: int = 0
    angle: int = 0
    invisible: bool = False


def textmap(layout: Layout, things: Sequence[Thing]) -> bytes:
    """The TEXTMAP lump of `layout` with `things` in it."""
    text = ['namespace="zdoom";']
    text += [_thing(thing) for thing in things]
    vertices: list[Point] = []
    lines: list[str] = []
    for loop in wall_outline(layout):
        first = len(vertices)
        vertices += loop
        for index in range(len(loop)):
            v1, v2 = first + index, first + (index + 1) % len(loop)
            lines.append(f"linedef{{v1={v1};v2={v2};sidefront={v1};blocking=true;}}")
    text += [f"vertex{{x={x:.1f};y={y:.1f};}}" for x, y in vertices]
    text += lines
    # One side for each line, in the same order.
    text += [f'sidedef{{sector=0;texturemiddle="{WALL_TEXTURE}";}}' for _ in lines]
    text.append(
        f'sector{{heightfloor=0;heightceiling={CEILING_HEIGHT};texturefloor="{FLOOR_TEXTURE}";'
        f'textureceiling="{CEILING_TEXTURE}";lightlevel={LIGHT_LEVEL};}}'
    )
    return ("\n".join(text) + "\n").encode("ascii")


def wall_outline(layout: Layout) -> list[list[Point]]:
    """The border between floor and wall as closed loops of points, collinear pieces joined.

    Convention: world map units, x east, y north. Each loop runs so that the floor is on the right of every
    line, which is the side the engine calls the front. The last point joins the first.

    The walls are drawn into a coarse picture, two narrow slots for each wall and one wide slot for each cell,
    and the outline of that picture is followed. So walls that meet become one body, without seams or
    overlaps.
    """
    solid = _solid_slots(layout)
    edges = _slot_edges(layout)
    padded = np.pad(solid, 1, constant_values=True)
    floor = ~solid
    # For each floor slot, a line along each side that touches a wall; (start, end) are offsets of slot
    # corners.
    sides = (
        (padded[:-2, 1:-1], (0, 0), (0, 1)),  # wall in the west: the line runs north
        (padded[2:, 1:-1], (1, 1), (1, 0)),  # east: south
        (padded[1:-1, 2:], (0, 1), (1, 1)),  # north: east
        (padded[1:-1, :-2], (1, 0), (0, 0)),  # south: west
    )
    follow: dict[tuple[int, int], tuple[int, int]] = {}
    for wall, start, end in sides:
        for i, j in np.argwhere(floor & wall).tolist():
            follow[i + start[0], j + start[1]] = (i + end[0], j + end[1])

    loops = []
    for corner in sorted(follow):
        loop = []
        while corner in follow:
            loop.append(corner)
            corner = follow.pop(corner)
        if loop:
            loops.append([(edges[i], edges[j]) for i, j in _corners(loop)])
    return loops


def _corners(loop: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The points of a closed loop at which it turns."""
    kept = []
    for index, (i, j) in enumerate(loop):
        before, after = loop[index - 1], loop[(index + 1) % len(loop)]
        if not (before[0] == i == after[0] or before[1] == j == after[1]):
            kept.append((i, j))
    return kept


def _slot_edges(layout: Layout) -> list[float]:
    """World coordinates of the slots' borders along one axis; each inner grid line has three."""
    half = layout.size * layout.cell / 2
    edges = [-half]
    for line in range(1, layout.size):
        middle = line * layout.cell - half
        edges += [middle - WALL_THICKNESS / 2, middle, middle + WALL_THICKNESS / 2]
    return [*edges, half]


def _solid_slots(layout: Layout) -> np.ndarray:
    """Boolean picture [x slot, y slot] of the walls. Cell c is slot 3c, the wall east of it 3c+1 and 3c+2."""
    size = layout.size
    solid = np.zeros((3 * size - 2, 3 * size - 2), dtype=bool)
    # How many walls of each orientation touch the crossing of two grid lines.
    upright = np.zeros((size + 1, size + 1), dtype=bool)
    level = np.zeros((size + 1, size + 1), dtype=bool)
    for (column, row), second in layout.walls:
        if second.column > column:
            line, low = column + 1, row
            solid[3 * column + 1 : 3 * column + 3, max(3 * low - 1, 0) : 3 * low + 2] = True
            upright[line, low] = upright[line, low + 1] = True
        else:
            line, low = row + 1, column
            solid[max(3 * low - 1, 0) : 3 * low + 2, 3 * row + 1 : 3 * row + 3] = True
            level[low, line] = level[low + 1, line] = True
    # A free end stops at the grid line; where walls meet at an angle the corner is filled to a square post.
    for i, j in np.argwhere((upright & level)[1:size, 1:size]).tolist():
        solid[3 * i + 1 : 3 * i + 3, 3 * j + 1 : 3 * j + 3] = True
    return solid


def _thing(thing: Thing) -> str:
    fields = [f"x={thing.x:.1f};y={thing.y:.1f};type={thing.type};angle={thing.angle};"]
    if thing.tid:
        fields.append(f"id={thing.tid};")
    if thing.invisible:
        fields.append("invisible=true;")
    fields += [f"skill{skill}=true;" for skill in range(1, 6)]
    return f"thing{{{''.join(fields)}single=true;coop=true;dm=true;}}"
