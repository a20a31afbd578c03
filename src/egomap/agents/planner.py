"""Planner, the agent that knows the layout: it walks the shortest ways with the five actions, fast and safely.

Input: a layout at the start of an episode, then the pose, decision by decision. Output: an action.
A simple controller aims at a point a little ahead on the way, turns on the spot where it must, and does not push
itself towards an item that it must not touch. Before each decision that controller, after each possible first
action and with several habits, is played to the goal in a model of the player's body (thrust, friction, walls
that stop, the turn that speeds up when held). The shortest future is followed until a shorter one is found, so
each decision can only improve on the controller. What it scores is our measured optimum of the layout.

Convention: world map units, x east, y north, phi counter-clockwise from +x; velocities per tic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from egomap.config import FRAME_SKIP
from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import forbidden_boxes, plan_leg, solid_boxes
from egomap.scenarios.tasks import PLAYER_RADIUS
from egomap.ways.body import (
    COAST,
    FORWARD,
    FORWARD_LEFT,
    FORWARD_RIGHT,
    FRICTION,
    LEFT,
    NO_WALLS,
    REACH,
    RIGHT,
    THRUST,
    Body,
    Box,
    Course,
    Walls,
    move,
)

CORNER = 8.0
"""Map units from a corner within which it counts as reached."""
EXACT = 0.25
"""Map units that a place may differ from what the model said, before the foreseen actions are given up."""
MOST_DECISIONS = 400
"""A future that takes longer is none."""
LOOK_AGAIN = 4
"""Decisions of a walk in the model between two searches: as short within 1 % as with a search before each one, at a
third of the time."""


class Habit(NamedTuple):
    """How the controller follows a way."""

    lookahead: float
    """Map units ahead on the way that it aims at."""
    turn_first: float
    """Radians off the aim beyond which it turns without pushing."""
    straight: float
    """Radians off the aim below which it does not turn."""


HABITS = tuple(
    Habit(lookahead, math.radians(turn_first), math.radians(4))
    for lookahead, turn_first in ((50, 50), (30, 35), (80, 70), (60, 100), (20, 20))
)


def crosses(x: float, y: float, dx: float, dy: float, box: Box) -> bool:
    """Whether the way from (x, y) by (dx, dy) enters the inside of the box (slab test)."""
    enter, leave = 0.0, 1.0
    for start, along, low, high in ((x, dx, box[0], box[2]), (y, dy, box[1], box[3])):
        if abs(along) < 1e-12:
            if not low < start < high:
                return False
            continue
        a, b = (low - start) / along, (high - start) / along
        enter, leave = max(enter, min(a, b)), min(leave, max(a, b))
    return enter < leave


def advance(x: float, y: float, course: Course, segment: int) -> int:
    """The segment of the way that the player is on: the next one once a corner is passed or very near."""
    points = course.points
    while segment + 2 < len(points):
        (ax, ay), (bx, by) = points[segment], points[segment + 1]
        short = (x - bx) * (bx - ax) + (y - by) * (by - ay) < 0
        if short and math.hypot(x - bx, y - by) > CORNER:
            break
        segment += 1
    return segment


def aim(x: float, y: float, course: Course, segment: int, lookahead: float) -> tuple[float, float]:
    """The point `lookahead` units farther along the way than the player."""
    points = course.points
    (ax, ay), (bx, by) = points[segment], points[segment + 1]
    length = math.hypot(bx - ax, by - ay) or 1e-9
    along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length**2
    distance = min(max(along, 0.0), 1.0) * length + lookahead
    while distance > length and segment + 2 < len(points):
        distance -= length
        segment += 1
        (ax, ay), (bx, by) = points[segment], points[segment + 1]
        length = math.hypot(bx - ax, by - ay) or 1e-9
    share = min(distance / length, 1.0)
    return ax + share * (bx - ax), ay + share * (by - ay)


def harmless(body: Body, action: int, forbidden: tuple[Box, ...], frame_skip: int) -> bool:
    """Whether the player, after this action, could still let itself coast to a stop past no forbidden box."""
    if not forbidden:
        return True
    # Whatever it does, it comes no farther than this along each axis, and most boxes lie beyond.
    x, y, push = body.x, body.y, frame_skip * THRUST
    across, along = (abs(body.vx) + push) * COAST, (abs(body.vy) + push) * COAST
    near = [
        box
        for box in forbidden
        if box[0] - across < x < box[2] + across and box[1] - along < y < box[3] + along
    ]
    if not near:
        return True
    free, _ = move(body, action, OPEN, frame_skip)
    for box in near:
        if crosses(body.x, body.y, free.x - body.x, free.y - body.y, box):
            return False
        if crosses(free.x, free.y, free.vx * COAST, free.vy * COAST, box):
            return False
    return True


OPEN = Course(((math.inf, math.inf),), NO_WALLS, (), math.inf)


def control(body: Body, course: Course, segment: int, habit: Habit, frame_skip: int) -> int:
    """The controller's action: turn towards the aim, push where that helps and does no harm."""
    ax, ay = aim(body.x, body.y, course, segment, habit.lookahead)
    # Where the player will be if it only coasts a little: steering looks from there.
    dx, dy = ax - body.x - body.vx * 2, ay - body.y - body.vy * 2
    off = math.remainder(math.atan2(dy, dx) - body.heading, math.tau)
    wishes: tuple[int, ...]
    if abs(off) > habit.turn_first:
        wishes = (LEFT,) if off > 0 else (RIGHT,)
    elif abs(off) < habit.straight:
        wishes = (FORWARD, LEFT)
    elif off > 0:
        wishes = (FORWARD_LEFT, FORWARD, LEFT)
    else:
        wishes = (FORWARD_RIGHT, FORWARD, RIGHT)
    for wish in wishes[:-1]:
        if harmless(body, wish, course.forbidden, frame_skip):
            return wish
    return wishes[-1]


