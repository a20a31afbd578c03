"""Ego-motion from successive poses, and the pose that a noisy sensor believes in.

What comes in: true poses, decision by decision. What goes out: the ego-motion of each decision and the pose that
follows from all of them. Paper: appendix, noisy actions. The functions on single poses say what is meant; `Odometry`
does the same for many agents at once, for it runs with every decision.

Convention: world x east, y north, phi counter-clockwise from +x, radians. Ego-motion (dx, dy, dphi) is expressed
in the ego frame *before* the motion: dx to the right, dy forward, dphi counter-clockwise in (-pi, pi].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Pose(NamedTuple):
    """Position in map units and heading in radians."""

    x: float
    y: float
    phi: float


class EgoMotion(NamedTuple):
    """Motion in the ego frame before it: right, forward, turn."""

    dx: float
    dy: float
    dphi: float


def wrap(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    wrapped = math.remainder(angle, math.tau)
    return math.pi if wrapped == -math.pi else wrapped


def ego_motion_between(before: Pose, after: Pose) -> EgoMotion:
    """The motion that leads from `before` to `after`."""
    east, north = after.x - before.x, after.y - before.y
    cos, sin = math.cos(before.phi), math.sin(before.phi)
    return EgoMotion(east * sin - north * cos, east * cos + north * sin, wrap(after.phi - before.phi))


def moved(pose: Pose, motion: EgoMotion) -> Pose:
    """The pose after `motion`; the inverse of `ego_motion_between`."""
    cos, sin = math.cos(pose.phi), math.sin(pose.phi)
    return Pose(
        pose.x + motion.dy * cos + motion.dx * sin,
        pose.y + motion.dy * sin - motion.dx * cos,
        wrap(pose.phi + motion.dphi),
    )


def wrap_all(angles: np.ndarray) -> np.ndarray:
    """`wrap` for arrays."""
    return angles - math.tau * np.ceil((angles - math.pi) / math.tau)


class Odometry:
    """Follows N agents through their episodes, with multiplicative noise that accumulates.

    Choice: each of the three components gets its own factor N(1, sigma), drawn for each decision. Without
    noise the pose is the simulator's own, free of rounding.
    """

    def __init__(self, sigma: float, num_agents: int = 1) -> None:
        self._sigma = sigma
        self._noise: list[np.random.Generator | None] = [None] * num_agents
        self.true_pose = np.zeros((num_agents, 3))
        """(N, 3) where the agents are."""
        self.pose = self.true_pose if sigma == 0 else np.zeros((num_agents, 3))
        """(N, 3) where they believe to be."""

    def reset(self, agent: int, pose: Pose, seed: int) -> None:
        """One agent begins at a pose that is known exactly."""
        self.true_pose[agent] = self.pose[agent] = pose
        self._noise[agent] = np.random.default_rng([seed, 1]) if self._sigma > 0 else None

    def update(self, agents: slice | list[int], poses: np.ndarray) -> np.ndarray:
        """Take in the next true poses (K, 3) of these agents; return their ego-motion (K, 3) as measured."""
        before = self.true_pose[agents]
        moved_by = poses - before
        cos, sin = np.cos(before[:, 2]), np.sin(before[:, 2])
        motion = np.empty_like(moved_by)
        motion[:, 0] = moved_by[:, 0] * sin - moved_by[:, 1] * cos
        motion[:, 1] = moved_by[:, 0] * cos + moved_by[:, 1] * sin
        motion[:, 2] = wrap_all(moved_by[:, 2])
        self.true_pose[agents] = poses
        if self._sigma > 0:
            for row, agent in enumerate(np.arange(len(self.true_pose))[agents].tolist()):
                noise = self._noise[agent]
                assert noise is not None
                motion[row] *= noise.normal(1.0, self._sigma, 3)
                self.pose[agent] = moved(Pose(*self.pose[agent].tolist()), EgoMotion(*motion[row].tolist()))
        return motion
