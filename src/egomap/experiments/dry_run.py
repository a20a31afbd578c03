"""What `--dry-run` prints: every job, how far it is, and how long it will take at most."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from egomap.experiments.plan import Job, Scale
from egomap.experiments.speed import seconds_left, speeds
from egomap.experiments.state import next_command, progress, trained
from egomap.util.cores import core_shares


def show_plan(jobs: Sequence[Job], scale: Scale, *, at_once: int) -> None:
    """Print every job with how far it is and how long it will take."""
    known = speeds(jobs, scale.runs, core_shares(at_once)[0])
    table = Table("run", "state", "time left, at most")
    each = []
    for job in jobs:
        each.append(seconds := seconds_left(job, known))
        if next_command(job) is None:
            state = "finished"
        elif job.config is None:
            state = "to play"
        elif trained(job):
            state = "to score"
        else:
            done = progress(job).decisions
            state = f"{done:,} of {job.config.budget:,} decisions" if done else "to do"
        table.add_row(job.name, state, clock(seconds))
    Console().print(table)
    for kind, speed in known.items():
        print(
            f"{kind}: {speed.learning:,.0f} decisions/s learning, {speed.playing:,.0f} playing; {speed.source}."
        )
    shared = " (if they do not slow each other)" if at_once > 1 else ""
    print(
        f"{len(jobs)} runs, {at_once} at once{shared}: {clock(queue_end(each, at_once))} at most. Runs: {scale.runs}"
    )


def queue_end(seconds: Sequence[float], at_once: int) -> float:
    """When the last job ends, if each begins as soon as a place is free."""
    free = [0.0] * at_once
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def clock(seconds: float) -> str:
    """A length of time for people: 3 d 4 h, 2 h 05 min, 40 min, 12 s."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
