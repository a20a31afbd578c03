"""Settings of worlds: how they are shown and stepped, and what our mazes are."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from egomap.config.plain import later
from egomap.util.checks import as_float, require, require_seed, require_within

Task = Literal["labyrinth", "find-return", "ordered-items"]
TASKS: tuple[Task, ...] = ("labyrinth", "find-return", "ordered-items")

OBSERVATION_HEIGHT = 64
OBSERVATION_WIDTH = 112
FRAME_SKIP = 4
SMALLEST_SIZE, LARGEST_SIZE = 3, 21
"""Cells along each side of a maze."""
LARGEST_CELL = 512
"""Map units."""
ACTIONS = ("turn left", "turn right", "forward", "forward left", "forward right")
"""Of our Doom worlds."""
NUM_ACTIONS = len(ACTIONS)


WorldKind = Literal["doom", "miniworld"]
"""What draws our mazes."""


@dataclass(frozen=True)
class EnvSettings:
    """How the worlds are shown and stepped; what is in them is the scenario's matter."""

    rendering: str = "160x120-wide"
    """Size and field of view of the engine's picture, before it is resized to 112 x 64 (paper: 320x180)."""
    frame_skip: int = FRAME_SKIP
    """Tics for which an action is held (paper: 4)."""
    ego_motion_noise: float = 0.0
    """Standard deviation of the factor N(1, sigma) on each ego-motion reading; the error accumulates."""
    watchdog: float = 30.0
    """Seconds after which an engine that does not answer is killed and replaced."""
    world: WorldKind = later("doom")  # noqa: RUF009
    """Which simulator draws our mazes: doom, or miniworld (needs the extra `miniworld`)."""
    id: str = later("")
    """A Gymnasium environment instead of Doom: package:EnvId or package.module:function; empty: Doom."""
    fov: float = later(0.0)
    """Vertical opening angle of its camera in degrees; 0: it tells itself."""
    extent: tuple[float, ...] = later(())
    """Its arena in its own lengths: the side, around the origin, or west, south, east, north; empty: it tells
    itself."""
    unit: float = later(0.0)
    """Map units in one of its lengths; 0: it tells itself, or the arena counts as one of 640 map units."""
    depth_range: float = later(0.0)
    """In its own lengths; from there on its depth counts as unknown; 0: it tells itself, or all of it is known."""
    held_out: int = later(64)
    """Episodes, each with a seed of its own, that it is evaluated in."""
    workers: int | None = later(None)
    """Processes that step it, or another world than Doom; 0: this one; None: one for each core."""

    def validate(self) -> EnvSettings:
        """Return self, or raise a ValueError that says which value is out of range."""
        require(
            isinstance(self.frame_skip, int),
            f"frame-skip must be a whole number of tics; got {self.frame_skip}.",
        )
        require(1 <= self.frame_skip <= 35, f"frame-skip must be 1 to 35 tics; got {self.frame_skip}.")
        require(
            0.0 <= self.ego_motion_noise <= 1.0,
            f"ego-motion noise must be between 0 and 1; got {self.ego_motion_noise}.",
        )
        require(self.watchdog > 0.0, f"watchdog must be a positive number of seconds; got {self.watchdog}.")
        for name, value in (("fov", self.fov), ("unit", self.unit), ("depth-range", self.depth_range)):
            require(0.0 <= value < math.inf, f"env-{name} must be 0 or more; got {value}.")
        require(
            len(self.extent) in (0, 1, 4) and all(math.isfinite(number) for number in self.extent),
            f"env-extent must be SIDE or WEST SOUTH EAST NORTH; got {self.extent}.",
        )
        require_within("env-held-out", self.held_out, 1, 10_000)
        if self.workers is not None:
            require_within("env-workers", self.workers, 0, 1024)
        worlds = get_args(WorldKind)
        require(self.world in worlds, f"world must be one of {', '.join(worlds)}; got {self.world!r:.80}.")
        own = EnvSettings(self.rendering, self.frame_skip, self.ego_motion_noise, self.watchdog, self.world)
        require(
            bool(self.id) or replace(self, workers=None) == own,
            "env-fov, env-extent, env-unit, env-depth-range and env-held-out go with --env.",
        )
        require(
            self.simulator != "doom" or self.workers is None,
            "env-workers goes with --env, or another --world.",
        )
        require(not self.id or self.world == "doom", "--world draws our mazes, and --env is another world.")
        return self

    @property
    def simulator(self) -> str:
        """What kind of simulator it is; `egomap.training.sources` has a row for each."""
        return "gymnasium" if self.id else self.world


