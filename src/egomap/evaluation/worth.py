"""What memory is worth: the scores of lesioned agents beside those of the intact ones, paired layout by layout.

Input: what `layout_scores` gave for the same episodes, intact and lesioned. Output: plain data for
JSON and tables. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egomap.evaluation.scores import mean_success, returns_of, summarise
from egomap.evaluation.statistics import mean, std_over_seeds, stratified_bootstrap

Scores = Sequence[Mapping[str, Any]]
"""What `layout_scores` gave for one run."""


def worth_of(intact: Sequence[Scores], lesioned: Sequence[Scores]) -> dict[str, Any]:
    """What a part of the memory is worth: intact minus lesioned, layout by layout.

    Args:
        intact: For each of S runs what `layout_scores` gave.
        lesioned: The same runs in the same episodes.
    """
    table = returns_of(intact) - returns_of(lesioned)
    low, high = stratified_bootstrap(table)
    before, after = mean_success(intact), mean_success(lesioned)
    return {
        "mean_return": mean(table),
        "interval_95": [low, high],
        "std_over_seeds": std_over_seeds(table),
        "success": None if before is None or after is None else before - after,
    }


def lesion_entry(
    lesion: str, by: Mapping[str, str], intact: Sequence[Scores], lesioned: Sequence[Scores]
) -> dict[str, Any]:
    """The entry of a lesion: its name, what replaced the parts, the scores, and what the parts are worth."""
    return {
        "lesion": lesion,
        "by": dict(by),
        "summary": summarise(lesioned),
        "worth": worth_of(intact, lesioned),
    }


def lesions_of_group(members: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lesions of evaluations that differ in the training seed alone, over the seeds; none if there were none."""
    intact = [member["layouts"] for member in members]
    return [
        lesion_entry(each[0]["lesion"], each[0]["by"], intact, [lesion["layouts"] for lesion in each])
        for each in zip(*(member.get("lesions", ()) for member in members), strict=True)
    ]
