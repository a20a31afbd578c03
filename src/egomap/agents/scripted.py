"""Agents without a network: Random, the floor, and Planner, the measured optimum; and what a runner asks of both.

Input: at the start of an episode its layout and seed, then the pose. Output: an action. Any number
of environments, each known by its index. Numpy alone.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from egomap.agents.planner import PlannerAgent
from egomap.config import FRAME_SKIP, NUM_ACTIONS
from egomap.scenarios.layout import Layout

ScriptedKind = Literal["random", "planner"]


class ScriptedAgent(Protocol):
    """An agent that plays many environments by itself."""

    def begin(self, index: int, layout: Layout | None, seed: int) -> None:
        """Environment `index` begins an episode in `layout` (None if it is not known)."""
        ...

    def act(self, index: int, pose: np.ndarray) -> int:
        """The action of environment `index`, which stands at `pose` (x, y, phi)."""
        ...


class RandomAgent:
    """Each action with the same probability; seeded by the episode, so that any order of play gives the same."""

    def __init__(self, num_actions: int = NUM_ACTIONS) -> None:
        self._num_actions = num_actions
        self._generators: dict[int, np.random.Generator] = {}

    def begin(self, index: int, layout: Layout | None, seed: int) -> None:
        """Begin with the episode's own generator."""
        self._generators[index] = np.random.default_rng([seed, 2])

    def act(self, index: int, pose: np.ndarray) -> int:
        """Any action."""
        return int(self._generators[index].integers(self._num_actions))


def scripted_agent(
    kind: ScriptedKind, *, frame_skip: int = FRAME_SKIP, num_actions: int = NUM_ACTIONS
) -> ScriptedAgent:
    """The agent of that name; the planner plays our mazes alone."""
    return RandomAgent(num_actions) if kind == "random" else PlannerAgent(frame_skip)
