"""One Gymnasium environment behind the seam: found by name, described, examined, and read observation by observation.

What comes in: the name of an environment whose observations have rgb, depth and pose, and what the settings say where
it does not speak for itself. What goes out: a `WorldSpec`, and rows in map units. What lacks something is refused in
a sentence that says what, and how to give it. docs/extending.md has an example.

Convention: the environment's pose is (x, y, phi) in its own lengths, x east, y north, phi counter-clockwise from +x;
its depth is the distance along the camera's axis. Both are multiplied by `WorldSpec.unit`, positions after the middle
of the arena is taken off.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from egomap.config import Camera, EnvSettings, require
from egomap.worlds.api import Statistics, WorldSpec
from egomap.worlds.ego_motion import wrap

NEEDED = ("rgb", "depth", "pose")
ARENA = 640.0
"""Map units of an arena's side where no unit is given: as our mazes of 5 x 5 cells, which the agents' sizes suit."""
EXAMINED = 256
"""Random decisions from which the picture's statistics are taken."""
LEAST_DEVIATION = 1e-3
"""Levels and map units; a channel that never changes has this."""
FACTS = ("camera", "fov", "extent", "unit", "depth_range", "actions")
"""What an environment may tell of itself in a dictionary `egomap`, an attribute of it or an entry of its metadata."""


def make(name: str) -> gymnasium.Env[Any, Any]:
    """The environment of that name: package:EnvId, or package.module:function (or class).

    Raises:
        ValueError: There is none.
    """
    module_name, _, attribute = name.partition(":")
    require(
        bool(module_name and attribute),
        f"an environment is named package:EnvId or package.module:function; got {name!r:.80}.",
    )
    if os.getcwd() not in sys.path:  # as with `python -m`, so that a file in this folder is found
        sys.path.insert(0, os.getcwd())
    require(_top(module_name) not in sys.stdlib_module_names, f"{module_name} belongs to Python itself.")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"{module_name} cannot be imported: {error}.") from error
    function = getattr(module, attribute, None)
    if callable(function):
        made = function()
        require(isinstance(made, gymnasium.Env), f"{name} gives {type(made).__name__}, not a gymnasium.Env.")
        return made
    try:
        return gymnasium.make(attribute, disable_env_checker=True)
    except gymnasium.error.Error as error:
        raise ValueError(f"{module_name} has no function and registers no id {attribute}: {error}") from error


def require_outside(name: str, folder: Path) -> None:
    """Raise a ValueError if the module of an environment would be imported from within `folder`; nothing is imported.

    Args:
        name: Of an environment; nothing if it is empty.
        folder: Of a run, which may be anybody's.
    """
    top = _top(name.partition(":")[0])
    spec = importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) if top else None
    if spec is None:
        return  # making the environment will say so
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
    require(
        not any(place and Path(place).resolve().is_relative_to(folder.resolve()) for place in places),
        f"{folder} names the environment {name:.80}, and {top} would be imported from that folder, which may be "
        "anybody's; put the file elsewhere.",
    )


def _top(module_name: str) -> str:
    return module_name.partition(".")[0]


def describe(env: gymnasium.Env[Any, Any], settings: EnvSettings) -> WorldSpec:
    """What the environment's spaces, its own facts and the settings say; the settings count first.

    Raises:
        ValueError: Something is missing.
    """
    name = settings.id
    height, width = _picture(env.observation_space, name)
    told = _told(env, name)
    x, y, side = _arena(settings.extent or told.get("extent"), name)
    unit = float(settings.unit or told.get("unit") or ARENA / side)
    reach = settings.depth_range or told.get("depth_range")
    found = WorldSpec(
        name=name,
        camera=_camera(settings.fov or None, told, width, height, name),
        extent=side * unit,
        actions=_actions(env.action_space, told, name),
        unit=unit,
        center=(x, y),
        depth_range=float(reach) * unit if reach else None,
        unknown_depth=float(reach or side) * unit,
        measures_motion="ego_motion" in env.observation_space.spaces,  # type: ignore[attr-defined]
    )
    return found.validate()


