from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from egomap.geometry import blend, image_from_rows, keep_max, rows_from_image, splat_max, splat_mean


def random_write(batch: int, points: int, channels: int, cells: int, seed: int):
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, points, channels, generator=g, dtype=torch.float64)
    index = torch.randint(0, cells, (batch, points), generator=g)
    inside = torch.rand(batch, points, generator=g) < 0.7
    return features, index, inside


# -- splat --------------------------------------------------------------------------------------------------


def test_two_features_in_a_cell_average_and_outsiders_are_dropped():
    features = torch.tensor([[[1.0, 10.0], [3.0, 20.0], [5.0, 50.0], [7.0, 70.0]]])
    index = torch.tensor([[2, 2, 0, 2]])
    inside = torch.tensor([[True, True, True, False]])
    mean, observed = splat_mean(features, index, inside, 4)
    assert mean.tolist() == [[[5.0, 50.0], [0.0, 0.0], [2.0, 15.0], [0.0, 0.0]]]
    assert observed.tolist() == [[True, False, True, False]]


def test_a_feature_of_zeros_is_an_observation():
    """The mask is explicit: a cell that was seen as zero is not one that was never seen."""
    mean, observed = splat_mean(torch.zeros(1, 1, 3), torch.tensor([[1]]), torch.tensor([[True]]), 2)
    assert observed.tolist() == [[False, True]]
    assert (mean == 0).all()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_dropped_feature_may_be_anything(value):
    features = torch.tensor([[[value], [2.0]]], requires_grad=True)
    mean, observed = splat_mean(features, torch.tensor([[0, 0]]), torch.tensor([[False, True]]), 2)
    assert mean.tolist() == [[[2.0], [0.0]]] and observed.tolist() == [[True, False]]
    mean.sum().backward()
    assert features.grad.tolist() == [[[0.0], [1.0]]]


@given(st.integers(1, 3), st.integers(0, 9), st.integers(1, 4), st.integers(1, 6), st.integers(0, 1000))
def test_splat_is_the_mean_per_cell(batch, points, channels, cells, seed):
    features, index, inside = random_write(batch, points, channels, cells, seed)
    mean, observed = splat_mean(features, index, inside, cells)
    assert mean.shape == (batch, cells, channels) and observed.shape == (batch, cells)
    for b in range(batch):
        for cell in range(cells):
            here = features[b, inside[b] & (index[b] == cell)]
            assert observed[b, cell] == (len(here) > 0)
            expected = here.mean(0) if len(here) else torch.zeros(channels, dtype=torch.float64)
            torch.testing.assert_close(mean[b, cell], expected)


def test_splat_gradcheck():
    features, index, inside = random_write(2, 7, 2, 4, seed=0)
    assert not inside.all() and inside.any()
    assert torch.autograd.gradcheck(
        lambda x: splat_mean(x, index, inside, 4)[0], (features.requires_grad_(),)
    )


