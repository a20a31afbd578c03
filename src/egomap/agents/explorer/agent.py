"""Explorer, the agent that knows only what it has seen: the best frontier first, then the shortest known way.

Input: observations and rewards, never a layout. Output: an action. It knows the rules of the task
(what the goals look like and in which order they count) and remembers free space, walls and goals from depth, colours
and pose. What it scores is the honest optimum under partial sight, where the Planner's, which knows the maze, is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from egomap.agents.explorer.things import Things
from egomap.agents.explorer.walker import HABIT, Walker, Ways
from egomap.agents.planner import Habit
from egomap.config import FRAME_SKIP, Camera
from egomap.ways.body import Box

PAID = 0.3
"""A reward above this is a goal's."""
KEEP = 0.4
"""A frontier that was chosen is given up only for one whose price is less than this part of its own."""
TOUCH = 36.0
"""Map units from an item, along each axis, within which it is touched."""
BERTH = 5.0
"""Map units more that are kept from an item that must not be touched."""
BERTHS = (8.0, 0.0, -BERTH)
"""Map units by which forbidden boxes are grown, the next where no way is left."""
STANDSTILL = 8
"""Decisions without a move after which an item is passed with no berth: coasting may have led to its edge."""
PATIENCE = 4
"""Decisions within TOUCH of a goal after which it is not there; the reward comes a decision after the touch."""
WAY = 128.0
"""Map units along the chosen way to the point that defines its direction: a cell of our mazes."""


class Intent(NamedTuple):
    """What the Explorer keeps in mind beside what it has seen."""

    target: int | None
    """The frontier cell (flat index) that it chose last."""
    turning: int
    """The turn that it has begun: 1 left, -1 right, 0 none."""


class Choice(NamedTuple):
    """What the Explorer decides, before it does it."""

    action: int
    point: tuple[float, float] | None
    """A point of the chosen way, `WAY` map units along it or at its end; None if no way is known."""
    target: int | None
    """The frontier cell to keep in mind."""


class _Outlook(NamedTuple):
    """What follows from all that was seen so far."""

    goal: tuple[float, float] | None
    forbidden: tuple[Box, ...]
    ways: Ways


