"""Guides: actions and lengths worked out by hand, resets, and that the compiled loops are the plain ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.ways import guides
from egomap.ways.grid import COST_PER_UNIT, SIDE, UNITS_PER_DECISION, Grid
from egomap.ways.guides import FORWARD, FORWARD_LEFT, FORWARD_RIGHT, LEFT, LONG, NO_WAY, RIGHT, steer

EXTENT = 320.0
TANGENTS = np.linspace(-1.0, 1.0, 41)


@pytest.mark.parametrize(
    ("degrees", "action"),
    [
        (0, FORWARD),
        (7, FORWARD),
        (9, FORWARD_RIGHT),
        (-9, FORWARD_LEFT),
        (51, RIGHT),
        (-51, LEFT),
        (180, RIGHT),
    ],
)
def test_steering_turns_towards_a_point(degrees: float, action: int) -> None:
    off = math.radians(degrees)
    assert steer(math.sin(off), math.cos(off)) == action


def corridor() -> np.ndarray:
    """Scores of a free corridor of five rows from west to east; all else is blocked."""
    side = len(Grid.over(EXTENT).score)
    score = np.full((side, side), 3, np.int8)
    middle = side // 2
    score[middle - 2 : middle + 3] = -3
    return score


class Walk:
    """One environment, asked pose by pose."""

    def __init__(self, *, size: int = 0) -> None:
        grid = Grid.over(EXTENT)
        self.origin, side = grid.origin, len(grid.score)
        self.score = np.zeros((1, side, side), np.int8)
        self.home, self.kept, self.begun = (
            np.zeros((1, 2), np.float32),
            np.zeros(1, np.int32),
            np.zeros(1, bool),
        )
        self.size = size

    def ask(
        self, *pose: float, depth: float = 200.0, start: bool = False, turned: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        action, told = np.empty((1, 1, 2), np.int64), np.empty((1, 1, 2, 3), np.float32)
        begins = np.empty((1, 1, self.size, self.size), np.int8)
        lengths = np.empty((1, 1, self.size, self.size), np.float32)
        line = np.full((1, 1, len(TANGENTS)), depth, np.float32)
        where, turns = np.array([[pose]], np.float64), np.array([[turned]], np.float64)
        seen = (line, TANGENTS, where, turns, np.array([[start]]), self.origin, EXTENT)
        guides.advise(
            0, 1, *seen, self.score, self.home, self.kept, self.begun, action, told, begins, lengths
        )
        return action[0, 0], told[0, 0], begins[0, 0], lengths[0, 0]


def test_home_is_where_the_episode_began() -> None:
    walk = Walk()
    action, told, *_ = walk.ask(0.0, 0.0, 0.0)
    assert action[1] == NO_WAY and not told[1].any()  # it is there
    walk.ask(60.0, 0.0, 0.0, depth=140.0)
    action, told, *_ = walk.ask(120.0, 0.0, math.pi / 2, depth=80.0)  # faces north
    assert action[1] == LEFT
    assert told[1, 0] < -0.9 and abs(told[1, 1]) < 0.4
    # 120 map units are 7 or 8 cells, at 16 map units and a cost of 5 each.
    assert told[1, 2] * LONG * UNITS_PER_DECISION == pytest.approx(120.0, abs=SIDE)
    action, *_ = walk.ask(120.0, 0.0, math.pi, depth=240.0)
    assert action[1] in (FORWARD, FORWARD_LEFT, FORWARD_RIGHT)


def test_a_new_episode_forgets() -> None:
    walk = Walk()
    walk.ask(0.0, 0.0, 0.0)
    walk.ask(64.0, 0.0, 0.0, depth=136.0)
    before = walk.score.copy()
    action, *_ = walk.ask(64.0, 0.0, math.pi, start=True)
    assert action[1] == NO_WAY and walk.home[0].tolist() == [64.0, 0.0]
    fresh = Walk()
    fresh.ask(64.0, 0.0, math.pi)
    assert (walk.score == fresh.score).all() and (walk.score != before).any()


def test_outward_leads_to_where_nobody_has_looked() -> None:
    walk = Walk()
    for _ in range(2):
        action, told, *_ = walk.ask(0.0, 0.0, 0.0, depth=40.0)  # a wall 40 units ahead
    assert action[0] != NO_WAY
    assert math.hypot(*told[0, :2]) == pytest.approx(1.0, abs=1e-5) and told[0, 2] > 0


def test_each_cell_of_a_map_tells_how_its_way_begins() -> None:
    """In a corridor from west to east, all ways to the right begin to the right, whatever lies between."""
    side = len(Grid.over(EXTENT).score)
    grid, pose = Grid.over(EXTENT), np.array([0.0, 0.0, math.pi / 2])
    score = corridor()
    room = guides.walkable(score)
    row, column = grid.cell(0.0, 0.0)
    cost, _, gate = guides.travel(room, row, column)
    begins, lengths = np.empty((5, 5), np.int8), np.empty((5, 5), np.float32)
    guides.begin_ways(cost, gate, side, grid.origin, pose, EXTENT, begins, lengths)
    assert begins[2].tolist() == [LEFT, LEFT, NO_WAY, RIGHT, RIGHT]  # the middle is the agent's own
    assert (begins[[0, 4]] == NO_WAY).all()  # 128 units north and south: no way leads there
    cells = lengths[2] * LONG * UNITS_PER_DECISION * COST_PER_UNIT / 5
    assert cells[4] == pytest.approx(128 / SIDE, abs=2.01) and cells[3] < cells[4]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=10)
def test_compiled_loops_equal_plain_python(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = rng.choice(np.array([-3, -1, 0, 2], np.int8), (25, 25), p=[0.5, 0.2, 0.2, 0.1])
    pose = np.array([*rng.uniform(-60, 60, 2), rng.uniform(-3, 3)])
    line = rng.uniform(20, 500, len(TANGENTS)).astype(np.float32)
    told = []
    for function in (guides.advise_once, getattr(guides.advise_once, "py_func", guides.advise_once)):
        ours = score.copy()
        action, ways = np.empty(2, np.int64), np.empty((2, 3), np.float32)
        begins, lengths = np.empty((5, 5), np.int8), np.empty((5, 5), np.float32)
        home = np.array([10.0, -20.0], np.float32)
        kept = function(
            line, TANGENTS, pose, 0.1, -200.0, EXTENT, ours, home, -1, action, ways, begins, lengths
        )
        told.append((kept, ours, action, ways, begins, lengths))
    for compiled, plain in zip(*told, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-6, atol=1e-6)
