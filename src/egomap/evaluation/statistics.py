"""Statistics of scores: small pure functions of numpy arrays.

Input: scores, usually (S, L): S runs that differ in their seed alone, L layouts, each score the mean over the
episodes of one layout. Output: one number, or the two ends of an interval. What a score is, others decide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from egomap.config import require

Statistic = Callable[[np.ndarray], float]

RESAMPLES = 2000
"""The ends of a 95 % interval then differ by some 2 % of its width from one seed to another."""


def mean(scores: np.ndarray) -> float:
    """The mean of all scores."""
    return float(_scores(scores).mean())


def std_over_seeds(scores: np.ndarray) -> float | None:
    """Standard deviation of the runs' mean scores (S, L), with S - 1 in the denominator; None for a single run."""
    scores = _scores(scores)
    require(scores.ndim == 2, f"scores over seeds are (runs, layouts); got {scores.ndim} axes.")
    return float(scores.mean(axis=1).std(ddof=1)) if len(scores) > 1 else None


def interquartile_mean(scores: np.ndarray) -> float:
    """The mean of what is left when the lowest and the highest quarter are dropped.

    A quarter of n scores is n // 4 of them, so with fewer than four it is the mean.
    """
    ordered = np.sort(_scores(scores), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def stratified_bootstrap(
    scores: np.ndarray,
    statistic: Statistic = mean,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """A percentile interval of `statistic` under another draw of layouts, stratified by run.

    Every run (row) is a stratum: a resample holds as many layouts of each run as there are, drawn with replacement.
    Choice: all runs get the same draw, for they play the same layouts, and a layout that is hard for one of them is
    hard for the others; drawing for each run apart would give too narrow an interval. What another training seed
    would change is not in it: that is `std_over_seeds`.

    Args:
        scores: (S, L).
        statistic: Of an array like `scores`.
        confidence: Share of the resamples within the interval.
        resamples: How many.
        seed: The same seed gives the same interval.
    """
    scores = _scores(scores)
    require(scores.ndim == 2, f"scores over seeds are (runs, layouts); got {scores.ndim} axes.")
    require(0.0 < confidence < 1.0, f"confidence must be between 0 and 1; got {confidence}.")
    require(resamples >= 1, f"resamples must be 1 or more; got {resamples}.")
    layouts = scores.shape[1]
    draws = np.random.default_rng(seed).integers(layouts, size=(resamples, layouts))
    values = [statistic(scores[:, draw]) for draw in draws]
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def mean_with_gaps(
    scores: np.ndarray, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, tuple[float, float]] | None:
    """Mean of the scores that exist, and its percentile interval under another draw of layouts; None if none do.

    The draws are those of `stratified_bootstrap`; a resample in which nothing exists is left out.

    Args:
        scores: (S, L), NaN where a run has no score in a layout.
        confidence: Share of the resamples within the interval.
        resamples: How many.
        seed: The same seed gives the same interval.
    """
    scores = np.asarray(scores, dtype=np.float64)
    known = np.isfinite(scores)
    if not known.any():
        return None
    sums, counts = np.where(known, scores, 0.0).sum(axis=0), known.sum(axis=0)
    draws = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
    drawn = counts[draws].sum(axis=1)
    values = sums[draws].sum(axis=1)[drawn > 0] / drawn[drawn > 0]
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(sums.sum() / counts.sum()), (float(low), float(high))


def share_of_optimum(success: bool, decisions: int, optimum: float) -> float:
    """Path efficiency of one episode, 0 to 1: the planner's decisions over the agent's; 0 if it was not solved.

    An agent that is quicker than the planner (a luckier heading at the start) has 1.
    """
    require(optimum > 0, f"the optimum must be above 0 decisions; got {optimum}.")
    return min(1.0, optimum / decisions) if success else 0.0


def _scores(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, dtype=np.float64)
    require(scores.size > 0, "there are no scores.")
    require(bool(np.isfinite(scores).all()), "a score is no finite number.")
    return scores
