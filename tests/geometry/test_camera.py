from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import conv1d

from egomap.config import Camera
from egomap.geometry import receptive_field_centres, sample_depth, touching_pixels, unproject

# -- receptive fields ---------------------------------------------------------------------------------------


def test_receptive_fields_of_the_paper():
    layers = ((8, 4, 3), (4, 2, 1))
    assert receptive_field_centres(64, *layers) == (17.5, 25.5, 33.5, 41.5)
    assert receptive_field_centres(112, *layers) == tuple(17.5 + 8 * j for j in range(10))


def test_padding_moves_the_first_centre():
    assert receptive_field_centres(5, (3,), (1,), (1,)) == (0, 1, 2, 3, 4)
    assert receptive_field_centres(6, (4, 3), (2, 1), (1, 1)) == (0.5, 2.5, 4.5)
    assert receptive_field_centres(4, (2,), (2,), (1,)) == (-0.5, 1.5, 3.5)  # half outside at both ends


layers_of_any_kind = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=3
)


@given(layers_of_any_kind, st.integers(20, 60))
def test_receptive_fields_are_those_of_real_convolutions(layers, length):
    x = torch.zeros(1, 1, length, dtype=torch.float64, requires_grad=True)
    y, fits = x, True
    for kernel, stride, padding in layers:
        fits = fits and y.shape[-1] + 2 * padding >= kernel
        if fits:
            y = conv1d(y, torch.ones(1, 1, kernel).double(), stride=stride, padding=padding)
    kernels, strides, paddings = zip(*layers, strict=True)
    if not fits:
        with pytest.raises(ValueError, match="does not fit in"):
            receptive_field_centres(length, kernels, strides, paddings)
        return
    centres = receptive_field_centres(length, kernels, strides, paddings)
    assert len(centres) == y.shape[-1]
    if any(paddings):
        return  # a field that padding cuts off does not show its centre
    for i, centre in enumerate(centres):
        (gradient,) = torch.autograd.grad(y[0, 0, i], x, retain_graph=True)
        pixels = gradient[0, 0].nonzero().double()
        assert centre == float(pixels.min() + pixels.max()) / 2


def test_wrong_layers_are_told():
    with pytest.raises(ValueError, match="one value per layer; got 2, 1 and 2 values"):
        receptive_field_centres(64, (8, 4), (4,))
    with pytest.raises(ValueError, match=r"a kernel of 8 does not fit in 6 positions \(image length 6\)"):
        receptive_field_centres(6, (8,), (1,))


def test_touching_pixels_by_hand():
    assert touching_pixels((17.5, 3.0), 64) == (17, 18, 3, 3)
    assert touching_pixels((-0.5, 3.5), 4) == (0, 0, 3, 3)  # padding: the border pixel


# -- depth --------------------------------------------------------------------------------------------------


def sampled(depth, centres_down, centres_across):
    depth = torch.tensor(depth)
    rows = torch.tensor(touching_pixels(centres_down, depth.shape[-2]))
    columns = torch.tensor(touching_pixels(centres_across, depth.shape[-1]))
    return sample_depth(depth, rows, columns)


def test_the_nearest_known_depth_around_a_centre():
    nan, inf = math.nan, math.inf
    depth, valid = sampled([[4.0, 3.0, 9.0, 0.0], [5.0, 6.0, inf, nan]], [0.5], [0.5, 2.5, 1.0])
    assert depth.tolist() == [[3.0, 9.0, 3.0]]
    assert valid.tolist() == [[True, True, True]]


@pytest.mark.parametrize("unknown", [0.0, math.inf, math.nan])
def test_unknown_depth_is_not_valid(unknown):
    depth, valid = sampled([[unknown, unknown], [7.0, 7.0]], [0.0, 1.0], [0.5])
    assert depth.tolist() == [[0.0], [7.0]]
    assert valid.tolist() == [[False], [True]]


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_depth_shapes_and_single_images(lead, dtype):
    image = torch.rand(*lead, 8, 12, dtype=dtype) + 0.1
    rows = torch.tensor(touching_pixels((1.5, 4.0, 6.5), 8))
    columns = torch.tensor(touching_pixels((0.5, 10.0), 12))
    depth, valid = sample_depth(image, rows, columns)
    assert depth.shape == valid.shape == (*lead, 3, 2)
    assert depth.dtype == dtype and valid.dtype == torch.bool and valid.all()
    if lead:
        assert torch.equal(depth[1], sample_depth(image[1], rows, columns)[0])


