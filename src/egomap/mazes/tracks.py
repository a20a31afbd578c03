"""Record the trajectories of players, from which legs are computed.

Input: a vector environment and, from the runner, what happens in it. Output: the legs of each episode
when it ends (`egomap.mazes.legs`). It costs an append for each decision, and some milliseconds for each leg.
"""

from __future__ import annotations

import numpy as np

from egomap.config import FRAME_SKIP
from egomap.mazes.legs import Leg, Track, legs_of
from egomap.worlds.api import Simulated, World
from egomap.worlds.episodes import Episode


class Recorder:
    """Watches environments; worlds that come without a layout have no legs."""

    def __init__(self, env: Simulated, frame_skip: int = FRAME_SKIP) -> None:
        self._env, self._frame_skip = env, frame_skip
        self._worlds: list[World | None] = [None] * env.num_envs
        self._poses: list[list[np.ndarray]] = [[] for _ in range(env.num_envs)]
        self._rewards: list[list[float]] = [[] for _ in range(env.num_envs)]

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Begin a new track."""
        self._worlds[index] = world
        self._poses[index], self._rewards[index] = [], []

    def deciding(self, playing: np.ndarray) -> None:
        """Note where everybody is."""
        for index in np.flatnonzero(playing).tolist():
            self._poses[index].append(self._env.true_pose(index))

    def paid(self, playing: np.ndarray, rewards: np.ndarray) -> None:
        """Note the rewards."""
        for index in np.flatnonzero(playing).tolist():
            self._rewards[index].append(float(rewards[index]))

    def legs(self, index: int, *, timed_out: bool) -> tuple[Leg, ...] | None:
        """The legs of the track that is complete now."""
        world = self._worlds[index]
        if world is None or world.layout is None:
            return None
        poses, rewards = np.array(self._poses[index]), np.array(self._rewards[index])
        track = Track(world.layout, poses, rewards, timed_out)
        return legs_of(track, self._env.world_spec.camera, frame_skip=self._frame_skip)
