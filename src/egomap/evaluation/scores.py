"""From episodes to scores: one for each layout, and a summary over layouts and seeds.

Input: the episodes of an evaluation, and the planner's decisions for each layout where they are known. What
goes out: plain data for JSON and tables; null where there is no figure, for JSON knows no NaN. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from egomap.config import require
from egomap.evaluation.leg_scores import leg_rows
from egomap.evaluation.runner import EpisodeResult
from egomap.evaluation.statistics import (
    interquartile_mean,
    mean,
    share_of_optimum,
    std_over_seeds,
    stratified_bootstrap,
)


class Optimum(NamedTuple):
    """What the planner does in a layout: means over its solved episodes."""

    decisions: float
    total_reward: float


def layout_scores(
    episodes: Sequence[EpisodeResult], optima: Mapping[str, Optimum | None] | None = None
) -> list[dict[str, Any]]:
    """One entry for each layout, in order, with a list over its episodes under each name."""
    found: dict[int, list[EpisodeResult]] = {}
    for episode in episodes:
        found.setdefault(episode.layout, []).append(episode)
    entries = []
    for layout, played in sorted(found.items()):
        optimum = (optima or {}).get(played[0].layout_id)
        entries.append(
            {
                "layout": layout,
                "layout_id": played[0].layout_id,
                "returns": [episode.total_reward for episode in played],
                "success": [episode.success for episode in played],
                "decisions": [episode.decisions for episode in played],
                "decisions_to_success": [e.decisions if e.success else None for e in played],
                "optimum_decisions": None if optimum is None else optimum.decisions,
                "optimum_return": None if optimum is None else optimum.total_reward,
                "share_of_optimum": None
                if optimum is None
                else [share_of_optimum(bool(e.success), e.decisions, optimum.decisions) for e in played],
                **_legs(played),
            }
        )
    return entries


def _legs(played: Sequence[EpisodeResult]) -> dict[str, Any]:
    """The legs of each episode, where they were recorded."""
    if any(episode.legs is None for episode in played):
        return {}
    return {"legs": [[leg.to_json() for leg in episode.legs or ()] for episode in played]}


def summarise(runs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """A summary of S evaluations of the same layouts, by agents that differ in their seed alone.

    Args:
        runs: For each run what `layout_scores` gave.
    """
    returns = returns_of(runs)
    solved = [d for run in runs for entry in run for d in entry["decisions_to_success"] if d is not None]
    shares = [
        np.mean(e["share_of_optimum"]) for run in runs for e in run if e["share_of_optimum"] is not None
    ]
    low, high = stratified_bootstrap(returns)
    return {
        "runs": len(runs),
        "layouts": returns.shape[1],
        "episodes": sum(len(entry["returns"]) for run in runs for entry in run),
        "mean_return": mean(returns),
        "std_over_seeds": std_over_seeds(returns),
        "std_over_layouts": float(returns.mean(axis=0).std()),
        "iqm_return": interquartile_mean(returns),
        "interval_95": [low, high],
        "success": mean_success(runs),
        "median_decisions_to_success": float(np.median(solved)) if solved else None,
        "share_of_optimum": float(np.mean(shares)) if shares else None,
        "layouts_with_optimum": len(shares) // len(runs),
        **({"legs": legs} if (legs := leg_rows(runs)) else {}),
    }


def mean_success(runs: Sequence[Sequence[Mapping[str, Any]]]) -> float | None:
    """The share of the episodes that were solved; None where the simulator does not say."""
    if any(success is None for run in runs for entry in run for success in entry["success"]):
        return None
    return float(np.mean([np.mean([np.mean(entry["success"]) for entry in run]) for run in runs]))


def returns_of(runs: Sequence[Sequence[Mapping[str, Any]]]) -> np.ndarray:
    """The score of each run in each layout, (S, L)."""
    require(bool(runs) and all(runs), "there is nothing to summarise.")
    ids = [[entry["layout_id"] for entry in run] for run in runs]
    require(all(other == ids[0] for other in ids), "these evaluations are of other layouts than each other.")
    return np.array([[np.mean(entry["returns"]) for entry in run] for run in runs])
