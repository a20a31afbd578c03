"""What `egomap doctor` checks on a machine: versions, a real engine, its depth, its actions, room for more.

What comes in: nothing; a small set of mazes is generated in a temporary folder. What goes out: a list of checks,
each with one sentence that says what was found or what is wrong. A check that fails does not stop the others.

Convention: depth is compared along one picture row at eye level, where walls hide everything else. A ray through
column u runs along forward + right * (u + 0.5 - cx) / fx, so its parameter at a wall is that wall's depth z.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from egomap.config import Camera, ScenarioConfig, require
from egomap.envs.doom import DoomEnv
from egomap.envs.engine import ACTIONS
from egomap.envs.pool import default_threads
from egomap.scenarios.dataset import cache_folder, generate
from egomap.scenarios.layout import Layout
from egomap.scenarios.udmf import wall_outline

PACKAGES = ("vizdoom", "gymnasium", "numpy", "opencv-python-headless", "torch")
MEDIAN_BAR, P95_BAR = 2.0, 6.0
"""Map units by which depth may be wrong, half of the time and nearly always."""
ENGINES_WANTED = 48
"""What the presets use at once: 32 that train and 16 that are evaluated."""
SHARED_MEMORY = Path("/dev/shm")
SHARED_MEMORY_PER_ENGINE = 2**19
"""Bytes; an engine touches 0.27 MB at 320x180, however large its files look."""

_LAYOUTS, _WALK = 6, 40
_DECISIONS = 3
# Degrees and map units that an action gives in its first three decisions from rest, 4 tics each. Turning begins
# slowly; walking gains 0.781 units per tic each tic and keeps 0.906 of its speed.
_TURN = (7.03, 12.30, 14.06)
_WALKED = (7.11, 15.65, 21.40)
_TURN_TOLERANCE, _WALK_TOLERANCE = 0.1, 0.2


class Check(NamedTuple):
    """One line of the doctor's report."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    """Whether egomap is broken without it; the rest is only told."""

    @property
    def failed(self) -> bool:
        """Whether something must be put right."""
        return self.needed and not self.ok


def checks() -> list[Check]:
    """Everything that is checked, in the order in which it should be put right."""
    found = [check("python", _python)]
    found += [check(name, partial(_version, name)) for name in PACKAGES]
    with tempfile.TemporaryDirectory(prefix="egomap-doctor-") as folder:
        room = _Room(Path(folder))
        try:
            found.append(check("engine", room.open))
            found.append(check("depth", room.compare_depth))
            found.append(check("actions", room.try_actions))
        finally:
            room.close()
    found.append(check("shared memory", _shared_memory))
    found.append(check("cores", _cores))
    found.append(check("cache", _cache))
    return found