def test_splat_tells_wrong_shapes():
    features, index, inside = random_write(2, 7, 3, 4, seed=0)
    for call, message in (
        (
            lambda: splat_mean(features[0], index, inside, 4),
            r"features must have shape \(\*, \*, \*\); got \(7, 3\)",
        ),
        (lambda: splat_mean(features, index[:1], inside, 4), r"index must have shape \(2, 7\); got \(1, 7\)"),
        (
            lambda: splat_mean(features, index, inside[:, :1], 4),
            r"inside must have shape \(2, 7\); got \(2, 1\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# -- blend --------------------------------------------------------------------------------------------------


def test_the_three_cases_of_eta_and_the_fourth():
    old = torch.tensor([[[5.0], [5.0], [0.0], [0.0]]])
    new = torch.tensor([[[0.0], [7.0], [7.0], [0.0]]])
    known = torch.tensor([[True, True, False, False]])
    observed = torch.tensor([[False, True, True, False]])
    blended, knows = blend(old, known, new, observed, 0.9)
    # only the old; both: 0.9 of the old; only the new; neither
    torch.testing.assert_close(blended, torch.tensor([[[5.0], [0.9 * 5 + 0.1 * 7], [7.0], [0.0]]]))
    assert knows.tolist() == [[True, True, True, False]]


def test_zeros_that_are_known_count_as_known():
    yes = torch.tensor([[True]])
    blended, _ = blend(torch.zeros(1, 1, 1), yes, torch.ones(1, 1, 1), yes, 0.9)
    torch.testing.assert_close(blended, torch.full((1, 1, 1), 0.1))
    blended, _ = blend(torch.ones(1, 1, 1), yes, torch.zeros(1, 1, 1), yes, 0.9)
    torch.testing.assert_close(blended, torch.full((1, 1, 1), 0.9))


@pytest.mark.parametrize(("alpha", "kept"), [(1.0, "old"), (0.0, "new")])
def test_extreme_alphas(alpha, kept):
    torch.manual_seed(0)
    maps = {"old": torch.randn(2, 3, 4), "new": torch.randn(2, 3, 4)}
    all_cells = torch.ones(2, 3, dtype=torch.bool)
    assert torch.equal(blend(maps["old"], all_cells, maps["new"], all_cells, alpha)[0], maps[kept])


def test_many_sightings_converge_to_what_is_seen():
    """After k more sightings of a constant the first one weighs alpha^k."""
    yes = torch.ones(1, 1, dtype=torch.bool)
    value = torch.full((1, 1, 1), 3.0, dtype=torch.float64)
    for _ in range(10):
        value, _ = blend(value, yes, torch.full((1, 1, 1), 1.0, dtype=torch.float64), yes, 0.9)
    torch.testing.assert_close(float(value), 1 + 2 * 0.9**10)


def test_blend_gradcheck():
    torch.manual_seed(0)
    old, new = (torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    known = torch.tensor([[True, True, False, False], [False, True, True, False]])
    observed = torch.tensor([[True, False, True, False], [True, True, False, False]])
    assert torch.autograd.gradcheck(lambda a, b: blend(a, known, b, observed, 0.9)[0], (old, new))


def test_blend_tells_wrong_shapes():
    maps, flags = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.bool)
    for call, message in (
        (lambda: blend(maps, flags, maps[:1], flags, 0.9), r"map_observed must have shape \(2, 4, 3\)"),
        (
            lambda: blend(maps, flags, maps, flags[:, :1], 0.9),
            r"observed must have shape \(2, 4\); got \(2, 1\)",
        ),
        (
            lambda: blend(maps, flags[:1], maps, flags[:1], 0.9),
            r"known must have shape \(2, 4\); got \(1, 4\)",
        ),
        (lambda: blend(maps, flags[0], maps, flags[0], 0.9), r"known must have shape \(2, 4\); got \(4,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# -- maxima -------------------------------------------------------------------------------------------------


def test_the_largest_of_each_channel_by_hand():
    features = torch.tensor([[[1.0, -10.0], [3.0, -20.0], [-5.0, 50.0], [7.0, 70.0]]])
    index, inside = torch.tensor([[2, 2, 0, 2]]), torch.tensor([[True, True, True, False]])
    largest, observed = splat_max(features, index, inside, 4)
    assert largest.tolist() == [[[-5.0, 50.0], [0.0, 0.0], [3.0, -10.0], [0.0, 0.0]]]
    assert observed.tolist() == [[True, False, True, False]]


@given(st.integers(1, 3), st.integers(0, 9), st.integers(1, 4), st.integers(1, 6), st.integers(0, 1000))
def test_splat_is_the_maximum_per_cell(batch, points, channels, cells, seed):
    features, index, inside = random_write(batch, points, channels, cells, seed)
    largest, observed = splat_max(features, index, inside, cells)
    for b in range(batch):
        for cell in range(cells):
            here = features[b, inside[b] & (index[b] == cell)]
            assert observed[b, cell] == (len(here) > 0)
            expected = here.amax(0) if len(here) else torch.zeros(channels, dtype=torch.float64)
            torch.testing.assert_close(largest[b, cell], expected)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_dropped_feature_is_no_maximum(value):
    features = torch.tensor([[[value], [2.0]]], requires_grad=True)
    largest, observed = splat_max(features, torch.tensor([[0, 0]]), torch.tensor([[False, True]]), 2)
    assert largest.tolist() == [[[2.0], [0.0]]] and observed.tolist() == [[True, False]]
    largest.sum().backward()
    assert features.grad.tolist() == [[[0.0], [1.0]]]


def test_what_is_kept_of_old_and_new():
    """The larger where both are known; whichever is known; nothing. A negative value is not less than the unknown."""
    old, new = torch.tensor([[[3.0], [3.0], [0.0], [0.0]]]), torch.tensor([[[-4.0], [0.0], [-5.0], [0.0]]])
    known, seen = torch.tensor([[True, True, False, False]]), torch.tensor([[True, False, True, False]])
    kept, knows = keep_max(old, known, new, seen)
    assert kept.tolist() == [[[3.0], [3.0], [-5.0], [0.0]]]
    assert knows.tolist() == [[True, True, True, False]]


def test_maxima_gradcheck():
    features, index, inside = random_write(2, 6, 3, 4, 0)
    old = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    known = torch.tensor([[True, False, True, True], [False, False, True, True]])

    def run(features: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        return keep_max(old, known, *splat_max(features, index, inside, 4))[0]

    assert torch.autograd.gradcheck(run, (features.requires_grad_(), old.requires_grad_()))


# -- rows and images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (2,), (3, 2)])
def test_rows_and_images_are_views_of_the_same_memory(lead):
    rows = torch.arange(math.prod(lead) * 9 * 5.0).view(*lead, 9, 5)
    image = image_from_rows(rows)
    assert image.shape == (*lead, 5, 3, 3)
    assert torch.equal(image[..., 4, 1, 2], rows[..., 1 * 3 + 2, 4])
    again = rows_from_image(image)
    assert torch.equal(again, rows)
    assert image.data_ptr() == rows.data_ptr() == again.data_ptr()
    if len(lead) == 1:
        assert image.is_contiguous(memory_format=torch.channels_last)


def test_rows_of_an_ordinary_image():
    image = torch.arange(2 * 5 * 9.0).view(2, 5, 3, 3)
    assert torch.equal(image_from_rows(rows_from_image(image)), image)
    assert torch.equal(rows_from_image(image)[1, 7], image[1, :, 2, 1])


def test_rows_that_are_no_square_are_told():
    with pytest.raises(ValueError, match=r"square number of cells; got 12"):
        image_from_rows(torch.zeros(2, 12, 3))
