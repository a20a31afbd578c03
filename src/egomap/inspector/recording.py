"""What is kept of one episode: arrays with time first, and what they are of. Data only.

Convention: row t is decision t. Its pictures, pose and memory are what the agent had when it decided; its reward is
what the decision paid. Ego maps have row 0 farthest ahead and the agent in the centre; world maps have row 0 in the
north. Places are world map units, x east, y north.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from egomap.config import ACTIONS as ACTIONS
from egomap.config import FRAME_SKIP, Camera
from egomap.scenarios.layout import Layout

Outcome = Literal["solved", "failed", "time is up", "stopped"]

LEAST = float(np.finfo(np.float32).tiny)
"""The smallest probability that is used as a divisor."""


class MapTrack(NamedTuple):
    """A map over the episode: one tile, or one for each heading of a Neural Map."""

    frame: Literal["ego", "world"]
    extent: float
    """Side of the square that a tile covers, in map units."""
    tiles: tuple[str, ...]
    """Their names; ("",) where there is only one."""
    features: np.ndarray
    """(T, tiles, C, size, size) float32."""
    known: np.ndarray
    """(T, tiles, size, size) bool: cells that something was ever written to."""
    attention: np.ndarray | None
    """(T, tiles, size, size) float32, sums to 1; None without a query."""
    position: np.ndarray | None
    """(T, 2) attended x to the right and y ahead, in (-1, 1) over the map."""
    beta: np.ndarray | None
    """(T,) inverse temperature of the attention."""

    @property
    def size(self) -> int:
        """Cells along each side of a tile."""
        return self.features.shape[-1]

    @property
    def norms(self) -> np.ndarray:
        """(T, tiles, size, size): length of each cell's feature vector."""
        return np.linalg.norm(self.features, axis=2)


class PlanesTrack(NamedTuple):
    """Planes of given meaning around the agent over the episode; the agent is in the centre and faces up."""

    names: tuple[str, ...]
    signed: tuple[bool, ...]
    """By plane: whether it is from -1 to 1, not from 0 to 1."""
    extent: float
    """Side of the square that a plane covers, in map units."""
    levels: np.ndarray
    """(T, planes, window, window) uint8, see `levels_of`."""

    def at(self, decision: int) -> np.ndarray:
        """(planes, window, window) float32: the values of the levels of a decision."""
        return values_of(self.levels[decision], self.signed)

    @property
    def size(self) -> int:
        """Cells along each side."""
        return self.levels.shape[-1]


class GuidesTrack(NamedTuple):
    """The selections over the episode, and where each guide led."""

    names: tuple[str, ...]
    """Itself, then the guides; the pointer, if there is one, comes last."""
    shares: np.ndarray
    """(T, names) float32: the probability of each."""
    choice: np.ndarray
    """(T,) int64: what was chosen, an entry of the table of selections times actions."""
    ways: np.ndarray
    """(T, guides with a way, 3) float32: right and forward of the direction, length in decisions; 0 without a way."""
    pointing: np.ndarray | None
    """(T, size, size) float32: the pointer's attention over the cells of the map; sums to 1."""

    @property
    def whom(self) -> np.ndarray:
        """(T,) int64: the selection."""
        return self.choice // len(ACTIONS)


def levels_of(planes: np.ndarray, signed: Sequence[bool]) -> np.ndarray:
    """Planes (..., planes, window, window) as uint8: 0 to 255 for 0 to 1; 1 to 255 for -1 to 1, so that 128 is 0."""
    zero, one = _scale(signed)
    return np.clip(np.round(planes * one + zero), 0, 255).astype(np.uint8)


def values_of(levels: np.ndarray, signed: Sequence[bool]) -> np.ndarray:
    """The planes, float32, that `levels_of` made levels of, to within half a level."""
    zero, one = _scale(signed)
    return (levels - zero) / one


