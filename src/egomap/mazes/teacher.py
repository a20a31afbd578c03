"""The Explorer as a teacher, which knows only what the learner itself has seen.

What comes in: the learner's vector environment. What goes out: a `Teacher` that follows its episodes. Of a world it
takes the rules alone, as the Explorer's player does; no layout reaches the teacher.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from egomap.agents.explorer.walker import TEACHING
from egomap.config import require
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds
from egomap.mazes.explorer import ExplorerPlayer


def require_rules(worlds: Worlds) -> None:
    """Raise a ValueError unless every world tells its task: a teacher knows no other rules."""
    unknown = next((world for world in worlds if world.layout is None), None)
    require(
        unknown is None,
        f"the explorer can teach only where the rules of the task are known, and {unknown and unknown.id} does not "
        "tell them; leave out --imitate and --learner.head-start.",
    )


class ExplorerTeacher:
    """The Explorer in the learner's place, in each environment."""

    def __init__(self, env: DoomVectorEnv) -> None:
        require_rules(env.worlds)
        self._env = env
        self._player = ExplorerPlayer(
            env.num_envs, env.camera, frame_skip=env.settings.frame_skip, habit=TEACHING
        )

    def begin(self, index: int) -> None:
        """Begin with nothing seen, by the rules of the episode that runs there now."""
        episode = self._env.episode(index)
        self._player.begin(index, self._env.worlds[episode.layout], episode)

    def hear(self, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Be told what was done and what it brought."""
        self._player.watch(actions)
        self._player.hear(rewards)

    def act(self, observation: Mapping[str, np.ndarray], asked: np.ndarray) -> np.ndarray:
        """What the Explorer would do."""
        return self._player.act(dict(observation), asked)
