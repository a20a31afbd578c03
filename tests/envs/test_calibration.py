"""Depth and camera against what is known: the walls of the layout, from real frames of random walks.

Everything is checked twice: strictly, against the wall that a ray through the pixel must hit, and as the map uses it,
by unprojecting pixels into the world, where they must land on walls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from egomap.config import Camera, ScenarioConfig
from egomap.envs import RENDER_MODES, DoomEnv
from egomap.envs.rendering import render_mode
from egomap.scenarios.dataset import generate
from egomap.scenarios.layout import Layout
from egomap.scenarios.udmf import wall_outline

from .helpers import random_actions

Make = Callable[..., DoomEnv]
MODES = sorted(RENDER_MODES)
EYE = 41.0
"""Map units from the floor to the player's eye."""
LAYOUTS, DECISIONS = 5, 50


def wall_lines(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(K, 2) beginnings and ends of all wall faces."""
    loops = wall_outline(layout)
    starts = np.array([point for loop in loops for point in loop])
    ends = np.array([point for loop in loops for point in loop[1:] + loop[:1]])
    return starts, ends


def directions(pose: np.ndarray, camera: Camera) -> np.ndarray:
    """(width, 2) world vectors of each column's ray, per unit of depth."""
    phi = float(pose[2])
    ahead, right = np.array([math.cos(phi), math.sin(phi)]), np.array([math.sin(phi), -math.cos(phi)])
    return ahead + ((np.arange(camera.width) + 0.5 - camera.cx) / camera.fx)[:, None] * right


def cast(layout: Layout, pose: np.ndarray, camera: Camera) -> np.ndarray:
    """(width,) depth of the first wall along each column's ray, by intersecting all lines."""
    starts, ends = wall_lines(layout)
    rays, along, gap = directions(pose, camera), ends - starts, starts - pose[:2]
    crossed = rays[:, None, 0] * along[:, 1] - rays[:, None, 1] * along[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = (gap[:, 0] * along[:, 1] - gap[:, 1] * along[:, 0]) / crossed
        part = (gap[:, 0] * rays[:, None, 1] - gap[:, 1] * rays[:, None, 0]) / crossed
    hit = (crossed != 0) & (depth > 0) & (part >= 0) & (part <= 1)
    return np.where(hit, depth, np.inf).min(axis=1)


def distance_to_walls(layout: Layout, points: np.ndarray) -> np.ndarray:
    """(P,) distance of each point (P, 2) to the nearest wall face."""
    starts, ends = wall_lines(layout)
    along = ends - starts
    part = ((points[:, None] - starts) * along).sum(axis=2) / (along**2).sum(axis=1)
    nearest = starts + np.clip(part, 0, 1)[..., None] * along
    return np.linalg.norm(points[:, None] - nearest, axis=2).min(axis=1)


class View(NamedTuple):
    layout: Layout
    pose: np.ndarray
    depth: np.ndarray


def views(env: DoomEnv) -> list[View]:
    """What is seen on random walks through several layouts."""
    found = []
    for number in range(LAYOUTS):
        observation, _ = env.reset(seed=number, options={"layout": number})
        layout = env.world.layout
        assert layout is not None
        for action in random_actions(number, DECISIONS):
            found.append(View(layout, observation["pose"].astype(float), observation["depth"].astype(float)))
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break
    return found


@pytest.fixture(scope="module", params=MODES)
def seen(request: pytest.FixtureRequest, sets: dict) -> tuple[str, Camera, list[View]]:
    env = DoomEnv(scenarios=sets["labyrinth"], rendering=request.param)
    try:
        return request.param, env.camera, views(env)
    finally:
        env.close()


def row_of(camera: Camera) -> int:
    """Just above the horizon: higher than any item, lower than any ceiling."""
    return round(camera.cy) - 1


def errors(camera: Camera, found: list[View]) -> np.ndarray:
    parts = []
    for view in found:
        depth = view.depth[row_of(camera)]
        known = np.isfinite(depth)
        parts.append((depth - cast(view.layout, view.pose, camera))[known])
    return np.concatenate(parts)


def test_depth_is_the_walls_that_rays_hit(seen: tuple[str, Camera, list[View]]) -> None:
    mode, camera, found = seen
    error = np.abs(errors(camera, found))
    assert error.size > 0.8 * len(found) * camera.width, "most columns are known"
    median, p95 = np.quantile(error, (0.5, 0.95))
    assert median <= 2.0 and p95 <= 6.0, f"{mode}: median {median:.2f}, 95th percentile {p95:.2f}"


def test_unprojected_points_land_on_walls(seen: tuple[str, Camera, list[View]]) -> None:
    mode, camera, found = seen
    distances = []
    for view in found:
        depth = view.depth[row_of(camera)]
        known = np.isfinite(depth)
        points = view.pose[:2] + depth[known, None] * directions(view.pose, camera)[known]
        distances.append(distance_to_walls(view.layout, points))
    median, p95 = np.quantile(np.concatenate(distances), (0.5, 0.95))
    assert median <= 2.0 and p95 <= 6.0, f"{mode}: median {median:.2f}, 95th percentile {p95:.2f}"


def test_no_other_focal_length_fits_the_walls_better(seen: tuple[str, Camera, list[View]]) -> None:
    mode, camera, found = seen
    scales = (0.94, 0.97, 1.0, 1.03, 1.06)
    spread = [
        float(np.mean(np.minimum(np.abs(errors(with_fx(camera, scale), found)), 30.0))) for scale in scales
    ]
    assert scales[int(np.argmin(spread))] == 1.0, f"{mode}: {dict(zip(scales, spread, strict=True))}"


def with_fx(camera: Camera, scale: float) -> Camera:
    return Camera(camera.width, camera.height, camera.fx * scale, camera.fy, camera.cx, camera.cy)


def test_walls_are_as_high_as_the_vertical_focal_length_says(seen: tuple[str, Camera, list[View]]) -> None:
    """The foot of a wall at depth z is fy * 41 / z below the picture's centre."""
    mode, camera, found = seen
    rows = np.arange(camera.height) + 0.5 - camera.cy
    ratios = []
    for view in found:
        expected = cast(view.layout, view.pose, camera)
        for column in range(0, camera.width, 8):
            z = expected[column]
            foot = camera.fy * EYE / z
            if not 12 < foot < camera.height / 2 - 6:
                continue  # outside the picture, or too small to measure
            is_wall = np.abs(view.depth[:, column] - z) < 8.0
            below = rows[(rows > 0) & is_wall]
            if below.size:
                ratios.append((below.max() + 0.5) / foot)
    assert len(ratios) > 100, mode
    assert np.median(ratios) == pytest.approx(1.0, abs=0.04), mode


def test_the_camera_of_each_mode_is_the_published_one() -> None:
    expected = {
        "160x120-wide": (60.0, 96.0),
        "200x150-wide": (75.0, 120.0),
        "160x120": (80.0, 96.0),
        "256x144": (96.0, 115.2),
        "320x180": (120.0, 144.0),
    }
    assert set(expected) == set(RENDER_MODES)
    for name, (fx, fy) in expected.items():
        mode = render_mode(name)
        camera = mode.camera
        assert (camera.fx, camera.fy) == pytest.approx((fx, fy))
        assert (camera.cx, camera.cy) == (mode.width / 2, mode.height / 2)
        horizontal = 2 * math.degrees(math.atan(mode.width / 2 / fx))
        assert horizontal == pytest.approx(106.26 if mode.wide else 90.0, abs=0.01)
        assert 2 * math.degrees(math.atan(mode.height / 2 / fy)) == pytest.approx(64.0, abs=0.02)
        small = mode.observation_camera
        assert (small.width, small.height) == (112, 64)
        assert (small.cx, small.cy) == pytest.approx((56.0, 32.0))
        assert small.fx == pytest.approx(fx * 112 / mode.width)
        assert small.fy == pytest.approx(fy * 64 / mode.height)


@pytest.mark.parametrize(
    ("mode", "saturation", "offset"),
    [
        ("160x120-wide", 63, 6.30),
        ("160x120", 63, 6.30),
        ("200x150-wide", 79, 7.97),
        ("256x144", 76, 7.84),
        ("320x180", 95, 8.56),
    ],
)
def test_what_a_depth_level_means(mode: str, saturation: int, offset: float) -> None:
    table = render_mode(mode).depth_table()
    assert (table.shape, table.dtype) == ((256,), np.float32)
    np.testing.assert_allclose(table[:saturation], 7.139 * np.arange(saturation) + offset, rtol=1e-6)
    assert np.isinf(table[saturation]) and np.isinf(table[255]), "farther than can be told, and the sky"
    others = np.delete(table, [saturation, 255])
    assert np.isfinite(others).all() and (np.diff(others) > 0).all()


def test_far_walls_are_unknown_and_never_wrong(doom: Make, tmp_path: Path) -> None:
    """At 160x120 walls saturate at 453 units: beyond, depth is inf, not a number that is too small."""
    halls = generate(
        ScenarioConfig(size=9, wall_probability=0.1, train=LAYOUTS, test=0, seed=1), tmp_path / "set"
    )
    env = doom(scenarios=halls)
    far = near = 0
    for view in views(env):
        expected = cast(view.layout, view.pose, env.camera)
        depth = view.depth[row_of(env.camera)]
        inner = np.r_[False, (np.abs(np.diff(expected, 2)) < 5), False]  # not at the edge of a wall
        far += int((np.isinf(depth) & inner & (expected > 465)).sum())
        assert not (np.isfinite(depth) & inner & (expected > 465)).any()
        near += int((np.isinf(depth) & inner & (expected < 440)).sum())
    assert far > 50 and near == 0


def test_an_unknown_mode_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"rendering must be one of 160x120-wide, .*320x180; got '640x480'\."
    ):
        render_mode("640x480")
