"""What `egomap inspect`, `play` and `probe` can be asked; plain data, no heavy imports.

What `validate` does not know, because it needs files or layouts, is checked where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from egomap.config import Task, require, require_seed
from egomap.kinds import CHOICES, require_kind
from egomap.training.names import find_source

AgentName = Annotated[str | None, tyro.conf.arg(metavar=f"{CHOICES}|random|planner")]


@dataclass(frozen=True)
class SubjectOptions:
    """The agent to inspect, and where it plays."""

    run: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="[RUN]")] = None
    """Run folder with the trained agent, an exported agent, or the name of a released one (egomap agents)."""
    agent: AgentName = None
    """Without RUN: an untrained agent with this memory, or one without a network (random, planner)."""
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of RUN."""
    scenario: Task | None = None
    """Family whose default set is played (default: what RUN was trained on)."""
    size: int | None = None
    """Cells along each side of the default set."""
    items: int | None = None
    """Items of the default ordered-items set."""
    scenarios: tuple[str, ...] = ()
    """A folder of `egomap generate`, or any .cfg files, instead."""
    split: Literal["train", "test"] = "test"
    """Which layouts of the set."""
    seed: int = 0
    """With the layout it fixes the episode: the same as an evaluation with this seed plays."""

    def validate(self) -> None:
        """Raise a ValueError that names the value out of range."""
        require_seed(self.seed)
        if self.agent not in (None, "random", "planner"):
            require_kind(self.agent)


@dataclass(frozen=True)
class InspectOptions(SubjectOptions):
    """Inspect an agent's memory: play an episode and write it as a page, figure, video or Rerun file.

    Example: egomap inspect runs/a --layout 3 --out episode.html

    Figure: egomap inspect runs/a --layout 3 --figure memory.pdf --steps 5,105,108,140

    Several episodes: egomap inspect runs/a --layout 3 4 5 --video episodes.mp4

    What the memory changes: egomap inspect runs/a --layout 3 --lesion each

    Map and place planes of an untrained agent: egomap inspect --agent egomap-places --driver planner
    """

    layout: tuple[int, ...] = (0,)
    """Which layout of the split, counted from 0; several for a video or a basis."""
    driver: Literal["agent", "planner", "random"] = "agent"
    """Which agent acts; if it is another one, the inspected agent observes and remembers only."""
    deterministic: bool = False
    """Take the most probable action instead of drawing one."""
    out: Path | None = None
    """HTML page to write (default: episode.html, if nothing else is asked for)."""
    figure: Path | None = None
    """Figure to write: .png, .svg or .pdf."""
    steps: str = ""
    """Decisions in the figure, one row each, e.g. 5,105,108,140 (default: the events and the steps between)."""
    video: Path | None = None
    """Video to write: .mp4 (needs ffmpeg, or the extra `video`), or .webp, an animated picture."""
    speed: float = 1.0
    """Of the video: 1 is as fast as the game, 8.75 decisions per second."""
    rrd: Path | None = None
    """Rerun recording to write: .rrd (needs the extra `rerun`)."""
    basis: Path | None = None
    """File of the map's principal components: used if it is there, else fitted to these episodes and kept."""
    lesion: tuple[str, ...] = ()
    """On the page: what the agent would have decided without a part of its memory, for each name given: global-read,
    context, map, hidden, ... as the memory names them, several at once joined by +, all, or each (every part by
    itself, and all). The means that replace reads need up to 16 intact episodes, which are played as well."""
    lesion_by: Literal["mean", "zero", "shuffle"] | None = None
    """What takes the part's place: its mean over intact episodes, zeros, or the same part from another episode at the
    same step (default: the mean for reads, zeros for what is kept)."""
    overwrite: bool = False
    """Write over files that exist, without asking."""

    def validate(self) -> None:
        """Raise a ValueError that names the value out of range."""
        super().validate()
        require(bool(self.layout), "give a layout.")
        require(
            bool(self.lesion) or self.lesion_by is None,
            "--lesion-by goes with lesions; name them by --lesion.",
        )
        require(
            not self.steps or self.figure is not None,
            "--steps chooses the decisions of a figure; give the figure's file by --figure.",
        )


@dataclass(frozen=True)
class PlayOptions(SubjectOptions):
    """Play a layout yourself, with the map and the places of an agent's memory beside it.

    Example: egomap play runs/a --layout 3

    Arrow keys walk and turn; Escape ends. Without RUN and --agent you play alone.
    """

    layout: int = 0
    """Which layout of the split, counted from 0."""
    speed: float = 1.0
    """1 is as fast as the game."""
    out: Path | None = None
    """HTML page of the episode to write afterwards."""
    overwrite: bool = False
    """Write over files that exist, without asking."""


@dataclass(frozen=True)
class ProbeOptions:
    """What the memory contains: linear probes of map and hidden state, compared with an untrained agent.

    Example: egomap probe runs/a --out probe
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Run folder with the trained agent, an exported agent, or the name of a released one (egomap agents)."""
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of RUN."""
    layouts: int = 32
    """Held-out layouts to play; three quarters fit the probe, the others test it."""
    driver: Literal["agent", "planner", "random"] = "agent"
    """Which agent acts; trained and untrained agent observe exactly the same."""
    seed: int = 0
    """Of the episodes, the untrained weights and the choice of cells."""
    out: Path | None = None
    """Folder for probe.json, probe.png and probe.svg (default: RUN/probe; of an exported agent NAME-probe, here)."""
    overwrite: bool = False
    """Write over files that exist, without asking."""

    def validate(self) -> None:
        """Raise a ValueError that names the value out of range."""
        require_seed(self.seed)


def check(options: SubjectOptions | ProbeOptions) -> None:
    """Raise a ValueError for values out of range, and for a RUN that is none; torch is not loaded."""
    options.validate()
    if options.run is not None:
        find_source(options.run)
