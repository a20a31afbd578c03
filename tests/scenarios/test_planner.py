from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
import vizdoom as vzd
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.config import TASKS, ScenarioConfig
from egomap.scenarios.dataset import draw_layouts
from egomap.scenarios.export import split_files
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.scenarios.maze import make_maze, stream
from egomap.scenarios.planner import (
    COMFORTABLE,
    TIGHT,
    Point,
    forbidden_boxes,
    plan,
    plan_leg,
    solid_boxes,
    solvable,
    wall_boxes,
)
from egomap.scenarios.tasks import FAMILIES, way

from .player import FORWARD, IDLE, LEFT, RIGHT, begin, opened, pose, status


def corridor(cell: int) -> Layout:
    """The middle row of 3 x 3 cells, walled off from the others; the second item lies before the first."""
    walls = [Wall(Cell(column, row), Cell(column, row + 1)) for column in range(3) for row in range(2)]
    return Layout("ordered-items", 3, cell, tuple(walls), Cell(0, 1), (Cell(2, 1), Cell(1, 1)))


@pytest.mark.parametrize(("cell", "passable"), [(96, False), (121, False), (122, True), (160, True)])
def test_an_item_can_be_passed_where_there_is_room(cell: int, passable: bool) -> None:
    # From the cell's middle: 8 of the wall, 16 of the player, 36 to the item make 60; 61 leave room.
    layout = corridor(cell)
    assert not way(layout, layout.start, layout.goals[0], avoid=layout.goals[1:])
    assert solvable(layout) == passable
    if passable:
        ends = [leg.points[-1] for leg in plan(layout)]
        assert max(abs(ends[0][0] - cell), abs(ends[0][1])) == pytest.approx(35)
        assert max(abs(ends[1][0]), abs(ends[1][1])) == pytest.approx(35)
    else:
        with pytest.raises(ValueError, match="goal 1 of this layout cannot be reached"):
            plan(layout)


@pytest.mark.parametrize(("cell", "passable"), [(105, False), (106, True)])
def test_the_outer_border_has_no_thickness(cell: int, passable: bool) -> None:
    walls = [Wall(Cell(column, 0), Cell(column, 1)) for column in range(3)]
    layout = Layout("ordered-items", 3, cell, tuple(walls), Cell(0, 0), (Cell(2, 0), Cell(1, 0)))
    assert solvable(layout) == passable


def test_a_tight_way_only_where_there_is_no_other() -> None:
    assert [leg.clearance for leg in plan(corridor(128))] == [TIGHT, COMFORTABLE]
    assert [leg.clearance for leg in plan(corridor(160))] == [COMFORTABLE, COMFORTABLE]


@pytest.mark.parametrize(("cell", "passable"), [(118, False), (122, True)])
def test_the_engine_agrees(tmp_path: Path, cell: int, passable: bool) -> None:
    """Slide along the wall past the wrong item: in the narrower corridor it is touched, in the wider it is not."""
    layout = corridor(cell)
    config = ScenarioConfig(task="ordered-items", items=2, size=3, cell=cell, train=1, test=0)
    for name, data in split_files(config, {"train": (layout,), "test": ()}).items():
        (tmp_path / name).write_bytes(data)
    with opened(tmp_path / "train.cfg", tmp_path) as game:
        begin(game, "MAP01")
        turn_to(game, 90.0)
        push(game, until=lambda: False, tics=60)
        turn_to(game, 6.0)
        push(game, until=lambda: pose(game)[0] > 40.0 or game.is_episode_finished(), tics=200)
        assert status(game) == ((0, 0) if passable else (0, 2))
        if passable:
            assert pose(game)[0] > 40.0
            assert pose(game)[1] == pytest.approx(cell / 2 - 24, abs=0.1)


def turn_to(game: vzd.DoomGame, target: float) -> None:
    for _ in range(200):
        error = (target - pose(game)[2] + 180) % 360 - 180
        if abs(error) < 1.5:
            return
        game.make_action(LEFT if error > 0 else RIGHT, 1)
        game.make_action(IDLE, 1)  # a turn that is held becomes too quick to aim with


