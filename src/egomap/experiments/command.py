"""The commands `egomap reproduce results|ablation|noise|curves|report`: their options, and what they do in order.

What comes in: options from the command line. What goes out: an exit code; runs in their folders, and in the output
folder the data, the table and the figure, updated whenever a run finishes. Heavy parts are imported late, so
that bad input and `--help` are quick.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from egomap.config import ScenarioConfig, require, require_whole, require_within
from egomap.experiments import paper, plan
from egomap.experiments.plan import AgentNames, PresetName, Row, Scale, TaskName
from egomap.experiments.shapes import EXPERIMENT
from egomap.util.cores import usable_cores
from egomap.util.files import read_versioned

MOST_JOBS = 1024
"""Processes at once."""


@dataclass(frozen=True, kw_only=True)
class Campaign(ABC):
    """Options that all experiments share."""

    budget: float = 2e6
    """Decisions of each training run, 4 frames each (paper: 3e8; ablation 2e8, noise 8e7)."""
    seeds: int = 3
    """Runs of each agent (paper: 3)."""
    first_seed: int = Scale.first_seed
    """Their seeds are counted from this one: settings that were chosen on some seeds are best tested on others."""
    size: int | None = None
    """Cells along each side of the mazes (default: the paper's, 9; ordered items 5)."""
    jobs: int | None = None
    """Processes at once, each on its share of the cores (default: one for each core)."""
    dry_run: bool = False
    """Show what would be run and how long it would take, and run nothing but a short measurement of speed."""
    preset: PresetName = "fast"
    """How agents learn: fast; full, on growing mazes for an agent that acts through its map; or as in the paper."""
    train: int = ScenarioConfig.train
    """Training layouts (paper: 256)."""
    test: int = ScenarioConfig.test
    """Held-out layouts (paper: 64)."""
    train_layouts: int = Scale.train_layouts
    """Training layouts that are played for the train column."""
    episodes_per_layout: int = Scale.episodes_per_layout
    """How often each layout is played for the table."""
    evaluate_every: float | None = None
    """Decisions between the evaluations of a curve (default: a tenth of the budget, but at least 1e5)."""
    lesions: tuple[str, ...] = ()
    """Also play held-out mazes with these parts of the memory replaced: names, several joined by "+", or all."""
    runs: Path = Scale.runs
    """Folder of the run folders; experiments share their runs, and what is finished there is not run again."""
    out: Path | None = None
    """Folder for table, figure and data (default: out/EXPERIMENT)."""
    overwrite: bool = False
    """Replace the output of an experiment with other options."""

    experiment: ClassVar[str] = ""
    title: ClassVar[str] = ""
    paper_frames: ClassVar[int] = paper.RESULTS_FRAMES

    @abstractmethod
    def rows(self, scale: Scale) -> list[Row]:
        """The rows of the table."""

    def chosen(self) -> dict[str, Sequence[str]]:
        """Options of this experiment alone, for the command that is printed with its table."""
        return {}

    def learns(self) -> bool:
        """Whether any agent is trained, so that the budget matters."""
        return True

    def scale(self) -> Scale:
        """The options that say how large it is; a ValueError if one is out of range."""
        if self.jobs is not None:
            require_within("jobs", self.jobs, 1, MOST_JOBS)
        return Scale(
            budget=require_whole(self.budget, "budget"),
            seeds=self.seeds,
            first_seed=self.first_seed,
            size=self.size,
            preset=self.preset,
            train=self.train,
            test=self.test,
            train_layouts=min(self.train_layouts, self.train),
            episodes_per_layout=self.episodes_per_layout,
            evaluate_every=(
                None if self.evaluate_every is None else require_whole(self.evaluate_every, "evaluate-every")
            ),
            runs=self.runs,
            lesions=self.lesions,
        ).validate()

    def run(self) -> int:
        """Do it; 0, or 2 if some runs failed."""
        scale = self.scale()
        rows = self.rows(scale)
        # Seed by seed, so that there is a whole table, of one seed, as early as possible.
        jobs = sorted({job: None for row in rows for job in row.jobs}, key=lambda job: job.seed)
        out = self.out or Path("out") / self.experiment
        self._require_place(out)
        from egomap.experiments.state import check, require_lesions

        require_lesions(jobs)
        for job in jobs:
            check(job)
        at_once = self.jobs or min(len(usable_cores()), len(jobs))
        if self.dry_run:
            from egomap.experiments.dry_run import show_plan

            show_plan(jobs, scale, at_once=at_once)
            return 0
        from egomap.experiments.campaign import run_jobs
        from egomap.util.files import folder_lock

        with folder_lock(scale.runs, "another `egomap reproduce`"):
            # Once before anything is run: a folder that cannot be written would be noticed only hours later.
            self.write(rows, scale, out)
            failures = run_jobs(jobs, at_once=at_once, on_finished=lambda: self.try_write(rows, scale, out))
        text = self.write(rows, scale, out)
        print(text)
        print("\n".join(str(out / name) for name in self._files()))
        for failure in failures:
            print(f"Failed: {failure.job.name}: {failure.reason} (see {failure.job.log})", file=sys.stderr)
        require(
            not failures,
            f"{len(failures)} of {len(jobs)} runs failed, the table is of the others; the same command tries again.",
        )
        return 0

    def write(self, rows: Sequence[Row], scale: Scale, out: Path) -> str:
        """Data, table and figure of what is finished; returns the Markdown."""
        from egomap.experiments.figures import picture
        from egomap.experiments.findings import bullets, what_it_shows
        from egomap.experiments.gather import gather
        from egomap.experiments.render import markdown, table_csv
        from egomap.util.files import write_whole

        data = gather(
            self.experiment, self.title, rows, scale, command=self.command(), paper_frames=self.paper_frames
        )
        out.mkdir(parents=True, exist_ok=True)
        text = f"{markdown(data)}\n{bullets(what_it_shows(data))}"
        write_whole(out / f"{self.experiment}.json", json.dumps(data, indent=1) + "\n")
        write_whole(out / f"{self.experiment}.md", text)
        write_whole(out / f"{self.experiment}.csv", table_csv(data))
        for kind in ("png", "svg"):
            write_whole(out / f"{self.experiment}.{kind}", picture(data, kind))
        return text

    def try_write(self, rows: Sequence[Row], scale: Scale, out: Path) -> None:
        """`write`, while others are still learning: they must not end because a disk is full."""
        try:
            self.write(rows, scale, out)
        except (ValueError, OSError) as error:
            print(f"The table could not be written and is tried again later: {error}", file=sys.stderr)

    def command(self) -> str:
        """The command that gives this very table, wherever it puts it."""
        words = ["egomap", "reproduce", self.experiment]
        if self.learns():
            words += ["--budget", f"{int(self.budget)}"]
        words += ["--seeds", f"{self.seeds}"]
        for name, default in (
            ("first_seed", Scale.first_seed),
            ("size", None),
            ("preset", "fast"),
            ("train", ScenarioConfig.train),
            ("test", ScenarioConfig.test),
            ("train_layouts", Scale.train_layouts),
            ("episodes_per_layout", Scale.episodes_per_layout),
            ("evaluate_every", None),
        ):
            value = getattr(self, name)
            if value != default:
                words += [f"--{name.replace('_', '-')}", _plain(value)]
        for name, values in (("lesions", self.lesions), *self.chosen().items()):
            if not values:
                continue
            words += [f"--{name}", *values]
        return " ".join(words)

    def _files(self) -> list[str]:
        return [f"{self.experiment}.{kind}" for kind in ("md", "csv", "json", "png", "svg")]

    def _require_place(self, out: Path) -> None:
        # A name that begins with a dot is what a kill left of a file that was being written.
        there = (
            {path.name for path in out.iterdir() if not path.name.startswith(".")} if out.exists() else set()
        )
        others = sorted(there - set(self._files()))
        require(
            not others, f"{out} holds other files ({', '.join(others[:3])}); give another folder by --out."
        )
        kept = out / f"{self.experiment}.json"
        if kept.exists() and not self.overwrite:
            made = read_data(kept)["command"]
            require(
                made == self.command(),
                f"{out} holds the output of `{made}`; give another folder by --out, or --overwrite.",
            )


@dataclass(frozen=True, kw_only=True)
class Results(Campaign):
    """The main table: Random, GRU, Neural Map, EgoMap, Explorer, Planner on four tasks, training and held-out mazes.

    Example: egomap reproduce results --budget 4e5 --seeds 3 --size 5 --tasks labyrinth find-return
    """

    tasks: tuple[TaskName, ...] = plan.TASK_NAMES
    """Which tasks."""
    agents: AgentNames = plan.PAPER_AGENTS
    """Which agents (default: the paper's, Explorer and Planner)."""

    experiment: ClassVar[str] = "results"
    title: ClassVar[str] = "Results: agents on tasks"

    def rows(self, scale: Scale) -> list[Row]:
        """Agents on tasks."""
        require(bool(self.tasks and self.agents), "give at least one task and one agent.")
        return plan.results(scale, self.tasks, self.agents)

    def learns(self) -> bool:
        """Whether one of the agents does."""
        return not set(plan.SCRIPTED).issuperset(self.agents)

    def chosen(self) -> dict[str, Sequence[str]]:
        """Tasks and agents, where they are not all."""
        found: dict[str, Sequence[str]] = {}
        if self.tasks != plan.TASK_NAMES:
            found["tasks"] = self.tasks
        if self.agents != plan.PAPER_AGENTS:
            found["agents"] = self.agents
        return found


@dataclass(frozen=True, kw_only=True)
class Curves(Results):
    """Learning curves: held-out return over decisions and over wall time, with a band over seeds.

    The runs are those of `results` with the same options. Example: egomap reproduce curves --budget 4e5 --size 5
    """

    experiment: ClassVar[str] = "curves"
    title: ClassVar[str] = "Curves: held-out return during training"


@dataclass(frozen=True, kw_only=True)
class Ablation(Campaign):
    """The ablation table: EgoMap with parts switched off, and the GRU baseline, on find-return.

    Example: egomap reproduce ablation --budget 20000 --seeds 1
    """

    experiment: ClassVar[str] = "ablation"
    title: ClassVar[str] = "Ablations of EgoMap"
    paper_frames: ClassVar[int] = paper.ABLATION_FRAMES

    def rows(self, scale: Scale) -> list[Row]:
        """The seven rows."""
        return plan.ablation(scale)


@dataclass(frozen=True, kw_only=True)
class Noise(Campaign):
    """The noise table: EgoMap trained with ten levels of ego-motion noise, and the GRU baseline, on find-return.

    Example: egomap reproduce noise --budget 2e6 --seeds 3 --size 5
    """

    experiment: ClassVar[str] = "noise"
    title: ClassVar[str] = "Noise on the ego-motion"
    paper_frames: ClassVar[int] = paper.NOISE_FRAMES

    def rows(self, scale: Scale) -> list[Row]:
        """Ten levels and the baseline."""
        return plan.noise(scale)


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, float) else str(value)


def read_data(path: Path) -> dict[str, Any]:
    """The data of an experiment; a ValueError if the file is something else."""
    from egomap.experiments.gather import FORMAT

    data = read_versioned(path, FORMAT, "the data of an experiment", EXPERIMENT)
    require(data["budget"] >= 1, f"{path} is of an experiment without a budget; make it again.")
    return data
