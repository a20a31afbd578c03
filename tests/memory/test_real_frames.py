"""On the real engine: a pillar at a known place is written to its own cell, from wherever it is seen.

An arena without inner walls; the player walks around the red pillar and looks about. Which pixels show the
pillar is told by its colour, where they are by the geometry under test.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
import pytest
import torch
from egomaps import at, never

from egomap.config import Camera, MapSettings, ScenarioConfig
from egomap.envs import DoomEnv
from egomap.geometry import cells, ego_from_world, unproject, world_from_ego
from egomap.memory import EgoMapMemory, MemoryInputs
from egomap.memory.egomap import EgoMapState
from egomap.scenarios.dataset import generate
from egomap.scenarios.layout import Layout
from envs.helpers import LEFT, Point, walk

PILLAR_RADIUS = 20.0  # half of the sprite's width
DEPTH_STEP = 7.2  # map units from one depth level to the next


class Walk(NamedTuple):
    """All that was seen on a walk around the red pillar."""

    camera: Camera
    arena: float
    red: Point
    green: Point
    rgb: np.ndarray
    """(T, 64, 112, 3)"""
    depth: torch.Tensor
    """(T, 64, 112)"""
    pose: torch.Tensor
    """(T, 3)"""
    ego_motion: torch.Tensor
    """(T, 3)"""


def stands_free(layout: Layout) -> bool:
    """The red pillar has room on all sides, and the green one, where the player starts, is not in the way."""
    red, green = layout.goals
    apart = max(abs(red.column - green.column), abs(red.row - green.row))
    return all(1 <= place <= 3 for place in red) and apart >= 2


def corners_around(place: Point, pose: np.ndarray) -> list[Point]:
    """A square around `place`, counter-clockwise from the corner next to the player."""
    sides = ((-110, -110), (110, -110), (110, 110), (-110, 110))
    corners = [(place[0] + dx, place[1] + dy) for dx, dy in sides]
    first = min(range(4), key=lambda i: math.dist(corners[i], pose[:2]))
    return corners[first:] + corners[:first]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    config = ScenarioConfig(task="find-return", size=5, wall_probability=0.0, train=40, test=0, seed=2)
    scenarios = generate(config, tmp_path_factory.mktemp("open arenas"))
    layouts = scenarios.layouts["train"]
    index = next(index for index, layout in enumerate(layouts) if stands_free(layout))
    env = DoomEnv(task="find-return", scenarios=scenarios)
    try:
        observation, _ = env.reset(seed=1, options={"layout": index})
        red, green = (layouts[index].center(goal) for goal in layouts[index].goals)
        frames = [observation]
        for corner in corners_around(red, observation["pose"]):
            frames += [step.observation for step in walk(env, frames[-1], [corner])]
            for _ in range(28):  # once around
                frames.append(env.step(LEFT)[0])
        arena, camera = env.extent, env.camera
    finally:
        env.close()
    stack = {key: np.stack([frame[key] for frame in frames]) for key in frames[0]}
    floats = {key: torch.from_numpy(stack[key]).double() for key in ("depth", "pose", "ego_motion")}
    return Walk(camera, arena, red, green, stack["rgb"].transpose(0, 2, 3, 1), **floats)


def pixels_of(colour: int, seen: Walk) -> torch.Tensor:
    """(T, 64, 112) bool: the pixels of known depth that show things of one colour.

    Without the rim, where two things share a pixel, and without the few that the engine leaves out when it
    draws a sprite into its depth buffer (one in two thousand; they have the depth of what is behind).
    """
    image = seen.rgb.astype(np.int32)
    others = np.delete(image, colour, axis=-1).max(-1)
    mask = ((image[..., colour] > 2 * others) & (image[..., colour] > 45)).astype(np.uint8)
    inner = torch.from_numpy(np.stack([cv2.erode(one, np.ones((3, 3), np.uint8)) for one in mask])).bool()
    around = torch.from_numpy(np.stack([cv2.medianBlur(one, 3) for one in seen.depth.float().numpy()]))
    return inner & ((seen.depth - around).abs() < 2 * DEPTH_STEP)


def bearings(pose: torch.Tensor, point: Point) -> torch.Tensor:
    return torch.atan2(pose[:, 1] - point[1], pose[:, 0] - point[0])


def cell_of(point: Point, settings: MapSettings) -> tuple[int, int]:
    """Row, from the north, and column, from the west."""
    half, side = settings.extent / 2, settings.extent / settings.map_size
    return math.floor((half - point[1]) / side), math.floor((point[0] + half) / side)


def test_every_pixel_of_the_pillar_is_at_the_pillar(seen):
    """Unprojected and turned into the world: within the sprite's width and one step of the depth buffer."""
    tangents = (torch.arange(112, dtype=torch.float64) + 0.5 - seen.camera.cx) / seen.camera.fx
    points = world_from_ego(unproject(seen.depth, tangents).flatten(1, 2), seen.pose)
    for colour, place, views in ((0, seen.red, 24), (1, seen.green, 5)):
        mask = pixels_of(colour, seen)
        assert (mask.sum((1, 2)) > 8).sum() >= views
        off = points[mask.flatten(1)] - torch.tensor(place, dtype=torch.float64)
        assert off.norm(dim=-1).max() < PILLAR_RADIUS + DEPTH_STEP
        assert off.mean(0).norm() < 4.0  # no side is favoured
    around = bearings(seen.pose[pixels_of(0, seen).sum((1, 2)) > 8], seen.red)
    assert len(set((around / (math.pi / 2)).floor().tolist())) == 4  # it was seen from all four quarters


