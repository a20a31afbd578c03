"""The Explorer as a player of evaluations.

Input: observations and rewards. Output: a `Player`. Of a world it takes the rules alone (which task,
how many goals); the layout itself never reaches the Explorer.
"""

from __future__ import annotations

import numpy as np

from egomap.agents.explorer.agent import Search
from egomap.agents.explorer.things import LOOKS
from egomap.agents.explorer.walker import HABIT
from egomap.agents.planner import Habit
from egomap.config import FRAME_SKIP, Camera, Task
from egomap.worlds.api import Arrays, World
from egomap.worlds.episodes import Episode

PILLARS = ("red pillar", "green pillar")


def search_for(
    task: Task,
    goals: int,
    camera: Camera,
    extent: float,
    *,
    frame_skip: int = FRAME_SKIP,
    habit: Habit = HABIT,
) -> Search:
    """A new episode of the Explorer, by the rules of a task with so many goals."""
    pillars = task == "find-return"
    return Search(
        PILLARS if pillars else LOOKS[:goals],
        camera,
        extent,
        returns=pillars,
        careful=task == "ordered-items",
        frame_skip=frame_skip,
        habit=habit,
    )


class ExplorerPlayer:
    """Plays N environments from what is seen in each of them."""

    def __init__(
        self, num_envs: int, camera: Camera, *, frame_skip: int = FRAME_SKIP, habit: Habit = HABIT
    ) -> None:
        self._camera, self._frame_skip, self._habit = camera, frame_skip, habit
        self._searches: dict[int, Search] = {}
        self._rewards = np.zeros(num_envs)
        self._said = np.zeros(num_envs, np.int64)

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Begin with nothing seen."""
        if world.layout is None:
            raise ValueError("the explorer must know the task, and these scenario files do not name it.")
        self._searches[index] = search_for(
            world.layout.task,
            len(world.layout.goals),
            self._camera,
            float(world.layout.size * world.layout.cell),
            frame_skip=self._frame_skip,
            habit=self._habit,
        )
        self._rewards[index] = 0.0

    def hear(self, rewards: np.ndarray) -> None:
        """Receive the rewards of the last actions."""
        self._rewards[:] = rewards

    def watch(self, actions: np.ndarray) -> None:
        """Record which actions (N,) were taken, if others choose them: its speed and turn follow from them."""
        for i in np.flatnonzero(actions != self._said).tolist():
            self._searches[i].walker.took(int(actions[i]))

    def act(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
        """Ask each environment's own search."""
        actions = np.zeros(len(playing), np.int64)
        for i in np.flatnonzero(playing).tolist():
            rgb, depth, pose = (observation[name][i] for name in ("rgb", "depth", "pose"))
            actions[i] = self._searches[i].act(rgb, depth, pose, float(self._rewards[i]))
        self._said[playing] = actions[playing]
        return actions
