from __future__ import annotations

import doctest
import importlib
import math

import pytest
import torch

from egomap.geometry.checks import check_depth, check_features, check_pose, require_shape


@pytest.mark.parametrize(
    ("shape", "trailing", "leading", "fits"),
    [
        ((2, 3), (3,), None, True),
        ((2, 3), (3,), 1, True),
        ((2, 3), (3,), 0, False),
        ((2, 3), (None, 3), 0, True),
        ((2, 3), (4,), None, False),
        ((3,), (None, 3), None, False),
        ((), (), 0, True),
        ((5, 5), (), 1, False),
        ((5,), (), 1, True),
    ],
)
def test_require_shape(shape, trailing, leading, fits):
    if fits:
        require_shape("x", torch.zeros(shape), trailing, leading=leading)
    else:
        with pytest.raises(ValueError, match="x must have shape"):
            require_shape("x", torch.zeros(shape), trailing, leading=leading)


def test_the_message_says_what_was_got_and_expected():
    with pytest.raises(ValueError) as caught:
        require_shape("depth", torch.zeros(2, 3, 4), (64, None), leading=2)
    assert str(caught.value) == "depth must have shape (*, *, 64, *); got (2, 3, 4)."


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_pose_must_be_finite(value):
    pose = torch.zeros(4, 3)
    check_pose(pose)
    pose[1] = value
    pose[3, 2] = value
    with pytest.raises(ValueError, match=r"must be finite .*; got 2 that are not"):
        check_pose(pose)


def test_a_depth_must_not_be_negative():
    check_depth(torch.tensor([0.0, math.inf, math.nan, 3.0]))
    with pytest.raises(ValueError, match=r"got -2\. If it is a raw or normalised depth buffer"):
        check_depth(torch.tensor([1.0, -1.0, math.nan, -2.0]))


@pytest.mark.parametrize("name", ["camera", "frames", "splat", "warp"])
def test_examples_in_the_docstrings(name):
    failed, tried = doctest.testmod(importlib.import_module(f"egomap.geometry.{name}"))
    assert tried > 0 and failed == 0


def test_features_whose_sum_alone_is_no_number():
    """An overflow of the sum is no fault of the features."""
    check_features(torch.full((2, 16, 4, 10), 3e38))
    for value in (math.nan, math.inf, -math.inf):
        features = torch.zeros(2, 3, 16, 4, 10)
        features[1, 2, 0, 0, 0] = value
        with pytest.raises(ValueError, match="features of 1 of 6 views are NaN or infinite"):
            check_features(features)
