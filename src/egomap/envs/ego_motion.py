"""Ego-motion from successive poses, and the pose that a noisy sensor believes in.

What comes in: true poses, decision by decision. What goes out: the ego-motion of each decision and the pose that
follows from all of them. Paper: appendix, noisy actions. Plain Python floats: this runs once per decision.

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


class Odometry:
    """Follows one agent through one episode, with multiplicative noise that accumulates.

    Choice: each of the three components gets its own factor N(1, sigma), drawn anew for each decision. Without
    noise the pose is the simulator's own, free of rounding.
    """

    def __init__(self, sigma: float) -> None:
        self._sigma = sigma
        self._noise: np.random.Generator | None = None
        self.true_pose = Pose(0.0, 0.0, 0.0)
        self.pose = self.true_pose

    def reset(self, pose: Pose, seed: int) -> None:
        """Begin at a pose that is known exactly."""
        self.true_pose = self.pose = pose
        self._noise = np.random.default_rng([seed, 1]) if self._sigma > 0 else None

    def update(self, pose: Pose) -> EgoMotion:
        """Take in the next true pose; return the ego-motion as measured, and update `pose`."""
        motion = ego_motion_between(self.true_pose, pose)
        self.true_pose = pose
        if self._noise is None:
            self.pose = pose
            return motion
        factors = self._noise.normal(1.0, self._sigma, 3)
        motion = EgoMotion(*(float(value * factor) for value, factor in zip(motion, factors, strict=True)))
        self.pose = moved(self.pose, motion)
        return motion
