"""Run many jobs, each step a process `egomap ...` of its own, some at once; show how far all of them are.

What comes in: jobs. What goes out: their folders, filled. Every step writes its result whole or not at all and a
training resumes from its last checkpoint, so this can be killed at any moment and started again. When it dies, in
whatever way, its children die with it: two trainings in one folder would be one too many.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from egomap.config import require
from egomap.experiments.plan import Job
from egomap.experiments.sets import generate
from egomap.experiments.state import check, next_command, progress
from egomap.training.signals import on_first_signal
from egomap.util.cores import core_shares

POLL_SECONDS = 0.5
SHOW_EVERY = 2.0
LINE_EVERY = 60.0
"""Seconds between lines where there is no terminal to draw on."""

# The kernel kills a process whose parent is gone if it has asked for that (1 is PR_SET_PDEATHSIG); it is asked for
# before the real program takes over. If the parent died even before that, nothing is started.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
    os.sched_setaffinity(0, {int(core) for core in sys.argv[2].split(",")})
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass
class Running:
    """A step that is being done."""

    job: Job
    command: list[str]
    process: subprocess.Popen[bytes]
    cores: list[int]


@dataclass(frozen=True)
class Failure:
    """A job that could not be finished."""

    job: Job
    reason: str


def run_jobs(jobs: Sequence[Job], *, at_once: int = 1, on_finished: Callable[[], object]) -> list[Failure]:
    """Do whatever the jobs still need, each process on its own share of the cores.

    Args:
        jobs: In the order in which they are begun.
        at_once: How many processes run at the same time.
        on_finished: Called whenever a job is finished.

    Returns:
        The jobs that failed; the others were done all the same.
    """
    require(at_once >= 1, f"jobs must be 1 or more; got {at_once}.")
    waiting = [job for job in dict.fromkeys(jobs) if next_command(job) is not None]
    make_sets(waiting)
    free = core_shares(at_once)
    running: list[Running] = []
    failures: list[Failure] = []
    shown = 0.0
    with _display(jobs) as show, on_first_signal(_interrupt, (signal.SIGTERM, signal.SIGHUP)):
        try:
            while waiting or running:
                while waiting and free:
                    running.append(_start(waiting.pop(0), free.pop(0)))
                if time.monotonic() - shown > SHOW_EVERY:
                    show(running, failures)
                    shown = time.monotonic()
                time.sleep(POLL_SECONDS)
                for step in [step for step in running if step.process.poll() is not None]:
                    running.remove(step)
                    failure, following = after(step)
                    if following:
                        running.append(_start(step.job, step.cores))
                        continue
                    free.append(step.cores)
                    if failure is not None:
                        failures.append(failure)
                    else:
                        on_finished()
            show(running, failures)
        finally:
            _stop(running)
    return failures


def make_sets(jobs: Sequence[Job]) -> None:
    """The scenario sets that are not default ones, made once."""
    for job in jobs:
        if job.scale.own_sets:
            generate(job.scenario, job.scale.set_folder(job.scenario))


def _start(job: Job, cores: list[int]) -> Running:
    command = next_command(job)
    assert command is not None
    job.log.parent.mkdir(parents=True, exist_ok=True)
    scores = Path(command[command.index("--out") + 1]) if "--out" in command else None
    if scores is not None:
        scores.parent.mkdir(parents=True, exist_ok=True)
    with open(job.log, "ab") as log:
        log.write(f"$ egomap {' '.join(command)}\n".encode())
        log.flush()
        return Running(job, command, launch(command, log, cores), cores)


def launch(command: Sequence[str], log: IO[bytes], cores: Sequence[int]) -> subprocess.Popen[bytes]:
    """`egomap COMMAND` on these cores, as a process that dies with this one.

    Its session is its own, so that Ctrl-C is ours.
    """
    launcher = [sys.executable, "-c", _LAUNCH, str(os.getpid()), ",".join(map(str, cores))]
    program = [*launcher, sys.executable, "-m", "egomap", *command]
    return subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )


def after(step: Running) -> tuple[Failure | None, bool]:
    """What became of a step that ended: a failure, or whether the job continues."""
    code = step.process.returncode
    try:
        check(step.job)  # it has read the presets for itself, and they may have been edited meanwhile
    except ValueError as error:
        return Failure(step.job, str(error)), False
    following = next_command(step.job)
    if code == 0 and following != step.command:
        return None, following is not None
    lines = step.job.log.read_text(errors="replace").rstrip().splitlines()
    told = lines[-1].removeprefix("egomap: ") if lines else "nothing was printed"
    return Failure(step.job, f"exit code {code}: {told}"), False


def _stop(running: Sequence[Running]) -> None:
    """Ask all to end; a training does so after its update, with a checkpoint."""
    for step in running:
        with contextlib.suppress(ProcessLookupError):
            step.process.terminate()
    for step in running:
        step.process.wait()


def _interrupt() -> None:
    raise KeyboardInterrupt


# -- display ------------------------------------------------------------------------------------------------

Show = Callable[[Sequence[Running], Sequence[Failure]], None]


@contextlib.contextmanager
def _display(jobs: Sequence[Job]) -> Iterator[Show]:
    console = Console(stderr=True)
    if console.is_terminal:
        with _bars(jobs, console) as show:
            yield show
    else:
        yield _lines(jobs, console)


def _summary(jobs: Sequence[Job], failures: Sequence[Failure]) -> tuple[str, int, int]:
    every = list(dict.fromkeys(jobs))
    done = sum(next_command(job) is None for job in every)
    learners = [job for job in every if job.config is not None]
    decisions = sum(progress(job).decisions for job in learners)
    total = sum(job.config.budget for job in learners if job.config is not None)
    failed = f", {len(failures)} failed" if failures else ""
    return f"{done} of {len(every)} runs finished{failed}", decisions, total


def _doing(step: Running) -> str:
    if step.command[0] == "evaluate":
        return f"{step.job.name}: scoring {step.command[step.command.index('--split') + 1]}"
    now = progress(step.job)
    score = "" if now.mean_return is None else f", return {now.mean_return:.3f}"
    return f"{step.job.name}: {now.decisions:,} decisions{score}"


def _lines(jobs: Sequence[Job], console: Console) -> Show:
    last, said = -LINE_EVERY, ""

    def show(running: Sequence[Running], failures: Sequence[Failure]) -> None:
        nonlocal last, said
        text, decisions, total = _summary(jobs, failures)
        if text == said and time.monotonic() - last < LINE_EVERY:
            return
        last, said = time.monotonic(), text
        now = "; ".join(_doing(step) for step in running)
        console.print(f"{text}, {decisions:,} of {total:,} decisions. {now}", highlight=False, soft_wrap=True)

    return show


@contextlib.contextmanager
def _bars(jobs: Sequence[Job], console: Console) -> Iterator[Show]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        whole = bars.add_task("all runs", total=1)
        each: dict[str, TaskID] = {}

        def show(running: Sequence[Running], failures: Sequence[Failure]) -> None:
            text, decisions, total = _summary(jobs, failures)
            bars.update(whole, description=text, completed=decisions, total=total or 1)
            for name in set(each) - {step.job.name for step in running}:
                bars.remove_task(each.pop(name))
            for step in running:
                name, config = step.job.name, step.job.config
                budget = config.budget if config is not None and step.command[0] == "train" else None
                if name not in each:
                    each[name] = bars.add_task(name)
                bars.update(
                    each[name],
                    description=_doing(step),
                    completed=progress(step.job).decisions if budget else 0,
                    total=budget,
                )

        yield show
