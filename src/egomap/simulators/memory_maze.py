"""Memory Maze (Pasukonis et al. 2022) as a Gymnasium environment with rgb, depth and pose: its own mazes and task.

Input: seeds and actions. Output: observations in metres, and a reward of 1 for each target that is touched while its
colour is asked for. That colour is shown as a border of the picture, as in the published results. By name:
`egomap train --env egomap.simulators.memory_maze:maze_9x9`, and likewise 11x11, 13x13 and 15x15.

Convention: the pose is in metres, x east, y north; the origin is the south-west corner of the cells. Depth is the
distance along the camera's axis, which looks down by 5.7 degrees; taken as level, it is 0.5 % off at eye level.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from egomap.simulators.extras import need, without_screen

PIXELS = 64
FOV = 80.0
"""Vertical field of view of the player's camera in degrees."""
SCALE = 2.0
"""Metres along each side of a cell."""
CAMERA = "walker/egocentric"
ACTIONS = ("wait", "forward", "turn left", "turn right", "forward left", "forward right")


def _tasks() -> ModuleType:
    """`memory_maze.tasks`, without the package's own __init__, which asks for the old gym."""
    without_screen()
    logging.getLogger("absl").setLevel(logging.ERROR)  # each reset would warn of what is meant to be so
    need("dm_control.composer", "memory-maze")
    if "memory_maze" not in sys.modules:
        spec = importlib.util.find_spec("memory_maze")
        if spec is None or spec.submodule_search_locations is None:
            return need("memory_maze", "memory-maze")  # its sentence says what is missing
        package = importlib.util.module_from_spec(spec)
        sys.modules["memory_maze"] = package  # a package whose __init__ has not run
    return need("memory_maze.tasks", "memory-maze")


class MemoryMaze(gymnasium.Env[dict[str, Any], np.int64]):
    """A maze in which the same few targets are asked for again and again, until time is up.

    Args:
        size: Cells along each side: 9, 11, 13 or 15.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    action_space = Discrete(len(ACTIONS))
    observation_space = Dict(
        {
            "rgb": Box(0, 255, (PIXELS, PIXELS, 3), np.uint8),
            "depth": Box(0.0, np.inf, (PIXELS, PIXELS), np.float32),
            "pose": Box(-np.inf, np.inf, (3,), np.float64),
        }
    )

    def __init__(self, size: int = 9) -> None:
        self._size = size
        self._maze: Any = None
        low, high = -SCALE, (size + 1) * SCALE  # with the outer walls
        arena = (low, low, high, high)
        self.egomap = {"fov": FOV, "extent": arena, "depth_range": 1.5 * (high - low), "actions": ACTIONS}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Make a new maze; all of it follows from the seed."""
        super().reset(seed=seed)
        self.close()
        make = getattr(_tasks(), f"memory_maze_{self._size}x{self._size}")
        self._maze = make(seed=int(self.np_random.integers(2**31)), global_observables=True)
        return self._observe(self._maze.reset()), {}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """One decision, a quarter of a second."""
        turn = self._maze.step(int(action))
        ended, died = turn.last(), turn.last() and turn.discount == 0.0
        return self._observe(turn), float(turn.reward), died, ended and not died, {}

    def close(self) -> None:
        """Let go of the maze and of its graphics."""
        maze, self._maze = self._maze, None
        if maze is not None:
            maze.close()

    def _observe(self, turn: Any) -> dict[str, np.ndarray]:
        seen = turn.observation
        east, north = seen["agent_dir"]
        return {
            "rgb": seen["image"],
            "depth": self._maze.physics.render(PIXELS, PIXELS, camera_id=CAMERA, depth=True),
            "pose": np.array([*seen["agent_pos"] * SCALE, math.atan2(north, east)]),
        }


def maze_9x9() -> MemoryMaze:
    """Three targets, 1000 decisions."""
    return MemoryMaze(9)


def maze_11x11() -> MemoryMaze:
    """Four targets, 2000 decisions."""
    return MemoryMaze(11)


def maze_13x13() -> MemoryMaze:
    """Five targets, 3000 decisions."""
    return MemoryMaze(13)


def maze_15x15() -> MemoryMaze:
    """Six targets, 4000 decisions."""
    return MemoryMaze(15)
