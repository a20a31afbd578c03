"""Legs over episodes, layouts and runs: their entries in tables and JSON.

Input: the entries of `layout_scores`, whose `legs` hold a list of legs for each episode. Output: a row
for each leg of the task, in order. Pure functions on plain data, so that files can be summed up as well as episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egomap.evaluation.statistics import mean_with_gaps

LegData = Mapping[str, Any]
"""What `Leg.to_json` gave."""


def leg_rows(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each leg that was begun, over S runs of the same layouts; none if no legs were recorded.

    Args:
        runs: For each run what `layout_scores` gave.
    """
    if not all("legs" in entry for run in runs for entry in run):
        return []
    most = max(len(legs) for run in runs for entry in run for legs in entry["legs"])
    return [_row(runs, number) for number in range(most)]


def _row(runs: Sequence[Sequence[Mapping[str, Any]]], number: int) -> dict[str, Any]:
    # By run and layout: the legs of this number in its episodes.
    table = [
        [[legs[number] for legs in entry["legs"] if len(legs) > number] for entry in run] for run in runs
    ]
    legs = [leg for run in table for found in run for leg in found]
    finished = [leg for leg in legs if leg["finished"]]
    efficiency = mean_with_gaps(_scores(table, lambda leg: leg["efficiency"]))
    return {
        "leg": number + 1,
        "goal": legs[0]["goal"],
        "begun": len(legs),
        "in_time": sum(leg["in_time"] for leg in legs),
        "finished": len(finished),
        "decisions": _mean(finished, "decisions"),
        "optimum": _mean(finished, "optimum"),
        "efficiency": None if efficiency is None else efficiency[0],
        "interval_95": None if efficiency is None else list(efficiency[1]),
        "revisited": _mean(legs, "revisited"),
        "seen_before": sum(leg["seen"] is not None and leg["seen"] < leg["began"] for leg in legs),
        "since_seen": _mean(legs, "since_seen"),
        "detour": _detour(legs),
    }


def _scores(
    table: Sequence[Sequence[Sequence[LegData]]], figure: Callable[[LegData], float | None]
) -> np.ndarray:
    """(S, L): the mean of a figure over the episodes of one layout by one run, NaN where there is none."""
    return np.array([[_mean_of([figure(leg) for leg in found]) for found in run] for run in table])


def _detour(legs: Sequence[LegData]) -> float | None:
    """All ways walked over all shortest ones: a mean of ratios would be that of the shortest ways."""
    known = [leg for leg in legs if leg["walked"] is not None]
    shortest = sum(leg["shortest"] for leg in known)
    return sum(leg["walked"] for leg in known) / shortest if shortest > 0 else None


def _mean(legs: Sequence[LegData], name: str) -> float | None:
    found = _mean_of([leg[name] for leg in legs])
    return None if np.isnan(found) else found


def _mean_of(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")
