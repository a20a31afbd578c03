"""What is recorded of a decision: the observation, and labels of what an explorer must know there.

Input: a `Search` that has seen the observation, and the pose. Output: one row of each array of
`ARRAYS`. Pure functions; no engine and no file.

Convention: directions are unit vectors (right, ahead) in the agent's frame; NaN where there is none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from egomap.agents.explorer.agent import Choice, Intent, Search
from egomap.config import OBSERVATION_HEIGHT, OBSERVATION_WIDTH

HOME_UNIT = 600.0
"""Map units that the way home is divided by."""
NEAREST = 1.0
"""Map units below which a point has no direction."""


class Column(NamedTuple):
    """An array of a recording."""

    shape: tuple[int, ...]
    """Of one decision."""
    dtype: type


ARRAYS: dict[str, Column] = {
    "rgb": Column((3, OBSERVATION_HEIGHT, OBSERVATION_WIDTH), np.uint8),
    "depth": Column((OBSERVATION_HEIGHT, OBSERVATION_WIDTH), np.uint8),  # index into the rendering's depths
    "pose": Column((3,), np.float32),
    "ego_motion": Column((3,), np.float32),
    "episode_start": Column((), np.bool_),
    "episode": Column((), np.int32),  # running number, unique in the recording
    "layout": Column((), np.int32),
    "taken": Column((), np.uint8),  # the action that was executed, a random one in a burst
    "action": Column((), np.uint8),  # the Explorer's
    "way": Column((2,), np.float32),
    "home": Column((2,), np.float32),
    "seen": Column((), np.bool_),
    "goal": Column((2,), np.float32),
    "action_without_target": Column((), np.uint8),
    "way_without_target": Column((2,), np.float32),
    "action_without_intent": Column((), np.uint8),
    "way_without_intent": Column((2,), np.float32),
}
"""Everything that is kept of a decision."""

Row = dict[str, int | bool | tuple[float, float]]
NOWHERE = (math.nan, math.nan)


def in_agent_frame(pose: tuple[float, float, float], point: tuple[float, float]) -> tuple[float, float]:
    """(right, ahead) of a point for an agent at `pose` (x, y, phi counter-clockwise from east)."""
    x, y, phi = pose
    east, north = point[0] - x, point[1] - y
    cos, sin = math.cos(phi), math.sin(phi)
    return east * sin - north * cos, east * cos + north * sin


def direction(pose: tuple[float, float, float], point: tuple[float, float] | None) -> tuple[float, float]:
    """The unit vector (right, ahead) towards a point; NaN if there is no point, or if it is where the agent is."""
    if point is None:
        return NOWHERE
    right, ahead = in_agent_frame(pose, point)
    length = math.hypot(right, ahead)
    return (right / length, ahead / length) if length >= NEAREST else NOWHERE


def labels(search: Search, choice: Choice, pose: tuple[float, float, float]) -> Row:
    """The labels of a decision, before it is taken.

    Two further opinions measure how much of the label cannot be known: the Explorer's with the same knowledge but
    without the target that it kept, and without the turn that it has begun, either.
    """
    assert search.home is not None
    goal = search.goal()
    right, ahead = in_agent_frame(pose, search.home)
    row: Row = {
        "action": choice.action,
        "way": direction(pose, choice.point),
        "home": (right / HOME_UNIT, ahead / HOME_UNIT),
        "seen": goal is not None,
        "goal": direction(pose, goal),
    }
    turning = search.intent.turning
    for name, intent in (("target", Intent(None, turning)), ("intent", Intent(None, 0))):
        other = search.choose(intent)
        row |= {f"action_without_{name}": other.action, f"way_without_{name}": direction(pose, other.point)}
    return row
