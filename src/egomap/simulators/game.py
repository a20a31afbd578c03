"""The rules of our tasks without an engine: a player walks in a layout, touches goals, and is paid.

What comes in: a layout, a heading, an action for each decision. What goes out: where the player is, what was paid and
how the episode stands. The body is the one measured in Doom (`egomap.ways.body`), the goals and rewards are those of
the table in `egomap.scenarios.tasks`; so an episode here and one in Doom differ in their pictures alone.

Convention: world map units, x east, y north, phi counter-clockwise from +x, radians.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from egomap.config import FRAME_SKIP
from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import solid_boxes
from egomap.scenarios.tasks import (
    EPISODE_TICS,
    FAMILIES,
    LIVING_REWARD,
    PLAYER_RADIUS,
    TOUCH_DISTANCE,
    player_start,
)
from egomap.ways.body import PUSH_OF, Body, Course, Walls, move

NOWHERE = (math.inf, math.inf)
SLIP = 0.01
"""Map units."""


class Turn(NamedTuple):
    """What one decision led to."""

    reward: float
    solved: bool = False
    failed: bool = False
    timed_out: bool = False


class Game:
    """One episode.

    Args:
        layout: Where, and which task.
        heading: Of the player at the start.
        frame_skip: Tics for which an action is held.
    """

    def __init__(self, layout: Layout, heading: float, frame_skip: int = FRAME_SKIP) -> None:
        self.layout, self._frame_skip = layout, frame_skip
        self._family = FAMILIES[layout.task]
        self._rewards = self._family.rewards(len(layout.goals))
        self._places = [layout.center(goal) for goal in layout.goals]
        solid = solid_boxes(layout, leg=len(layout.goals)).tolist()  # walls, and every pillar
        self._course = Course(
            (NOWHERE,),
            Walls(tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in solid)),
            (),
            layout.size * layout.cell / 2 - PLAYER_RADIUS,
        )
        x, y = player_start(layout)
        self.body = Body(x, y, 0.0, 0.0, heading, 0)
        self.reached, self.tics = 0, 0

    @property
    def present(self) -> list[int]:
        """The goals that can be touched now."""
        hidden = self._family.hides_last and self.reached + 1 < len(self._places)
        return list(range(self.reached, len(self._places) - hidden))

    @property
    def standing(self) -> list[int]:
        """The goals that can be seen: pillars stay, an item is gone once it is taken."""
        return list(range(0 if self._family.hides_last else self.reached, len(self._places)))

    def play(self, action: int) -> Turn:
        """Hold an action for the tics of one decision, or to the end of the episode."""
        reward = 0.0
        for _ in range(self._frame_skip):
            self.body = self._moved(action)
            self.tics += 1
            reward += LIVING_REWARD
            touched = next((goal for goal in self.present if self._touches(goal)), None)
            if touched is not None and touched != self.reached:
                assert self._family.wrong_reward is not None
                # An end takes effect in the next tic, which is lived through, too.
                return Turn(reward + self._family.wrong_reward + LIVING_REWARD, failed=True)
            if touched is not None:
                reward += self._rewards[touched]
                self.reached += 1
            if self.reached == len(self._places):
                return Turn(reward + LIVING_REWARD, solved=True)
            if self.tics >= EPISODE_TICS:
                return Turn(reward, timed_out=True)
        return Turn(reward)

    def _moved(self, action: int) -> Body:
        """The body after a tic; who runs into a corner, as of the pillar at the start, slides past it as in Doom."""
        before = self.body
        after, _ = move(before, action, self._course, 1)
        stuck = PUSH_OF[action] and (after.x, after.y) == (before.x, before.y)
        if not stuck:
            return after
        beside = before._replace(y=before.y + math.copysign(SLIP, math.sin(after.heading)))
        inside = any(
            x0 < beside.x < x1 and y0 < beside.y < y1
            for x0, y0, x1, y1 in self._course.walls.near(beside.x, beside.y)
        )
        if inside or abs(beside.y) > self._course.half:
            return after  # a wall
        return move(beside, action, self._course, 1)[0]

    def _touches(self, goal: int) -> bool:
        x, y = self._places[goal]
        return abs(self.body.x - x) < TOUCH_DISTANCE and abs(self.body.y - y) < TOUCH_DISTANCE
