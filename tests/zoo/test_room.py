from __future__ import annotations

import math

import numpy as np
import pytest

from egomap.zoo.room import CAMERA, CARD_DISTANCE, CEILING, EYES, HALF, HEIGHT, WIDTH, card, fog, room

EAST, NORTH, WEST, SOUTH = WALLS = ((200, 0, 0), (0, 200, 0), (0, 0, 200), (200, 200, 0))
MIDDLE = (HEIGHT // 2, WIDTH // 2)


@pytest.mark.parametrize(
    ("heading", "ahead", "left", "right"),
    [(0, EAST, NORTH, SOUTH), (1, NORTH, WEST, EAST), (2, WEST, SOUTH, NORTH), (-1, SOUTH, EAST, WEST)],
)
def test_each_wall_is_where_its_name_says(heading, ahead, left, right):
    """From the middle the wall ahead fills the view of 90 degrees; turned by 45 degrees, two walls share it."""
    rgb, depth = room(np.array([0.0, 0.0, heading * math.pi / 2]), WALLS)
    assert tuple(rgb[:, MIDDLE[0], MIDDLE[1]]) == ahead
    assert depth[MIDDLE] == pytest.approx(HALF)
    rgb, _ = room(np.array([0.0, 0.0, heading * math.pi / 2 + math.pi / 4]), WALLS)
    assert tuple(rgb[:, MIDDLE[0], 0]) == left and tuple(rgb[:, MIDDLE[0], -1]) == ahead
    rgb, _ = room(np.array([0.0, 0.0, heading * math.pi / 2 - math.pi / 4]), WALLS)
    assert tuple(rgb[:, MIDDLE[0], 0]) == ahead and tuple(rgb[:, MIDDLE[0], -1]) == right


def test_depth_is_the_distance_ahead_not_along_the_ray():
    _, depth = room(np.array([56.0, 30.0, 0.0]), WALLS)
    assert np.allclose(depth[MIDDLE[0]], HALF - 56.0)  # a flat wall is equally deep in every column
    near = room(np.array([HALF - 10.0, 0.0, 0.0]), WALLS)[1]
    assert near.max() == pytest.approx(10.0)


def test_floor_and_ceiling():
    """Where the ground is nearer than the wall it is seen, at the distance at which its row meets it."""
    rgb, depth = room(np.array([0.0, 0.0, 0.0]), WALLS)
    down = (HEIGHT - 0.5 - CAMERA.cy) / CAMERA.fy
    assert np.allclose(depth[-1], EYES / down) and np.allclose(depth[0], CEILING / down)
    assert tuple(rgb[:, -1, 5]) != EAST and tuple(rgb[:, 0, 5]) != EAST
    assert tuple(rgb[:, -1, 5]) != tuple(rgb[:, 0, 5])


def test_a_place_is_seen_from_two_sides_at_the_same_point_of_the_world():
    """What a pixel shows lies where the camera's geometry says: the corner between east and north, from two poses."""
    found = []
    for pose in ((0.0, 0.0, math.pi / 4), (100.0, -50.0, math.pi / 3)):
        rgb, depth = room(np.array(pose), WALLS)
        row = rgb[:, MIDDLE[0]].T
        column = next(u for u in range(WIDTH) if tuple(row[u]) == EAST)  # the first to the right of north
        x, y, phi = pose
        right, ahead = (
            depth[MIDDLE[0], column] * (column + 0.5 - CAMERA.cx) / CAMERA.fx,
            depth[MIDDLE[0], column],
        )
        found.append(
            (
                x + ahead * math.cos(phi) + right * math.sin(phi),
                y + ahead * math.sin(phi) - right * math.cos(phi),
            )
        )
    for place in found:
        assert place[0] == pytest.approx(HALF, abs=1e-3) and HALF - 25 < place[1] <= HALF


def test_card_and_fog():
    rgb, depth = card((1, 2, 3))
    assert (rgb.reshape(3, -1).T == (1, 2, 3)).all() and (depth == CARD_DISTANCE).all()
    assert len(np.unique(fog()[0])) == 1 and np.isinf(fog()[1]).all()
