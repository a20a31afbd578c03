"""Count the colours of the tasks' goals and of empty mazes, for the Explorer's eyes.

Usage: python tools/count_colours.py OUT.npz

Plays training mazes with the Planner and bursts of random actions, takes the pixels of each goal that is in view (by
the layout: where it must be in the picture, at the depth that it must have) and of everything else. The Explorer
itself never sees a layout; this table is what it knows of how goals look.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np

from egomap.agents.explorer.things import LEVELS, LOOKS, tinted
from egomap.agents.scripted import scripted_agent
from egomap.config import Camera
from egomap.envs.vector import DoomVectorEnv
from egomap.scenarios.layout import Layout

SETS = (("find-return", 5, None, 300), ("labyrinth", 5, None, 200), ("ordered-items", 5, 8, 600))
ENVS = 8
HALF_WIDTH, TOP, BOTTOM = 20.0, 12.0, 44.0
"""Map units of a goal's picture: to each side, above and below the eye."""
FARTHEST, DEPTH_ERROR = 350.0, 9.0


def views(task: str, size: int, items: int | None, decisions: int) -> Iterator[tuple[dict, Layout, Camera]]:
    """Observations with their layouts: the Planner's way in half of the environments, much bumping in the others."""
    env = DoomVectorEnv(ENVS, task=task, size=size, items=items, split="train")
    rng, planner = np.random.default_rng(0), scripted_agent("planner")
    observation, _ = env.reset(seed=0)
    began = np.ones(ENVS, bool)
    burst = np.zeros(ENVS, int)
    for _ in range(decisions):
        actions = np.zeros(ENVS, np.int64)
        for i in range(ENVS):
            layout = env.worlds[env.episode(i).layout].layout
            if began[i]:
                planner.begin(i, layout, 0)
            yield {name: array[i] for name, array in observation.items()}, layout, env.camera
            actions[i] = planner.act(i, env.true_pose(i))
            if burst[i] == 0 and rng.random() < 0.1:
                burst[i] = rng.integers(1, 12)
            if burst[i]:
                burst[i] -= 1
                actions[i] = rng.choice([0, 1, 2, 2, 2, 3, 4])
        observation, _, terminated, truncated, _ = env.step(actions)
        began = terminated | truncated
    env.close()


def looks_of(layout: Layout) -> tuple[int, ...]:
    """The rows of the table that the goals of a layout belong to."""
    if layout.task == "find-return":
        return LOOKS.index("red pillar"), LOOKS.index("green pillar")
    return tuple(range(len(layout.goals)))


def count(counts: np.ndarray, observation: dict, layout: Layout, camera: Camera) -> None:
    """Add the pixels of one view."""
    if tinted(observation["rgb"]):
        return
    rgb, depth = np.moveaxis(observation["rgb"], 0, -1).astype(int), observation["depth"]
    bins = ((rgb >> 4) * np.array([LEVELS**2, LEVELS, 1])).sum(-1)
    x, y, phi = observation["pose"].tolist()
    maze = np.ones(depth.shape, bool)
    for look, goal in zip(looks_of(layout), layout.goals, strict=True):
        east, north = layout.center(goal)[0] - x, layout.center(goal)[1] - y
        forward = east * math.cos(phi) + north * math.sin(phi)
        right = east * math.sin(phi) - north * math.cos(phi)
        if forward < 24.0:
            if math.hypot(forward, right) < 60.0:
                return  # so near that it may be anywhere in the picture
            continue
        u, wide = camera.cx + camera.fx * right / forward, camera.fx * HALF_WIDTH / forward
        columns = slice(max(int(u - wide), 0), max(int(u + wide) + 1, 0))
        rows = slice(
            max(int(camera.cy - camera.fy * TOP / forward), 0),
            int(camera.cy + camera.fy * BOTTOM / forward) + 1,
        )
        maze[:, max(columns.start - 3, 0) : columns.stop + 3] = False
        on = np.abs(depth[rows, columns] - forward) < DEPTH_ERROR
        if forward < FARTHEST:
            np.add.at(counts[look], bins[rows, columns][on], 1)
    np.add.at(counts[-1], bins[maze], 1)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    counts = np.zeros((len(LOOKS) + 1, LEVELS**3), np.int64)
    for task, size, items, decisions in SETS:
        for observation, layout, camera in views(task, size, items, decisions):
            count(counts, observation, layout, camera)
        print(f"{task}: {counts.sum()} pixels so far", flush=True)
    np.savez_compressed(sys.argv[1], counts=counts.astype(np.uint32))
    return 0


if __name__ == "__main__":
    sys.exit(main())
