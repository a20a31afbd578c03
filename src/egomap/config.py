"""Settings as frozen dataclasses, shared by every layer above; plain Python, no heavy imports.

What comes in: numbers and names from a person (command line, Python, a JSON file). What goes out: values that
are checked once, by `validate()`, with a sentence that says what was got and what was expected.
"""

from __future__ import annotations

import json
import math
import operator
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from egomap.kinds import require_kind
from egomap.named import is_address

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


def require(condition: bool, message: str) -> None:
    """Raise a ValueError with `message` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def require_whole(value: float, name: str) -> int:
    """A whole number that a person may write as 2e6, or a ValueError that names it."""
    require(math.isfinite(value) and value == int(value), f"{name} must be a whole number; got {value}.")
    return int(value)


_Value = TypeVar("_Value")


def later(default: _Value) -> _Value:
    """The default of a setting that came after the first release.

    While it has this value, settings count as the same with and without it (`distinctive`).
    """
    return field(default=default, metadata={"later": True})


def distinctive(settings: Any) -> dict[str, Any]:
    """The settings as plain data, without those that came `later` and have their default.

    So what was made before such a setting existed is known as made with today's settings.
    """
    found = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if not (entry.metadata.get("later") and value == entry.default):
            found[entry.name] = distinctive(value) if is_dataclass(value) else value
    return found


def require_within(name: str, value: int, least: int, most: int) -> None:
    """Raise a ValueError that names the setting unless `value` is `least` to `most`.

    Upper bounds are where no machine could follow: beyond them there is an error of the memory, or no end.
    """
    require(value >= least, f"{name} must be {least} or more; got {value}.")
    require(value <= most, f"{name} must be {most} or less; got {value}.")


def require_seed(seed: int) -> None:
    """Raise a ValueError unless every generator of random numbers takes `seed`."""
    require(0 <= seed < 2**63, f"seed must be 0 to 2^63 - 1; got {seed}.")


def require_length(name: str, value: float) -> None:
    """Raise a ValueError that names the setting unless `value` is a length in map units."""
    require(0 < value < math.inf, f"{name} must be a length above 0 map units; got {value}.")


def as_float(value: float) -> float:
    """The number as a float; infinite if it is a whole number that no float can hold."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def require_pairs(pairs: tuple[str, ...]) -> None:
    """Raise a ValueError unless each of `pairs` is NAME=VALUE, or PART.NAME=VALUE, and no name comes twice."""
    names = []
    for pair in pairs:
        require(isinstance(pair, str), f"settings must be NAME=VALUE; got {pair!r:.80}.")
        name, equals, _ = pair.partition("=")
        good = bool(equals) and all(part.isidentifier() for part in name.split("."))
        require(good, f"settings must be NAME=VALUE; got {pair!r:.80}.")
        names.append(name)
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, f"a setting is given twice: {', '.join(twice)}.")


