"""Observers of an evaluation: the runner reports to them what happens in each environment.

Input: the beginnings, decisions and rewards of N environments. Output: what the watcher tells of an
episode that has ended. `Nobody` watches nothing; `egomap.mazes.tracks` records the legs in our mazes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from egomap.worlds.api import World
from egomap.worlds.episodes import Episode


class Leg(NamedTuple):
    """The way to one goal, walked or tried."""

    goal: str
    """Its name."""
    began: int
    """The decision of the episode that it begins with."""
    decisions: int
    finished: bool
    optimum: int | None
    """Decisions that the planner takes from the pose where it began; None where it finds no way from there, and where
    it need not be asked: nobody needs longer than this leg lasted without being finished."""
    in_time: bool
    """False if time ended the episode before the planner could have finished: such a leg has no efficiency."""
    revisited: float | None
    """Share of the cells entered that had been entered in this leg before; None if it never left its first cell."""
    seen: int | None
    """The decision of the episode at which the goal was first seen, perhaps in an earlier leg; None: never."""
    walked: float | None
    """Map units from where the goal was both wanted and known (seen, in this leg or before) to where it was touched;
    None if it was never touched, or never seen before."""
    shortest: float | None
    """Map units of the shortest way between the same places."""

    @property
    def efficiency(self) -> float | None:
        """The planner's decisions over those used, at most 1; 0 if unfinished; None if nothing can be said."""
        if not self.finished:
            return 0.0 if self.in_time else None
        return None if self.optimum is None else min(1.0, self.optimum / self.decisions)

    @property
    def since_seen(self) -> int | None:
        """Decisions from the first sight of the goal until it was touched."""
        if self.seen is None or not self.finished:
            return None
        return self.began + self.decisions - self.seen

    def to_json(self) -> dict[str, Any]:
        """Its fields and figures as plain data."""
        return {**self._asdict(), "efficiency": self.efficiency, "since_seen": self.since_seen}


class Watcher(Protocol):
    """An observer, to which the runner reports what happens in N environments."""

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Environment `index` begins an episode."""
        ...

    def deciding(self, playing: np.ndarray) -> None:
        """A decision is about to be made in all that are `playing`."""
        ...

    def paid(self, playing: np.ndarray, rewards: np.ndarray) -> None:
        """What it paid; where an episode has ended, the environment is in the next one already."""
        ...

    def legs(self, index: int, *, timed_out: bool) -> tuple[Leg, ...] | None:
        """The legs of the episode that has just ended; None if they cannot be computed."""
        ...


class Nobody:
    """Watches nothing, and knows of no legs."""

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Ignored."""

    def deciding(self, playing: np.ndarray) -> None:
        """Ignored."""

    def paid(self, playing: np.ndarray, rewards: np.ndarray) -> None:
        """Ignored."""

    def legs(self, index: int, *, timed_out: bool) -> tuple[Leg, ...] | None:
        """None."""
        return None


NOBODY = Nobody()
