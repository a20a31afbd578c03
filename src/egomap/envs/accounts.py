"""The accounts of N running episodes, kept together, so that a step of all of them is a few array operations.

What comes in: rewards and places in the engine's own coordinates, decision by decision. What goes out: how long each
episode lasts, what it has paid, where its player is and where it believes to be. Row i is environment i alone,
so threads may begin episodes in different rows at the same time.
"""

from __future__ import annotations

import math

import numpy as np

from egomap.worlds.ego_motion import Odometry, Pose, wrap, wrap_all


class Accounts:
    """One row for each environment.

    Args:
        num_envs: N.
        ego_motion_noise: see `Odometry`.
    """

    def __init__(self, num_envs: int, ego_motion_noise: float) -> None:
        self.odometry = Odometry(ego_motion_noise, num_envs)
        self.decisions = np.zeros(num_envs, np.int64)
        self.total_reward = np.zeros(num_envs)
        self.last_event = np.zeros(num_envs)
        """The last reward that was more or less than life alone pays."""
        self.decisions_since_event = np.zeros(num_envs, np.int64)
        self._least_living, self._most_living = np.zeros(num_envs), np.zeros(num_envs)
        self._centers = np.zeros((num_envs, 2))

    def begin(
        self, row: int, place: np.ndarray, center: tuple[float, float], living_reward: float, seed: int
    ) -> None:
        """An episode begins at `place` (x, y, z, degrees) in an arena around `center`.

        `living_reward` is what a whole decision pays without any event; an episode's last may have fewer tics.
        """
        self._least_living[row] = min(living_reward, 0.0) - 1e-6
        self._most_living[row] = max(living_reward, 0.0) + 1e-6
        self.decisions[row] = self.decisions_since_event[row] = 0
        self.total_reward[row] = self.last_event[row] = 0.0
        self._centers[row] = center
        x, y, _, degrees = place.tolist()
        pose = Pose(x - center[0], y - center[1], wrap(math.radians(degrees)))
        self.odometry.reset(row, pose, seed)

    def count(self, rows: slice | list[int], rewards: np.ndarray) -> None:
        """One decision more in these rows, which paid `rewards` (K,)."""
        self.decisions[rows] += 1
        self.total_reward[rows] += rewards
        self.decisions_since_event[rows] += 1
        event = (rewards < self._least_living[rows]) | (rewards > self._most_living[rows])
        if event.any():
            self.last_event[rows] = np.where(event, rewards, self.last_event[rows])
            self.decisions_since_event[rows] = np.where(event, 0, self.decisions_since_event[rows])

    def move(self, rows: slice | list[int], places: np.ndarray) -> np.ndarray:
        """The players of these rows are now at `places` (K, 4); return their ego-motion (K, 3) as measured."""
        poses = np.empty((len(places), 3))
        poses[:, :2] = places[:, :2] - self._centers[rows]
        poses[:, 2] = wrap_all(places[:, 3] * (math.pi / 180))
        return self.odometry.update(rows, poses)