def to_pairs(data: dict[str, Any], where: str = "") -> tuple[str, ...]:
    """Plain data as NAME=VALUE; values that are not strings as JSON, nested tables as PART.NAME=VALUE."""
    found: list[str] = []
    for name, value in data.items():
        if isinstance(value, dict):
            found += to_pairs(value, f"{where}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            found.append(f"{where}{name}={text}")
    return tuple(found)


def from_pairs(kind: type, pairs: tuple[str, ...], where: str) -> Any:
    """The dataclass that `to_pairs` took apart; what is not given has its default.

    A value is read by the type of its default: a string is taken as it stands, everything else as JSON, where True,
    False and None may be written as in Python.

    Raises:
        ValueError: A name that the class does not have, or a value of another type.
    """
    require_pairs(pairs)
    plain: dict[str, Any] = {}
    default, known = kind(), [entry.name for entry in fields(kind)]
    for pair in pairs:
        name, _, text = pair.partition("=")
        require(
            name.split(".")[0] in known,
            f"{where} has no setting {name!r:.80}; it has {', '.join(known) or 'none'}.",
        )
        table, like = plain, default
        *parts, last = name.split(".")
        for part in parts:
            like = getattr(like, part, None)
            table = table.setdefault(part, {})
        table[last] = text if isinstance(getattr(like, last, None), str) else _json_or_text(text)
    return _from_plain(kind, plain, where)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


@dataclass(frozen=True)
class Camera:
    """A pinhole camera over an image of height x width pixels.

    Convention: pixel (u, v) is column u from the left, row v from the top; its centre is at
    (u + 0.5, v + 0.5). Camera axes: x right, y down, z forward. `right = z * (u + 0.5 - cx) / fx`,
    `down = z * (v + 0.5 - cy) / fy`.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    def __post_init__(self) -> None:
        """Refuse what is no camera: everything that is unprojected through it would be somewhere else."""
        require(
            self.width >= 1 and self.height >= 1,
            f"a camera's image has 1 pixel or more along each side; got {self.width} x {self.height}.",
        )
        for name in ("fx", "fy"):
            length = getattr(self, name)
            require(0 < length < math.inf, f"{name} must be a focal length above 0 pixels; got {length}.")
        for name in ("cx", "cy"):
            place = getattr(self, name)
            require(math.isfinite(place), f"{name} must be a place in the image, in pixels; got {place}.")

    @staticmethod
    def from_fov(width: int, height: int, *, horizontal: float, vertical: float) -> Camera:
        """The camera of an image with these full opening angles (radians) and its axis through the centre."""
        for name, angle in (("horizontal", horizontal), ("vertical", vertical)):
            require(
                0 < angle < math.pi,
                f"{name} must be an opening angle above 0 and below pi radians; got {angle}. Degrees are converted "
                "by math.radians.",
            )
        return Camera(
            width=width,
            height=height,
            fx=width / 2 / math.tan(horizontal / 2),
            fy=height / 2 / math.tan(vertical / 2),
            cx=width / 2,
            cy=height / 2,
        )

    def resized(self, width: int, height: int) -> Camera:
        """The same camera after its image has been scaled to width x height."""
        across, down = width / self.width, height / self.height
        return Camera(width, height, self.fx * across, self.fy * down, self.cx * across, self.cy * down)


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
    """Processes that step it; 0: this one; None: one for each core."""

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
        given = self != EnvSettings(self.rendering, self.frame_skip, self.ego_motion_noise, self.watchdog)
        require(
            bool(self.id) or not given,
            "env-fov, env-extent, env-unit, env-depth-range, env-held-out and env-workers go with --env.",
        )
        return self


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


SMALLEST_MAP, LARGEST_MAP = 12, 256
"""Cells along each side of a map; the layers of the global read need the smallest."""
MOST_CHANNELS = 1024
MOST_ROLLED_OUT = 2**20
"""Decisions between two updates; each keeps 50 kB of observations."""

Similarity = Literal["cosine", "l1"]
Anchor = Literal["world", "start"]
MapFrame = Literal["global", "ego"]
Write = Literal["mean", "max"]


@dataclass(frozen=True)
class MapSettings:
    """The spatial memory of EgoMap: its grid, how it is written and how it is read (paper: section 3)."""

    channels: int = 16
    """Channels of the map, as many as the mapped features have (paper: 16)."""
    map_size: int = 24
    """Cells along each side of the square map, 12 or more (paper: 24)."""
    extent: float = 1382.4
    """Side of the square that the map covers, in map units: the arena plus 20 % (here 9 cells of 128). Agents
    that are built for mazes take it from these."""
    alpha: float = 0.9
    """Weight of the old map where old and new features meet, 0 to 1 (paper: 0.9)."""
    anchor: Anchor = "world"
    """Centre of the map: the world's origin, or the pose at the start of the episode."""
    map_frame: MapFrame = "global"
    """Frame that the map is kept in: global, or ego, the naive map that is warped at every step."""
    use_global_read: bool = True
    """Summarise the whole map by a CNN for the recurrent layer (ablation: no global read)."""
    use_query: bool = True
    """Read a context from the map by attention (ablation: no query)."""
    use_beta: bool = True
    """Let the query set the softmax's inverse temperature, at least 1 (ablation: no query temperature)."""
    use_query_position: bool = True
    """Add the attended x, y in (-1, 1) to the context (ablation: no query position)."""
    similarity: Similarity = "cosine"
    """How a query is compared with a cell: cosine, or l1, the negative sum of absolute differences."""
    use_ego_motion: bool = False
    """Give the recurrent layer the ego-motion beside the view, as the baseline has it (not in the paper)."""
    normalise: bool = False
    """Bring each vector that is written to mean 0 and deviation 1 (not in the paper). Otherwise features grow in
    training until the global read's tanh is saturated and says nothing."""
    write_gradient_steps: int | None = None
    """How many writes back a gradient goes: None for all of them, 0 for none, k for the last k at most.
    Choice: the gradient is cut before every k-th write, counted from the episode's start."""
    write: Write = later("mean")  # noqa: RUF009
    """How features are written: mean, of those that meet in a cell, blended by alpha (paper); or max, the largest
    value of each channel that the cell has seen."""

    def validate(self) -> MapSettings:
        """Return self, or raise a ValueError that says which value is out of range."""
        require_within("channels", self.channels, 1, MOST_CHANNELS)
        require_within("map-size", self.map_size, SMALLEST_MAP, LARGEST_MAP)
        require(
            math.isfinite(self.extent) and self.extent > 0,
            f"extent must be a positive length; got {self.extent}.",
        )
        require(0.0 <= self.alpha <= 1.0, f"alpha must be between 0 and 1; got {self.alpha}.")
        for name, value, allowed in (
            ("anchor", self.anchor, get_args(Anchor)),
            ("map-frame", self.map_frame, get_args(MapFrame)),
            ("similarity", self.similarity, get_args(Similarity)),
            ("write", self.write, get_args(Write)),
        ):
            require(value in allowed, f"{name} must be one of {', '.join(allowed)}; got {value!r:.80}.")
        steps = self.write_gradient_steps
        require(steps is None or steps >= 0, f"write-gradient-steps must be 0 or more, or None; got {steps}.")
        return self

    @property
    def num_cells(self) -> int:
        """Cells of the map."""
        return self.map_size**2

    @property
    def context_size(self) -> int:
        """Values of the context: features and position (paper: 16 + 2), or 0 without a query."""
        return (self.channels + 2 * self.use_query_position) if self.use_query else 0


@dataclass(frozen=True)
class PlaceSettings:
    """Place planes beside a memory (not in the paper): a grid of what is free, blocked and visited."""

    cell: float = 32.0
    """Side of a cell in map units, above 0."""
    window: int = 28
    """Cells along each side of the views, 12 to 256."""
    far_factor: int = 3
    """How many times as wide the far view is as the near one, 2 or more."""
    rays: int = 28
    """Columns of the depth image whose rays free what they pass, 1 or more; every column blocks where it ends."""
    sight: float = 448.0
    """Map units up to which free space is believed, above 0."""
    ways: bool = True
    """Whether the near view has the ways: how much nearer each cell is to home, and to the frontier."""
    fade: float = 50.0
    """Decisions after which the trace of a visit has faded to a third, above 0."""
    compass: bool = later(False)
    """Whether the directions in which the ways set out are told, too, next to what is read; needs the ways."""

    def validate(self) -> PlaceSettings:
        """Return self, or raise a ValueError that says which value is out of range."""
        for name, length in (("cell", self.cell), ("sight", self.sight)):
            require_length(name, length)
        require_within("window", self.window, SMALLEST_MAP, LARGEST_MAP)
        require_within("far-factor", self.far_factor, 2, 16)
        require_within("rays", self.rays, 1, 4096)
        require(0 < self.fade < math.inf, f"fade must be above 0 decisions; got {self.fade}.")
        require(
            self.ways or not self.compass, "the compass tells of the ways: places.compass needs places.ways."
        )
        return self


AgentKind = str
"""What an agent remembers with: the name of a row of `egomap.kinds`, or `package.module:Class` of anyone's memory."""

UNKNOWN_DEPTH = 456.0
"""Map units that the default rendering reads where its depth buffer saturates."""
MOTION_UNIT = 32.0
"""Map units; about the farthest that a Doom player gets in one decision (33.3)."""


@dataclass(frozen=True)
class AgentConfig:
    """An agent: which memory it has, and the sizes of its parts (paper: appendix "Architectures")."""

    kind: AgentKind = "egomap"
    """Memory: a name of `egomap.kinds` (gru is the paper's baseline), or package.module:Class of one of your own."""
    standardise: bool = True
    """Standardise each input channel by fixed constants; False is the paper's raw input between 0 and 1."""
    value_gain: float = 1.0
    """Size of the value head's first weights, above 0: so large are the first values, and so much of their errors
    reaches the layers below."""
    hidden_size: int = 128
    """Units of the FC layer and of the recurrent layer, 1 or more (paper: 128)."""
    unknown_depth: float = UNKNOWN_DEPTH
    """What perception sees where the depth is unknown, in map units, above 0."""
    motion_unit: float = MOTION_UNIT
    """Map units that the recurrent baseline's dx and dy are divided by, above 0."""
    padding: float = 0.2
    """How far a map reaches beyond the arena, as a part of its side (paper: 0.2)."""
    map: MapSettings = field(default_factory=MapSettings)
    """EgoMap's map and reads; its extent is set from the arena."""
    neural_map_size: int = 15
    """Cells along each side of each of the Neural Map's four maps, 12 or more."""
    neural_map_channels: int = 32
    """Channels of the Neural Map, 1 or more."""
    stack_size: int = later(4)
    """Observations that a frame stack holds, with the latest, 2 or more."""
    use_reward: bool = later(False)
    """Tell the memory what each decision brought (not in the paper; not for the Neural Map)."""
    places: PlaceSettings = later(PlaceSettings())  # noqa: RUF009
    """Place planes of the agents that have them."""
    settings: tuple[str, ...] = later(())
    """Settings of the memory's own class, NAME=VALUE each, where it has any."""

    def validate(self) -> AgentConfig:
        """Return self, or raise a ValueError that says which value is out of range."""
        require_kind(self.kind)
        require_pairs(self.settings)
        require_within("hidden-size", self.hidden_size, 1, 4096)
        require_within("neural-map-size", self.neural_map_size, SMALLEST_MAP, LARGEST_MAP)
        require_within("neural-map-channels", self.neural_map_channels, 1, MOST_CHANNELS)
        require_within("stack-size", self.stack_size, 2, 64)
        for name, length in (("unknown-depth", self.unknown_depth), ("motion-unit", self.motion_unit)):
            require_length(name, length)
        require(0 < self.value_gain < math.inf, f"value-gain must be above 0; got {self.value_gain}.")
        require(0.0 <= self.padding <= 10.0, f"padding must be between 0 and 10; got {self.padding}.")
        self.map.validate()
        self.places.validate()
        return self


AUXILIARIES = ("home", "paid")
"""What an auxiliary head can learn to tell; `egomap.rl.auxiliary` has a class for each."""


def weighted(text: str, name: str) -> tuple[str, float]:
    """The address and the weight in package.module:NAME=WEIGHT; a ValueError that names the setting otherwise."""
    address, _, weight = text.partition("=") if isinstance(text, str) else ("", "", "")
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    require(
        is_address(address) and math.isfinite(value),
        f"{name} must be package.module:NAME=WEIGHT, such as my_losses:calm=0.1; got {text!r:.80}.",
    )
    return address, value


DeviceKind = Literal["auto", "cpu", "cuda", "mps"]
"""Where the network computes; auto: on a GPU, if there is one."""
Precision = Literal["float32", "bfloat16", "auto"]
"""What its convolutions and matrix products are computed in; auto: what a short measurement finds faster."""

TeacherKind = Literal["none", "explorer"]
"""Whom a learner may imitate; `egomap.training.teachers` has a row for each."""


@dataclass(frozen=True)
class LearnerSettings:
    """How the weights follow the rewards. The defaults are the paper's A2C."""

    algorithm: Literal["a2c", "ppo"] = "a2c"
    """a2c: one pass over each rollout (the paper); ppo: several, clipped."""
    rollout_steps: int = 128
    """Decisions of each environment between two updates (paper: 128)."""
    num_envs: int = 16
    """Environments of each rank (paper: 16)."""
    discount: float = 0.99
    """Gamma (paper: 0.99)."""
    trace_decay: float = 1.0
    """Lambda of the generalised advantages; 1 gives plain discounted returns (paper)."""
    bootstrap_timeouts: bool = False
    """Whether the value stands in for what a time-out cut off; otherwise it counts as an end (paper)."""
    entropy_weight: float = 0.001
    """Weight of the policy's entropy (paper: 0.001)."""
    value_weight: float = 0.5
    """Weight of the value loss (paper: 0.5)."""
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """rmsprop (alpha 0.99, eps 1e-5; paper) or adam (eps 1e-5)."""
    learning_rate: float = 7e-4
    """At the start (paper: 7e-4)."""
    read_rate: float = 1.0
    """The learning rate of the reads of a map, as a part of `learning_rate`, above 0 (paper: 1)."""
    perception_rate: float = 1.0
    """The learning rate of perception, as a part of `learning_rate`, above 0 (paper: 1)."""
    learning_rate_decay: Literal["none", "linear"] = "none"
    """linear: down to 0 at the end of the budget."""
    max_gradient_norm: float = 0.5
    """Gradients are scaled down to this norm (paper: 0.5)."""
    epochs: int = 1
    """Passes over each rollout (ppo)."""
    minibatches: int = 1
    """Parts, along the environment axis, of each pass (ppo)."""
    clip: float = 0.2
    """How far the ratio of the probabilities may count (ppo)."""
    normalise_advantages: bool = False
    """Whether advantages are brought to mean 0, and to deviation 1 as seen over the latest rollouts."""
    coverage_bonus: float = later(0.0)
    """Intrinsic reward for each cell that is visited for the first time in an episode; 0: none (paper)."""
    coverage_decay: float = later(0.5)
    """Share of the budget over which the coverage bonus falls linearly to 0; 0: it does not fall."""
    coverage_cell: float = later(64.0)
    """Side of the coverage bonus's cells in map units, above 0."""
    imitation_weight: float = later(1.0)
    """Weight of the imitation term at the start: the cross-entropy of what the teacher would do (--imitate)."""
    imitation_decay: float = later(0.8)
    """Share of the budget over which that weight falls linearly to 0; 0: it does not fall."""
    teacher_share: float = later(0.25)
    """Share of the environments in which the teacher acts at the start; it falls linearly to 0 over half of
    imitation-decay (--imitate)."""

    head_start: float = later(0.0)
    """Share of the environments in which, at the start of training, the Explorer walks to an episode's first goal and
    the agent goes on from there, with all of it in its memory; 0: none (paper). Its actions are not learned from."""
    head_start_decay: float = later(0.5)
    """Share of the budget over which head-start falls linearly to 0; 0: it does not fall."""
    auxiliary_weight: float = later(0.0)
    """Weight of an auxiliary term: a linear head on the memory's output learns to tell --learner.auxiliary; 0: none
    (paper)."""
    auxiliary: str = later("home")
    """What it learns to tell: home, where the episode began, seen from the agent; paid, where it is paid next; or
    package.module:Class of your own."""
    hindsight_weight: float = later(0.0)
    """Weight of hindsight: when something was paid, the pointer at earlier decisions of the episode learns to point
    to where; 0: none (paper). For agents with a pointer into their map (egomap+), others ignore it."""
    terms: tuple[str, ...] = later(())
    """Terms of the loss of your own, package.module:function=WEIGHT each."""
    bonuses: tuple[str, ...] = later(())
    """Intrinsic rewards of your own, package.module:Class=WEIGHT each."""

    def validate(self) -> LearnerSettings:
        """Return self, or raise a ValueError that says which value is out of range."""
        for name, count, most in (
            ("rollout-steps", self.rollout_steps, MOST_ROLLED_OUT),
            ("num-envs", self.num_envs, MOST_ROLLED_OUT),
            ("epochs", self.epochs, 1000),
            ("minibatches", self.minibatches, MOST_ROLLED_OUT),
        ):
            require_within(name, count, 1, most)
        require_within("rollout-steps x num-envs", self.rollout_steps * self.num_envs, 1, MOST_ROLLED_OUT)
        require(
            self.num_envs % self.minibatches == 0,
            f"minibatches must divide num-envs; got {self.minibatches} and {self.num_envs}.",
        )
        for name, chosen in (
            ("algorithm", self.algorithm),
            ("optimizer", self.optimizer),
            ("learning-rate-decay", self.learning_rate_decay),
        ):
            allowed = get_args(get_type_hints(LearnerSettings)[name.replace("-", "_")])
            require(chosen in allowed, f"{name} must be one of {', '.join(allowed)}; got {chosen!r:.80}.")
        for name, share in (
            ("discount", self.discount),
            ("trace-decay", self.trace_decay),
            ("coverage-decay", self.coverage_decay),
            ("imitation-decay", self.imitation_decay),
            ("teacher-share", self.teacher_share),
            ("head-start", self.head_start),
            ("head-start-decay", self.head_start_decay),
        ):
            require(0.0 <= share <= 1.0, f"{name} must be between 0 and 1; got {share}.")
        for name, value in (
            ("learning-rate", self.learning_rate),
            ("read-rate", self.read_rate),
            ("perception-rate", self.perception_rate),
            ("max-gradient-norm", self.max_gradient_norm),
            ("clip", self.clip),
            ("coverage-cell", self.coverage_cell),
        ):
            require(0.0 < value < math.inf, f"{name} must be above 0; got {value}.")
        for name, value in (
            ("entropy-weight", self.entropy_weight),
            ("value-weight", self.value_weight),
            ("coverage-bonus", self.coverage_bonus),
            ("imitation-weight", self.imitation_weight),
            ("auxiliary-weight", self.auxiliary_weight),
            ("hindsight-weight", self.hindsight_weight),
        ):
            require(0.0 <= value < math.inf, f"{name} must be 0 or more; got {value}.")
        require(
            self.algorithm == "ppo" or self.epochs == self.minibatches == 1,
            "a2c makes one pass over each rollout: epochs and minibatches must be 1.",
        )
        require(
            self.auxiliary in AUXILIARIES or is_address(self.auxiliary),
            f"auxiliary must be {', '.join(AUXILIARIES)} or package.module:Class of your own; got "
            f"{self.auxiliary!r:.80}.",
        )
        for name, given in (("terms", self.terms), ("bonuses", self.bonuses)):
            addresses = [weighted(each, name)[0] for each in given]
            require(len(set(addresses)) == len(addresses), f"{name} has the same address twice.")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """Everything of somebody else's that these settings name."""
        own = (self.auxiliary,) if self.auxiliary_weight and self.auxiliary not in AUXILIARIES else ()
        return (*own, *(weighted(each, "terms")[0] for each in (*self.terms, *self.bonuses)))


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
    """A teacher that is asked in the learner's own states what it would do; none: reward alone (paper)."""
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
        return self.env.id or self.files or f"{self.scenario.task}, {size} × {size} cells"

    @property
    def place(self) -> str:
        """Where the agent learns, as a part of a file's name."""
        if self.env.id:
            return re.sub(r"[^\w.-]+", "-", self.env.id)
        if self.files:
            return re.sub(r"[^\w.-]+", "-", Path(self.files).stem).strip("-") or "files"
        return f"{self.scenario.task}-{self.scenario.size}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `json.dumps`."""
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> TrainConfig:
        """The config that `to_json` gave; a ValueError if it is of another version or damaged."""
        return _from_plain(TrainConfig, data, "the config").validate()


def _from_plain(kind: type, data: Any, where: str) -> Any:
    """A dataclass from plain data; nested dataclasses and tuples are made again."""
    require(isinstance(data, dict), f"{where} is not a table of settings.")
    known = {entry.name: entry for entry in fields(kind)}
    unknown = sorted(set(data) - set(known))
    require(not unknown, f"{where} has settings that this version does not know: {', '.join(unknown)}.")
    default = kind()
    values = {}
    for name, value in data.items():
        like = getattr(default, name)
        if is_dataclass(like):
            value = _from_plain(type(like), value, f"{where}.{name}")
        elif isinstance(like, tuple):
            require(isinstance(value, list | tuple), f"{where}.{name} is not a list.")
            value = tuple(value)
        elif isinstance(like, float) and isinstance(value, int) and not isinstance(value, bool):
            value = as_float(value)
        elif like is None:
            allowed = get_args(get_type_hints(kind)[name])
            require(type(value) in allowed, f"{where}.{name} cannot be {value!r:.80}.")
        elif type(value) is not type(like):
            raise ValueError(f"{where}.{name} must be of type {type(like).__name__}; got {value!r:.80}.")
        values[name] = value
    return kind(**values)
