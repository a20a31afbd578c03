"""Legs: the ways to an episode's goals, one after the other, and how directly each of them was walked.

Input: the poses and rewards of a played episode (`egomap.mazes.tracks` records them) and its layout.
Output: a `Leg` for each goal that was tried: how many decisions it took, how many the planner takes from the
pose where it began, how many of the cells entered were entered before, and when its goal was first seen. The leg back
to the start is the one that needs memory. Pure functions.

Convention: a pose is (x, y, phi), world map units, phi counter-clockwise from +x; decision t was made at pose t.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from egomap.agents.planner import MOST_DECISIONS, Route
from egomap.config import FRAME_SKIP, Camera
from egomap.evaluation.watching import Leg
from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import in_sight, plan_leg, wall_boxes
from egomap.scenarios.tasks import TOUCH_DISTANCE, goal_looks
from egomap.ways.body import FRICTION, Body


class Track(NamedTuple):
    """What was recorded of an episode of T decisions."""

    layout: Layout
    poses: np.ndarray
    """(T, 3): where each decision was made, without the noise of the observations."""
    rewards: np.ndarray
    """(T,): what it paid."""
    timed_out: bool
    """Whether time ended the episode."""


class Span(NamedTuple):
    """From the first decision of a leg to the one after its last."""

    begin: int
    end: int
    finished: bool


def legs_of(track: Track, camera: Camera, *, frame_skip: int = FRAME_SKIP) -> tuple[Leg, ...]:
    """The legs of an episode: all that were finished, and the one during which it ended.

    Args:
        track: What happened.
        camera: What the agent saw with, for when a goal was seen.
        frame_skip: Tics of one decision.
    """
    return tuple(_leg(track, goal, span, camera, frame_skip) for goal, span in enumerate(spans(track)))


def spans(track: Track) -> list[Span]:
    """When each leg was walked.

    A goal is reached where a reward is positive: living costs, and a goal touched out of order costs, too.
    """
    paid = [int(decision) + 1 for decision in np.flatnonzero(track.rewards > 0)]
    goals, last = len(track.layout.goals), len(track.rewards)
    ends = paid[:goals]
    found = [Span(begin, end, True) for begin, end in itertools.pairwise([0, *ends])]
    begin = ends[-1] if ends else 0
    if len(ends) < goals and begin < last:
        found.append(Span(begin, last, False))
    return found


def _leg(track: Track, goal: int, span: Span, camera: Camera, frame_skip: int) -> Leg:
    poses, layout, (begin, end, finished) = track.poses, track.layout, span
    best = None
    if finished or end - begin < MOST_DECISIONS:
        best = Route(layout, frame_skip).decisions_to(goal, body_at(poses, begin, frame_skip))
    cut = not finished and track.timed_out and best is not None and end - begin < best
    seen = first_seen(poses[:end], layout, goal, camera)
    ways = None
    if finished and seen is not None:
        ways = walked_and_shortest(poses[max(seen, begin) : end], layout, goal)
    return Leg(
        goal=goal_looks(layout)[goal].name,
        began=begin,
        decisions=end - begin,
        finished=finished,
        optimum=best,
        in_time=not cut,
        revisited=revisited(poses[begin : end + 1], layout),
        seen=seen,
        walked=None if ways is None else ways[0],
        shortest=None if ways is None else ways[1],
    )


def body_at(poses: np.ndarray, decision: int, frame_skip: int = FRAME_SKIP) -> Body:
    """The player's body when a decision was made.

    Its velocity is the mean one over the decision before, faded by one tic of friction: exact for a steady walk. How
    long a turn had been held is not known, so it counts as not held.
    """
    x, y, heading = (float(value) for value in poses[decision])
    before = poses[max(decision - 1, 0)]
    vx, vy = ((x - before[0]) * FRICTION / frame_skip, (y - before[1]) * FRICTION / frame_skip)
    return Body(x, y, float(vx), float(vy), heading, 0)


def revisited(walk: np.ndarray, layout: Layout) -> float | None:
    """Share of the entries into cells that are into cells where this walk has been; None if it stays in one cell."""
    cells = [cell for cell, _ in itertools.groupby(layout.cell_at(x, y) for x, y, _ in walk.tolist())]
    return None if len(cells) < 2 else 1 - (len(set(cells)) - 1) / (len(cells) - 1)


def first_seen(poses: np.ndarray, layout: Layout, goal: int, camera: Camera) -> int | None:
    """The first pose from which the middle of a goal is in view and hidden by no wall; None if there is none."""
    x, y = layout.center(layout.goals[goal])
    dx, dy, phi = x - poses[:, 0], y - poses[:, 1], poses[:, 2]
    ahead = dx * np.cos(phi) + dy * np.sin(phi)
    right = dx * np.sin(phi) - dy * np.cos(phi)
    column = camera.cx * ahead + camera.fx * right  # times `ahead`, which may be 0
    inside = np.flatnonzero((ahead > 0) & (column >= 0) & (column < camera.width * ahead))
    seen = inside[in_sight((x, y), poses[inside, :2], wall_boxes(layout, 0.0))]
    return int(seen[0]) if len(seen) else None


def walked_and_shortest(walk: np.ndarray, layout: Layout, goal: int) -> tuple[float, float] | None:
    """Map units of a walk up to where a goal is touched, and of the shortest way; None where no way begins.

    The pose at the touch is not known, for a decision is several tics long and the engine shows nothing after the
    last one of an episode. So the walk ends with a straight line from the pose of the decision that led to it.
    """
    x, y = layout.center(layout.goals[goal])
    rest = [max(abs(a - b) - TOUCH_DISTANCE + 1.0, 0.0) for a, b in zip(walk[-1, :2], (x, y), strict=True)]
    try:
        shortest = plan_leg(layout, goal, (float(walk[0, 0]), float(walk[0, 1]))).length
    except ValueError:  # by rounding, because the agent has walked there
        return None
    return float(np.hypot(*np.diff(walk[:, :2], axis=0).T).sum() + math.hypot(*rest)), shortest