def observed(expected: Body | None, x: float, y: float, heading: float, frame_skip: int) -> tuple[Body, bool]:
    """The body at this pose, and whether it is where it was expected.

    Its velocity is the model's, corrected by how far it really went; a body of which nothing was expected stands.
    """
    if expected is None:
        return Body(x, y, 0.0, 0.0, heading, 0), True
    if math.hypot(x - expected.x, y - expected.y) < EXACT:
        return expected._replace(x=x, y=y, heading=heading), True
    fade = FRICTION**frame_skip
    per_unit = fade / ((1 - fade) * COAST)
    vx = expected.vx + per_unit * (x - expected.x)
    vy = expected.vy + per_unit * (y - expected.y)
    return Body(x, y, vx, vy, heading, expected.held), False


class Route:
    """One episode: the legs of the way, which of them is being walked, and the actions foreseen for it."""

    def __init__(self, layout: Layout, frame_skip: int = FRAME_SKIP) -> None:
        self._frame_skip = frame_skip
        self._layout = layout
        self._leg = -1
        self._goal = layout.center(layout.start)
        self._course = OPEN
        self._segment = 0
        self._future: list[int] = []
        self._expected: Body | None = None

    def act(self, pose: np.ndarray) -> int:
        """The action to take at `pose`."""
        body = self._observe(*(float(value) for value in pose))
        last = self._leg + 1 == len(self._layout.goals)
        if self._leg < 0 or (not last and _touches(body.x, body.y, self._goal)):
            self._leg += 1
            self._set_course(body)
        self._segment = advance(body.x, body.y, self._course, self._segment)
        best = self._best(body, self._course)
        if not best:  # carried off the way, perhaps to the wrong side of an item: another way begins here
            self._set_course(body)
            best = self._best(body, self._course)
        self._future = best[1:]
        action = best[0] if best else self._blindly(body)
        self._expected, _ = move(body, action, self._course, self._frame_skip)
        return action

    def decisions_to(self, leg: int, body: Body) -> int | None:
        """How many decisions the planner takes from `body` to goal `leg` in the model; None if it finds no way."""
        self._leg = leg
        try:
            self._set_course(body)
        except ValueError:  # the player is at a place from which no path starts
            return None
        for decision in range(MOST_DECISIONS):
            self._segment = advance(body.x, body.y, self._course, self._segment)
            if decision % LOOK_AGAIN == 0:
                self._future = self._best(body, self._course)
            if not self._future:
                return None
            action, *self._future = self._future
            body, touched = move(body, action, self._course, self._frame_skip)
            if touched:
                return decision + 1
        return None

    def _set_course(self, body: Body) -> None:
        layout, leg = self._layout, self._leg
        self._goal = layout.center(layout.goals[leg])
        ahead = plan_leg(layout, leg, (body.x, body.y))
        self._course = Course(
            (*ahead.points, self._goal),
            Walls(_boxes(solid_boxes(layout, leg))),
            _boxes(forbidden_boxes(layout, leg, ahead.clearance.items)),
            layout.size * layout.cell / 2 - PLAYER_RADIUS,
        )
        self._segment = 0
        self._future = []

    def _observe(self, x: float, y: float, heading: float) -> Body:
        """The body at this pose; what was foreseen is given up where something was in the way."""
        body, exact = observed(self._expected, x, y, heading, self._frame_skip)
        if not exact:
            self._future = []
        return body

    def _best(self, body: Body, course: Course) -> list[int]:
        """The shortest future found: the one foreseen before, unless another is shorter; [] if there is none."""
        best = self._future
        firsts = [action for action in range(5) if not best or action != best[0]]
        options: list[tuple[int | None, Habit]] = [
            (action, HABITS[0]) for action in firsts if self._harmless(body, action, course)
        ]
        options += [(None, habit) for habit in HABITS[1:]]
        for first, habit in options:
            future = self._foresee(body, course, first, habit, limit=len(best) or MOST_DECISIONS)
            if future:
                best = future
        return best

    def _blindly(self, body: Body) -> int:
        return control(body, self._course, self._segment, HABITS[-1], self._frame_skip)

    def _harmless(self, body: Body, action: int, course: Course) -> bool:
        return harmless(body, action, course.forbidden, self._frame_skip)

    def _foresee(
        self, body: Body, course: Course, first: int | None, habit: Habit, *, limit: int
    ) -> list[int]:
        """The controller's actions up to the goal, after `first`; [] if that takes `limit` decisions or more."""
        segment, skip, actions = self._segment, self._frame_skip, []
        for _ in range(limit - 1):
            action = control(body, course, segment, habit, skip) if first is None else first
            first = None
            actions.append(action)
            body, touched = move(body, action, course, skip)
            if touched:
                return actions
            segment = advance(body.x, body.y, course, segment)
        return []


class PlannerAgent:
    """Plays any number of environments, each by its own route."""

    def __init__(self, frame_skip: int = FRAME_SKIP) -> None:
        self._frame_skip = frame_skip
        self._routes: dict[int, Route] = {}

    def begin(self, index: int, layout: Layout | None, seed: int) -> None:
        """Environment `index` begins an episode in `layout`."""
        if layout is None:
            raise ValueError("the planner needs the layout, and these scenario files come without one.")
        self._routes[index] = Route(layout, self._frame_skip)

    def act(self, index: int, pose: np.ndarray) -> int:
        """The action of environment `index`, which stands at `pose` (x, y, phi)."""
        return self._routes[index].act(pose)


def _touches(x: float, y: float, goal: tuple[float, float]) -> bool:
    return abs(x - goal[0]) < REACH and abs(y - goal[1]) < REACH


def _boxes(array: np.ndarray) -> tuple[Box, ...]:
    return tuple((row[0], row[1], row[2], row[3]) for row in array.tolist())
