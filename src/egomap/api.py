"""The package from Python: what the main commands do, as functions; `egomap.train` and the others are these.

Input: settings, paths and names. Output: plain data and objects. Bad input raises
a ValueError of one sentence before anything is played. The commands of the same names are thin over the same parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from egomap.config import Task, TrainConfig, WorldKind, require
from egomap.util.bars import no_bar, progress_bar

if TYPE_CHECKING:
    from egomap.envs.worlds import Worlds
    from egomap.memory.lesions import Replacement
    from egomap.sharing.loaded import LoadedAgent
    from egomap.training.trainer import Progress

Name = str | os.PathLike[str]
"""A run folder, an exported agent, the name of a released one (`egomap agents`), or `hub:OWNER/NAME`."""
SCRIPTED = ("random", "planner", "explorer")
"""Agents without a network."""


class TrainedRun(NamedTuple):
    """The result of a training."""

    path: Path
    """The run folder: an agent for `load_agent`, `evaluate` and `inspect`."""
    decisions: int
    episodes: int
    finished: bool
    """Whether the budget is spent."""
    best_return: float | None
    """The best mean return on held-out mazes; None if it was never evaluated."""


def train(
    config: TrainConfig | None = None,
    run: Name = "runs/egomap",
    *,
    resume: bool = False,
    budget: int | None = None,
    init: Name | None = None,
    callback: Callable[[Progress], object] | None = None,
    quiet: bool = False,
) -> TrainedRun:
    """Train an agent, or resume a run, as `egomap train` does.

    Args:
        config: What to train, such as `egomap.presets.QUICK`, or a copy of it by `dataclasses.replace`. None with
            `resume`, which takes the run's own.
        run: The run folder; new or empty, or with `resume` that of a run.
        resume: Resume from the run's last checkpoint.
        budget: With `resume`: decisions in all, as many as the run had, or more.
        init: Start with the weights of this agent; its kind and sizes must be those of `config`.
        callback: Called after each update with a `Progress`: decisions, budget, `row` (the metrics by name) and
            seconds left. If it returns False, the training stops as after Ctrl-C, with a checkpoint.
        quiet: Show no progress on stderr.

    Returns:
        Where the run stands.

    Raises:
        ValueError: A bad config, a folder that cannot be used, no good checkpoint, or weights that do not fit.
    """
    require(config is not None or resume, "give a config, or resume=True.")
    require(config is None or not resume, "a run that is resumed has its own config: give none.")
    require(budget is None or resume, "budget is for a run that is resumed; a new one has it in its config.")
    require(init is None or not resume, "init is for a new run; one that is resumed has its weights.")
    from egomap.memory.registry import complete
    from egomap.training.command import train as run_training
    from egomap.training.run import open_run
    from egomap.training.trained import find_agent

    if config is not None:
        config = replace(config, agent=complete(config.agent))
    path = Path(run)
    counters = run_training(
        config,
        path,
        resume=resume,
        budget=budget,
        init=None if init is None else find_agent(init),
        callback=callback,
        quiet=quiet,
    )
    best = None if counters.best_return == -float("inf") else counters.best_return
    finished = counters.decisions >= open_run(path)[1].budget
    return TrainedRun(path, counters.decisions, counters.episodes, finished, best)


def load_agent(
    name: Name,
    which: Literal["first", "last", "best"] = "last",
    *,
    deterministic: bool = False,
    seed: int = 0,
) -> LoadedAgent:
    """A trained agent that plays.

    Args:
        name: A run folder, an exported agent, the name of a released one (`egomap agents` lists them), or
            `hub:OWNER/NAME`, which is downloaded (extra `hub`). It is only read.
        which: Of a run: the `first` checkpoint that is still there (a training keeps its latest two), the `last`, or
            the `best` on held-out mazes. An exported agent is one of these, which `last` means, too.
        deterministic: Take the most probable action instead of drawing one.
        seed: Of the draws.

    Returns:
        An agent with `act(observation)` and `reset()`.

    Raises:
        ValueError: There is no such agent, or it is damaged.
    """
    from egomap.sharing.loaded import LoadedAgent
    from egomap.training.trained import find_agent

    return LoadedAgent(find_agent(name, which=which), deterministic=deterministic, seed=seed)


def evaluate(
    *names: Name,
    scenario: Task | None = None,
    size: int | None = None,
    items: int | None = None,
    scenarios: Name | Sequence[Name] = (),
    split: Literal["train", "test"] = "test",
    episodes_per_layout: int = 1,
    layouts: int | None = None,
    argmax: bool = False,
    checkpoint: Literal["last", "best"] = "last",
    noise: Sequence[float] = (),
    lesion: Sequence[str] = (),
    lesion_by: Replacement | None = None,
    num_envs: int = 16,
    seed: int = 0,
    world: WorldKind | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Play every layout of a split equally often with each agent, as `egomap evaluate` does; nothing is written.

    Args:
        names: Trained agents, as `load_agent` takes them, and `random`, `planner` or `explorer`.
        scenario: Family whose default set is played; None: what the first trained agent was trained for.
        size: Cells along each side of the default set.
        items: Items of the default ordered-items set.
        scenarios: A folder of `egomap generate`, or .cfg files, instead of a default set.
        split: Which layouts of the set.
        episodes_per_layout: How often each is played.
        layouts: Only the first so many.
        argmax: Take the most probable actions instead of sampled ones.
        checkpoint: Which of a run's agents.
        noise: Levels of ego-motion noise; (): what each was trained with.
        lesion: Parts of the memory; the same episodes are played again without each of them.
        lesion_by: What replaces them.
        num_envs: Engines at once.
        seed: The same seed gives the same answer.
        world: Which simulator draws the mazes; None: the one that each was trained in.
        progress: Show bars on stderr.

    Returns:
        `evaluations`, one for each agent and level, with `summary` (mean_return, interval_95, success, ...) and
        `layouts`; `groups` of runs that differ in their seed alone; the `question` (docs/evaluation.md).

    Raises:
        ValueError: A name or setting refers to nothing, or is out of range.
    """
    from egomap.commands.evaluate.entries import entries_of
    from egomap.commands.evaluate.question import Question
    from egomap.commands.evaluate.scoring import evaluate as evaluate_entries

    question = Question(
        *(split, episodes_per_layout, layouts, argmax, checkpoint, tuple(noise), seed, num_envs),
        *(tuple(lesion), lesion_by, world),
    ).validate()
    told = [os.fspath(name) for name in names]
    trained = [name for name in told if name not in SCRIPTED]
    worlds = _worlds(trained, scenario, size, items, scenarios, split)
    found = entries_of(trained, [cast(Any, name) for name in told if name in SCRIPTED], question, worlds)
    return evaluate_entries(found, question, progress_bar if progress else no_bar)


