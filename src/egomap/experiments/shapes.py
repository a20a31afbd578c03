"""What the JSON files of experiments look like, as far as anything is made from them.

A shape for `egomap.util.reading.require_like`: a file of the right format that is damaged, or was edited, is
refused when it is read and not somewhere in a table.
"""

from __future__ import annotations

from typing import Any

from egomap.experiments.paper import SIZES
from egomap.presets import PRESETS

Shape = dict[str, Any]

EXPERIMENTS = frozenset({"results", "curves", "ablation", "noise"})

_SUMMARY: Shape = {
    "runs": int,
    "episodes": int,
    "mean_return": float,
    "std_over_seeds": (float, None),
    "iqm_return": float,
    "interval_95": [float, float],
    "success": float,
    "median_decisions_to_success": (float, None),
    "share_of_optimum": (float, None),
}
_OF_PAPER: Shape = {"mean": float, "std": (float, None)}
_ROW: Shape = {
    "task": frozenset(SIZES),
    "size": int,
    "agent": str,
    "noise": (float, None),
    "decisions": (int, None),
    "paper_frames": (int, None),
    "hours": ([float], None),
    "ours": {"train": (_SUMMARY, None), "test": (_SUMMARY, None)},
    "paper": {"train": (_OF_PAPER, None), "test": (_OF_PAPER, None)},
}
EXPERIMENT: Shape = {
    "experiment": EXPERIMENTS,
    "title": str,
    "command": str,
    "preset": frozenset(PRESETS),
    "seeds": int,
    "budget": int,
    "paper_frames": int,
    "train_layouts": int,
    "test_layouts": int,
    "rows": [_ROW],
}
