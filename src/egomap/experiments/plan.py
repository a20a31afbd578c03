"""What an experiment of the paper consists of: rows of its table, and for each row the jobs, one for each seed.

What comes in: the options of a `reproduce` command. What goes out: `Row`s with `Job`s. A job is a training run in a
folder whose name says what it is, so that experiments share their runs, or an agent that learns nothing. Nothing is
run here, no file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from egomap.config import (
    AgentKind,
    MapSettings,
    ScenarioConfig,
    TrainConfig,
    distinctive,
    require,
    require_within,
)
from egomap.experiments import paper
from egomap.kinds import CHOICES, file_name, kind_of
from egomap.presets import ABLATIONS, preset
from egomap.util.digest import canonical, sha256

TaskName = Literal["4-item", "6-item", "find-return", "labyrinth"]
PresetName = Literal["fast", "full", "paper"]
TASK_NAMES: tuple[TaskName, ...] = ("4-item", "6-item", "find-return", "labyrinth")
AgentNames = Annotated[tuple[str, ...], tyro.conf.arg(metavar=f"random|{CHOICES}|explorer|planner ...")]
SCRIPTED = {"random": "Random", "explorer": "Explorer", "planner": "Planner"}
"""Agents that learn nothing, with their labels."""
PAPER_AGENTS: AgentNames = ("random", "gru", "neural-map", "egomap", "explorer", "planner")
"""Those of the paper's main table, and what can be reached by sight (Explorer) and with the layout (Planner)."""
MOST_EVALUATIONS = 10
MOST_SEEDS = 1000
"""Each is a training of its own for every row."""
LEAST_BETWEEN = 100_000
"""Decisions: an evaluation of 64 layouts takes up to 33 600 of them, and must not take longer than the learning."""


