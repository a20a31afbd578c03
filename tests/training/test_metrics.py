"""The rows of a run: appended whole, cut back to the checkpoint after a resume, never twice."""

from __future__ import annotations

import re
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


def test_another_versions_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.csv"
    for text, told in (
        ("time,score\n1,2\n", "other columns than a run's metrics (it lacks "),
        (",".join((*COLUMNS, "update")) + "\n", "other columns than a run's metrics (one is there twice)"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(f"{path} has {told}")):
            read_metrics(path)
    Metrics(tmp_path, tensorboard=False).add(row(1))  # only a log: a run goes on without it
    note = capsys.readouterr().err
    assert note.startswith(f"Note: {path}: has other columns") and note.count("\n") == 1
    assert updates(tmp_path) == [1]
    assert (tmp_path / "metrics.damaged.csv").read_text() == text


DAMAGE = {
    "bytes of no text": b"\xff\xfe\x00,\n",
    "a line cut short": b"2,200,\n",
    "a figure that is none": b"2,abc" + b"," * (len(COLUMNS) - 2) + b"\n",
    "an update that no run has": b"9" * 30 + b",1" + b"," * (len(COLUMNS) - 2) + b"\n",
    "a line without end": b"7" * 70_000 + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_rows_are_left_out_and_do_not_hold_a_run_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes
) -> None:
    path = tmp_path / "metrics.csv"
    for number, aside in enumerate(("metrics.damaged.csv", "metrics.damaged1.csv")):
        metrics = Metrics(tmp_path, keep_updates=0, tensorboard=False)
        metrics.add(row(1))
        with open(path, "ab") as file:
            file.write(damage)
        metrics.add(row(3))
        spoilt = path.read_bytes()
        assert updates(tmp_path) == [1, 3]
        capsys.readouterr()
        Metrics(tmp_path, keep_updates=3, tensorboard=False).add(row(4))
        note = capsys.readouterr().err
        assert note.startswith(f"Note: {path}: ") and note.endswith(f"and the file is now {aside}.\n"), note
        assert updates(tmp_path) == [1, 3, 4]
        assert (tmp_path / aside).read_bytes() == spoilt, number


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