_WHOLE_NUMBERS = ("size", "items", "cell", "train", "test", "seed")


@dataclass(frozen=True)
class ScenarioConfig:
    """What `egomap generate` makes: one task, one maze size, a training and a test split."""

    task: Task = "labyrinth"
    """Which of the paper's task families."""
    size: int = 9
    """Cells along each side of the square maze, 3 to 21 (paper: 5 to 13; ordered items: 5)."""
    items: int = 4
    """Items to collect in order, 2 to 8; only for ordered-items (paper: 4 and 6)."""
    cell: int = 128
    """Side of a cell in map units, 96 to 512 (the authors: 128; ordered items 160)."""
    wall_probability: float = 0.6
    """Probability that an inner wall is there before the paths are carved, 0 to 1."""
    train: int = 256
    """Training layouts (paper: 256)."""
    test: int = 64
    """Held-out test layouts, disjoint from the training ones (paper: 64)."""
    seed: int = 0
    """The same seed gives the same bytes on any machine."""

    def __post_init__(self) -> None:
        """Give equal settings one form, so that they name the same random numbers: 1 and 1.0, 0.0 and -0.0."""
        for name in _WHOLE_NUMBERS:
            value = getattr(self, name)
            if hasattr(value, "__index__"):
                object.__setattr__(self, name, operator.index(value))
        if isinstance(self.wall_probability, int | float):
            object.__setattr__(self, "wall_probability", as_float(self.wall_probability) + 0.0)

    @staticmethod
    def default(task: Task, *, size: int | None = None, items: int | None = None) -> ScenarioConfig:
        """The authors' set of a task: ordered items have 5x5 cells of 160 units, the others 9x9 of 128."""
        ordered = task == "ordered-items"
        return ScenarioConfig(
            task=task,
            size=size if size is not None else (5 if ordered else 9),
            items=items if items is not None else 4,
            cell=160 if ordered else 128,
        )

    def validate(self) -> ScenarioConfig:
        """Return self, or raise a ValueError that says which value is out of range."""
        require(self.task in TASKS, f"task must be one of {', '.join(TASKS)}; got {self.task!r:.80}.")
        for name in _WHOLE_NUMBERS:
            value = getattr(self, name)
            require(isinstance(value, int), f"{name} must be a whole number; got {value!r:.80}.")
        require(
            isinstance(self.wall_probability, float),
            f"wall-probability must be a number; got {self.wall_probability!r:.80}.",
        )
        require(
            SMALLEST_SIZE <= self.size <= LARGEST_SIZE,
            f"size must be {SMALLEST_SIZE} to {LARGEST_SIZE} cells; got {self.size}.",
        )
        require(2 <= self.items <= 8, f"items must be 2 to 8; got {self.items}.")
        require(
            96 <= self.cell <= LARGEST_CELL,
            f"cell must be 96 to {LARGEST_CELL} map units; got {self.cell}.",
        )
        require(
            0.0 <= self.wall_probability <= 1.0,
            f"wall-probability must be between 0 and 1; got {self.wall_probability}.",
        )
        require(0 <= self.train <= 9999, f"train must be 0 to 9999 layouts; got {self.train}.")
        require(0 <= self.test <= 9999, f"test must be 0 to 9999 layouts; got {self.test}.")
        require(self.train + self.test > 0, "train and test are both 0: there is nothing to generate.")
        require_seed(self.seed)
        return self

    @property
    def extent(self) -> float:
        """Side of the arena in map units; the arena is centred on the origin."""
        return float(self.size * self.cell)
