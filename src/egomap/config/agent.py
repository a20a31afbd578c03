"""Settings of agents: which memory they have, and the sizes of its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from egomap.config.plain import later, require_pairs
from egomap.kinds import require_kind
from egomap.util.checks import require, require_length, require_within

SMALLEST_MAP, LARGEST_MAP = 12, 256
"""Cells along each side of a map; the layers of the global read need the smallest."""
MOST_CHANNELS = 1024

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
