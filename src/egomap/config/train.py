"""Settings of a training run, and where it computes."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from egomap.config.agent import AgentConfig
from egomap.config.learner import LearnerSettings
from egomap.config.plain import from_plain, later
from egomap.config.worlds import EnvSettings, ScenarioConfig
from egomap.util.checks import require, require_within

DeviceKind = Literal["auto", "cpu", "cuda", "mps"]
"""Where the network computes; auto: on a GPU, if there is one."""
Precision = Literal["float32", "bfloat16", "auto"]
"""What its convolutions and matrix products are computed in; auto: what a short measurement finds faster."""
TeacherKind = Literal["none", "explorer"]
"""Whom a learner may imitate; `egomap.training.teachers` has a row for each."""


@dataclass(frozen=True)
class TrainConfig:
    """A whole training run; `config.json` of a run folder is this."""

    agent: AgentConfig = field(default_factory=AgentConfig)
    """The agent."""
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    """The mazes, made once and kept in the cache, unless `scenarios` is given."""
    scenarios: str | None = None
    """Folder of a set made by `egomap generate`, instead."""
    files: str = later("")
    """Anybody's `.cfg`, a pattern or a folder of them, instead; they are played in every split."""
    env: EnvSettings = field(default_factory=EnvSettings)
    """How the worlds are shown."""
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    """The algorithm."""
    budget: int = 2_000_000
    """Decisions of all environments of all ranks together (frames = decisions x frame skip)."""
    seed: int = 0
    """Of the weights, the actions and the order of episodes."""
    curriculum: tuple[int, ...] = ()
    """Maze sizes to learn one after the other, the last one for good; empty: `scenario.size` alone."""
    curriculum_bar: float = 0.6
    """Mean return of the last 100 episodes at which the next size begins."""
    evaluate_every: int = 250_000
    """Decisions between evaluations on the held-out split; 0: only at the end."""
    evaluation_episodes: int = 1
    """Episodes of each held-out layout."""
    checkpoint_every: int = 50_000
    """Decisions between checkpoints."""
    reset_every_update: bool = False
    """Begin new episodes at each update. Then a resumed run equals an unbroken one bit for bit."""
    imitate: TeacherKind = later("none")  # noqa: RUF009
    """A teacher that is asked in the learner's own states what it would do: explorer, which knows only what the agent
    has seen; none: reward alone (paper)."""
    device: DeviceKind = later("auto")  # noqa: RUF009
    """Where perception, memory and heads compute and learn; simulators stay on the CPU."""
    precision: Precision = later("float32")  # noqa: RUF009
    """Of their convolutions and matrix products; auto is settled when a run begins."""
    init: str | None = later(None)
    """Whose weights the run began with, in words (`egomap train --init`); None: random ones."""

    def validate(self) -> TrainConfig:
        """Return self, or raise a ValueError that says which value is out of range."""
        for part in (self.agent, self.scenario, self.env, self.learner):
            part.validate()
        require(self.budget >= 1, f"budget must be 1 decision or more; got {self.budget}.")
        require_within("budget", self.budget, 1, 10**15)
        require(0 <= self.seed < 2**31, f"seed must be 0 to 2^31 - 1; got {self.seed}.")
        require_within("number of the curriculum's sizes", len(self.curriculum), 0, 100)
        require(
            math.isfinite(self.curriculum_bar),
            f"curriculum-bar must be a return such as 0.6; got {self.curriculum_bar}.",
        )
        for size in self.curriculum:
            replace(self.scenario, size=size).validate()
        require(
            not (self.curriculum and self.scenarios),
            "a curriculum makes its own mazes: give no scenarios folder.",
        )
        require(self.evaluate_every >= 0, f"evaluate-every must be 0 or more; got {self.evaluate_every}.")
        require_within("evaluation-episodes", self.evaluation_episodes, 1, 10_000)
        require(
            self.checkpoint_every >= 1, f"checkpoint-every must be 1 or more; got {self.checkpoint_every}."
        )
        require(
            not (self.files and (self.curriculum or self.scenarios)),
            "files of somebody else go with neither a curriculum nor a set of mazes.",
        )
        ours = (self.curriculum, self.scenarios, self.files, self.imitate != "none", self.learner.head_start)
        require(
            not self.env.id or not any(ours),
            "a curriculum, scenarios, a teacher and head starts are of our mazes; leave them out with --env.",
        )
        doom = (self.files, self.imitate != "none", self.learner.head_start)
        require(
            self.env.simulator == "doom" or not any(doom),
            "a teacher, head starts and .cfg files are of Doom; leave them out with another --world.",
        )
        for name, chosen, allowed in (
            ("imitate", self.imitate, get_args(TeacherKind)),
            ("device", self.device, get_args(DeviceKind)),
            ("precision", self.precision, get_args(Precision)),
        ):
            require(chosen in allowed, f"{name} must be one of {', '.join(allowed)}; got {chosen!r:.80}.")
        return self

    @property
    def told(self) -> str:
        """Where the agent learns, in words."""
        size = self.scenario.size
        drawn = "" if self.env.world == "doom" else f", drawn by {self.env.world}"
        return self.env.id or self.files or f"{self.scenario.task}, {size} × {size} cells{drawn}"

    @property
    def place(self) -> str:
        """Where the agent learns, as a part of a file's name."""
        if self.env.id:
            return re.sub(r"[^\w.-]+", "-", self.env.id)
        if self.files:
            return re.sub(r"[^\w.-]+", "-", Path(self.files).stem).strip("-") or "files"
        drawn = "" if self.env.world == "doom" else f"-{self.env.world}"
        return f"{self.scenario.task}-{self.scenario.size}{drawn}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `json.dumps`."""
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> TrainConfig:
        """The config that `to_json` gave; a ValueError if it is of another version or damaged."""
        return from_plain(TrainConfig, data, "the config").validate()
