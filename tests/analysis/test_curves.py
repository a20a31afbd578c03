"""The curve of a run: drawn from its metrics, whatever they have."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

from egomap.analysis.curves import curve, plot_run
from egomap.training.metrics import Metrics

BEGUN = {"update": 1, "decisions": 64}


def run_of(folder: Path, *rows: dict[str, float]) -> Path:
    metrics = Metrics(folder, keep_updates=0)
    for row in rows:
        metrics.add(row)
    metrics.close()
    return folder


def test_columns_have_gaps(tmp_path: Path) -> None:
    ended = {"update": 2, "decisions": 128, "mean_return": 0.25}
    run = run_of(
        tmp_path, BEGUN, ended, {"update": 3, "decisions": 192, "mean_return": 0.5, "test_return": 0.4}
    )
    assert curve(run, "mean_return") == ([128.0, 192.0], [0.25, 0.5])
    assert curve(run, "test_return") == ([192.0], [0.4])


@pytest.mark.parametrize("score", ["mean_return", "test_return"])
def test_one_of_both_curves_is_enough(tmp_path: Path, score: str) -> None:
    """A short run may be scored on held-out mazes before any of its own episodes has ended."""
    run = run_of(tmp_path, BEGUN, {"update": 2, "decisions": 128, score: 0.5})
    picture = cv2.imread(str(plot_run(run, title="a run", levels={"planner": 0.98})))
    assert picture.min() < 100 < 250 < picture.max()


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finished episode"):
        plot_run(run_of(tmp_path, BEGUN), title="a run")
