"""Statistics against answers worked out by hand, and what must hold for any scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from egomap.evaluation.statistics import (
    interquartile_mean,
    mean,
    mean_with_gaps,
    share_of_optimum,
    std_over_seeds,
    stratified_bootstrap,
)

SCORES = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
    elements=st.floats(-5, 5, allow_nan=False),
)


def test_mean_and_deviation_over_seeds() -> None:
    scores = np.array([[1.0, 3.0], [4.0, 6.0], [0.0, 4.0]])  # the runs' means are 2, 5 and 2
    assert mean(scores) == 3.0
    assert std_over_seeds(scores) == pytest.approx(3**0.5)  # (1 + 4 + 1) / 2 = 3
    assert std_over_seeds(scores[:1]) is None


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0, 6.0], 3.0),  # a quarter of three is none
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0], 3.5),
        ([[9.0, 1.0, 2.0], [3.0, 4.0, -9.0]], 2.5),  # all runs together: 1, 2, 3, 4
    ],
)
def test_interquartile_mean(scores: list[float], expected: float) -> None:
    assert interquartile_mean(np.array(scores)) == pytest.approx(expected)


def test_bootstrap_against_all_draws() -> None:
    """Three layouts have 27 equally likely draws: the exact distribution of their mean is known."""
    scores = np.array([[0.0, 3.0, 9.0]])
    exact = sorted(np.mean(draw) for draw in itertools.product(scores[0], repeat=3))
    found = stratified_bootstrap(scores, resamples=20_000)
    # The two extreme draws (all 0, all 9) have 1/27 = 3.7 % each, more than the 2.5 % that are cut.
    assert found == (exact[0], exact[-1]) == (0.0, 9.0)
    # A tenth at each end is more than the one draw of mean 0 (or 9), less than those of 0 and 1 (or 7 and 9): 4.
    low, high = stratified_bootstrap(scores, confidence=0.8, resamples=20_000)
    assert (low, high) == (exact[2], exact[-3]) == (1.0, 7.0)


def test_bootstrap_of_the_mean_is_as_wide_as_theory_says() -> None:
    scores = np.random.default_rng(0).normal(size=(1, 400))
    low, high = stratified_bootstrap(scores)
    assert high - low == pytest.approx(2 * 1.96 * scores.std() / 20, rel=0.06)


def test_runs_are_strata_with_one_draw_of_layouts() -> None:
    """Runs that differ by a constant: no resample can mix them up, and their layouts do not average out."""
    one = np.random.default_rng(1).normal(size=(1, 60))
    low, high = stratified_bootstrap(one)
    both = np.concatenate((one, one + 10))
    assert stratified_bootstrap(both) == pytest.approx((low + 5, high + 5))


@given(SCORES)
def test_what_holds_for_any_scores(scores: np.ndarray) -> None:
    low, high = stratified_bootstrap(scores, resamples=50)
    least, most = scores.min() - 1e-9, scores.max() + 1e-9
    assert least <= low <= high <= most
    assert least <= interquartile_mean(scores) <= most
    assert stratified_bootstrap(scores, resamples=50) == (low, high)
    assert interquartile_mean(scores[::-1, ::-1]) == interquartile_mean(scores)
    assert interquartile_mean(3 * scores + 1) == pytest.approx(3 * interquartile_mean(scores) + 1)


@given(SCORES, st.floats(-3, 3))
def test_a_shift_moves_the_interval_and_not_the_deviation(scores: np.ndarray, shift: float) -> None:
    low, high = stratified_bootstrap(scores, resamples=50)
    assert stratified_bootstrap(scores + shift, resamples=50) == pytest.approx(
        (low + shift, high + shift), abs=1e-9
    )
    before, after = std_over_seeds(scores), std_over_seeds(scores + shift)
    assert (before is None) == (after is None) == (len(scores) == 1)
    if before is not None:
        assert after == pytest.approx(before, abs=1e-9)


def test_share_of_the_optimum() -> None:
    assert share_of_optimum(True, 80, 60.0) == 0.75
    assert share_of_optimum(True, 50, 60.0) == 1.0
    assert share_of_optimum(False, 60, 60.0) == 0.0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: mean(np.zeros((0, 3))), "no scores"),
        (lambda: mean(np.array([np.nan])), "no finite number"),
        (lambda: std_over_seeds(np.zeros(3)), "runs, layouts"),
        (lambda: stratified_bootstrap(np.zeros(3)), "runs, layouts"),
        (lambda: stratified_bootstrap(np.zeros((1, 3)), confidence=1.0), "confidence"),
        (lambda: stratified_bootstrap(np.zeros((1, 3)), resamples=0), "resamples"),
        (lambda: share_of_optimum(True, 3, 0.0), "optimum"),
    ],
)
def test_refused(call: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        call()  # type: ignore[operator]


def test_a_mean_with_gaps() -> None:
    gap = np.nan
    found = mean_with_gaps(np.array([[1.0, gap, 3.0], [gap, gap, 5.0]]))
    assert found is not None
    value, (low, high) = found
    assert value == 3.0  # of 1, 3 and 5
    assert (low, high) == (1.0, 4.0)  # layout 0 alone (some 7 % of the draws), layout 2 alone
    assert mean_with_gaps(np.array([[gap, gap]])) is None


@given(SCORES)
def test_without_gaps_it_is_the_bootstrap_of_the_mean(scores: np.ndarray) -> None:
    found = mean_with_gaps(scores, resamples=50)
    assert found is not None
    rounding = 1e-12 * (1 + np.abs(scores).max())
    assert found[0] == pytest.approx(mean(scores), abs=rounding)
    assert found[1] == pytest.approx(stratified_bootstrap(scores, resamples=50), abs=rounding)