def _worlds(
    trained: Sequence[Name],
    scenario: Task | None,
    size: int | None,
    items: int | None,
    scenarios: Name | Sequence[Name],
    split: str,
) -> Worlds | None:
    """What is played; None: what each trained agent was trained for."""
    places = (scenarios,) if isinstance(scenarios, str | os.PathLike) else tuple(scenarios)
    if trained and not places and all(option is None for option in (scenario, size, items)):
        return None
    from egomap.envs.worlds import named_worlds
    from egomap.training.trained import settings_of

    own = [settings_of(name).scenario for name in trained]
    return named_worlds(scenario, size, items, [os.fspath(place) for place in places], split, trained=own)


def _paths(**files: Name | None) -> dict[str, Any]:
    """The files that are given, as paths."""
    return {name: Path(file) for name, file in files.items() if file is not None}


def inspect(
    name: Name,
    *,
    layout: int | Sequence[int] = 0,
    out: Name | None = None,
    figure: Name | None = None,
    steps: str = "",
    video: Name | None = None,
    rrd: Name | None = None,
    lesion: Sequence[str] = (),
    lesion_by: Replacement | None = None,
    checkpoint: Literal["last", "best"] = "last",
    driver: Literal["agent", "planner", "random"] = "agent",
    deterministic: bool = False,
    split: Literal["train", "test"] = "test",
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = False,
) -> list[Path]:
    """Inspect an agent's memory: play an episode and write it as a page, figure or video, as `egomap inspect` does.

    Args:
        name: A trained agent, as `load_agent` takes it.
        layout: Which layout of the split, counted from 0; several for a video.
        out: HTML page to write (default: episode.html, if nothing else is asked for).
        figure: Figure to write: .png, .svg or .pdf.
        steps: Decisions in the figure, such as "5,105,108".
        video: Video to write: .mp4 or .webp.
        rrd: Rerun recording to write: .rrd.
        lesion: On the page: what the agent would have decided without these parts of its memory.
        lesion_by: What replaces them.
        checkpoint: Which of a run's agents.
        driver: Which agent acts; the inspected one observes.
        deterministic: Take the most probable action instead of drawing one.
        split: Which layouts of the set that it was trained for.
        seed: With the layout it fixes the episode.
        overwrite: Write over files that exist.
        progress: Show bars on stderr.

    Returns:
        The files that were written.
    """
    from egomap.inspector.command import inspect as run
    from egomap.inspector.options import InspectOptions

    options = InspectOptions(
        run=Path(name),
        checkpoint=checkpoint,
        split=split,
        seed=seed,
        layout=(layout,) if isinstance(layout, int) else tuple(layout),
        driver=driver,
        deterministic=deterministic,
        steps=steps,
        lesion=tuple(lesion),
        lesion_by=lesion_by,
        overwrite=overwrite,
        **_paths(out=out, figure=figure, video=video, rrd=rrd),
    )
    return run(options, progress_bar if progress else no_bar)
