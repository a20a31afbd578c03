"""The rows of a run: appended whole, cut back to the checkpoint after a resume, never twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from egomap.training.metrics import Metrics, read_metrics


def row(update: int) -> dict[str, float]:
    return {"update": update, "decisions": update * 100, "entropy": 1.5}


def updates(folder: Path) -> list[int]:
    return [int(entry["update"]) for entry in read_metrics(folder / "metrics.csv")]


def test_rows_are_appended(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, tensorboard=False)
    for update in (1, 2, 3):
        metrics.add(row(update))
    assert updates(tmp_path) == [1, 2, 3]
    assert read_metrics(tmp_path / "metrics.csv")[1]["decisions"] == "200"


def test_after_a_resume_no_row_is_there_twice(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, tensorboard=False)
    for update in range(1, 6):
        metrics.add(row(update))
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("6,600,")  # the kill came in the middle of a line
    again = Metrics(tmp_path, keep_updates=3, tensorboard=False)
    again.add(row(4))
    assert updates(tmp_path) == [1, 2, 3, 4]


def test_another_versions_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("time,score\n1,2\n")
    with pytest.raises(ValueError, match="other columns"):
        Metrics(tmp_path, tensorboard=False)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown metrics: surprise"):
        Metrics(tmp_path, tensorboard=False).add({"update": 1, "decisions": 1, "surprise": 0.0})


def test_tensorboard_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    metrics = Metrics(tmp_path)
    metrics.add(row(1))
    metrics.close()
    assert any((tmp_path / "tensorboard").iterdir())