def push(game: vzd.DoomGame, *, until: Callable[[], bool], tics: int) -> None:
    for _ in range(tics):
        if until():
            return
        game.make_action(FORWARD, 1)


def test_shortest_way_by_hand() -> None:
    # One wall of 16 x 128 between start and goal. The way rounds its free end: the wall ends at y = 64, so the
    # player's centre keeps to y >= 64 + 16 + 6 while |x| is below 8 + 16 + 6.
    walls = (Wall(Cell(0, 0), Cell(1, 0)), Wall(Cell(0, 1), Cell(1, 1)))
    layout = Layout("labyrinth", 4, 128, walls, Cell(0, 1), (Cell(1, 1),))
    (leg,) = plan(layout)
    line = -128.0
    assert leg.points[:3] == ((-192.0, -64.0), (line - 30, 22.0), (line + 30, 22.0))
    # From there to the goal it is 34 east and 86 south; it is touched 35 units before the last of these.
    assert leg.points[3] == pytest.approx((line + 30 + 34 * 51 / 86, -29.0))
    assert leg.length == pytest.approx(math.hypot(34, 86) * (1 + 51 / 86) + 60)


def test_way_from_within_the_clearance_does_not_go_through_the_wall() -> None:
    # The player stands at the wall's western face; the goal is straight behind the wall, which ends at y = 0.
    walls = (Wall(Cell(0, 0), Cell(1, 0)), Wall(Cell(0, 1), Cell(1, 1)))
    layout = Layout("labyrinth", 4, 128, walls, Cell(0, 1), (Cell(1, 1),))
    for gap in (25.0, 23.99):  # free of the wall, and into it by a rounding error
        leg = plan_leg(layout, 0, (-128.0 - gap, -64.0))
        assert leg.clearance == COMFORTABLE
        assert [y for _, y in leg.points[1:3]] == [16.0, 16.0]


def test_walls_that_meet_at_an_angle_have_a_post() -> None:
    free = Layout("labyrinth", 3, 128, (Wall(Cell(0, 1), Cell(1, 1)),), Cell(0, 0), (Cell(1, 1),))
    assert wall_boxes(free, 0.0).tolist() == [[-72.0, -64.0, -56.0, 64.0]]
    met = Layout("labyrinth", 3, 128, (*free.walls, Wall(Cell(1, 0), Cell(1, 1))), Cell(0, 0), (Cell(1, 1),))
    assert wall_boxes(met, 0.0).tolist() == [[-72.0, -72.0, -56.0, 64.0], [-72.0, -72.0, 64.0, -56.0]]


def test_way_back_begins_where_the_red_pillar_was_touched() -> None:
    layout = Layout("find-return", 3, 128, (), Cell(0, 0), (Cell(2, 0), Cell(0, 0)))
    out, back = plan(layout)
    # The player starts south-west of the green pillar and meets the red one in the east on its western side.
    assert out.points[0] == (-160.0, -160.0)
    assert out.points[-1][0] == pytest.approx(128.0 - 35.0)
    assert back.points[0] == out.points[-1]
    assert back.points[-1][0] == pytest.approx(-128.0 + 35.0)
    assert solid_boxes(layout, 0).tolist() == [[-160.0, -160.0, -96.0, -96.0]]
    assert solid_boxes(layout, 1).tolist() == [[96.0, -160.0, 160.0, -96.0]]
    assert len(forbidden_boxes(layout, 0)) == 0


def test_pillar_at_the_start_is_walked_around() -> None:
    # Red is in the east; the player begins south-west of the green pillar and passes below it.
    layout = Layout("find-return", 3, 128, (), Cell(1, 1), (Cell(2, 1), Cell(1, 1)))
    out = plan(layout)[0]
    assert out.points[:2] == ((-32.0, -32.0), (32.0, -32.0))


