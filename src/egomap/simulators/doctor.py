"""What `egomap doctor` says of the simulators beside Doom: absent, working, or what they lack.

What comes in: nothing. What goes out: a check for each, tried in a process of its own, as trainings run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from egomap.config import EnvSettings, TrainConfig, require
from egomap.envs.doctor import Check, check, expected_depth
from egomap.envs.worlds import World, Worlds
from egomap.scenarios.layout import Cell, Layout
from egomap.simulators.memory_maze import maze_9x9
from egomap.simulators.miniworld import MiniWorldSource
from egomap.worlds.gym import describe
from egomap.worlds.vector import GymVectorEnv

BAR = 3.0
"""Map units by which the depth of a wall may be wrong, half of the time."""


def checks() -> Iterator[Check]:
    """A line for each simulator; nobody needs them."""
    for name, look in SIMULATORS.items():
        yield check(name, look, needed=False)


def _miniworld() -> str:
    """Draw a hall and compare the depth of its walls."""
    hall = Layout("labyrinth", 3, 128, (), Cell(0, 0), (Cell(2, 2),))
    nowhere = Path()
    worlds = Worlds((World(nowhere, nowhere, "", hall.hash, (0.0, 0.0), 384.0, hall),))
    source = MiniWorldSource(TrainConfig(env=EnvSettings(world="miniworld", workers=1)))
    source.require_installed()
    env: GymVectorEnv = source.open(source.recall(384.0, None), worlds, 1)
    try:
        observation, _ = env.reset(seed=0)
        require(bool(np.ptp(observation["rgb"])), "draws an empty picture; see docs/environments.md.")
        camera = env.world_spec.camera
        walls = expected_depth(hall, observation["pose"][0], camera)
        seen = observation["depth"][0, camera.height // 2 - 1]
        error = float(np.median(np.abs(seen - walls)))
    finally:
        env.close()
    require(error < BAR, f"draws depth that is wrong by {error:.1f} map units, half of the time.")
    return f"draws, median error of depth {error:.2f} map units"


def _memory_maze() -> str:
    """Draw a maze."""
    require(find_spec("memory_maze") is not None, "not installed: pip install 'egomap[memory-maze]'.")
    spec = describe(maze_9x9(), EnvSettings(id="egomap.simulators.memory_maze:maze_9x9"))
    env = GymVectorEnv(spec, 1, workers=1)
    try:
        observation, _ = env.reset(seed=0)
        depth = observation["depth"][0]
        require(bool(np.ptp(observation["rgb"])), "draws an empty picture; see docs/environments.md.")
        require(bool(np.ptp(depth[np.isfinite(depth)])), "draws no depth; see docs/environments.md.")
    finally:
        env.close()
    return "draws colours and depth"


SIMULATORS: dict[str, Callable[[], str]] = {"miniworld": _miniworld, "memory maze": _memory_maze}
"""How each is tried."""