def expected_depth(layout: Layout, pose: np.ndarray, camera: Camera) -> np.ndarray:
    """(width,) depth of the walls of `layout` in each picture column at eye level, seen from `pose` (x, y, phi)."""
    x, y, phi = (float(value) for value in pose)
    right = (np.arange(camera.width) + 0.5 - camera.cx) / camera.fx
    ray_x = math.cos(phi) + right * math.sin(phi)
    ray_y = math.sin(phi) - right * math.cos(phi)
    loops = [np.array(loop) for loop in wall_outline(layout)]
    starts = np.concatenate(loops)[:, :, None]  # (walls, 2, 1), against (width,) rays
    ends = np.concatenate([np.roll(loop, -1, axis=0) for loop in loops])[:, :, None]
    upright = starts[:, 0] == ends[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(upright, (starts[:, 0] - x) / ray_x, (starts[:, 1] - y) / ray_y)
        along = np.where(upright, y + z * ray_y, x + z * ray_x)
    first, second = (np.where(upright, points[:, 1], points[:, 0]) for points in (starts, ends))
    hit = (z > 0) & (along >= np.minimum(first, second)) & (along <= np.maximum(first, second))
    return np.where(hit, z, np.inf).min(axis=0)


class _Room:
    """A small set of mazes and an engine that shows them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._env: DoomEnv | None = None

    def open(self) -> str:
        config = ScenarioConfig(task="labyrinth", size=5, train=_LAYOUTS, test=0, seed=0)
        made = generate(config, self._folder / "mazes")
        env = DoomEnv(task="labyrinth", scenarios=made)
        self._env = env
        observation, _ = env.reset(seed=0, options={"layout": 0})
        seen = observation["rgb"]
        require(int(seen.max()) > int(seen.min()), "the engine draws an empty picture.")
        return f"opened, draws {env.settings.rendering}"

    def compare_depth(self) -> str:
        env, rng = self._opened(), np.random.default_rng(0)
        row = (
            env.camera.height // 2 - 1
        )  # just above the horizon: higher than any item, lower than any ceiling
        errors: list[np.ndarray] = []
        for layout in range(_LAYOUTS):
            observation, _ = env.reset(seed=layout, options={"layout": layout})
            maze = env.world.layout
            assert maze is not None
            for action in rng.choice(5, _WALK, p=(0.15, 0.15, 0.3, 0.2, 0.2)):
                seen = observation["depth"][row]
                error = np.abs(seen - expected_depth(maze, observation["pose"], env.camera))
                errors.append(error[np.isfinite(seen)])
                observation, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    break
        known = np.concatenate(errors)
        require(known.size > 0, "the engine's depth buffer is saturated everywhere.")
        median, p95 = np.quantile(known, (0.5, 0.95))
        found = f"median error {median:.2f}, 95th percentile {p95:.2f} map units"
        require(
            bool(median <= MEDIAN_BAR and p95 <= P95_BAR),
            f"{found}, over the bars of {MEDIAN_BAR:g} and {P95_BAR:g}: this ViZDoom draws depth otherwise; "
            "install the version that egomap asks for.",
        )
        return f"{found} (bars {MEDIAN_BAR:g} and {P95_BAR:g}), {known.size} columns of known walls"

    def try_actions(self) -> str:
        env = self._opened()
        for action, name in enumerate(ACTIONS):
            before = env.reset(seed=1, options={"layout": 0})[0]["pose"].astype(float)
            turned, walked = 0.0, 0.0
            for decision in range(_DECISIONS):
                observation = env.step(action)[0]
                turned += math.degrees(observation["ego_motion"][2])
                x, y, phi = observation["pose"].astype(float)
                walked = math.hypot(x - before[0], y - before[1])
                self._require_moved(name, decision + 1, turned, walked)
            if name == "forward":  # the pose convention: it goes where the heading points
                aside = (x - before[0]) * math.sin(before[2]) - (y - before[1]) * math.cos(before[2])
                ahead = (x - before[0]) * math.cos(before[2]) + (y - before[1]) * math.sin(before[2])
                require(
                    abs(aside) < _WALK_TOLERANCE and ahead > 0 and phi == before[2],
                    f"forward does not lead along the heading: {ahead:.1f} ahead, {aside:.1f} aside.",
                )
        return f"{', '.join(ACTIONS)} move the player as documented"

    @staticmethod
    def _require_moved(name: str, decisions: int, turned: float, walked: float) -> None:
        """Compare what an action has done in so many decisions with what it should do."""
        sign = ("left" in name) - ("right" in name)
        turn = sign * sum(_TURN[:decisions])
        walk = sum(_WALKED[:decisions]) if "forward" in name else 0.0
        # Who turns while walking goes along an arc; its chord is shorter than the way, by 1.5 % at most here.
        slack = _WALK_TOLERANCE + (0.015 * walk if sign else 0.0)
        require(
            abs(turned - turn) <= _TURN_TOLERANCE and abs(walked - walk) <= slack,
            f"{decisions} decisions of {name} turn by {turned:.2f} degrees and walk {walked:.2f} units; "
            f"expected {turn:.2f} and {walk:.2f}.",
        )

    def close(self) -> None:
        if self._env is not None:
            self._env.close()

    def _opened(self) -> DoomEnv:
        if self._env is None or self._env.engine_pid is None:
            raise ValueError("not tried, for there is no engine.")
        return self._env


def check(name: str, look: Callable[[], str], *, needed: bool = True) -> Check:
    """Run one check; whatever it raises becomes its detail."""
    try:
        return Check(name, True, look(), needed)
    except Exception as error:
        return Check(name, False, _sentence(error), needed)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    text = " ".join(str(error).split())
    return text or type(error).__name__


def _python() -> str:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    require(sys.version_info >= (3, 11), f"{found}; egomap needs Python 3.11 or later.")
    return found


def _version(package: str) -> str:
    """The installed version, by its metadata: torch takes seconds to import, and nothing here needs it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(f"not installed; run `pip install {package}`.") from None


def _shared_memory() -> str:
    if not SHARED_MEMORY.is_dir():
        return f"this system has no {SHARED_MEMORY}, so it sets no limit that can be told"
    space = shutil.disk_usage(SHARED_MEMORY)
    fitting = space.free // SHARED_MEMORY_PER_ENGINE
    found = (
        f"{_mega(space.free)} of {_mega(space.total)} MB free in {SHARED_MEMORY}, room for {fitting} engines"
    )
    require(
        fitting >= ENGINES_WANTED,
        f"{found}; {ENGINES_WANTED} are wanted: give more (in a container: --shm-size=64m).",
    )
    return found


def _mega(size: int) -> int:
    return size // 2**20


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = default_threads(ENGINES_WANTED)
    return f"{usable} of {os.cpu_count()} for this process; {threads} threads step {ENGINES_WANTED} engines"


def _cache() -> str:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
            pass
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written to ({error.strerror}); set EGOMAP_CACHE to a folder that can."
        ) from error
    return f"{folder} can be written to, {_mega(shutil.disk_usage(folder).free)} MB free"
