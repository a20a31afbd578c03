from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from egomap.geometry import (
    cells,
    compose,
    ego_from_world,
    invert,
    motion_between,
    relative_pose,
    world_from_ego,
    wrap,
)

PI = math.pi


def tensor(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random(*shape: int, seed: int, scale: float = 10.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


seeds = st.integers(0, 10**6)


def assert_same_pose(first: torch.Tensor, second: torch.Tensor) -> None:
    torch.testing.assert_close(first[..., :2], second[..., :2], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        wrap(first[..., 2] - second[..., 2]), torch.zeros_like(first[..., 2]), rtol=0, atol=1e-9
    )


# -- world and ego ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phi", "ahead", "right"),
    [(0.0, (1, 0), (0, -1)), (PI / 2, (0, 1), (1, 0)), (PI, (-1, 0), (0, 1)), (-PI / 2, (0, -1), (-1, 0))],
    ids=["east", "north", "west", "south"],
)
def test_ahead_and_right_of_the_four_headings(phi, ahead, right):
    pose = tensor(10.0, 20.0, phi)
    seen = world_from_ego(tensor([0.0, 3.0], [2.0, 0.0]), pose)  # three ahead; two to the right
    expected = tensor([10 + 3 * ahead[0], 20 + 3 * ahead[1]], [10 + 2 * right[0], 20 + 2 * right[1]])
    torch.testing.assert_close(seen, expected)


def test_the_agent_is_its_own_origin():
    pose = random(5, 3, seed=0)
    zero = torch.zeros(5, 1, 2, dtype=torch.float64)
    torch.testing.assert_close(world_from_ego(zero, pose)[:, 0], pose[:, :2])
    torch.testing.assert_close(ego_from_world(pose[:, None, :2], pose), zero)


@given(seeds)
def test_ego_from_world_is_the_inverse(seed):
    points, pose = random(2, 3, 5, 2, seed=seed), random(2, 3, 3, seed=seed + 1)
    torch.testing.assert_close(ego_from_world(world_from_ego(points, pose), pose), points)
    torch.testing.assert_close(world_from_ego(ego_from_world(points, pose), pose), points)


@given(seeds)
def test_frames_keep_lengths_and_handedness(seed):
    a, b, c = world_from_ego(random(3, 2, seed=seed), random(3, seed=seed + 1)).unbind(0)
    p, q, r = random(3, 2, seed=seed).unbind(0)
    torch.testing.assert_close((a - b).norm(), (p - q).norm())

    def area(u, v):
        return u[0] * v[1] - u[1] * v[0]

    torch.testing.assert_close(area(b - a, c - a), area(q - p, r - p))  # no mirror


def test_a_batch_is_its_single_poses_and_leading_axes_broadcast():
    points, pose = random(4, 6, 2, seed=0), random(4, 3, seed=1)
    for convert in (world_from_ego, ego_from_world):
        batch = convert(points, pose)
        assert batch.shape == (4, 6, 2)
        for n in range(4):
            torch.testing.assert_close(batch[n], convert(points[n], pose[n]), rtol=0, atol=1e-12)
        seen_by_all = convert(points[0], pose)  # the same six points from four poses
        assert seen_by_all.shape == (4, 6, 2)
        torch.testing.assert_close(seen_by_all[2], convert(points[0], pose[2]), rtol=0, atol=1e-12)


# -- poses and motions --------------------------------------------------------------------------------------


def test_compose_by_hand():
    # Facing north: two to the right is east, five ahead is north; then a quarter turn to the left faces west.
    torch.testing.assert_close(
        compose(tensor(1.0, 1.0, PI / 2), tensor(2.0, 5.0, PI / 2)), tensor(3.0, 6.0, -PI)
    )
    # Facing east: ahead is east, right is south.
    torch.testing.assert_close(compose(tensor(0.0, 0.0, 0.0), tensor(2.0, 5.0, 0.3)), tensor(5.0, -2.0, 0.3))


@given(seeds)
def test_motions_are_a_group(seed):
    pose, first, second = (random(4, 3, seed=seed + i) for i in range(3))
    zero = torch.zeros(4, 3, dtype=torch.float64)
    assert_same_pose(compose(pose, zero), pose)
    assert_same_pose(compose(compose(pose, first), invert(first)), pose)
    assert_same_pose(compose(pose, motion_between(pose, second)), second)
    assert_same_pose(motion_between(pose, compose(pose, first)), first)
    assert_same_pose(motion_between(pose, pose), zero)


@given(seeds)
def test_a_point_seen_after_a_motion(seed):
    """Where a fixed point of the world is seen next follows from the motion alone."""
    pose, motion, point = random(3, seed=seed), random(3, seed=seed + 1), random(1, 2, seed=seed + 2)
    seen_then = ego_from_world(point, pose)
    # In the old ego frame, where the agent stood at the origin facing +y, it is a world like any other.
    there = compose(tensor(0.0, 0.0, PI / 2), motion)
    torch.testing.assert_close(ego_from_world(point, compose(pose, motion)), ego_from_world(seen_then, there))


def test_relative_pose_by_hand():
    origin = tensor(10.0, 10.0, PI)  # faces west: west becomes north, north becomes east
    assert_same_pose(relative_pose(origin, origin), tensor(0.0, 0.0, PI / 2))
    assert_same_pose(relative_pose(tensor(7.0, 10.0, PI), origin), tensor(0.0, 3.0, PI / 2))
    assert_same_pose(relative_pose(tensor(10.0, 14.0, PI / 2), origin), tensor(4.0, 0.0, 0.0))


@given(seeds)
def test_relative_poses_see_the_same_things(seed):
    """What is near the agent does not depend on the world that its pose is told in."""
    pose, origin, seen = random(3, seed=seed), random(3, seed=seed + 1), random(6, 2, seed=seed + 2)
    there = world_from_ego(seen, relative_pose(pose, origin))  # in the world of `origin`
    facing_north = tensor(0.0, 0.0, PI / 2)  # `origin` in its own world, where ego and world axes agree
    back = world_from_ego(ego_from_world(there, facing_north), origin)
    torch.testing.assert_close(back, world_from_ego(seen, pose))


@given(st.floats(-50, 50))
def test_wrap(angle):
    wrapped = float(wrap(tensor(angle)))
    assert -PI <= wrapped <= PI
    assert math.isclose(math.cos(wrapped), math.cos(angle), abs_tol=1e-12)
    assert math.isclose(math.sin(wrapped), math.sin(angle), abs_tol=1e-12)


def test_wrap_by_hand():
    torch.testing.assert_close(wrap(tensor(0.0, PI, -PI, 3 * PI / 2, -5 * PI / 2)),
                               tensor(0.0, -PI, -PI, -PI / 2, -PI / 2))  # fmt: skip


def test_frames_gradcheck():
    points = random(2, 3, 2, seed=0, scale=1.0).requires_grad_()
    pose, motion = (random(2, 3, seed=i, scale=1.0).requires_grad_() for i in (1, 2))
    check = torch.autograd.gradcheck
    assert check(world_from_ego, (points, pose)) and check(ego_from_world, (points, pose))
    assert check(compose, (pose, motion)) and check(motion_between, (pose, motion))
    assert check(invert, (motion,)) and check(relative_pose, (pose, motion))


# -- cells --------------------------------------------------------------------------------------------------


def test_cells_by_hand():
    # Four cells of side 10: x from -20 to 20 to the east, row 0 in the north.
    points = tensor([-19.0, 19.0], [19.0, 19.0], [-19.0, -19.0], [0.1, 0.1], [-0.1, -0.1], [12.0, -3.0])
    index, inside = cells(points, extent=40.0, size=4)
    assert index.tolist() == [0, 3, 12, 1 * 4 + 2, 2 * 4 + 1, 2 * 4 + 3]
    assert inside.all()


def test_edges_belong_to_the_cell_in_the_east_and_south():
    points = tensor([0.0, 0.0], [-20.0, 20.0], [20.0, 0.0], [0.0, -20.0], [-10.0, 10.0])
    index, inside = cells(points, extent=40.0, size=4)
    assert inside.tolist() == [True, True, False, False, True]
    assert index.tolist() == [2 * 4 + 2, 0, 0, 0, 1 * 4 + 1]


def test_points_outside_and_not_finite():
    nan, inf = math.nan, math.inf
    points = tensor([20.1, 0], [0, 20.1], [-20.1, 0], [0, -20.1], [nan, 0], [0, nan], [inf, 0], [0, -inf])
    index, inside = cells(points, extent=40.0, size=4)
    assert not inside.any() and (index == 0).all()


@given(st.integers(1, 40), st.floats(1.0, 2000.0))
def test_every_cell_holds_its_centre(size, extent):
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * (extent / size) - extent / 2
    y, x = torch.meshgrid(-centre, centre, indexing="ij")
    index, inside = cells(torch.stack((x, y), -1), extent=extent, size=size)
    assert inside.all()
    assert torch.equal(index.flatten(), torch.arange(size * size))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_index_is_exact_in_every_dtype(dtype):
    """Short floats cannot hold a three-digit cell number, so it must not be computed in them."""
    size = 24
    centre = torch.arange(size, dtype=torch.float64) + 0.5 - size / 2
    y, x = torch.meshgrid(-centre, centre, indexing="ij")
    index, _ = cells(torch.stack((x, y), -1).to(dtype), extent=float(size), size=size)
    assert index.dtype == torch.int64
    assert torch.equal(index.flatten(), torch.arange(size * size))


@pytest.mark.parametrize("lead", [(), (3,), (2, 3, 4)])
def test_cells_take_any_leading_shape(lead):
    index, inside = cells(torch.zeros(*lead, 2), extent=1.0, size=3)
    assert index.shape == inside.shape == lead
    assert (index == 4).all() and inside.all()  # an odd size has a cell in the middle


# -- wrong shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: world_from_ego(torch.zeros(4, 3), torch.zeros(3)), r"points must have shape \(..., \*, 2\)"),
        (
            lambda: world_from_ego(torch.zeros(4, 2), torch.zeros(2)),
            r"pose must have shape \(..., 3\); got \(2,\)",
        ),
        (lambda: ego_from_world(torch.zeros(2), torch.zeros(3)), r"points must have shape"),
        (lambda: ego_from_world(torch.zeros(4, 2), torch.zeros(4)), r"pose must have shape"),
        (lambda: compose(torch.zeros(3), torch.zeros(2)), r"motion must have shape"),
        (lambda: compose(torch.zeros(2), torch.zeros(3)), r"pose must have shape"),
        (lambda: motion_between(torch.zeros(3), torch.zeros(4)), r"current pose must have shape"),
        (lambda: motion_between(torch.zeros(4), torch.zeros(3)), r"pose must have shape"),
        (lambda: invert(torch.zeros(4)), r"motion must have shape"),
        (lambda: cells(torch.zeros(4, 3), extent=1.0, size=4), r"points must have shape \(..., 2\)"),
    ],
)
def test_wrong_shapes_are_told(call, message):
    with pytest.raises(ValueError, match=message):
        call()
