"""The player's body: what it shares with the tasks. That it moves as the engine's does is tested with the planner."""

from __future__ import annotations

from egomap.scenarios.tasks import TOUCH_DISTANCE
from egomap.ways.body import REACH


def test_a_goal_within_reach_is_touched() -> None:
    assert REACH == TOUCH_DISTANCE - 1