class Search:
    """One episode of the Explorer.

    Args:
        looks: What the goals look like, in the order in which they count.
        returns: Whether the last goal stands where the episode began.
        careful: Whether a goal out of order must not be touched; goals vanish when they are touched.
        camera: Of the observations.
        extent: Side of the arena.
        frame_skip: Tics for which an action is held.
        habit: How it steers.
    """

    def __init__(
        self,
        looks: tuple[str, ...],
        camera: Camera,
        extent: float,
        *,
        returns: bool = False,
        careful: bool = False,
        frame_skip: int = FRAME_SKIP,
        habit: Habit = HABIT,
    ) -> None:
        self.walker = Walker(camera, extent, frame_skip, habit)
        self.things = Things(looks)
        self.leg = 0
        self._goals, self._returns, self._careful = len(looks), returns, careful
        self.home: tuple[float, float] | None = None
        """Where the episode began."""
        self._outlook: _Outlook | None = None
        self._target: int | None = None
        self._waited = 0
        self._stood = 0

    def act(self, rgb: np.ndarray, depth: np.ndarray, pose: np.ndarray, reward: float) -> int:
        """The action at this observation, taken; `reward` is what the action before brought."""
        self.see(rgb, depth, pose, reward)
        return self.take(self.choose())

    def see(self, rgb: np.ndarray, depth: np.ndarray, pose: np.ndarray, reward: float) -> None:
        """Take an observation in; `reward` is what the action before brought."""
        x, y, phi = (float(value) for value in pose)
        if self.home is None:
            self.home = x, y
        moved = max(abs(x - self.walker.body.x), abs(y - self.walker.body.y)) > 1.0
        self._stood = 0 if moved else self._stood + 1
        if reward > PAID and self.leg + 1 < self._goals:
            if self._careful:
                self.things.taken(self.leg, x, y)
            self.leg += 1
            self._target, self._waited = None, 0
        self.walker.see(depth, (x, y, phi))
        self.things.see(rgb, depth, (x, y, phi), self.walker.tangents)
        self._doubt()
        self._outlook = self._look_out(self._forbidden(), self.goal())

    def _look_out(self, forbidden: tuple[Box, ...], goal: tuple[float, float] | None) -> _Outlook:
        """The ways from here, as far from the forbidden boxes as one can go: a narrow passage may lead along one."""
        for berth in BERTHS:
            ways = self.walker.ways(goal, _grown(forbidden, berth))
            leads = goal is not None and self._cell_of(ways, goal) is not None
            if not forbidden or leads or self.walker.frontier(ways).any():
                break
        return _Outlook(goal, _grown(forbidden, min(berth, 0.0)), ways)

    @property
    def intent(self) -> Intent:
        """What it keeps in mind now."""
        return Intent(self._target, self.walker.turning)

    def choose(self, intent: Intent | None = None) -> Choice:
        """What to do after `see`, with its own intent or with another one; changes nothing."""
        assert self._outlook is not None, "see() comes first"
        goal, forbidden, ways = self._outlook
        kept, turning = self.intent if intent is None else intent
        target = self._cell_of(ways, goal) if goal is not None else None
        if target is None:
            target = kept = self._next_frontier(ways, kept, turning)
        if target is None:  # everything seen and still not there
            return Choice(0, None, None)
        straight = (
            self.things.where(self.leg) is not None
        )  # the way home may lead around a wall, however near it is
        if straight and goal is not None and target == self._flat(goal) and self._near(goal):
            return Choice(self.walker.action_to(goal, forbidden), goal, kept)
        action = self.walker.action_to(self.walker.aim_at(ways, target), forbidden)
        return Choice(action, self.walker.point_along(ways, target, WAY), kept)

    def take(self, choice: Choice) -> int:
        """Do what was chosen, or keep what was chosen in mind and do another action; returns the action."""
        self._target = choice.target
        if choice.point is None:
            self.walker.forget()  # look again
        return self.walker.took(choice.action)

    def goal(self) -> tuple[float, float] | None:
        """Where the next goal is, if it has been seen; home is known from the start."""
        found = self.things.where(self.leg)
        if found is None and self._returns and self.leg == self._goals - 1:
            return self.home
        return found

    def _doubt(self) -> None:
        """Dismiss a goal that would have been touched by now, if it were where it seems to be."""
        place, body = self.things.where(self.leg), self.walker.body
        here = place is not None and max(abs(place[0] - body.x), abs(place[1] - body.y)) < TOUCH - BERTH
        self._waited = self._waited + 1 if here else 0
        if self._waited > PATIENCE:
            self.things.dismiss(self.leg)
            self._waited = 0
        if self._careful and self._stood > STANDSTILL:  # an item that is here would have ended the episode
            self.things.dismiss_around(body.x, body.y, TOUCH - BERTH)

    def _forbidden(self) -> tuple[Box, ...]:
        """Boxes around the items that must not be touched now: all but the goal, whatever they seem to be."""
        if not self._careful:
            return ()
        reach = TOUCH if self._stood > STANDSTILL else TOUCH + BERTH
        goal = self.things.where(self.leg)
        others = [(x, y) for _, x, y in self.things.kinds() if (x, y) != goal]
        return tuple((x - reach, y - reach, x + reach, y + reach) for x, y in others)

    def _flat(self, place: tuple[float, float]) -> int:
        row, column = self.walker.grid.cell(*place)
        return row * len(self.walker.grid.score) + column

    def _near(self, place: tuple[float, float]) -> bool:
        body = self.walker.body
        return max(abs(place[0] - body.x), abs(place[1] - body.y)) < 64.0

    def _cell_of(self, ways: Ways, place: tuple[float, float]) -> int | None:
        cell = self._flat(place)
        return cell if ways.cost[cell] >= 0 else None

    def _next_frontier(self, ways: Ways, kept: int | None, turning: int) -> int | None:
        """The frontier cell that is worth most; a chosen one is kept while it is one and none is much better."""
        edge = self.walker.frontier(ways)
        cells = np.flatnonzero(edge)
        if not len(cells):
            return None
        price = self.walker.prices(ways, cells, turning)
        if kept is not None:
            side = ways.room.shape[0]
            row, column = divmod(kept, side)
            rows, columns = np.divmod(cells, side)
            price = price * np.where(np.maximum(abs(rows - row), abs(columns - column)) <= 2, KEEP, 1.0)
        return int(cells[price.argmin()])


def _grown(boxes: tuple[Box, ...], by: float) -> tuple[Box, ...]:
    return tuple((x0 - by, y0 - by, x1 + by, y1 + by) for x0, y0, x1, y1 in boxes)
