"""The rows of a run: appended whole, cut back to the checkpoint after a resume, never twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from egomap.training.metrics import COLUMNS, Metrics, read_metrics


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


def test_new_figures_get_columns_and_older_rows_stay(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, tensorboard=False)
    metrics.add(row(1))
    metrics.add({**row(2), "memory_beta": 1.5})
    again = Metrics(tmp_path, keep_updates=2, tensorboard=False)
    again.add(row(3))
    again.add({**row(4), "gradient_core": 0.25})
    path = tmp_path / "metrics.csv"
    assert path.read_text().splitlines()[0] == ",".join((*COLUMNS, "memory_beta", "gradient_core"))
    found = [
        (entry["decisions"], entry["memory_beta"], entry["gradient_core"]) for entry in read_metrics(path)
    ]
    assert found == [("100", "", ""), ("200", "1.5", ""), ("300", "", ""), ("400", "", "0.25")]


def shown(folder: Path) -> list[tuple[int, float]]:
    """What TensorBoard itself shows of one figure: (decisions, value)."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars("policy_loss")]


def test_tensorboard_shows_every_update_once(tmp_path: Path) -> None:
    """Also those that a resumed run makes again."""
    metrics = Metrics(tmp_path)
    for update in (1, 2, 3, 4, 5):
        metrics.add({"update": update, "decisions": 10 * update, "policy_loss": float(update)})
    metrics.close()
    again = Metrics(tmp_path, keep_updates=3)
    for update in (4, 5, 6):
        again.add({"update": update, "decisions": 10 * update, "policy_loss": -float(update)})
    again.close()
    assert shown(tmp_path) == [(10, 1.0), (20, 2.0), (30, 3.0), (40, -4.0), (50, -5.0), (60, -6.0)]
