"""Results as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egomap.evaluation.runner import EpisodeResult

Results = Mapping[str, Sequence[EpisodeResult]]


def summary(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Mean return with its deviation over episodes, the share that was solved, and how long solving took."""
    rewards = np.array([result.total_reward for result in results])
    solved = [result.decisions for result in results if result.success]
    return {
        "episodes": len(results),
        "mean_return": float(rewards.mean()),
        "std_return": float(rewards.std()),
        "success": len(solved) / len(results),
        "median_decisions_to_success": float(np.median(solved)) if solved else float("nan"),
    }


def print_scores(results: Results) -> None:
    """A table with one row for each agent."""
    from rich.console import Console
    from rich.table import Table

    table = Table("agent", "mean return", "std", "solved", "median decisions when solved")
    for name, episodes in results.items():
        found = summary(episodes)
        solved = round(found["success"] * found["episodes"])
        table.add_row(
            name,
            f"{found['mean_return']:.3f}",
            f"{found['std_return']:.3f}",
            f"{solved} of {found['episodes']}",
            f"{found['median_decisions_to_success']:.0f}" if solved else "-",
        )
    Console().print(table)


def scores_json(results: Results) -> dict[str, Any]:
    """Summary and every episode of each agent; null where there is no figure, for JSON knows no NaN."""
    return {
        name: {
            "summary": {key: None if np.isnan(value) else value for key, value in summary(episodes).items()},
            "episodes": [episode._asdict() for episode in episodes],
        }
        for name, episodes in results.items()
    }