def examine(settings: EnvSettings) -> WorldSpec:
    """Describe the environment, and take the picture's statistics from random decisions.

    Raises:
        ValueError: Something is missing, or it shows what it should not.
    """
    env = make(settings.id)
    try:
        spec = describe(env, settings)
        row = RawRow.blank(spec)
        reader = Reader(spec)
        draw = np.random.default_rng(0)
        observation, _ = env.reset(seed=0)
        total, squares = np.zeros(4), np.zeros(4)
        for _ in range(EXAMINED):
            reader.read(observation, row)
            _require_inside(row.pose, spec)
            depth = np.where(np.isfinite(row.depth), row.depth, spec.unknown_depth or 0.0)
            seen = np.concatenate((row.rgb, depth[..., None]), axis=-1, dtype=np.float64)
            total += seen.mean(axis=(0, 1))
            squares += np.square(seen).mean(axis=(0, 1))
            observation, _, terminated, truncated, _ = env.step(
                reader.action(env, int(draw.integers(spec.num_actions)))
            )
            if terminated or truncated:
                observation, _ = env.reset()
    finally:
        env.close()
    mean = total / EXAMINED
    deviation = np.sqrt(np.maximum(squares / EXAMINED - mean**2, 0.0))
    require(
        deviation[3] > 0,
        f"the depth of {spec.name} is the same everywhere: is it in one unit, and is depth_range not too small?",
    )
    deviation = np.maximum(deviation, LEAST_DEVIATION)
    red, green, blue, far = zip(mean.round(4).tolist(), deviation.round(4).tolist(), strict=True)
    return replace(spec, statistics=Statistics(*zip(red, green, blue, far, strict=True))).validate()


class RawRow(NamedTuple):
    """One observation as an environment's process writes it; views into arrays of many."""

    rgb: np.ndarray
    """(H, W, 3) uint8."""
    depth: np.ndarray
    """(H, W) float32, map units; inf where unknown."""
    pose: np.ndarray
    """(3,) float64, behind the seam."""
    ego_motion: np.ndarray
    """(3,) float64, as the environment measured it; zeros if it does not."""

    @staticmethod
    def blank(spec: WorldSpec) -> RawRow:
        """Fresh arrays for one observation."""
        height, width = spec.camera.height, spec.camera.width
        return RawRow(
            np.zeros((height, width, 3), np.uint8),
            np.zeros((height, width), np.float32),
            np.zeros(3),
            np.zeros(3),
        )


class Reader:
    """Reads the observations of environments with this spec."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec
        self._size = (spec.camera.height, spec.camera.width)
        self._reach = math.inf if spec.depth_range is None else spec.depth_range

    def read(self, observation: Mapping[str, Any], row: RawRow) -> None:
        """Write an observation into a row.

        Raises:
            ValueError: It is of another size than the spec says, or its pose is no number.
        """
        spec = self._spec
        rgb, depth = np.asarray(observation["rgb"]), np.asarray(observation["depth"])
        if rgb.shape != (*self._size, 3) and rgb.shape == (3, *self._size):
            rgb = rgb.transpose(1, 2, 0)
        if rgb.shape != (*self._size, 3) or depth.size != row.depth.size:
            self._refuse_size(rgb, depth)
        row.rgb[:] = rgb
        np.multiply(depth.reshape(self._size), spec.unit, out=row.depth, casting="unsafe")
        row.depth[~((row.depth > 0) & (row.depth < self._reach))] = np.inf  # NaN, too
        x, y, phi = (float(value) for value in observation["pose"])
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(phi)):
            raise ValueError(f"{spec.name} says that its pose is ({x}, {y}, {phi}).")
        row.pose[:] = (x - spec.center[0]) * spec.unit, (y - spec.center[1]) * spec.unit, wrap(phi)
        if spec.measures_motion:
            dx, dy, dphi = (float(value) for value in observation["ego_motion"])
            row.ego_motion[:] = dx * spec.unit, dy * spec.unit, wrap(dphi)

    @staticmethod
    def action(env: gymnasium.Env[Any, Any], number: int) -> Any:
        """The environment's own action of that number."""
        space = env.action_space
        assert isinstance(space, spaces.Discrete)
        return space.start + np.int64(number)

    def _refuse_size(self, rgb: np.ndarray, depth: np.ndarray) -> None:
        raise ValueError(
            f"{self._spec.name} shows rgb {rgb.shape} and depth {depth.shape}; its spaces said "
            f"{self._size[0]} x {self._size[1]} pixels."
        )


