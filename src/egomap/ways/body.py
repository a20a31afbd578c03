"""The player's body: how it turns, walks, coasts and stops at walls, as measured in the engine.

Input: a body, an action, what is in the way. Output: the body after some tics. The planner foresees
with it, and simulators other than Doom move their players by it.

Convention: world map units, x east, y north, phi counter-clockwise from +x; velocities per tic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LEFT, RIGHT, FORWARD, FORWARD_LEFT, FORWARD_RIGHT = range(5)
TURN_OF = (1, -1, 0, 1, -1)
PUSH_OF = (0, 0, 1, 1, 1)

# The player's body, as measured in the engine.
THRUST = 0.78125
FRICTION = 0.90625
TOP_SPEED = THRUST / (1 - FRICTION)
COAST = 1 / (1 - FRICTION)
"""How far a velocity of 1 carries until the player stands."""
SLOW_TURN = math.radians(1.7578125)
SLOW_TURN_TICS = 5

REACH = 35.0
"""How near, along both axes, a goal counts as touched: a unit less than the engine requires
(`egomap.scenarios.tasks.TOUCH_DISTANCE`), to be sure of it."""
PLACE = 32
"""Side of the squares that walls are sorted by."""

Box = tuple[float, float, float, float]


class Body(NamedTuple):
    """The player: place, velocity, heading, and for how many tics a turn has been held."""

    x: float
    y: float
    vx: float
    vy: float
    heading: float
    held: int


class Walls:
    """Boxes that stop the player's centre, sorted by place: a decision meets only what is near."""

    def __init__(self, boxes: tuple[Box, ...] = ()) -> None:
        self._boxes = boxes
        self._near: dict[tuple[int, int], list[Box]] = {}

    def near(self, x: float, y: float) -> list[Box]:
        """All boxes within 36 units along both axes (no decision leads farther), and perhaps some more."""
        place = (int(x // PLACE), int(y // PLACE))
        found = self._near.get(place)
        if found is None:
            left, bottom = place[0] * PLACE - 36, place[1] * PLACE - 36
            right, top = left + PLACE + 72, bottom + PLACE + 72
            found = self._near[place] = [
                box
                for box in self._boxes
                if box[0] < right and box[2] > left and box[1] < top and box[3] > bottom
            ]
        return found


NO_WALLS = Walls()


class Course(NamedTuple):
    """One leg as the controller needs it."""

    points: tuple[tuple[float, float], ...]
    """Corners of the way, the goal last."""
    walls: Walls
    forbidden: tuple[Box, ...]
    """Boxes that it must not enter."""
    half: float
    """The centre stays within |x|, |y| <= half."""


def move(body: Body, action: int, course: Course, frame_skip: int) -> tuple[Body, bool]:
    """The body after one decision, and whether the goal was touched."""
    x, y, vx, vy, heading, held = body
    turn, push, half = TURN_OF[action], THRUST * PUSH_OF[action], course.half
    (goal_x, goal_y), touched = course.points[-1], False
    walls = course.walls.near(x, y)
    push_x, push_y = push * math.cos(heading), push * math.sin(heading)
    for _ in range(frame_skip):
        if turn:
            held += 1
            heading += turn * (SLOW_TURN if held <= SLOW_TURN_TICS else 2 * SLOW_TURN)
            if push:
                push_x, push_y = push * math.cos(heading), push * math.sin(heading)
        else:
            held = 0
        vx += push_x
        vy += push_y
        new_x, new_y = x + vx, y + vy
        if abs(new_x) > half:
            new_x, vx = math.copysign(half, new_x), 0.0
        if abs(new_y) > half:
            new_y, vy = math.copysign(half, new_y), 0.0
        for x0, y0, x1, y1 in walls:  # a body slides along a wall: only the motion into it is lost
            if x0 < new_x < x1 and y0 < new_y < y1:
                if not x0 < x < x1:
                    new_x, vx = x, 0.0
                if not y0 < y < y1:
                    new_y, vy = y, 0.0
        x, y = new_x, new_y
        vx *= FRICTION
        vy *= FRICTION
        touched = touched or (abs(x - goal_x) < REACH and abs(y - goal_y) < REACH)
    return Body(x, y, vx, vy, heading, min(held, SLOW_TURN_TICS)), touched
