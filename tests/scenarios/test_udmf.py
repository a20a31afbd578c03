from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.scenarios.maze import make_maze, stream
from egomap.scenarios.tasks import things
from egomap.scenarios.udmf import textmap, wall_outline
from egomap.scenarios.udmf_reader import parse_textmap


def layout_of(*walls: Wall, size: int = 3, cell: int = 128) -> Layout:
    return Layout("labyrinth", size, cell, tuple(walls), Cell(0, 0), (Cell(1, 1),))


def area(loop: list[tuple[float, float]]) -> float:
    """Signed area, positive for loops that run counter-clockwise."""
    pairs = zip(loop, loop[1:] + loop[:1], strict=True)
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs) / 2


def test_empty_arena_is_a_clockwise_square() -> None:
    # Clockwise, so that the floor is on the right of each line.
    assert wall_outline(layout_of()) == [[(-192, -192), (-192, 192), (192, 192), (192, -192)]]


def test_single_wall_is_a_box_of_16_units() -> None:
    # Between cells (0, 1) and (1, 1): x = -64, from y = -64 to 64, 8 units to either side.
    _, box = wall_outline(layout_of(Wall(Cell(0, 1), Cell(1, 1))))
    assert sorted(box) == [(-72, -64), (-72, 64), (-56, -64), (-56, 64)]
    assert area(box) > 0


def test_wall_at_the_border_joins_it() -> None:
    (loop,) = wall_outline(layout_of(Wall(Cell(0, 0), Cell(1, 0))))
    assert set(loop) >= {(-72, -192), (-72, -64), (-56, -64), (-56, -192)}
    assert len(loop) == 8


def test_corner_is_filled_and_straight_walls_have_no_seam() -> None:
    corner = layout_of(Wall(Cell(0, 1), Cell(1, 1)), Wall(Cell(0, 0), Cell(0, 1)))
    # An upright wall above the crossing (-64, -64) and a level one from the west border to it.
    (loop,) = wall_outline(corner)
    assert (-56, -72) in loop
    straight = layout_of(Wall(Cell(0, 1), Cell(1, 1)), Wall(Cell(0, 2), Cell(1, 2)))
    (loop,) = wall_outline(straight)
    assert len(loop) == 8


@given(st.integers(3, 8), st.floats(0, 1), st.integers(0, 10**6), st.sampled_from([96, 97, 128, 160]))
@settings(deadline=None, max_examples=60)
def test_outline_is_closed_and_has_the_right_area(
    size: int, probability: float, seed: int, cell: int
) -> None:
    layout = layout_of(*make_maze(stream(seed), size, probability), size=size, cell=cell)
    loops = wall_outline(layout)
    corners = [point for loop in loops for point in loop]
    assert len(corners) == len(set(corners)), "loops touch"
    for loop in loops:
        for (x1, y1), (x2, y2) in zip(loop, loop[1:] + loop[:1], strict=True):
            assert (x1 == x2) != (y1 == y2), "a line is slanted or empty"
    # Exactly one loop, the outer one, goes clockwise; the rest are islands.
    assert sum(area(loop) < 0 for loop in loops) == 1
    floor = -sum(area(loop) for loop in loops)
    assert math.isclose(floor, floor_area(layout))


def floor_area(layout: Layout) -> float:
    """The same area counted another way: wall by wall in a picture of half-unit squares."""
    step = 0.5
    side = int(layout.size * layout.cell / step)
    floor = np.ones((side, side), dtype=bool)
    unit, thick = int(layout.cell / step), int(8 / step)
    for first, second in layout.walls:
        upright = second.column > first.column
        line, low = (second.column, first.row) if upright else (second.row, first.column)
        across = slice(line * unit - thick, line * unit + thick)
        along = slice(low * unit, (low + 1) * unit)
        floor[(across, along) if upright else (along, across)] = False
    # Fill the posts where walls meet at an angle.
    upright_ends = {
        (w.second.column, w.first.row + k)
        for w in layout.walls
        if w.second.column > w.first.column
        for k in (0, 1)
    }
    level_ends = {
        (w.first.column + k, w.second.row) for w in layout.walls if w.second.row > w.first.row for k in (0, 1)
    }
    for i, j in upright_ends & level_ends:
        if 0 < i < layout.size and 0 < j < layout.size:
            floor[i * unit - thick : i * unit + thick, j * unit - thick : j * unit + thick] = False
    return float(floor.sum()) * step * step


def test_textmap_reads_back() -> None:
    layout = layout_of(Wall(Cell(0, 1), Cell(1, 1)))
    text = textmap(layout, things(layout))
    blocks = parse_textmap(text, "test")
    assert [len(blocks[kind]) for kind in ("vertex", "linedef", "sidedef", "sector", "thing")] == [
        8,
        8,
        8,
        1,
        2,
    ]
    assert blocks["sector"][0] == {
        "heightfloor": 0,
        "heightceiling": 128,
        "texturefloor": "FLAT1_1",
        "textureceiling": "MFLR8_1",
        "lightlevel": 160,
    }
    assert all(side == {"sector": 0, "texturemiddle": "STONE2"} for side in blocks["sidedef"])
    start, goal = blocks["thing"]
    assert (start["x"], start["y"], start["type"], start["skill5"]) == (-128.0, -128.0, 1, True)
    assert (goal["x"], goal["y"], goal["type"], goal["id"]) == (0.0, 0.0, 2018, 20)
    assert text == textmap(layout, things(layout))
