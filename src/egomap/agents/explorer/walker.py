"""The walker: it knows the ways that its depth images have shown and walks them with the five actions.

Input: depth and pose, decision by decision, and a place to go to. Output: an action. It remembers what
is free and what is blocked, plans over that alone, and steers by the planner's controller. Where to go is for others
to say: the Explorer's frontier, or an agent that chooses places on its map.

Convention: as `grid`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from egomap.agents.planner import OPEN, Habit, control, observed
from egomap.config import Camera
from egomap.ways.body import NO_WALLS, TURN_OF, Body, Box, Course, move
from egomap.ways.grid import (
    LOOKAHEAD,
    ROOMY,
    SHUT,
    SIDE,
    SIGHT,
    Grid,
    ahead,
    along,
    frontier,
    look,
    travel,
    walkable,
)
from egomap.ways.prospects import prices

HABIT = Habit(lookahead=1e9, turn_first=math.radians(50), straight=math.radians(4))
TEACHING = HABIT._replace(straight=math.radians(12))
"""For imitation: it goes straight on unless the direction is clearly off. Within a few degrees left or right is a
matter of rounding, which cannot be learned."""
REACH = 2
"""Cells around a place to go to that count as free: a goal may be a thing that blocks the way."""


class Ways(NamedTuple):
    """What can be walked to from where the agent stands."""

    room: np.ndarray
    """(N, N) uint8 from `grid.walkable`."""
    cost: np.ndarray
    """(N * N,) int32 cost of the cheapest way; -1 where there is none."""
    parent: np.ndarray
    gate: np.ndarray
    start: tuple[int, int]


class Walker:
    """One agent's memory of free and blocked places, and its steering.

    Args:
        camera: Of the observations.
        extent: Side of the arena, around the world's origin.
        frame_skip: Tics for which an action is held.
        habit: How it steers.
    """

    def __init__(self, camera: Camera, extent: float, frame_skip: int, habit: Habit = HABIT) -> None:
        self._habit = habit
        self.grid = Grid.over(extent)
        self._frame_skip = frame_skip
        self._horizon = int(camera.cy) - 1  # the row just above the horizon sees neither floor nor ceiling
        columns = np.arange(camera.width)
        self.tangents = (columns + 0.5 - camera.cx) / camera.fx
        self._expected: Body | None = None
        self._turning = 0
        self.body = Body(0.0, 0.0, 0.0, 0.0, 0.0, 0)

    def see(self, depth: np.ndarray, pose: tuple[float, float, float]) -> None:
        """Take in a view: depth (H, W) and the pose that it was taken from."""
        self.body, _ = observed(self._expected, *pose, self._frame_skip)
        look(self.grid.score, self.grid.origin, *pose, depth[self._horizon], self.tangents, SIGHT)
        # The body's own cell is free, whatever was seen of walls beside it.
        row, column = self.grid.cell(pose[0], pose[1])
        self.grid.score[row, column] = -6

    def forget(self) -> None:
        """Nothing is known any more."""
        self.grid.score[:] = 0

    def ways(self, goal: tuple[float, float] | None = None, forbidden: tuple[Box, ...] = ()) -> Ways:
        """The ways from here; a goal that blocks its place is free with its surroundings, forbidden boxes are not."""
        grid = self.grid
        room = walkable(grid.score)
        for x0, y0, x1, y1 in forbidden:
            (r0, c0), (r1, c1) = grid.cell(x0, y0), grid.cell(x1, y1)
            room[r0 : r1 + 1, c0 : c1 + 1] = SHUT
        if goal is not None:
            row, column = grid.cell(*goal)
            reach = REACH if grid.score[row, column] >= 0 else 0  # where one has stood nothing is in the way
            room[max(row - reach, 0) : row + reach + 1, max(column - reach, 0) : column + reach + 1] = ROOMY
        start = grid.cell(self.body.x, self.body.y)
        return Ways(room, *travel(room, *start), start)

    def frontier(self, ways: Ways) -> np.ndarray:
        """(N * N,) bool cells at the end of the known free space."""
        return frontier(self.grid.score, ways.room, ways.cost)

    @property
    def turning(self) -> int:
        """Which way it turned in the decision before: 1 left, -1 right, 0 not at all."""
        return self._turning

    def prices(self, ways: Ways, cells: np.ndarray, turning: int) -> np.ndarray:
        """The price of each of these frontier cells: decisions until it shows the unknown, for how much there is.

        `turning` is the turn that has begun already.
        """
        row, column = ways.start
        return prices(
            self.grid.score,
            ways.cost,
            ways.parent,
            ways.gate,
            row * ways.room.shape[0] + column,
            cells,
            self.grid.origin,
            *self._stance(),
            turning,
        )

    def _stance(self) -> tuple[float, float, float]:
        return self.body.x, self.body.y, self.body.heading

    def aim_at(self, ways: Ways, target: int) -> tuple[float, float]:
        """The point of the way to cell `target` (flat index) that can be steered to straight from here."""
        cell = ahead(ways.room, ways.parent, *ways.start, target, LOOKAHEAD)
        return self.grid.center(*divmod(int(cell), ways.room.shape[0]))

    def point_along(self, ways: Ways, target: int, length: float) -> tuple[float, float]:
        """The point `length` map units from here on the way to cell `target`, or the cell itself if it is nearer."""
        side = ways.room.shape[0]
        cell = along(ways.parent, side, ways.start[0] * side + ways.start[1], target, length / SIDE)
        return self.grid.center(*divmod(int(cell), side))

    def steer(self, point: tuple[float, float], forbidden: tuple[Box, ...] = ()) -> int:
        """Take the action that leads straight to a point."""
        return self.took(self.action_to(point, forbidden))

    def action_to(self, point: tuple[float, float], forbidden: tuple[Box, ...] = ()) -> int:
        """The action that would lead straight to a point; it is not taken yet."""
        body = self.body
        course = Course(((body.x, body.y), point), NO_WALLS, forbidden, math.inf)
        return control(body, course, 0, self._habit, self._frame_skip)

    def took(self, action: int) -> int:
        """Record the action that is taken from here; returns it."""
        self._turning = TURN_OF[action]
        self._expected, _ = move(self.body, action, OPEN, self._frame_skip)
        return action
