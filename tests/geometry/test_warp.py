from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from egomap.geometry import (
    affine_from_motion,
    affine_from_pose,
    cells,
    compose,
    ego_from_world,
    image_from_rows,
    invert,
    warp,
    warp_transposed,
    world_from_ego,
    wrap,
)

PI = math.pi
SIZE, EXTENT = 24, 240.0  # cells of side 10


def random_map(*shape: int, seed: int = 0, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def smooth_map(batch: int) -> torch.Tensor:
    """A wave that bilinear interpolation follows closely: (batch, 2, SIZE, SIZE)."""
    at = torch.linspace(0, 2, SIZE, dtype=torch.float64)
    return torch.stack((at[:, None].sin() + at.cos(), at[:, None].cos() * at)).expand(batch, -1, -1, -1)


def seen_from(image: torch.Tensor, x: float, y: float, phi: float) -> torch.Tensor:
    pose = torch.tensor([[x, y, phi]], dtype=image.dtype)
    return warp(image, affine_from_pose(pose, EXTENT))


def rounding(image: torch.Tensor) -> float:
    """How far rounding alone may take a warped map from the exact one.

    A place in [-1, 1] comes with a few roundings of its own and of its heading's sine and cosine: 4 eps. Two units
    are `size` cells, and over one cell, in each of two directions, a value changes by the map's range at most (beyond
    the border lies 0).
    """
    size = image.shape[-1]
    return (
        4
        * torch.finfo(image.dtype).eps
        * size
        * 2
        * float(image.max().clamp(min=0) - image.min().clamp(max=0))
    )


# -- turns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [24, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_quarter_turns_are_exact(quarters, dtype, size):
    """Facing north the agent's map is the world's; a quarter turn to the left turns what it sees clockwise."""
    image = random_map(1, 3, size, size, dtype=dtype)
    heading = wrap(torch.tensor(PI / 2 + quarters * PI / 2, dtype=torch.float64)).to(dtype)
    pose = torch.stack((heading.new_zeros(()), heading.new_zeros(()), heading))[None]
    seen = warp(image, affine_from_pose(pose, EXTENT))
    expected = torch.rot90(image, -quarters, (2, 3))
    torch.testing.assert_close(seen, expected, rtol=0, atol=rounding(image))


def test_facing_east():
    """sin 0 and cos 0 are exact, and so is the matrix; the places of the cells are rounded as the processor likes."""
    image = random_map(1, 3, 8, 8, dtype=torch.float32)
    affine = affine_from_pose(torch.zeros(1, 3), 32.0)
    assert affine.tolist() == [[[0, -1, 0], [1, 0, 0]]]
    torch.testing.assert_close(
        warp(image, affine), torch.rot90(image, 1, (2, 3)), rtol=0, atol=rounding(image)
    )


# -- moves --------------------------------------------------------------------------------------------------


def test_walking_one_cell_north_brings_the_map_one_row_down():
    image = random_map(1, 2, SIZE, SIZE)
    seen = seen_from(image, 0.0, 10.0, PI / 2)
    torch.testing.assert_close(seen[:, :, 1:], image[:, :, :-1], rtol=0, atol=1e-12)
    assert seen[:, :, 0].abs().max() < 1e-12  # nothing is known beyond the border


def test_walking_one_cell_east_brings_the_map_one_column_left():
    seen = seen_from(image := random_map(1, 2, SIZE, SIZE), 10.0, 0.0, PI / 2)
    torch.testing.assert_close(seen[..., :-1], image[..., 1:], rtol=0, atol=1e-12)
    assert seen[..., -1].abs().max() < 1e-12


def test_half_a_cell_is_the_mean_of_two():
    seen = seen_from(image := random_map(1, 2, SIZE, SIZE), 5.0, 0.0, PI / 2)
    torch.testing.assert_close(seen[..., :-1], (image[..., 1:] + image[..., :-1]) / 2, rtol=0, atol=1e-12)
    # The border cells are half over the edge, where all is 0.
    torch.testing.assert_close(seen[..., -1], image[..., -1] / 2, rtol=0, atol=1e-12)


def test_far_away_there_is_nothing():
    assert (seen_from(random_map(1, 2, SIZE, SIZE), 5000.0, -3000.0, 1.0) == 0).all()


def test_warp_then_inverse_returns_the_interior():
    """Out by a motion and back by its inverse; a smooth map loses only what lies at the border."""
    image = smooth_map(3)
    motion = torch.tensor([[12.3, -7.1, 0.4], [0.0, 25.0, -2.0], [-3.0, 4.0, PI]], dtype=torch.float64)
    there = warp(image, affine_from_motion(motion, EXTENT))
    back = warp(there, affine_from_motion(invert(motion), EXTENT))
    inner = slice(8, -8)
    torch.testing.assert_close(back[..., inner, inner], image[..., inner, inner], rtol=0, atol=5e-3)
    assert (there[..., inner, inner] - image[..., inner, inner]).abs().max() > 0.05  # it did move


def test_whole_cells_and_quarter_turns_return_exactly():
    image = random_map(1, 2, SIZE, SIZE)
    motion = torch.tensor([[20.0, -30.0, PI / 2]], dtype=torch.float64)
    back = warp(warp(image, affine_from_motion(motion, EXTENT)), affine_from_motion(invert(motion), EXTENT))
    torch.testing.assert_close(back[..., 4:-4, 4:-4], image[..., 4:-4, 4:-4], rtol=0, atol=1e-11)


# -- one geometry: points, cells and maps agree -------------------------------------------------------------


@given(st.integers(0, 10**6))
def test_a_mark_is_seen_where_its_point_is_seen(seed):
    """A marked world cell appears in the agent's map around the place where `ego_from_world` puts its centre."""
    g = torch.Generator().manual_seed(seed)
    pose = (torch.rand(1, 3, generator=g, dtype=torch.float64) - 0.5) * torch.tensor([80.0, 80.0, 12.0])
    row, column = (int(v) for v in torch.randint(0, SIZE, (2,), generator=g))
    image = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.float64)
    image[0, 0, row, column] = 1.0
    centre = torch.tensor([[(column + 0.5) * 10 - 120, 120 - (row + 0.5) * 10]], dtype=torch.float64)
    seen = ego_from_world(centre, pose[0])[0]
    map_ego = warp(image, affine_from_pose(pose, EXTENT))[0, 0]
    if seen.abs().max() > 105:
        return  # at the border part of it is cut off
    # The centre of mass of the mark, in map units to the right and ahead.
    at = (torch.arange(SIZE, dtype=torch.float64) + 0.5) * 10 - 120
    mass = map_ego / map_ego.sum()
    middle = torch.stack(((mass.sum(0) * at).sum(), -(mass.sum(1) * at).sum()))
    assert (middle - seen).norm() < 5.0  # half a cell: bilinear weights are no exact circle
    assert map_ego[map_ego > 0].numel() <= 9


