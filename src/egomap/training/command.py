"""What `egomap train` does: begin or resume a run, show it, stop it kindly, score it.

What comes in: a config and where to put the run. What goes out: an exit code; the run is in its folder. Under
torchrun every rank runs this, and rank 0 alone speaks.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.text import Text

from egomap.agents.agent import build_agent
from egomap.config import TrainConfig, require
from egomap.envs.guard import MAX_ENGINES
from egomap.training.allocator import require_memory
from egomap.training.checkpoint import Checkpoint, checkpoints, latest
from egomap.training.distributed import Ranks, join_ranks
from egomap.training.files import folder_lock
from egomap.training.run import CONFIG, RunFolder, begin_run, observation_camera, open_run, worlds_of
from egomap.training.signals import on_first_signal
from egomap.training.teachers import require_rules, teacher_kind
from egomap.training.trainer import Counters, Progress, Trainer

LINE_EVERY = 15.0
"""Seconds between lines where there is no terminal to draw on."""
LOCK_PATIENCE = 120.0
"""Seconds: a file server gives the lock of a box that died back only after a while."""


def train(config: TrainConfig | None, path: Path, *, resume: bool = False) -> Counters:
    """Run to the end of the budget, or to the first Ctrl-C; return where the run stands.

    Args:
        config: What to train; None takes the run folder's own (to resume).
        path: The run folder.
        resume: Go on from the last checkpoint. Under torchrun a restarted group does so by itself.

    Raises:
        ValueError: A bad config, a folder that cannot be used, or no good checkpoint to go on from.
    """
    with join_ranks() as ranks:
        run, config, extent, checkpoint = _open(config, path, resume=resume, ranks=ranks)
        lock = folder_lock(path, "another `egomap train`", patience=LOCK_PATIENCE if ranks.restarts else 0.0)
        with lock if ranks.first else nullcontext(), _display(config, path, ranks) as show:
            trainer = Trainer(
                config, run, extent=extent, ranks=ranks, checkpoint=checkpoint, on_progress=show
            )
            try:
                with on_first_signal(lambda: _stop(trainer)):
                    return trainer.train()
            finally:
                trainer.close()


def _stop(trainer: Trainer) -> None:
    trainer.stop()
    print("\nStopping after this update; a checkpoint is written. Again to stop at once.", file=sys.stderr)


def _open(
    config: TrainConfig | None, path: Path, *, resume: bool, ranks: Ranks
) -> tuple[RunFolder, TrainConfig, float, Checkpoint | None]:
    """The run folder to work in: rank 0 decides whether the run goes on or begins, and makes it; then all read it."""
    restarted = ranks.any(ranks.restarts > 0)
    if ranks.any(ranks.first and (resume or (restarted and (path / CONFIG).exists()))):
        run, own, extent = open_run(path)
        if config is not None and config != own:
            raise ValueError(f"{path} holds a run with another config; give another folder.")
        # A run that was killed before its first checkpoint begins anew.
        found = latest(run.checkpoints)[1] if checkpoints(run.checkpoints) else None
        return run, own, extent, found
    if config is None:
        raise ValueError(f"there is nothing to go on with in {path}: give --resume or a preset.")
    if ranks.first:
        begin_run(path, config.validate(), _check(config))
    ranks.wait_for_first()  # it may have mazes to make
    run, own, extent = open_run(path)
    return run, own, extent, None


def _check(config: TrainConfig) -> float:
    """Whether a run with this config can begin and end; the side of a square that holds every arena of it.

    All stages of a curriculum are looked at, and the held-out split, which would be missed hours later.
    """
    camera = observation_camera(config)
    envs = config.learner.num_envs
    require(envs <= MAX_ENGINES, f"num-envs must be at most {MAX_ENGINES}; got {envs}.")
    worlds_of(config, "test")
    stages = [worlds_of(config, "train", size=size) for size in config.curriculum or (None,)]
    extent = max(worlds.extent for worlds in stages)
    if teacher_kind(config) != "none":
        for worlds in stages:
            require_rules(worlds)
    with torch.random.fork_rng():
        agent = build_agent(config.agent, camera, extent)
    require_memory(config.learner, agent.memory)
    return extent


@contextmanager
def _display(config: TrainConfig, path: Path, ranks: Ranks):  # type: ignore[no-untyped-def]
    """A function that shows progress: a panel on a terminal, a line now and then elsewhere."""
    console = Console(stderr=True)
    if not ranks.first:
        yield None
    elif console.is_terminal:
        with Live(Text("Starting the engines ..."), console=console, refresh_per_second=4) as live:
            yield lambda progress: live.update(_panel(config, path, progress))
    else:
        yield _line_printer(console)


def _line_printer(console: Console):  # type: ignore[no-untyped-def]
    last = 0.0

    def show(progress: Progress) -> None:
        nonlocal last
        row = progress.row
        done = progress.decisions >= progress.budget
        if time.monotonic() - last < LINE_EVERY and not done and "test_return" not in row:
            return
        last = time.monotonic()
        test = f", held-out return {row['test_return']:.3f}" if "test_return" in row else ""
        console.print(
            f"{progress.decisions:,} of {progress.budget:,} decisions, {row['decisions_per_second']:,.0f}/s, "
            f"{_recent(row)}, entropy {row['entropy']:.2f}, {_clock(progress.seconds_left)} left{test}",
            highlight=False,
            soft_wrap=True,
        )

    return show


def _recent(row: dict[str, float]) -> str:
    if "mean_return" not in row:
        return "too few episodes have ended"
    return f"latest episodes: return {row['mean_return']:.3f}, success {row['success']:.0%}"


def _panel(config: TrainConfig, path: Path, progress: Progress) -> Panel:
    row = progress.row
    lines = [
        f"{progress.decisions:,} decisions = {int(row['frames']):,} frames, "
        f"{row['decisions_per_second']:,.0f} decisions/s",
        _recent(row),
        f"entropy {row['entropy']:.2f}, value explains {row['explained_variance']:.0%}, "
        f"gradient {row['gradient_norm']:.2f}",
        f"maze size {int(row['maze_size'])}, engines restarted {int(row['engine_restarts'])}",
        f"{_clock(row['seconds'])} gone, {_clock(progress.seconds_left)} left. Ctrl-C stops and saves.",
    ]
    bar = ProgressBar(total=progress.budget, completed=progress.decisions)
    title = f"{config.agent.kind} on {config.scenario.task}, seed {config.seed}: {path}"
    return Panel(Group(Text("\n".join(lines)), bar), title=title)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