@given(
    st.sampled_from(TASKS),
    st.integers(3, 6),
    st.integers(96, 170),
    st.floats(0, 1),
    st.integers(0, 2**63 - 1),
)
@settings(deadline=None, max_examples=60)
def test_ways_keep_clear_of_walls_and_items(
    task: str, size: int, cell: int, probability: float, seed: int
) -> None:
    config = ScenarioConfig(
        task=task, size=size, cell=cell, items=3, wall_probability=probability, train=1, test=0, seed=seed
    )
    layout = draw_layouts(config)["train"][0]
    walls = bare_walls(layout)
    for index, leg in enumerate(plan(layout)):
        points = np.concatenate([sampled(a, b) for a, b in itertools.pairwise(leg.points)])
        assert np.abs(points).max() <= config.extent / 2 - 16
        assert not touches(points, walls, 16)
        if task == "ordered-items":
            items = [(*layout.center(goal), *layout.center(goal)) for goal in layout.goals[index + 1 :]]
            assert not touches(points, items, 36)


def bare_walls(layout: Layout) -> list[tuple[float, float, float, float]]:
    """The inner walls without posts, from the cells on either side of each."""
    boxes = []
    for first, second in layout.walls:
        (x1, y1), (x2, y2) = layout.center(first), layout.center(second)
        x, y, half = (x1 + x2) / 2, (y1 + y2) / 2, layout.cell / 2
        across, along = (8, half) if first.row == second.row else (half, 8)
        boxes.append((x - across, y - along, x + across, y + along))
    return boxes


def sampled(a: Point, b: Point) -> np.ndarray:
    steps = max(2, int(math.dist(a, b)))
    return np.linspace(a, b, steps)


def touches(points: np.ndarray, boxes: Sequence[Sequence[float]], distance: float) -> bool:
    distance -= 1e-3
    return any(
        bool(
            (
                (points > np.array([x0, y0]) - distance).all(axis=1)
                & (points < np.array([x1, y1]) + distance).all(axis=1)
            ).any()
        )
        for x0, y0, x1, y1 in boxes
    )


@given(st.integers(3, 4), st.integers(96, 126), st.floats(0.3, 1), st.integers(2, 6), st.integers(0, 10**9))
@settings(deadline=None, max_examples=60)
def test_solvable_agrees_with_a_flood(
    size: int, cell: int, probability: float, items: int, seed: int
) -> None:
    rng = stream(seed)
    walls = make_maze(rng, size, probability)
    start, goals = FAMILIES["ordered-items"].place(rng, size, items)
    layout = Layout("ordered-items", size, cell, walls, start, goals)
    assert solvable(layout) == flooded(layout)


def flooded(layout: Layout) -> bool:
    """The same question answered by flooding a grid of points half a unit apart, leg by leg.

    Faces lie 0.4 off multiples of 0.5, so every gap that is one holds a row of points.
    """
    side = layout.size * layout.cell
    along = np.arange(2 * side + 1) / 2 - side / 2
    x, y = np.meshgrid(along, along, indexing="ij")
    limit = layout.size * layout.cell / 2 - 16.4
    free = (np.abs(x) < limit) & (np.abs(y) < limit)
    for x0, y0, x1, y1 in wall_boxes(layout, 16.4):
        free &= ~((x > x0) & (x < x1) & (y > y0) & (y < y1))
    here = layout.start
    for index, goal in enumerate(layout.goals):
        room = free.copy()
        for other in layout.goals[index + 1 :]:
            ox, oy = layout.center(other)
            room &= (np.abs(x - ox) > 36.4) | (np.abs(y - oy) > 36.4)
        if not connected(room, point(layout, here), point(layout, goal)):
            return False
        here = goal
    return True


def point(layout: Layout, cell: Cell) -> tuple[int, int]:
    x, y = layout.center(cell)
    return int(2 * x + layout.size * layout.cell), int(2 * y + layout.size * layout.cell)


def connected(room: np.ndarray, first: tuple[int, int], second: tuple[int, int]) -> bool:
    _, labels = cv2.connectedComponents(room.astype(np.uint8), connectivity=4)
    return bool(room[first] and labels[first] == labels[second])