def _scale(signed: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """The level of 0, and how many levels are 1, by plane, (planes, 1, 1) each."""
    each = np.array(signed)[:, None, None]
    return np.where(each, np.float32(128), np.float32(0)), np.where(each, np.float32(127), np.float32(255))


class MindTrack(NamedTuple):
    """A network's outputs and memory over the episode."""

    probabilities: np.ndarray
    """(T, actions) of the policy, float32."""
    value: np.ndarray
    """(T,) its estimate of the discounted return."""
    hidden: np.ndarray | None
    """(T, H) recurrent state; None where there is none."""
    output: np.ndarray
    """(T, O) what the heads read."""
    map: MapTrack | None
    planes: PlanesTrack | None = None
    guides: GuidesTrack | None = None
    """None for agents that act without guides."""


class LesionTrack(NamedTuple):
    """What the same network would have decided in this episode with a part of its memory replaced."""

    lesion: str
    """Names of the parts, several joined by "+", or "all"."""
    by: Mapping[str, str]
    """How each part was replaced: "mean", "zero" or "shuffle"."""
    probabilities: np.ndarray
    """(T, actions) of its policy, float32."""

    def differs(self, intact: np.ndarray) -> np.ndarray:
        """(T,) bool: another action is the most probable one than in the intact policy (T, actions)."""
        return self.probabilities.argmax(-1) != intact.argmax(-1)

    def divergence(self, intact: np.ndarray) -> np.ndarray:
        """(T,) float64: KL(intact || lesioned) in nats; finite even where the lesioned policy has rounded to 0."""
        p = intact.astype(np.float64)
        q = np.maximum(self.probabilities.astype(np.float64), LEAST)
        return np.maximum(np.where(p > 0, p * np.log(np.maximum(p, LEAST) / q), 0.0).sum(-1), 0.0)


@dataclass(frozen=True)
class Recording:
    """One episode."""

    agent: str
    """The inspected agent, in words: "egomap after 400,000 decisions", "planner"."""
    driver: str
    """The agent that chose the actions, in words."""
    layout_index: int
    layout_id: str
    split: str
    seed: int
    layout: Layout | None
    """None for foreign files, which come without one."""
    arena: float
    """Side in map units of the square around the origin that holds the arena."""
    camera: Camera
    outcome: Outcome
    settings: dict[str, str]
    """What else a reader may want to know, by name; shown as text."""
    rgb: np.ndarray
    """(T, H, W, 3) uint8."""
    depth: np.ndarray
    """(T, H, W) float32, map units; inf where unknown."""
    pose: np.ndarray
    """(T, 3) where the agent believes to be."""
    ego_motion: np.ndarray
    """(T, 3) float32, as it measured it."""
    true_pose: np.ndarray
    """(T, 3) where it is."""
    action: np.ndarray
    """(T,) int64."""
    reward: np.ndarray
    """(T,) float64."""
    event: np.ndarray
    """(T,) bool: the decision paid more or less than life alone does."""
    mind: MindTrack | None = None
    """None for agents without a network."""
    frame_skip: int = FRAME_SKIP
    lesions: tuple[LesionTrack, ...] = ()
    """What lesioned copies of the network would have decided; see `egomap.inspector.lesioned`."""

    def __len__(self) -> int:
        return len(self.action)

    @property
    def map(self) -> MapTrack | None:
        """The map of the agent, if it has one."""
        return None if self.mind is None else self.mind.map

    @property
    def planes(self) -> PlanesTrack | None:
        """The planes of given meaning, if the agent has them."""
        return None if self.mind is None else self.mind.planes

    @property
    def guides(self) -> GuidesTrack | None:
        """The selections, if the agent has guides."""
        return None if self.mind is None else self.mind.guides

    @property
    def total_reward(self) -> float:
        """The undiscounted return."""
        return float(self.reward.sum())

    def observation(self, t: int) -> dict[str, np.ndarray]:
        """What the agent was given at decision t, just as the environment gave it."""
        return {
            "rgb": np.moveaxis(self.rgb[t], -1, 0),
            "depth": self.depth[t],
            "pose": self.pose[t].astype(np.float32),
            "ego_motion": self.ego_motion[t],
            "reward": np.array(self.reward[t - 1] if t else 0.0, np.float32),
        }
