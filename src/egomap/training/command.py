"""What `egomap train` does: begin or resume a run, show it, stop it kindly, score it.

What comes in: a config and where to put the run. What goes out: an exit code; the run is in its folder. Under
torchrun every rank runs this, and rank 0 alone speaks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from shlex import quote

import torch
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.text import Text

from egomap.compute import choose_device, fastest_precision
from egomap.config import DeviceKind, TrainConfig
from egomap.rl.bonuses import bonuses_of
from egomap.rl.terms import terms_of
from egomap.training.allocator import require_memory
from egomap.training.checkpoint import Checkpoint, checkpoints, latest, require_last
from egomap.training.distributed import Ranks, join_ranks
from egomap.training.initial import extend, keep_weights, rate_at, require_fit, told
from egomap.training.run import CONFIG, RunFolder, begin_run, new_agent, open_run
from egomap.training.signals import on_first_signal
from egomap.training.sources import source_of
from egomap.training.teachers import require_rules, teacher_kind
from egomap.training.trained import Trained
from egomap.training.trainer import Counters, Progress, Trainer
from egomap.util.bars import in_notebook, live
from egomap.util.files import folder_lock
from egomap.worlds.api import WorldSpec

LINE_EVERY = 15.0
"""Seconds between lines where there is no terminal to draw on."""
LOCK_PATIENCE = 120.0
"""Seconds: a file server gives the lock of a box that died back only after a while."""


Callback = Callable[[Progress], object]
"""Called after each update of rank 0; False asks the training to stop, as Ctrl-C does."""


def train(
    config: TrainConfig | None,
    path: Path,
    *,
    resume: bool = False,
    budget: int | None = None,
    device: DeviceKind | None = None,
    init: Trained | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
) -> Counters:
    """Run to the end of the budget, or to the first Ctrl-C; return where the run stands.

    Args:
        config: What to train; None takes the run folder's own (to resume).
        path: The run folder.
        resume: Resume from the last checkpoint. Under torchrun a restarted group does so automatically.
        budget: Decisions in all, for a run that is resumed: as many as it had, or more.
        device: Where to compute, for a run that is resumed; by default where the run says.
        init: Begin with the weights of this agent.
        callback: Called after each update.
        quiet: Show nothing.

    Raises:
        ValueError: A bad config, a folder that cannot be used, or no intact checkpoint to resume from.
    """
    if config is not None and init is not None:
        config = replace(config, init=told(init))
    with join_ranks() as ranks:
        run, config, extent, checkpoint = _open(config, path, resume=resume, ranks=ranks, init=init)
        lock = folder_lock(path, "another `egomap train`", patience=LOCK_PATIENCE if ranks.restarts else 0.0)
        with lock if ranks.first else nullcontext():
            run.make()
            config = replace(config, device=device or config.device)
            config, finished = _budgeted(run, config, extent, checkpoint, budget, ranks)
            if finished is not None:
                return finished
            with _display(config, path, ranks) if not quiet else nullcontext() as show:
                tell = _Teller(show, callback)
                trainer = Trainer(
                    config, run, extent=extent, ranks=ranks, checkpoint=checkpoint, on_progress=tell
                )
                tell.stop = trainer.stop
                try:
                    with on_first_signal(lambda: _stop(trainer)):
                        return trainer.train()
                finally:
                    trainer.close()


def _budgeted(
    run: RunFolder,
    config: TrainConfig,
    extent: float,
    checkpoint: Checkpoint | None,
    budget: int | None,
    ranks: Ranks,
) -> tuple[TrainConfig, Counters | None]:
    """The config with its new budget, if it gets one; and where the run stands, if there is nothing left to do."""
    counters = Counters()
    if checkpoint is not None:
        require_last(checkpoint, config, extent, run.checkpoints)
        counters = Counters.from_json(checkpoint.data["counters"])
    spent, before = counters.decisions, config.budget
    if budget is not None and budget != before:
        config = extend(run, config, budget, spent) if ranks.first else replace(config, budget=budget)
        if ranks.first:
            print(
                f"The budget of {run.path} is now {budget:,} decisions; it was {before:,}, and {spent:,} are spent. "
                "Whatever falls over the budget falls over the new one: the learning rate goes on at "
                f"{rate_at(config, spent):.2g}, where it was {rate_at(replace(config, budget=before), spent):.2g}."
            )
    if checkpoint is None or spent < config.budget:
        return config, None
    if ranks.first:
        print(
            f"{run.path} is finished: {spent:,} of {config.budget:,} decisions. To extend it: egomap train "
            f"--run {quote(str(run.path))} --resume --budget {2 * config.budget}"
        )
    return config, counters


class _Teller:
    """Shows progress and calls back; a callback's False stops the training."""

    def __init__(self, show: Callable[[Progress], object] | None, callback: Callback | None) -> None:
        self._show, self._callback = show, callback
        self.stop: Callable[[], None] = lambda: None

    def __call__(self, progress: Progress) -> None:
        """After an update."""
        if self._show is not None:
            self._show(progress)
        if self._callback is not None and self._callback(progress) is False:
            self.stop()