def test_depth_gradient_goes_to_the_pixel_that_was_taken():
    image = torch.tensor([[4.0, 3.0], [5.0, 6.0]], dtype=torch.float64, requires_grad=True)
    two = torch.tensor([0, 1])
    sample_depth(image, two, two)[0].sum().backward()
    assert image.grad.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("wrong", [-0.5, -math.inf])
def test_negative_depth_is_told(wrong):
    with pytest.raises(ValueError, match=rf"forward distance in map units.*got {wrong:.4g}"):
        sampled([[1.0, wrong]], [0.0], [0.0, 1.0])


def test_wrong_depth_shape_is_told():
    index = torch.tensor([0, 0])
    with pytest.raises(ValueError, match=r"depth must have shape \(..., \*, \*\); got \(4,\)"):
        sample_depth(torch.ones(4), index, index)


# -- unprojection -------------------------------------------------------------------------------------------


def tangents(camera: Camera, columns) -> torch.Tensor:
    return torch.tensor([(u + 0.5 - camera.cx) / camera.fx for u in columns], dtype=torch.float64)


def test_the_centre_lands_straight_ahead_at_its_depth():
    camera = Camera.from_fov(112, 64, horizontal=math.radians(106.26), vertical=math.radians(64))
    middle = (camera.width - 1) / 2  # the edge between the two middle pixels
    points = unproject(torch.tensor([[150.0]], dtype=torch.float64), tangents(camera, [middle]))
    assert points.tolist() == [[[0.0, 150.0]]]


def test_the_border_lands_at_the_opening_angle():
    camera = Camera.from_fov(112, 64, horizontal=math.pi / 2, vertical=math.pi / 3)
    left, right = -0.5, camera.width - 0.5  # the outer edges of the border pixels
    points = unproject(torch.full((1, 2), 80.0, dtype=torch.float64), tangents(camera, [left, right]))
    # A full angle of 90 degrees: as far to the side as ahead, left negative.
    torch.testing.assert_close(points, torch.tensor([[[-80.0, 80.0], [80.0, 80.0]]], dtype=torch.float64))


def test_a_resized_camera_sees_the_same():
    camera = Camera.from_fov(160, 120, horizontal=1.7, vertical=1.1)
    small = camera.resized(112, 64)
    depth = torch.full((1, 1), 90.0, dtype=torch.float64)
    # The same ray: a quarter of the width from the left, in both images.
    there, here = (unproject(depth, tangents(c, [c.width / 4 - 0.5])) for c in (camera, small))
    torch.testing.assert_close(there, here)


def test_depth_is_forward_distance_not_length_of_the_ray():
    """A flat wall ahead has one depth in every column, and all of it is as far ahead."""
    points = unproject(torch.full((4, 10), 64.0), torch.linspace(-1, 1, 10))
    assert points.shape == (4, 10, 2)
    assert (points[..., 1] == 64.0).all()
    assert torch.equal(points[..., 0], torch.linspace(-64, 64, 10).expand(4, 10))


def test_unproject_gradcheck():
    torch.manual_seed(0)
    depth = torch.rand(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        unproject, (depth, torch.randn(4, dtype=torch.float64, requires_grad=True))
    )


def test_unproject_tells_wrong_shapes():
    with pytest.raises(ValueError, match=r"depth must have shape \(..., \*, 10\); got \(4, 9\)"):
        unproject(torch.ones(4, 9), torch.ones(10))
    with pytest.raises(ValueError, match=r"tangents must have shape \(\*\); got \(1, 9\)"):
        unproject(torch.ones(4, 1), torch.ones(1, 9))
