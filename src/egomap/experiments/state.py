"""How far the jobs of an experiment are, read from their folders: nothing is remembered elsewhere.

What comes in: a `Job`. What goes out: what it still needs (its next command), how far its training is, how fast it
was. So a campaign can be killed at any moment, and the next one knows what is left.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from egomap.agents.fitting import agent_for
from egomap.config import AgentConfig, TrainConfig, require
from egomap.evaluation.answer import read_evaluation
from egomap.experiments.plan import Job, evaluate_command, train_command
from egomap.memory.lesions import lesioned_parts, possible
from egomap.memory.protocol import Memory
from egomap.training.checkpoint import checkpoints
from egomap.training.metrics import COLUMNS, read_metrics
from egomap.training.run import open_run
from egomap.training.sources import source_of

SPLITS = ("test", "train")
EPISODE = 525
"""Decisions until the time-out."""
POINTS = 50
"""Of a curve over all of a training."""
TAIL = 4096
"""Bytes; more than two rows of metrics have."""


class Progress(NamedTuple):
    """How far a job's training is."""

    decisions: int = 0
    seconds: float = 0.0
    """Of all its sessions, evaluations included."""
    mean_return: float | None = None


def check(job: Job) -> None:
    """A ValueError if the job's folder holds something else."""
    if job.config is None or not (job.folder / "config.json").exists():
        return
    own = open_run(job.folder)[1]
    require(
        own == job.config,
        f"{job.folder} holds a run with other settings; give another folder by --runs, or move it away.",
    )


def trained(job: Job) -> bool:
    """Whether there is nothing left to learn: the checkpoint at the end of the budget is written."""
    if job.config is None:
        return True
    done = checkpoints(job.folder / "checkpoints")
    return bool(done) and int(done[0].stem.removeprefix("step-")) >= job.config.budget


def next_command(job: Job) -> list[str] | None:
    """What has to be done next; None if the job is finished."""
    if not trained(job):
        return train_command(job)
    for split in SPLITS:
        if not job.scores(split).exists():
            return evaluate_command(job, split, lesions_of(job, split))
    return None


def lesions_of(job: Job, split: str) -> list[str]:
    """Those of the lesions asked for that the job's memory has."""
    asked = job.lesions(split)
    return possible(_memory(job.config.agent), asked) if asked and job.config is not None else []


@lru_cache
def _memory(config: AgentConfig) -> Memory:
    """A memory of these settings, to be asked for its parts."""
    with torch.random.fork_rng(devices=[]):
        return agent_for(config, source_of(TrainConfig()).recall(1000.0, None)).memory


def require_lesions(jobs: Sequence[Job]) -> None:
    """Raise a ValueError unless at least one agent has each part that is to be lesioned."""
    learners = [job for job in jobs if job.config is not None]
    wanted = next(iter(jobs)).scale.lesions
    require(bool(learners) or not wanted, "lesions are of a memory, and nobody here has one.")
    for lesion in wanted:
        if not any(lesion in lesions_of(job, "test") for job in learners):
            assert learners[0].config is not None
            lesioned_parts(_memory(learners[0].config.agent), lesion)  # its sentence says what there is


def progress(job: Job) -> Progress:
    """How far its training is, by the last whole row of its metrics; of a long file only the end is read."""
    try:
        with open(job.folder / "metrics.csv", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read(TAIL).decode(errors="replace").split("\n")[:-1]
        row = dict(zip(COLUMNS, lines[-1].split(","), strict=False))
        score = float(row["mean_return"]) if row["mean_return"] else None
        return Progress(int(row["decisions"]), float(row["seconds"]), score)
    except (OSError, IndexError, KeyError, ValueError):  # not there, only the head of the table, or damaged
        return Progress()


def scores(job: Job, split: str) -> dict[str, Any] | None:
    """The evaluation of the finished agent, if there is one."""
    path = job.scores(split)
    return read_evaluation(path)["evaluations"][0] if path.exists() else None


def curve(job: Job) -> list[tuple[int, float, float]]:
    """(decisions, seconds, held-out return) of each evaluation during training."""
    rows = read_metrics(job.folder / "metrics.csv")
    return [
        (int(row["decisions"]), float(row["seconds"]), float(row["test_return"]))
        for row in rows
        if row["test_return"] and row["seconds"]
    ]


def training_curve(job: Job) -> list[tuple[int, float, float]]:
    """(decisions, seconds, return of the latest episodes in training), thinned out to at most `POINTS`.

    It begins when as many episodes have ended as there are environments: the first to end are the successes.
    """
    envs = 0 if job.config is None else job.config.learner.num_envs
    rows = [
        (int(row["decisions"]), float(row["seconds"]), float(row["mean_return"]))
        for row in read_metrics(job.folder / "metrics.csv")
        if row["mean_return"] and row["seconds"] and float(row["episodes"] or 0) >= envs
    ]
    return rows[:: -(-len(rows) // POINTS) or 1]
