"""Metrics of a run: one row for each update in `metrics.csv`, and the same as TensorBoard events.

What comes in: figures by name. What goes out: a file that grows line by line. After a resume, rows that are newer
than the checkpoint are dropped, so that no update is there twice. docs/training.md says what each figure means.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from egomap.config import require
from egomap.util.files import write_whole
from egomap.util.reading import MEGABYTE, naming, require_plain

LARGEST = 1024 * MEGABYTE
"""Bytes: some million updates."""
LONGEST = 65536
"""Bytes of a line; one of ours has less than a thousand."""

COLUMNS = (
    "update",
    "decisions",
    "frames",
    "seconds",
    "decisions_per_second",
    "episodes",
    "mean_return",
    "success",
    "mean_decisions",
    "policy_loss",
    "value_loss",
    "entropy",
    "divergence",
    "clipped",
    "gradient_norm",
    "explained_variance",
    "learning_rate",
    "collect_seconds",
    "update_seconds",
    "engine_restarts",
    "maze_size",
    "test_return",
    "test_success",
)
"""What every run has. Further columns are what its memory and its settings bring along."""


class Metrics:
    """The rows of a run."""

    def __init__(self, folder: Path, *, keep_updates: int = 0, tensorboard: bool = True) -> None:
        self._path = folder / "metrics.csv"
        rows = [row for row in _rescue(self._path) if int(row["update"]) <= keep_updates]
        self._columns = tuple(dict.fromkeys((*COLUMNS, *(rows[0] if rows else ()))))
        self._rewrite(rows)
        after = int(rows[-1]["decisions"]) + 1 if rows else 0
        self._events = _Events(folder / "tensorboard", after) if tensorboard else None

    def add(self, row: dict[str, float]) -> None:
        """Append one row. A figure that is new to the file gets a column of its own, empty in earlier rows."""
        new = tuple(name for name in row if name not in self._columns)
        if new:
            self._columns += new
            self._rewrite(read_metrics(self._path))
        with naming(self._path), open(self._path, "a", newline="") as file:
            csv.DictWriter(file, self._columns, lineterminator="\n").writerow(
                {k: _short(v) for k, v in row.items()}
            )
        if self._events is not None:
            self._events.add(row)

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self._path, text.getvalue())

    def sync(self) -> None:
        """Make the rows so far last through a power cut; before a checkpoint that is newer than they are."""
        with naming(self._path), open(self._path, "rb") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the events' file."""
        if self._events is not None:
            self._events.close()


class _Events:
    """A file of TensorBoard events, written row by row.

    TensorBoard's own writer hands them to a thread, which prints a traceback of its own when the disk is full.
    """

    def __init__(self, folder: Path, after: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{platform.node()}.{os.getpid()}"
        self._path = folder / name
        self._file = RecordWriter(open(self._path, "wb"))  # noqa: SIM115
        self._write(file_version="brain.Event:2")
        # What earlier files have from here on is not shown: those updates are made again.
        self._write(step=after, session_log=SessionLog(status=SessionLog.START))

    def add(self, row: dict[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in row.items()]
        self._write(step=int(row["decisions"]), summary=Summary(value=values))

    def close(self) -> None:
        self._file.close()

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        with naming(self._path):
            self._file.write(Event(wall_time=time.time(), **fields).SerializeToString())
            self._file.flush()


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The whole rows of a `metrics.csv`; [] if there is none. Damaged lines, and one that was cut off, are left out.

    Raises:
        ValueError: The file is something else.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[dict[str, str]], int]:
    """The whole rows, and how many lines are damaged; that the last one is cut off is no damage but a kill."""
    if not path.exists():
        return [], 0
    require_plain(path, LARGEST)
    with open(path, "rb") as file:
        lines = iter(lambda: file.readline(LONGEST).decode("utf-8", errors="replace"), "")
        header = next(lines, "")
        columns = header.rstrip("\r\n").split(",")
        missing = sorted(set(COLUMNS) - set(columns)) if header else []
        why = f"it lacks {', '.join(missing[:3])}" if missing else "one is there twice"
        require(
            not missing and len(set(columns)) == len(columns),
            f"{path} has other columns than a run's metrics ({why}); move it away.",
        )
        rows: list[dict[str, str]] = []
        damaged = 0
        for line in lines:
            row = _row(line, columns)
            if row is not None:
                rows.append(row)
            elif line.endswith("\n") or len(line) == LONGEST:
                damaged += 1
    return rows, damaged


def _row(line: str, columns: list[str]) -> dict[str, str] | None:
    """A line by columns; None unless it is whole and all its figures are numbers, or left out."""
    values = line.rstrip("\r\n").split(",")
    if len(values) != len(columns) or not line.endswith("\n"):
        return None
    row = dict(zip(columns, values, strict=True))
    try:
        for value in values:
            float(value or 0)
        return row if all(0 <= int(row[name]) < 2**62 for name in ("update", "decisions")) else None
    except ValueError:
        return None


def _rescue(path: Path) -> list[dict[str, str]]:
    """The rows to resume with. The metrics are only a log: damaged ones are set aside and do not stop a run."""
    try:
        rows, damaged = _read(path)
        if not damaged:
            return rows
        what = f"{damaged} of its {len(rows) + damaged} rows are damaged"
    except ValueError as error:
        rows, what = [], str(error).removeprefix(f"{path} ").removesuffix("; move it away.").rstrip(".")
    names = (path.with_name(f"{path.stem}.damaged{n or ''}{path.suffix}") for n in itertools.count())
    aside = next(name for name in names if not name.exists())
    os.replace(path, aside)
    print(
        f"Note: {path}: {what}; {len(rows)} rows are kept, and the file is now {aside.name}.", file=sys.stderr
    )
    return rows


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