def _stop(trainer: Trainer) -> None:
    trainer.stop()
    print("\nStopping after this update; a checkpoint is written. Again to stop at once.", file=sys.stderr)


def _open(
    config: TrainConfig | None, path: Path, *, resume: bool, ranks: Ranks, init: Trained | None
) -> tuple[RunFolder, TrainConfig, float, Checkpoint | None]:
    """The run folder to use: rank 0 decides whether the run is resumed or begins, and makes it; then all read it."""
    restarted = ranks.any(ranks.restarts > 0)
    if ranks.any(ranks.first and (resume or (restarted and (path / CONFIG).exists()))):
        run, own, extent = open_run(path)
        if config is not None:
            settled = own.precision if config.precision == "auto" else config.precision
            own = replace(own, device=config.device)
            if replace(config, precision=settled) != own:
                raise ValueError(f"{path} holds a run with another config; give another folder.")
        # A run that was killed before its first checkpoint begins again.
        found = latest(run.checkpoints)[1] if checkpoints(run.checkpoints) else None
        return run, own, extent, found
    if config is None:
        raise ValueError(f"there is nothing to go on with in {path}: give --resume or a preset.")
    if ranks.first:
        config = _settled(config.validate())
        spec = _check(config, init)
        run = begin_run(path, config, spec.extent, spec if config.env.id else None)
        if init is not None:
            keep_weights(run, init)
    ranks.wait_for_first()  # it may have mazes to make
    run, own, extent = open_run(path)
    return run, own, extent, None


def _settled(config: TrainConfig) -> TrainConfig:
    """The config with a device that is there, and the precision that is fastest on it, if that is asked for."""
    device = choose_device(config.device)
    return replace(config, precision=fastest_precision(device)) if config.precision == "auto" else config


def _check(config: TrainConfig, init: Trained | None = None) -> WorldSpec:
    """What the agent must know of its world, if a run with this config can begin and end."""
    source = source_of(config)
    spec = source.examine()
    if teacher_kind(config) != "none":
        for size in config.curriculum or (None,):
            require_rules(source.worlds("train", size=size))
    with torch.random.fork_rng():
        agent = new_agent(config, spec)
    terms_of(config.learner)
    bonuses_of(config.learner)
    if init is not None:
        require_fit(agent, config, init)
    require_memory(config.learner, agent.memory, pixels=spec.camera.height * spec.camera.width)
    return spec


@contextmanager
def _display(config: TrainConfig, path: Path, ranks: Ranks):  # type: ignore[no-untyped-def]
    """A function that shows progress: a panel on a terminal or in a notebook, a line now and then elsewhere."""
    console = Console(stderr=True)
    if not ranks.first:
        yield None
    elif console.is_terminal or in_notebook():
        with live(console, Text("Starting the engines ...")) as show:
            yield lambda progress: show(_panel(config, path, progress))
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
    solved = f", success {row['success']:.0%}" if "success" in row else ""
    return f"latest episodes: return {row['mean_return']:.3f}{solved}"


def _panel(config: TrainConfig, path: Path, progress: Progress) -> Panel:
    row = progress.row
    to_stop = "Interrupting the kernel" if in_notebook() else "Ctrl-C"
    place = f"maze size {int(row['maze_size'])}" if row["maze_size"] else config.told
    lines = [
        f"{progress.decisions:,} decisions = {int(row['frames']):,} frames, "
        f"{row['decisions_per_second']:,.0f} decisions/s",
        _recent(row),
        f"entropy {row['entropy']:.2f}, value explains {row['explained_variance']:.0%}, "
        f"gradient {row['gradient_norm']:.2f}",
        f"{place}, engines restarted {int(row['engine_restarts'])}",
        f"{_clock(row['seconds'])} gone, {_clock(progress.seconds_left)} left. {to_stop} stops and saves.",
    ]
    bar = ProgressBar(total=progress.budget, completed=progress.decisions)
    title = f"{config.agent.kind} on {config.told}, seed {config.seed}: {path}"
    return Panel(Group(Text("\n".join(lines)), bar), title=title)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