def _picture(space: spaces.Space[Any], name: str) -> tuple[int, int]:
    """Height and width of the pictures, if the space of observations is one that can be used."""
    require(
        isinstance(space, spaces.Dict),
        f"{name} observes a {type(space).__name__}; give it a dictionary with rgb, depth and pose, e.g. by a "
        "gymnasium.ObservationWrapper (docs/extending.md).",
    )
    assert isinstance(space, spaces.Dict)
    missing = [key for key in NEEDED if key not in space.spaces]
    require(
        not missing,
        f"{name} observes {', '.join(space.spaces)} and no {' and no '.join(missing)}; add it to its observations, "
        "e.g. by a gymnasium.ObservationWrapper (docs/extending.md).",
    )
    shapes = {key: tuple(space[key].shape or ()) for key in NEEDED}
    rgb, depth = shapes["rgb"], shapes["depth"]
    require(
        len(rgb) == 3 and 3 in (rgb[0], rgb[2]) and space["rgb"].dtype == np.uint8,
        f"the rgb of {name} must be uint8 of shape (H, W, 3) or (3, H, W); it is {space['rgb'].dtype} {rgb}.",
    )
    height, width = rgb[:2] if rgb[2] == 3 else rgb[1:]
    require(
        depth in ((height, width), (height, width, 1), (1, height, width)),
        f"the depth of {name} must be of shape ({height}, {width}), like its rgb; it is {depth}.",
    )
    require(shapes["pose"] == (3,), f"the pose of {name} must be (x, y, phi); its shape is {shapes['pose']}.")
    motion = space.spaces.get("ego_motion")
    require(
        motion is None or motion.shape == (3,),
        f"the ego_motion of {name} must be (dx, dy, dphi); leave it out to have it derived from the poses.",
    )
    return height, width


def _actions(space: spaces.Space[Any], told: Mapping[str, Any], name: str) -> tuple[str, ...]:
    require(
        isinstance(space, spaces.Discrete),
        f"{name} takes actions of a {type(space).__name__} space; our policies choose one of some actions: give it "
        "a Discrete space, e.g. by a gymnasium.ActionWrapper.",
    )
    assert isinstance(space, spaces.Discrete)
    count = int(space.n)
    names = tuple(map(str, told.get("actions") or (f"action {number}" for number in range(count))))
    require(len(names) == count, f"{name} has {count} actions and names {len(names)} of them.")
    return names


def _told(env: gymnasium.Env[Any, Any], name: str) -> Mapping[str, Any]:
    """What the environment tells of itself."""
    told = getattr(env.unwrapped, "egomap", None) or (env.metadata or {}).get("egomap") or {}
    require(
        isinstance(told, Mapping) and set(told) <= set(FACTS),
        f"{name} tells in its dictionary `egomap` what is not known; it may tell {', '.join(FACTS)}.",
    )
    return told


def _camera(fov: float | None, told: Mapping[str, Any], width: int, height: int, name: str) -> Camera:
    if fov is None and "camera" in told:
        given = told["camera"]
        camera = given if isinstance(given, Camera) else Camera(width=width, height=height, **given)
        require(
            (camera.width, camera.height) == (width, height),
            f"the camera of {name} is for {camera.width} x {camera.height} pixels; its rgb has {width} x {height}.",
        )
        return camera
    degrees = fov or told.get("fov")
    require(
        degrees is not None,
        f"{name} does not tell its camera: give the vertical opening angle by --env-fov DEGREES, or let it tell "
        'metadata["egomap"] = {"fov": DEGREES, ...}.',
    )
    vertical = math.radians(float(degrees or 0.0))
    require(
        0 < vertical < math.pi, f"the opening angle must be above 0 and below 180 degrees; got {degrees}."
    )
    horizontal = 2 * math.atan(math.tan(vertical / 2) * width / height)  # the pixels are square
    return Camera.from_fov(width, height, horizontal=horizontal, vertical=vertical)


def _arena(extent: Any, name: str) -> tuple[float, float, float]:
    """Middle and side of the square that holds the arena, from a side around the origin, or from bounds."""
    numbers = () if extent is None else tuple(np.atleast_1d(np.asarray(extent, np.float64)).tolist())
    require(
        len(numbers) in (1, 4),
        f"{name} does not tell its arena: give it by --env-extent, in its own lengths: SIDE, if the origin is in the "
        'middle, or WEST SOUTH EAST NORTH; or let it tell metadata["egomap"] = {"extent": ..., ...}.',
    )
    west, south, east, north = (
        numbers if len(numbers) == 4 else (-numbers[0] / 2,) * 2 + (numbers[0] / 2,) * 2
    )
    side = max(east - west, north - south)
    require(east > west and north > south and math.isfinite(side), f"an arena cannot be {numbers}.")
    return (west + east) / 2, (south + north) / 2, side


def _require_inside(pose: np.ndarray, spec: WorldSpec) -> None:
    half = spec.extent / 2 * (1 + 1e-6)
    x, y = (pose[:2] / spec.unit + spec.center).tolist()
    require(
        abs(pose[0]) <= half and abs(pose[1]) <= half,
        f"{spec.name} is at ({x:g}, {y:g}), outside of its arena of {spec.extent / spec.unit:g} around "
        f"({spec.center[0]:g}, {spec.center[1]:g}): give --env-extent WEST SOUTH EAST NORTH in its own lengths.",
    )