def test_the_middle_of_the_pillar_is_in_its_direction(seen):
    """Half a pixel, or a column counted from the wrong side, would show as a constant offset to one side."""
    tangents = (torch.arange(112, dtype=torch.float64) + 0.5 - seen.camera.cx) / seen.camera.fx
    mask, offsets = pixels_of(0, seen), []
    for frame in (mask.sum((1, 2)) > 8).nonzero().flatten().tolist():
        right, ahead = ego_from_world(torch.tensor([seen.red], dtype=torch.float64), seen.pose[frame])[
            0
        ].tolist()
        columns = tangents[mask[frame].any(0)]
        if abs(right) < ahead / 2:  # all of it is in view
            offsets.append(float(columns.min() + columns.max()) / 2 - right / ahead)
    assert len(offsets) >= 10
    pixel = 1 / seen.camera.fx
    assert abs(sum(offsets) / len(offsets)) < pixel / 3


def test_the_pillar_is_written_to_its_own_cell_from_every_pose(seen):
    """One feature per pixel, the pillar's pixels alone, an empty map for each pose."""
    # Cells of 32 units, and the places of pillars, multiples of 128, in the middle of one.
    settings = MapSettings(channels=1, map_size=25, extent=800.0, use_global_read=False, use_query=False)
    memory = EgoMapMemory(
        seen.camera, settings, feature_shape=(1, 64, 112), kernels=(1,), strides=(1,), hidden_size=2
    ).double()
    mask = pixels_of(0, seen)
    views = (mask.sum((1, 2)) > 8).nonzero().flatten()
    depth = seen.depth.masked_fill(~mask, math.inf)[views]
    features = torch.ones(len(views), 1, 64, 112, dtype=torch.float64)
    inputs = MemoryInputs(features, depth, seen.pose[views], seen.ego_motion[views])
    _, state = memory.step(inputs, memory.initial_state(len(views)))  # each pose an environment of its own
    known = EgoMapState(*state).known.unflatten(1, (25, 25))
    row, column = cell_of(seen.red, settings)
    assert len(views) >= 24
    assert known[:, row, column].all()
    around = known[:, row - 1 : row + 2, column - 1 : column + 2]
    assert known.sum() == around.sum()  # its radius reaches into the neighbours, never beyond
    # All but the rim of the pillar is in its own cell.
    index, _ = cells(
        world_from_ego(unproject(depth, memory.tangents.double()).flatten(1, 2), inputs.pose),
        extent=settings.extent,
        size=settings.map_size,
    )
    own = index[depth.flatten(1).isfinite()] == row * 25 + column
    assert own.double().mean() > 0.8


def test_a_walk_with_the_paper_s_grid_maps_both_pillars(seen):
    """The 4 x 10 features of the paper, its map of 24 cells over the arena and 20 %, everything in view written."""
    settings = MapSettings(channels=3, extent=seen.arena * 1.2, alpha=0.5)
    memory = EgoMapMemory(seen.camera, settings, feature_shape=(3, 4, 10), hidden_size=4).double()
    steps = len(seen.depth)
    # What a perfect perception would say: red, green, or something else, at the pixel whose depth counts.
    mask = torch.stack([pixels_of(0, seen), pixels_of(1, seen)], 1)
    kinds = torch.cat((mask, ~mask.any(1, keepdim=True)), 1)  # (T, 3, 64, 112)
    near = seen.depth[:, memory.depth_rows[:, None], memory.depth_columns]
    near = near.unflatten(1, (4, 2)).unflatten(3, (10, 2)).transpose(2, 3).flatten(3)  # (T, 4, 10, 4)
    nearest = near.argmin(-1)[:, None].expand(-1, 3, -1, -1)
    at_centre = kinds[:, :, memory.depth_rows[:, None], memory.depth_columns]
    at_centre = at_centre.unflatten(2, (4, 2)).unflatten(4, (10, 2)).transpose(3, 4).flatten(4)
    features = at_centre.gather(-1, nearest[..., None]).squeeze(-1).double()  # (T, 3, 4, 10)
    inputs = MemoryInputs(*(x[:, None] for x in (features, seen.depth, seen.pose, seen.ego_motion)))
    _, state = memory.unroll(inputs, memory.initial_state(1), never(steps, 1))
    world = EgoMapState(*state).map[0].unflatten(0, (24, 24))
    side = settings.extent / 24
    for channel, place in ((0, seen.red), (1, seen.green)):
        rows, columns = (world[..., channel] > 1e-9).nonzero().unbind(1)
        x, y = (columns + 0.5) * side - settings.extent / 2, settings.extent / 2 - (rows + 0.5) * side
        # From the centre of a cell to its pillar: half a diagonal, and what the pillar is wide.
        far = torch.hypot(x - place[0], y - place[1])
        assert len(far) > 0
        assert far.max() < side * math.sqrt(0.5) + PILLAR_RADIUS + DEPTH_STEP
    # Nobody sees through the outer walls.
    known = EgoMapState(*state).known[0].unflatten(0, (24, 24)).nonzero()
    beyond = ((known + 0.5) * side - settings.extent / 2).abs().amax()
    assert beyond < seen.arena / 2 + side / 2 + DEPTH_STEP
    # The agent's own map shows the pillar where it is, seen from the last pose.
    trace: dict[str, torch.Tensor] = {}
    memory.step(at(inputs, steps - 1), state, trace=trace)
    mass = trace["map_ego"][0, 0] / trace["map_ego"][0, 0].sum()
    centre = (torch.arange(24, dtype=torch.float64) + 0.5) * side - settings.extent / 2
    middle = torch.stack(((mass.sum(0) * centre).sum(), -(mass.sum(1) * centre).sum()))
    place = ego_from_world(torch.tensor([seen.red], dtype=torch.float64), seen.pose[-1])[0]
    assert place.norm() > 4 * side
    assert (middle - place).norm() < side
