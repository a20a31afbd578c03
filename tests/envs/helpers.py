"""What the tests of the environments share: a walker that follows points by its pose, and looks at processes."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egomap.envs import DoomEnv
from egomap.scenarios.dataset import ScenarioSet
from egomap.scenarios.layout import Layout
from egomap.scenarios.tasks import player_start, way
from egomap.worlds.ego_motion import wrap

LEFT, RIGHT, FORWARD, FORWARD_LEFT, FORWARD_RIGHT = range(5)
Point = tuple[float, float]
Observation = dict[str, np.ndarray]


def towards(pose: Sequence[float] | np.ndarray, point: Point) -> int:
    """The action that brings an agent at `pose` nearer to `point`: turn on the spot, then walk and correct."""
    x, y, phi = (float(value) for value in pose)
    error = wrap(math.atan2(point[1] - y, point[0] - x) - phi)
    if abs(error) > 0.35:
        return LEFT if error > 0 else RIGHT
    if abs(error) > 0.12:
        return FORWARD_LEFT if error > 0 else FORWARD_RIGHT
    return FORWARD


class Step(NamedTuple):
    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    action: int

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


def walk(env: Any, observation: Observation, points: Sequence[Point], *, near: float = 24.0) -> list[Step]:
    """Follow `points` until the last is reached or the episode ends; the steps that it took."""
    steps: list[Step] = []
    pose = observation["pose"]
    for point in points:
        while math.hypot(point[0] - pose[0], point[1] - pose[1]) > near:
            action = towards(pose, point)
            steps.append(Step(*env.step(action), action))
            pose = steps[-1].observation["pose"]
            if steps[-1].ended:
                return steps
            if abs(steps[-1].reward) > 0.01 and point == points[-1]:
                return steps
            assert len(steps) < 600, f"stuck at {pose} on the way to {point}"
    return steps


def finish(env: Any, steps: list[Step]) -> list[Step]:
    """The engine leaves a map in the tic after the last prize, which may belong to the next decision."""
    if not steps[-1].ended:
        steps.append(Step(*env.step(FORWARD), FORWARD))
    assert steps[-1].ended
    return steps


def legs(layout: Layout, order: Sequence[int]) -> list[list[Point]]:
    """For each goal in `order`, the points that lead to it through free cells, away from all other goals."""
    here, found = layout.start, []
    for index in order:
        target = layout.goals[index]
        avoid = [goal for goal in layout.goals if goal not in (here, target)]
        cells = way(layout, here, target, avoid=avoid)
        assert cells, f"no way from {here} to {target}"
        points = [layout.center(cell) for cell in cells[1:]]
        x, y = layout.center(here)
        if here == layout.start and player_start(layout) != (
            x,
            y,
        ):  # the player stands south-west of a pillar
            step = (cells[1].column - here.column, cells[1].row - here.row)
            points = {(1, 0): [(x + 40, y - 38)], (0, 1): [(x - 38, y + 40)]}.get(step, []) + points
        found.append(points)
        here = target
    return found


def events(steps: Iterable[Step], living: float = -0.0001, frame_skip: int = 4) -> list[float]:
    """The rewards beyond the living reward (an episode's last decision may last fewer tics)."""
    found = [round(step.reward - living * frame_skip, 2) for step in steps]
    return [reward for reward in found if reward]


def can_be_walked(layout: Layout, order: Sequence[int]) -> bool:
    try:
        legs(layout, order)
    except AssertionError:
        return False
    return True


def same(first: Observation, second: Observation) -> bool:
    """Bit for bit."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype and np.array_equal(first[name], second[name])
        for name in first
    )


def play(env: DoomEnv, actions: Iterable[int], **reset: Any) -> list[Observation]:
    """The observations of an episode, rewards and flags included, until it ends or the actions do."""
    observation, _ = env.reset(**reset)
    seen = [observation]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        account = np.array([reward, terminated, truncated])
        seen.append({**observation, "account": account})
        if terminated or truncated:
            break
    return seen


def all_same(first: list[Observation], second: list[Observation]) -> bool:
    return len(first) == len(second) and all(map(same, first, second))


def random_actions(seed: int, count: int) -> list[int]:
    """Mostly forward, so that the walk gets somewhere."""
    return np.random.default_rng(seed).choice(5, count, p=[0.15, 0.15, 0.3, 0.2, 0.2]).tolist()


def shortened(scenarios: ScenarioSet, folder: Path, tics: int, split: str | None = None) -> ScenarioSet:
    """The same set with another time-out (of one split or both)."""
    shutil.copytree(scenarios.folder, folder)
    for name in (split,) if split else ("train", "test"):
        cfg = folder / f"{name}.cfg"
        text, changed = re.subn(r"episode_timeout\s*=\s*\d+", f"episode_timeout = {tics}", cfg.read_text())
        assert changed == 1
        cfg.write_text(text)
    return ScenarioSet(folder, scenarios.config, scenarios.layouts)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_of(folder: Path) -> list[int]:
    """Every process that has `folder` in its command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                if os.fsencode(folder) in Path("/proc", name, "cmdline").read_bytes() and alive(int(name)):
                    found.append(int(name))
            except OSError:
                continue
    return found


def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether `condition` comes true in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def run_python(
    code: str, *arguments: str, cwd: Path, seconds: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
