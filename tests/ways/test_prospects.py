"""Prospects by hand: what is counted, from where it is seen, and how long that takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.ways import grid, prospects

FREE, WALL = -1, 3
SIZE = 30


def blank() -> grid.Grid:
    return grid.Grid(np.zeros((SIZE, SIZE), np.int8), 0.0)


def soon(room: grid.Grid, at: tuple[int, int], cell: tuple[int, int], heading: float, turning: int) -> float:
    """Decisions until the unknown beyond a frontier cell is seen from the middle of another cell."""
    _, cost, parent, gate = walked(room, at)
    return prospects.until_seen(
        room.score,
        cost,
        parent,
        gate,
        at[0] * SIZE + at[1],
        cell[0] * SIZE + cell[1],
        room.origin,
        (*room.center(*at), heading),
        turning,
    )


def walked(room: grid.Grid, at: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    walkable = grid.walkable(room.score)
    return walkable, *grid.travel(walkable, *at)


def test_only_places_where_a_goal_could_stand_are_counted() -> None:
    score = np.zeros((12, 12), np.int8)
    assert prospects.unseen(score)[-1, -1] == 6 * 6  # three rows of outer wall and beyond along each edge
    score[5, 5] = WALL
    assert prospects.unseen(score)[-1, -1] == 36 - 9
    score[8, 8] = FREE
    assert prospects.unseen(score)[-1, -1] == 36 - 10


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_amounts_equal_a_plain_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = rng.choice([FREE, 0, 0, 0, 0, 0, 0, WALL], (SIZE, SIZE)).astype(np.int8)
    sums = prospects.unseen(score)
    for row, column in rng.integers(0, SIZE, (5, 2)).tolist():
        count = 0
        for r in range(max(row - prospects.AROUND, 3), min(row + prospects.AROUND + 1, SIZE - 3)):
            for c in range(max(column - prospects.AROUND, 3), min(column + prospects.AROUND + 1, SIZE - 3)):
                count += score[r, c] == 0 and (score[r - 1 : r + 2, c - 1 : c + 2] <= 0).all()
        assert prospects.amount(sums, row, column) == count


def test_a_place_is_seen_over_free_cells_only() -> None:
    score = blank().score
    score[10, 5:15] = FREE
    assert prospects.shows(score, 10, 5, 10, 15)
    assert not prospects.shows(score, 10, 5, 10, 17)  # an unknown cell is between
    score[10, 9] = WALL
    assert not prospects.shows(score, 10, 5, 10, 15)
    score[4, :] = FREE
    assert prospects.shows(score, 4, 1, 4, 1 + prospects.IN_VIEW)
    assert not prospects.shows(score, 4, 1, 4, 2 + prospects.IN_VIEW)


def corridor() -> grid.Grid:
    """Free from (10, 5) to (20, 24), five rows wide about row 12, nothing else known."""
    room = blank()
    room.score[10:15, 5:25] = FREE
    return room


def test_what_is_in_sight_takes_a_turn_and_no_walk() -> None:
    """The unknown beyond the east end: at once, facing it; facing west, after the 130 degrees that show it."""
    room, at, east = corridor(), (12, 10), (12, 24)
    assert soon(room, at, east, 0.0, 0) == 1.0
    assert soon(room, at, east, math.radians(49), 0) == 1.0
    turn = 1.0 + 130 / 14 + prospects.RESTART
    assert soon(room, at, east, math.pi, 0) == pytest.approx(turn)
    # Heading 179 degrees off to the left, one turns right: to have begun a left turn costs more.
    heading = math.radians(179)
    assert soon(room, at, east, heading, -1) == pytest.approx(turn - 1 / 14)
    assert soon(room, at, east, heading, 1) == pytest.approx(turn - 1 / 14 + prospects.TURN_BACK)


def test_what_is_behind_a_corner_takes_the_way_to_the_corner_alone() -> None:
    """A branch to the north at the east end, 12 cells long: its end is seen from its mouth."""
    room, at, end = corridor(), (12, 6), (26, 22)
    room.score[15:27, 20:25] = FREE
    room.score[15:29, 19] = WALL
    room.score[9, 5:26] = WALL
    found = soon(room, at, end, 0.0, 0)
    _, cost, *_ = walked(room, at)
    whole = cost[end[0] * SIZE + end[1]] * grid.SIDE / grid.ORTHOGONAL / grid.UNITS_PER_DECISION
    mouth = (20 - 6) * grid.SIDE / grid.UNITS_PER_DECISION
    assert mouth - 2 < found < mouth + 5 < whole


def test_much_unknown_is_worth_more_decisions_than_little() -> None:
    """Two ends of a corridor that are in view equally soon; beyond the west one, much is beside a wall."""
    room, at = corridor(), (12, 14)
    room.score[3:27:2, 3:5] = WALL
    ends = np.array([12 * SIZE + 5, 12 * SIZE + 24])
    _, cost, parent, gate = walked(room, at)
    start = at[0] * SIZE + at[1]
    west, east = (soon(room, at, divmod(int(end), SIZE), math.pi / 2, 0) for end in ends)
    assert west == pytest.approx(east, abs=0.5)
    price = prospects.prices(
        room.score, cost, parent, gate, start, ends, 0.0, *room.center(*at), math.pi / 2, 0
    )
    assert price[1] < 0.9 * price[0]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_prices_equal_plain_python_and_are_paid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    room = grid.Grid(rng.choice([FREE] * 6 + [0, 0, WALL], (SIZE, SIZE)).astype(np.int8), 0.0)
    room.score[14:17, 14:17] = FREE
    walkable, cost, parent, gate = walked(room, (15, 15))
    cells = np.flatnonzero(grid.frontier(room.score, walkable, cost))
    pose = (*room.center(15, 15), float(rng.uniform(0, math.tau)), int(rng.integers(-1, 2)))
    given_ways = (room.score, cost, parent, gate, 15 * SIZE + 15, cells, 0.0, *pose)
    price = prospects.prices(*given_ways)
    plain = getattr(prospects.prices, "py_func", prospects.prices)(*given_ways)
    np.testing.assert_allclose(price, plain, rtol=1e-12)
    assert (price > 0).all()
