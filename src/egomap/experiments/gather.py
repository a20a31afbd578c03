"""From run folders to the data of a table: everything that is shown later, and nothing else.

What comes in: rows with their jobs, finished or not. What goes out: plain data, small enough to be kept with the
documentation, from which tables, figures and the results page are made without the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egomap.evaluation.scores import summarise
from egomap.evaluation.worth import lesions_of_group
from egomap.experiments.paper import Value
from egomap.experiments.plan import Job, Row, Scale, settings_digest
from egomap.experiments.state import SPLITS, curve, progress, scores, training_curve

FORMAT = "egomap experiment 1"


def gather(
    experiment: str, title: str, rows: Sequence[Row], scale: Scale, *, command: str, paper_frames: int
) -> dict[str, Any]:
    """The data of an experiment as far as it has come."""
    return {
        "format": FORMAT,
        "experiment": experiment,
        "title": title,
        "command": command,
        "preset": scale.preset,
        "settings": settings_digest(scale.preset),
        "seeds": scale.seeds,
        "budget": scale.budget,
        "paper_frames": paper_frames,
        "train_layouts": min(scale.train_layouts, scale.train),
        "test_layouts": scale.test,
        "rows": [_row(row, scale, paper_frames) for row in rows],
    }


def _row(row: Row, scale: Scale, paper_frames: int) -> dict[str, Any]:
    learns = row.jobs[0].config is not None
    found = {split: _summary(row.jobs, split) for split in SPLITS}
    return {
        "task": row.task,
        "size": row.jobs[0].scenario.size,
        "agent": row.label,
        "noise": row.noise,
        "decisions": scale.budget if learns else None,
        "paper_frames": paper_frames if learns else None,
        "hours": [round(progress(job).seconds / 3600, 4) for job in row.jobs] if learns else None,
        "ours": found,
        "paper": {"train": _value(row.paper_train), "test": _value(row.paper_test)},
        "curves": [curve(job) for job in row.jobs] if learns else None,
        "training": [training_curve(job) for job in row.jobs] if learns else None,
        **({"lesions": lesions} if (lesions := _lesions(row.jobs)) else {}),
    }


def _lesions(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """What parts of the memory are worth, over the seeds that are finished."""
    done = [found for job in jobs if (found := scores(job, "test")) is not None]
    return lesions_of_group(done) if done else []


def _summary(jobs: Sequence[Job], split: str) -> dict[str, Any] | None:
    """Over the seeds that are finished; None if there is none."""
    done = [found["layouts"] for job in jobs if (found := scores(job, split)) is not None]
    return summarise(done) if done else None


def _value(value: Value | None) -> dict[str, float | None] | None:
    return None if value is None else dict(value._asdict())