@given(st.integers(0, 10**6))
def test_affine_matrices_follow_the_frames(seed):
    """The matrix maps a place in the ego map, in [-1, 1] with y down, as `world_from_ego` maps the point."""
    g = torch.Generator().manual_seed(seed)
    pose = torch.randn(2, 3, generator=g, dtype=torch.float64) * 50
    seen = torch.randn(2, 5, 2, generator=g, dtype=torch.float64) * 50
    to_image = torch.tensor([2 / EXTENT, -2 / EXTENT], dtype=torch.float64)
    place = torch.cat((seen * to_image, torch.ones(2, 5, 1, dtype=torch.float64)), -1)
    found = (affine_from_pose(pose, EXTENT)[:, None] @ place[..., None]).squeeze(-1)
    torch.testing.assert_close(found, world_from_ego(seen, pose) * to_image)


@given(st.integers(0, 10**6))
def test_motion_and_pose_matrices_agree(seed):
    """From the world to the first ego map and on by the motion is the same as straight to the second."""
    g = torch.Generator().manual_seed(seed)
    pose, motion = torch.randn(2, 4, 3, generator=g, dtype=torch.float64) * 20

    def square(affine):
        return torch.cat((affine, torch.tensor([0.0, 0.0, 1.0]).double().expand(4, 1, 3)), 1)

    direct = square(affine_from_pose(compose(pose, motion), EXTENT))
    by_motion = square(affine_from_pose(pose, EXTENT)) @ square(affine_from_motion(motion, EXTENT))
    torch.testing.assert_close(direct, by_motion)


