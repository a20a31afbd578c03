"""What happened in an episode, derived from its rewards: "red pillar found", "2: blue armour", "wrong item".

Input: a recording. Output: events by decision, and which goals are reached at each decision. The
rewards are the only source, so what is shown is what was rewarded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from egomap.inspector.recording import Recording
from egomap.scenarios.tasks import FAMILIES, goal_looks


class Event(NamedTuple):
    """One mark on the time-line."""

    decision: int
    """The decision that paid."""
    name: str
    reward: float
    goals: tuple[int, ...]
    """Goals that it reached, from 0; empty for anything else."""
    colour: str | None
    """Of the goal, as "#rrggbb"."""


def events(recording: Recording) -> list[Event]:
    """Every decision that paid more or less than life alone, and how the episode ended."""
    found: list[Event] = []
    layout = recording.layout
    reached, paid = 0, 0.0
    for decision in np.flatnonzero(recording.event).tolist():
        reward = float(recording.reward[decision])
        if layout is None:
            found.append(Event(decision, f"{reward:+.2f}", reward, (), None))
        elif reward < 0:
            found.append(Event(decision, "wrong item", reward, (), None))
        else:
            prizes = FAMILIES[layout.task].rewards(len(layout.goals))
            paid += reward
            # Life costs less than this by far, even over a whole episode of decisions that paid.
            count = int(np.searchsorted(np.cumsum(prizes), paid + 0.05, side="right"))
            goals = tuple(range(reached, count))
            looks = [goal_looks(layout)[goal] for goal in goals]
            numbered = len(layout.goals) > 2
            names = [
                f"{goal + 1}: {look.name}" if numbered else f"{look.name} found"
                for goal, look in zip(goals, looks, strict=True)
            ]
            colour = looks[-1].colour if looks else None
            found.append(Event(decision, ", ".join(names) or f"{reward:+.2f}", reward, goals, colour))
            reached = max(reached, count)
    if recording.outcome == "time is up":
        found.append(Event(len(recording) - 1, "time is up", 0.0, (), None))
    return found


def goals_reached(recording: Recording) -> np.ndarray:
    """(T, goals) bool: whether a goal is reached once decision t is done."""
    goals = 0 if recording.layout is None else len(recording.layout.goals)
    reached = np.zeros((len(recording), goals), bool)
    for event in events(recording):
        for goal in event.goals:
            reached[event.decision :, goal] = True
    return reached