@dataclass(frozen=True)
class Scale:
    """How large an experiment is made."""

    budget: int
    seeds: int
    first_seed: int = 0
    size: int | None = None
    """None: the paper's."""
    preset: PresetName = "fast"
    train: int = ScenarioConfig.train
    test: int = ScenarioConfig.test
    train_layouts: int = 64
    """Training layouts that are played for the train column."""
    episodes_per_layout: int = 1
    evaluate_every: int | None = None
    """Decisions between evaluations during training; None: ten at most, and not too near to each other."""
    runs: Path = Path("runs/reproduce")
    lesions: tuple[str, ...] = ()
    """Held-out mazes are also played with these parts of the memory replaced."""

    def validate(self) -> Scale:
        """Return self, or raise a ValueError that says which value is out of range."""
        for name, value, most in (
            ("budget", self.budget, 10**15),
            ("seeds", self.seeds, MOST_SEEDS),
            ("train", self.train, 9999),
            ("test", self.test, 9999),
            ("train-layouts", self.train_layouts, 9999),
            ("episodes-per-layout", self.episodes_per_layout, 10**6),
        ):
            require_within(name, value, 1, most)
        every = self.evaluate_every
        require(every is None or every >= 0, f"evaluate-every must be 0 or more; got {every}.")
        require(len(set(self.lesions)) == len(self.lesions), "a lesion is given twice.")
        require_within("first-seed", self.first_seed, 0, 2**31 - MOST_SEEDS)
        return self

    @property
    def each_seed(self) -> range:
        """The seeds of every row's runs."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def scenario(self, task: TaskName) -> ScenarioConfig:
        """The mazes of a task."""
        if task == "labyrinth" or task == "find-return":
            config = ScenarioConfig.default(task, size=self.size)
        else:
            items = 4 if task == "4-item" else 6
            config = ScenarioConfig.default("ordered-items", size=self.size, items=items)
        return replace(config, train=self.train, test=self.test).validate()

    @property
    def own_sets(self) -> bool:
        """Whether the sets have other numbers of layouts than the paper's, and so folders of their own."""
        return (self.train, self.test) != (ScenarioConfig.train, ScenarioConfig.test)

    def set_folder(self, scenario: ScenarioConfig) -> Path:
        """Where such a set is."""
        name = f"{scenario.task}-{scenario.size}-i{scenario.items}-{self.train}-{self.test}"
        return self.runs / "scenarios" / name

    @property
    def spacing(self) -> int:
        """Decisions between evaluations during training; 0: only at the end."""
        if self.evaluate_every is not None:
            return self.evaluate_every
        every = max(self.budget // MOST_EVALUATIONS, LEAST_BETWEEN)
        return every if every < self.budget else 0


@dataclass(frozen=True)
class Job:
    """One run with one seed, or an agent that learns nothing with one seed of its episodes."""

    name: str
    kind: str
    scenario: ScenarioConfig
    seed: int
    scale: Scale
    config: TrainConfig | None = None
    """None: nothing to learn."""

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.scale.runs / self.name

    @property
    def log(self) -> Path:
        """What its commands print."""
        return self.scale.runs / "logs" / f"{self.name}.log"

    def scores(self, split: str) -> Path:
        """The evaluation of the finished agent on a split."""
        layouts = self.scale.train_layouts if split == "train" else self.scale.test
        name = f"final-{split}-{layouts}-k{self.scale.episodes_per_layout}"
        if self.config is None:
            return self.folder / f"{name}.json"
        lesions = "".join(f"-{lesion}" for lesion in self.lesions(split))
        return self.folder / "evaluation" / f"{name}{lesions and '-without'}{lesions}.json"

    def lesions(self, split: str) -> tuple[str, ...]:
        """What is asked for in the evaluation on a split, whether its memory has it or not."""
        return self.scale.lesions if split == "test" and self.config is not None else ()


@dataclass(frozen=True)
class Row:
    """A row of a table: the same agent and task with all seeds."""

    task: TaskName
    label: str
    jobs: tuple[Job, ...]
    paper_train: paper.Value | None
    paper_test: paper.Value | None
    noise: float = 0.0


def settings_digest(name: str) -> str:
    """Stands for the settings that a preset has today, so that a table can be told from one of other settings."""
    return sha256(canonical(distinctive(preset(name))))[:12]


def label_of(agent: str) -> str:
    """The label of a row: of an agent that learns nothing, or of a memory."""
    return SCRIPTED[agent] if agent in SCRIPTED else kind_of(agent).label


def results(scale: Scale, tasks: Sequence[TaskName], agents: Sequence[str]) -> list[Row]:
    """The main table: agents on tasks."""
    rows = []
    for task in tasks:
        for agent in agents:
            label = label_of(agent)
            jobs = _scripted(scale, task, agent) if agent in SCRIPTED else _learners(scale, task, agent)
            values = paper.RESULTS.get((task, label), paper.NOTHING)
            rows.append(Row(task, label, jobs, values.train, values.test))
    return rows


def ablation(scale: Scale) -> list[Row]:
    """The seven rows of the ablation table, on find-return."""
    rows = []
    for label, values in paper.ABLATION.items():
        jobs = (
            _learners(scale, "find-return", "gru")
            if label not in ABLATIONS
            else _learners(scale, "find-return", "egomap", settings=ABLATIONS[label], variant=label)
        )
        rows.append(Row("find-return", label, jobs, values.train, values.test))
    return rows


def noise(scale: Scale) -> list[Row]:
    """EgoMap trained with ten levels of noise, and the baseline without.

    Choice: the appendix does not name its task; find-return is that of the ablations.
    """
    rows = [
        Row(
            "find-return",
            f"noise {level:.2f}",
            _learners(scale, "find-return", "egomap", noise=level),
            None,
            value,
            level,
        )
        for level, value in paper.NOISE.items()
    ]
    baseline = _learners(scale, "find-return", "gru")
    return [*rows, Row("find-return", "Baseline (GRU)", baseline, None, paper.NOISE_BASELINE)]


def _scripted(scale: Scale, task: TaskName, kind: str) -> tuple[Job, ...]:
    scenario = scale.scenario(task)
    return tuple(
        Job(f"{kind}-{_place(scale, task, scenario)}-s{seed}", kind, scenario, seed, scale)
        for seed in scale.each_seed
    )


def _learners(
    scale: Scale,
    task: TaskName,
    kind: AgentKind,
    *,
    settings: MapSettings | None = None,
    variant: str = "EgoMap",
    noise: float = 0.0,
) -> tuple[Job, ...]:
    base, scenario = preset(scale.preset), scale.scenario(task)
    changes = {} if settings is None else _changes(settings, MapSettings())
    what = file_name(kind) if variant == "EgoMap" else f"{kind}-{variant.lower().replace(' ', '-')}"
    noisy = f"-noise{noise:g}" if noise else ""
    name = f"{scale.preset}-{what}-{_place(scale, task, scenario)}-b{scale.budget}{noisy}"
    config = replace(
        base,
        agent=replace(base.agent, kind=kind, map=replace(base.agent.map, **changes)),
        scenario=scenario,
        scenarios=str(scale.set_folder(scenario).resolve()) if scale.own_sets else None,
        curriculum=_stages(base.curriculum, scale, scenario),
        env=replace(base.env, ego_motion_noise=noise),
        budget=scale.budget,
        evaluate_every=scale.spacing,
    )
    if kind_of(kind).has_settings:
        from egomap.memory.registry import complete  # only where it is needed, for it brings torch along

        config = replace(config, agent=complete(config.agent))
    return tuple(
        Job(f"{name}-s{seed}", kind, scenario, seed, scale, replace(config, seed=seed).validate())
        for seed in scale.each_seed
    )


def _stages(sizes: Sequence[int], scale: Scale, scenario: ScenarioConfig) -> tuple[int, ...]:
    """The preset's curriculum, up to the mazes of this task; none where these come from a folder."""
    smaller = tuple(size for size in sizes if size < scenario.size)
    return (*smaller, scenario.size) if smaller and not scale.own_sets else ()


def _place(scale: Scale, task: TaskName, scenario: ScenarioConfig) -> str:
    counts = f"-{scale.train}-{scale.test}" if scale.own_sets else ""
    return f"{task}-{scenario.size}{counts}"


# -- commands -----------------------------------------------------------------------------------------------


def train_command(job: Job) -> list[str]:
    """The arguments of `egomap` that begin this run or resume it."""
    config, scenario = job.config, job.scenario
    assert config is not None
    base = preset(job.scale.preset)
    place = (
        ["--scenarios", str(job.scale.set_folder(scenario))]
        if job.scale.own_sets
        else ["--scenario", scenario.task, "--size", str(scenario.size), "--items", str(scenario.items)]
    )
    return [
        *("train", "--preset", job.scale.preset, "--agent", job.kind, *place),
        *("--budget", str(config.budget), "--seed", str(job.seed)),
        *("--noise", str(config.env.ego_motion_noise), "--evaluate-every", str(config.evaluate_every)),
        *_map_flags(config.agent.map, base.agent.map),
        *(
            ("--curriculum", ",".join(map(str, config.curriculum)))
            if config.curriculum != base.curriculum
            else ()
        ),
        *("--run", str(job.folder), "--auto-resume"),
    ]


def _map_flags(settings: MapSettings, default: MapSettings) -> list[str]:
    flags: list[str] = []
    for field, value in _changes(settings, default).items():
        name = field.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--map.{name}" if value else f"--map.no-{name}")
        else:
            flags += [f"--map.{name}", str(value)]
    return flags


def _changes(settings: MapSettings, default: MapSettings) -> dict[str, Any]:
    """What is other than in `default`."""
    values = {field.name: getattr(settings, field.name) for field in fields(MapSettings)}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def evaluate_command(job: Job, split: str, lesions: Sequence[str] = ()) -> list[str]:
    """The arguments of `egomap` that score this job's agent on a split, with lesions that its memory has."""
    scale, scenario = job.scale, job.scenario
    layouts = ["--layouts", str(scale.train_layouts)] if split == "train" else []
    common = ["--split", split, "--episodes-per-layout", str(scale.episodes_per_layout), *layouts]
    out = ["--out", str(job.scores(split))]
    if job.config is not None:
        # The same episodes for every run; the agents' seeds are in their training.
        lesioned = ["--lesion", *lesions] if lesions else []
        return ["evaluate", str(job.folder), *common, "--seed", "0", *lesioned, *out]
    place = (
        ["--scenarios", str(scale.set_folder(scenario))]
        if scale.own_sets
        else ["--scenario", scenario.task, "--size", str(scenario.size), "--items", str(scenario.items)]
    )
    return ["evaluate", "--agents", job.kind, *place, *common, "--seed", str(job.seed), *out]
