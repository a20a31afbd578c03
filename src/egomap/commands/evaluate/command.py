"""`egomap evaluate`: what a person gives, and what they are told."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from egomap.commands.evaluate.question import Question, parse_levels
from egomap.config import Task, WorldKind, require
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    from egomap.envs.worlds import Worlds


@dataclass(frozen=True)
class EvaluateOptions:
    """Score runs, and agents that need none, on every layout of a split, each played equally often.

    Example: egomap evaluate runs/a runs/b --agents random planner --noise 0,0.1,0.2

    A run plays the mazes that it was trained for, unless others are named. Its scores go to a JSON file in its
    folder (an exported agent's to this one), or all together to --out.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run folders, exported agents, or names of released ones (egomap agents); runs that differ in their seed alone
    are also summed up together."""
    agents: Annotated[
        tuple[Literal["random", "planner", "explorer"], ...] | None, tyro.conf.arg(aliases=["--agent"])
    ] = None
    """Who plays besides: random, planner, explorer (with no runs: both, or random where there is no layout)."""
    scenario: Task | None = None
    """Family whose default set is played (made once and kept); with runs and --size or --items: theirs."""
    size: int | None = None
    """Cells along each side of the default set."""
    items: int | None = None
    """Items of the default ordered-items set."""
    scenarios: tuple[str, ...] = ()
    """A folder of `egomap generate` or of .cfg files, or any .cfg files (a glob pattern too), instead."""
    world: WorldKind | None = None
    """Which simulator draws the mazes, doom or miniworld: an agent of one can be tried in the other (default: the one
    that each run was trained in)."""
    split: Literal["train", "test"] = "test"
    """Which layouts of the set."""
    episodes_per_layout: int = 1
    """How often each layout is played."""
    layouts: int | None = None
    """Only the first so many layouts of the split."""
    argmax: bool = False
    """Take the most probable action instead of a sampled one."""
    checkpoint: Literal["last", "best"] = "last"
    """Which of a run's agents: the last, or the best on held-out mazes."""
    noise: str = ""
    """Ego-motion noise, standard deviation of a factor on each reading; one or more levels, such as 0,0.02,...,0.2
    (default: what each run was trained with)."""
    lesion: tuple[str, ...] = ()
    """Play the same episodes again without a part of the memory, once for each name given: global-read, context, map,
    hidden, ... as the memory names them, several at once joined by +, or all."""
    lesion_by: Literal["mean", "zero", "shuffle"] | None = None
    """What takes the part's place: its mean over intact episodes, zeros, or the same part from another episode at the
    same step (default: the mean for reads, zeros for what is kept)."""
    num_envs: int = 16
    """Engines at once."""
    seed: int = 0
    """The same seed gives the same episodes and the same JSON."""
    out: Path | None = None
    """JSON file for all scores; it must not exist."""
    print_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the JSON, and nothing else, on stdout."""

    @property
    def question(self) -> Question:
        """What is asked of every agent."""
        return Question(
            *(self.split, self.episodes_per_layout, self.layouts, self.argmax, self.checkpoint),
            *(parse_levels(self.noise), self.seed, self.num_envs, self.lesion, self.lesion_by),
            world=self.world,
        ).validate()

    def worlds(self) -> Worlds | None:
        """What is played; None: what each run was trained for."""
        named = (self.scenario, self.size, self.items)
        if self.runs and not self.scenarios and not any(option is not None for option in named):
            return None
        from egomap.envs.worlds import named_worlds

        trained = []
        if self.runs:
            from egomap.training.trained import settings_of  # only now, for it brings torch along

            trained = [settings_of(run).scenario for run in self.runs]
        return named_worlds(*named, self.scenarios, self.split, trained=trained)


def evaluate(options: tyro.conf.OmitArgPrefixes[EvaluateOptions]) -> int:
    """Score runs, and agents that need none, on every layout of a split, each played equally often.

    Example: egomap evaluate runs/a runs/b --agents random planner --noise 0,0.1,0.2
    """
    question = options.question
    _require_writable(options)
    worlds = options.worlds()
    # Only now, for it brings torch along: bad input is told at once.
    from egomap.commands.evaluate.entries import entries_of, left_out, warnings
    from egomap.commands.evaluate.scoring import evaluate as evaluate_entries
    from egomap.commands.evaluate.scoring import write_results
    from egomap.evaluation.answer import as_text
    from egomap.evaluation.tables import print_evaluations
    from egomap.util.files import write_whole

    agents = options.agents or ()
    if options.agents is None and not options.runs:  # the planner knows the way only where there is a layout
        known = worlds is not None and all(world.layout is not None for world in worlds)
        agents = ("random", "planner") if known else ("random",)
    found = entries_of(options.runs, agents, question, worlds)
    for warning in (*warnings(found), *left_out(found, question)):
        print(f"Note: {warning}", file=sys.stderr)
    answer = evaluate_entries(found, question, progress_bar)
    if options.out is None:
        written = write_results(found, answer)
    else:
        write_whole(options.out, as_text(answer))
        written = [options.out]
    if options.print_json:
        print(as_text(answer), end="")
        return 0
    print_evaluations(answer)
    for path in written:
        print(f"Every layout: {path}")
    return 0


def _require_writable(options: EvaluateOptions) -> None:
    """Before anything is played: a ValueError where the results would have no place."""
    from egomap.training.names import find_source

    out = options.out
    if out is not None:
        require(not out.exists(), f"{out} exists already; give another name.")
        require(out.resolve().parent.is_dir(), f"{out} cannot be written: {out.parent} is not a folder.")
    for run in options.runs:
        source = find_source(run)
        require(
            out is not None or os.access(source.results, os.W_OK),
            f"{source.results} cannot be written to; give a file by --out.",
        )
