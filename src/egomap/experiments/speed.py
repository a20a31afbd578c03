"""How long an experiment will take: from the speed of earlier runs in its folder, else from a short measurement.

What comes in: jobs. What goes out: for each of them the seconds that are left at most, and how the speed is known.
Evaluations are counted as if every episode went on to the time-out: agents that learn something are quicker.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from egomap.config import ScenarioConfig, TrainConfig
from egomap.experiments.campaign import launch
from egomap.experiments.plan import Job, train_command
from egomap.experiments.sets import generate
from egomap.experiments.state import EPISODE, SPLITS, progress, trained
from egomap.training.metrics import read_metrics
from egomap.training.run import open_run

ENOUGH = 20_000
"""Decisions that an earlier run must have, for its speed to count."""
UPDATES = 4
"""Of a measurement; the first, in which everything is set up, does not count."""
GUESSED_PLAY = 1500.0
"""Decisions per second of agents that learn nothing, where nothing better is known."""


GUESSED_START = 10.0
"""Seconds from the start of a process to its first decision, where they were not measured."""


class Speed(NamedTuple):
    """Decisions per second."""

    learning: float
    """Playing and learning, evaluations not counted."""
    playing: float
    source: str
    start: float = GUESSED_START
    """Seconds that a process needs besides."""


def of_rows(rows: Sequence[dict[str, str]], source: str) -> Speed:
    """The speed that rows of metrics tell."""
    playing = sum(float(row["collect_seconds"]) for row in rows)
    together = playing + sum(float(row["update_seconds"]) for row in rows)
    decisions = sum(
        float(row["decisions_per_second"]) * (float(row["collect_seconds"]) + float(row["update_seconds"]))
        for row in rows
    )
    return Speed(decisions / together, decisions / playing, source)


def earlier(runs: Path, config: TrainConfig) -> Speed | None:
    """The speed of earlier runs of the same agent and algorithm in the folder `runs`."""
    found = []
    for path in sorted(runs.glob("*/config.json")):
        try:
            other = open_run(path.parent)[1]
            rows = read_metrics(path.parent / "metrics.csv")[-200:]
        except ValueError:
            continue
        same = (other.agent.kind, other.learner) == (config.agent.kind, config.learner)
        if same and len(rows) > 1 and int(rows[-1]["decisions"]) >= ENOUGH:
            found.append(of_rows(rows, ""))
    if not found:
        return None
    learning = len(found) / sum(1 / speed.learning for speed in found)
    playing = len(found) / sum(1 / speed.playing for speed in found)
    return Speed(learning, playing, f"{len(found)} earlier runs in {runs}")


def measure(job: Job, cores: Sequence[int]) -> Speed:
    """Train a few updates of the job's agent on these cores, in a folder that is thrown away.

    Raises:
        ValueError: It could not be trained.
    """
    assert job.config is not None
    learner = job.config.learner
    budget = UPDATES * learner.rollout_steps * learner.num_envs
    with tempfile.TemporaryDirectory(prefix="egomap-speed-") as name:
        folder = Path(name)
        generate(ScenarioConfig(task="labyrinth", size=5, train=16, test=1), folder / "mazes")
        command = train_command(job)
        for flag, value in (("--run", folder / "run"), ("--budget", budget), ("--evaluate-every", 0)):
            command[command.index(flag) + 1] = str(value)
        began = time.monotonic()
        with open(folder / "log", "wb") as log:
            code = launch([*command, "--scenarios", str(folder / "mazes")], log, cores).wait()
        seconds = time.monotonic() - began
        if code != 0:
            told = (folder / "log").read_text(errors="replace").rstrip().splitlines()
            raise ValueError(f"the speed could not be measured: {told[-1] if told else f'exit code {code}'}")
        rows = read_metrics(folder / "run" / "metrics.csv")
    working = sum(float(row["collect_seconds"]) + float(row["update_seconds"]) for row in rows)
    found = of_rows(rows[1:], f"a measurement of {len(rows) - 1} updates, just now")
    return found._replace(start=max(seconds - working, 0.0))


def speeds(jobs: Sequence[Job], runs: Path, cores: Sequence[int]) -> dict[str, Speed]:
    """The speed, on these cores, of each kind of agent that has something left to learn."""
    found: dict[str, Speed] = {}
    for job in jobs:
        if job.config is not None and job.kind not in found and not trained(job):
            found[job.kind] = earlier(runs, job.config) or measure(job, cores)
    return found


def seconds_left(job: Job, known: dict[str, Speed]) -> float:
    """How long the job will still take, at most."""
    default = max((speed.playing for speed in known.values()), default=GUESSED_PLAY)
    speed = known.get(job.kind, Speed(math.inf, default, ""))
    scale, total = job.scale, 0.0
    k = scale.episodes_per_layout
    for split in SPLITS:
        if not job.scores(split).exists():
            layouts = scale.test if split == "test" else scale.train_layouts
            plays = 1 + len(job.lesions(split))
            total += speed.start + plays * layouts * k * EPISODE / speed.playing
    if job.config is not None and not trained(job):
        left = max(job.config.budget - progress(job).decisions, 0)
        evaluations = math.ceil(left / scale.spacing) if scale.spacing else 1
        total += speed.start + left / speed.learning + evaluations * scale.test * EPISODE / speed.playing
    return total