def test_splat_cells_and_warp_share_their_rows_and_columns():
    """A point in the world is written to the cell that the warp shows straight ahead of an agent facing it."""
    pose = torch.tensor([[-35.0, 25.0, PI / 4]], dtype=torch.float64)
    point = world_from_ego(torch.tensor([[[0.0, 60.0]]], dtype=torch.float64), pose)
    index, inside = cells(point, extent=EXTENT, size=SIZE)
    rows = torch.zeros(1, SIZE * SIZE, 1, dtype=torch.float64)
    rows[0, index[0, 0], 0] = 1.0
    map_ego = warp(image_from_rows(rows), affine_from_pose(pose, EXTENT))[0, 0]
    row, column = divmod(int(map_ego.argmax()), SIZE)
    assert inside.all()
    assert abs((row + 0.5) * 10 - (120 - 60)) <= 10 and abs((column + 0.5) * 10 - 120) <= 10


# -- operator battery ---------------------------------------------------------------------------------------


def test_shapes_dtypes_and_single_maps():
    image, pose = random_map(3, 2, 8, 8), random_map(3, 3, seed=1)
    for dtype in (torch.float32, torch.float64):
        affine = affine_from_pose(pose.to(dtype), 4.0)
        out = warp(image.to(dtype), affine)
        assert affine.shape == (3, 2, 3) and out.shape == (3, 2, 8, 8)
        assert affine.dtype == out.dtype == dtype
        for n in range(3):
            torch.testing.assert_close(out[n : n + 1], warp(image[n : n + 1].to(dtype), affine[n : n + 1]))
    last = image.contiguous(memory_format=torch.channels_last)
    affine = affine_from_pose(pose, 4.0)
    torch.testing.assert_close(warp(last, affine), warp(image, affine))


def test_warp_gradcheck():
    """In the map and in the pose; a pose whose sample points stay off the kinks between cells."""
    image = random_map(2, 2, 5, 5).requires_grad_()
    pose = torch.tensor([[0.13, -0.21, 0.4], [0.31, 0.17, 2.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, p: warp(m, affine_from_pose(p, 5.0)), (image, pose))
    assert torch.autograd.gradcheck(lambda m, p: warp(m, affine_from_motion(p, 5.0)), (image, pose))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_transposed_warp_is_the_gradient(layout):
    image, grad = random_map(3, 2, 6, 6).requires_grad_(), random_map(3, 2, 6, 6, seed=1)
    affine = affine_from_pose(random_map(3, 3, seed=2), 6.0)
    (expected,) = torch.autograd.grad(warp(image, affine), image, grad)
    found = warp_transposed(grad.contiguous(memory_format=layout), affine)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: affine_from_pose(torch.zeros(3), 1.0), r"pose must have shape \(\*, 3\); got \(3,\)"),
        (
            lambda: affine_from_motion(torch.zeros(2, 2), 1.0),
            r"motion must have shape \(\*, 3\); got \(2, 2\)",
        ),
        (
            lambda: warp(torch.zeros(2, 4, 4), torch.zeros(2, 2, 3)),
            r"image must have shape \(\*, \*, \*, \*\)",
        ),
        (lambda: warp(torch.zeros(2, 1, 4, 4), torch.zeros(2, 3, 3)), r"affine must have shape \(2, 2, 3\)"),
        (lambda: warp(torch.zeros(2, 1, 4, 4), torch.zeros(1, 2, 3)), r"affine must have shape \(2, 2, 3\)"),
        (lambda: warp_transposed(torch.zeros(2, 1, 4, 4), torch.zeros(1, 2, 3)), r"affine must have shape"),
        (lambda: warp(torch.zeros(2, 1, 4, 6), torch.zeros(2, 2, 3)), r"must be square; got 4 x 6"),
    ],
)
def test_wrong_shapes_are_told(call, message):
    with pytest.raises(ValueError, match=message):
        call()
