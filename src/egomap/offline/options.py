"""What `egomap offline` can be asked; plain data, no heavy imports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from egomap.config import (
    AgentConfig,
    EnvSettings,
    ScenarioConfig,
    Task,
    require,
    require_seed,
    require_within,
)
from egomap.kinds import CHOICES, require_kind
from egomap.presets import FAST

SEQUENCE = 64
"""Decisions of a sequence: gradients go back so far, and so many are kept in one file."""
MOST_DECISIONS = 2**20
"""Of one recording; each takes about 9 kB."""
MOST_ENVS = 256
ENDINGS = (".json", ".md")


@dataclass(frozen=True)
class WalkSettings:
    """A recording of the Explorer's walks; equal settings give equal walks."""

    scenario: ScenarioConfig
    """The set whose mazes are walked, or kept out."""
    split: Literal["train", "held-out"]
    """train: its training mazes; held-out: mazes that are in none of its splits."""
    sequences: int
    """Sequences of `SEQUENCE` decisions, one after the other, in each environment."""
    num_envs: int = 32
    """Environments side by side."""
    burst: float = 0.02
    """Probability with which a decision begins a burst of random actions."""
    longest_burst: int = 12
    """Random actions of a burst at most."""
    seed: int = 0
    """Of the episodes and of the random actions."""
    env: EnvSettings = field(default_factory=EnvSettings)
    """How the mazes are shown; the Explorer needs poses without noise."""

    @property
    def decisions(self) -> int:
        """How many decisions are recorded."""
        return self.sequences * SEQUENCE * self.num_envs

    def validate(self) -> WalkSettings:
        """Return self, or raise a ValueError that names the value out of range."""
        self.scenario.validate()
        self.env.validate()
        require_within("num-envs", self.num_envs, 1, MOST_ENVS)
        require_within("sequences", self.sequences, 1, MOST_DECISIONS)
        require_within("decisions", self.decisions, 1, MOST_DECISIONS)
        require(0.0 <= self.burst <= 1.0, f"burst must be between 0 and 1; got {self.burst}.")
        require_within("longest-burst", self.longest_burst, 1, 1000)
        require(self.env.ego_motion_noise == 0.0, "walks are recorded without ego-motion noise.")
        require_seed(self.seed)
        return self

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class OfflineOptions:
    """Which memory can learn, with dense labels and without RL, what an explorer needs to know?

    Example: egomap offline --agents none gru egomap --out offline.json

    The Explorer's walks through training mazes and through mazes of a third split are recorded once and kept in the
    cache. Each memory, with the real perception before it and linear heads behind it, learns to predict the
    Explorer's action, the direction of its way, the way home, and whether and where the next goal was seen.
    """

    agents: Annotated[tuple[str, ...], tyro.conf.arg(metavar=f"{CHOICES} ...")] = ("none", "gru", "egomap")
    """Memories to compare, by name, or package.module:Class of your own."""
    scenario: Task = "find-return"
    """Family of tasks."""
    size: int | None = None
    """Cells along each side of the mazes (find-return: 9)."""
    items: int | None = None
    """Items of ordered-items."""
    decisions: int = 81_920
    """Recorded in training mazes, rounded up to whole sequences of 64 in every environment."""
    held_out: int = 16_384
    """Recorded in mazes of the third split, likewise."""
    num_envs: int = 32
    """Environments side by side."""
    burst: float = WalkSettings.burst
    """Probability with which a decision begins a burst of 1 to 12 random actions."""
    epochs: int = 6
    """Passes over the training walks."""
    minibatches: int = 4
    """Parts, along the environment axis, of each step of 64 decisions."""
    learning_rate: float = 1e-3
    """Of Adam, for all parameters."""
    seed: int = 0
    """Of the walks and of the first weights."""
    seeds: int = 1
    """Trainings of each memory, from this many seeds of the weights; the table has their mean."""
    threads: int = 2
    """Threads that compute gradients."""
    out: tuple[Path, ...] = ()
    """Files for the results: .json, .md; they must not exist."""
    agent: AgentConfig = FAST.agent
    """Settings of the memories, as in the preset `fast`; --agents names the kinds."""

    def walks(self, split: Literal["train", "held-out"]) -> WalkSettings:
        """The recording to learn from, or to be tested on."""
        asked = self.decisions if split == "train" else self.held_out
        each = SEQUENCE * max(self.num_envs, 1)
        scenario = ScenarioConfig.default(self.scenario, size=self.size, items=self.items)
        return WalkSettings(
            scenario, split, -(-asked // each), self.num_envs, burst=self.burst, seed=self.seed
        ).validate()

    def config(self, kind: str) -> AgentConfig:
        """The agent of one row."""
        return replace(self.agent, kind=kind)

    def validate(self) -> OfflineOptions:
        """Return self, or raise a ValueError that names the value out of range."""
        require(bool(self.agents), "name one memory or more by --agents.")
        for kind in self.agents:
            require_kind(kind)
        require(len(set(self.agents)) == len(self.agents), "each memory is named once by --agents.")
        for name, value in (("decisions", self.decisions), ("held-out", self.held_out)):
            require_within(name, value, 1, MOST_DECISIONS)
        for split in ("train", "held-out"):
            self.walks(split)
        require_within("epochs", self.epochs, 1, 1000)
        require_within("minibatches", self.minibatches, 1, self.num_envs)
        require_within("seeds", self.seeds, 1, 100)
        require_within("threads", self.threads, 1, 64)
        require(
            0 < self.learning_rate < 1,
            f"learning-rate must be above 0 and below 1; got {self.learning_rate}.",
        )
        require(
            self.agent.kind == FAST.agent.kind, "the kinds are named by --agents; leave out --agent.kind."
        )
        require(
            self.agent.map.extent == FAST.agent.map.extent,
            "the mazes say what the map must cover; leave out --agent.map.extent.",
        )
        self.agent.validate()
        for path in self.out:
            require(path.suffix in ENDINGS, f"{path} must end in {' or '.join(ENDINGS)}.")
            require(not path.exists(), f"{path} exists already; give another name.")
            require(
                path.resolve().parent.is_dir(), f"{path} cannot be written: {path.parent} is not a folder."
            )
        return self
