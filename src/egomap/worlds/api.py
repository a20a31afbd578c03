"""The seam between simulators and everything that learns, plays and measures: what a world must give.

What comes in: nothing; these are the types. A simulator gives a `WorldSpec` and a `VectorWorld`; `rl`, `evaluation`
and `training` know no more of it. Doom is one (`egomap.envs.vector`), any Gymnasium environment another
(`egomap.worlds.vector`). Numpy alone.

Convention: lengths behind the seam are map units (Doom's own; 32 are about a metre); who measures in other lengths
converts them before (`WorldSpec.unit`). World frame: x east, y north, phi counter-clockwise from +x, radians; the
origin is in the middle of the arena. Depth is the distance along the camera's axis (z, not the ray's length).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from egomap.config import OBSERVATION_HEIGHT, OBSERVATION_WIDTH, Camera, as_float, require
from egomap.worlds.episodes import Episode

Arrays = dict[str, np.ndarray]
Step = tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
"""Observations, rewards, terminated, truncated, infos, as Gymnasium's vector environments give them."""


class Statistics(NamedTuple):
    """Mean and deviation of each channel of the pictures: red, green, blue (0 to 255), depth (map units)."""

    mean: tuple[float, float, float, float]
    deviation: tuple[float, float, float, float]


@dataclass(frozen=True)
class WorldSpec:
    """What an agent must know of a world to be built for it."""

    name: str
    """Of the simulator: "doom", or the environment's id."""
    camera: Camera
    """Of the observed picture; its size is the picture's."""
    extent: float
    """Side, in map units, of a square around the origin that holds every arena."""
    actions: tuple[str, ...]
    """What the actions are called, one each."""
    unit: float = 1.0
    """Map units in one of the simulator's own lengths."""
    center: tuple[float, float] = (0.0, 0.0)
    """Middle of the arena, in the simulator's own lengths; the origin behind the seam."""
    depth_range: float | None = None
    """Map units at and beyond which the simulator's depth counts as unknown; None: every finite depth is known."""
    unknown_depth: float | None = None
    """Map units that perception sees where the depth is unknown; None: what the agent's settings say."""
    statistics: Statistics | None = None
    """For standardising the picture; None: those of our Doom mazes."""
    measures_motion: bool = False
    """Whether the simulator measures ego-motion itself; otherwise it is derived from successive poses."""

    def validate(self) -> WorldSpec:
        """Return self, or raise a ValueError that says what no world can have."""
        for name, length in (
            ("extent", self.extent),
            ("unit", self.unit),
            ("depth_range", self.depth_range),
            ("unknown_depth", self.unknown_depth),
        ):
            require(
                length is None or 0 < length < math.inf, f"a world's {name} must be above 0; got {length}."
            )
        require(bool(self.actions), "a world must have an action.")
        require(all(math.isfinite(part) for part in self.center), f"{self.center} is no middle of an arena.")
        for mean, deviation in zip(*(self.statistics or ((), ())), strict=True):
            require(
                math.isfinite(mean) and 0 < deviation < math.inf,
                f"a picture cannot be standardised by mean {mean} and deviation {deviation}.",
            )
        return self

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return len(self.actions)

    def arrays(self, *shape: int) -> Arrays:
        """Zeroed arrays for its observations with these leading axes."""
        return observation_arrays(*shape, height=self.camera.height, width=self.camera.width)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"statistics": self.statistics and self.statistics._asdict()}

    @staticmethod
    def from_json(data: Any) -> WorldSpec:
        """The spec that `to_json` gave.

        Raises:
            ValueError: It is something else.
        """
        try:
            values = dict(data)
            camera, statistics = Camera(**values.pop("camera")), values.pop("statistics")
            x, y = map(as_float, values.pop("center"))
            measures = values.pop("measures_motion", False) is True
            name, actions = str(values.pop("name")), tuple(map(str, values.pop("actions")))
            lengths: dict[str, Any] = {
                key: value if value is None else as_float(value) for key, value in values.items()
            }
            found = WorldSpec(
                name=name,
                camera=camera,
                actions=actions,
                measures_motion=measures,
                center=(x, y),
                statistics=statistics and Statistics(*(_four(statistics[key]) for key in Statistics._fields)),
                **lengths,
            )
            return found.validate()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ValueError(f"the description of the world is damaged: {str(error).rstrip('.')}.") from error


def _four(values: Sequence[float]) -> tuple[float, float, float, float]:
    red, green, blue, depth = map(as_float, values)
    return red, green, blue, depth


def observation_arrays(
    *shape: int, height: int = OBSERVATION_HEIGHT, width: int = OBSERVATION_WIDTH
) -> Arrays:
    """Zeroed arrays for observations with these leading axes, laid out so that simulators write straight into them.

    `rgb` is (..., 3, height, width) as the space says, but in memory its channels come last: the form that simulators
    write and that convolutions are fastest on.
    """
    return {
        "rgb": np.moveaxis(np.zeros((*shape, height, width, 3), np.uint8), -1, -3),
        "depth": np.zeros((*shape, height, width), np.float32),
        "pose": np.zeros((*shape, 3), np.float32),
        "ego_motion": np.zeros((*shape, 3), np.float32),
        "reward": np.zeros(shape, np.float32),
    }


class ObservationRow(NamedTuple):
    """Where one observation is written; views into the caller's arrays."""

    rgb: np.ndarray
    """(H, W, 3) uint8."""
    depth: np.ndarray
    """(H, W) float32, map units; inf where unknown."""
    pose: np.ndarray
    """(3,) float32."""
    ego_motion: np.ndarray
    """(3,) float32."""
    reward: np.ndarray
    """() float32: what the decision before brought."""


class Target(NamedTuple):
    """Where a step writes: the arrays of N environments, and their rows cut once for all."""

    arrays: Arrays
    rows: list[ObservationRow]

    @staticmethod
    def of(arrays: Arrays) -> Target:
        """Cut `arrays` (leading axis N) into rows; they must be laid out as `observation_arrays` does."""
        height, width = arrays["rgb"].shape[-2:]
        model = observation_arrays(len(arrays["rgb"]), height=height, width=width)
        for name, wanted in model.items():
            got = arrays[name]
            fits = (got.dtype, got.shape, got.strides[1:]) == (wanted.dtype, wanted.shape, wanted.strides[1:])
            require(
                fits and got.flags.writeable,
                f"{name} is not laid out for writing; make the arrays with observation_arrays().",
            )
        channels_last = np.moveaxis(arrays["rgb"], -3, -1)
        others = [arrays[name] for name in ObservationRow._fields[1:]]
        rows = [
            ObservationRow(channels_last[i], *(array[i, ...] for array in others))
            for i in range(len(channels_last))
        ]
        return Target(arrays, rows)

    def require_for(self, num_envs: int, height: int, width: int) -> None:
        """Raise a ValueError unless this has a row of that picture's size for each environment."""
        require(len(self.rows) == num_envs, f"the target has {len(self.rows)} rows; {num_envs} needed.")
        require(
            self.arrays["depth"].shape[1:] == (height, width),
            f"the target is for pictures of {self.arrays['depth'].shape[1:]}; these are {(height, width)}.",
        )


class World(Protocol):
    """One place to play in: a maze, or a fresh seed of somebody's environment."""

    @property
    def id(self) -> str:
        """Its name, the same in every run."""
        ...

    @property
    def layout(self) -> Any:
        """Its plan (`egomap.scenarios.layout.Layout`), or None where there is none."""
        ...


class VectorWorld(Protocol):
    """N environments stepped together: a `gymnasium.vector.VectorEnv` with SAME_STEP autoreset and more.

    `infos["final_info"]` tells of every episode that has ended `return`, `success` (None where the simulator does not
    say), `decisions` and `interrupted` (the simulator failed, and the episode says nothing of the agent), each an
    array over the environments.
    """

    num_envs: int
    metadata: dict[str, Any]

    @property
    def world_spec(self) -> WorldSpec:
        """What agents must know."""
        ...

    @property
    def episodes_begun(self) -> int:
        """How many episodes of the stream have begun; `reset(options={"position": p})` goes on from there."""
        ...

    @property
    def engine_restarts(self) -> int:
        """How often a simulator was replaced."""
        ...

    def reset(self, *, seed: int, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode everywhere; the seed fixes the stream of episodes, `position` where in it to begin."""
        ...

    def step_async(self, actions: np.ndarray) -> None:
        """Send one action to each environment and return at once; `step_wait` must follow."""
        ...

    def step_wait(self) -> Step:
        """What the actions led to; where an episode ended, the observation is the first of the next one."""
        ...

    def close(self) -> None:
        """End the simulators."""
        ...


@runtime_checkable
class WritesInPlace(Protocol):
    """A vector environment that lets its caller say where observations go, so that nothing is copied."""

    def write_to(self, target: Target) -> None:
        """Let the following resets and steps write there; a learner hands over row t + 1 of its rollout."""
        ...


class Playground(Protocol):
    """A vector environment with an end: every episode of a list is played once; what evaluations ask for."""

    num_envs: int
    idle: np.ndarray
    """(N,) bool: no episode is left for these environments."""

    @property
    def worlds(self) -> Sequence[World]:
        """What is played on, in order; `Episode.layout` is an index into it."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether every episode has been played."""
        ...

    @property
    def episodes_in_all(self) -> int:
        """How many episodes there are to play."""
        ...

    def episode(self, index: int) -> Episode:
        """The running episode of one environment."""
        ...

    def reset(self, *, seed: int) -> tuple[Arrays, dict[str, Any]]:
        """Begin all episodes anew."""
        ...

    def step(self, actions: np.ndarray) -> Step:
        """One decision in every environment; where an episode ends, the next begins at once."""
        ...


class Simulated(VectorWorld, Playground, Protocol):
    """Both: what a `Source` opens."""

    def reset(self, *, seed: int, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode everywhere."""
        ...

    def true_pose(self, index: int) -> np.ndarray:
        """(x, y, phi) of one environment, whatever noise the observations have."""
        ...


class Source(Protocol):
    """A kind of simulator, for the settings of one run; `egomap.training.sources` has a row for each."""

    def examine(self) -> WorldSpec:
        """What an agent must know, once everything that the run will need has been looked at.

        Raises:
            ValueError: Something is missing; the sentence says what, and how to give it.
        """
        ...

    def recall(self, extent: float, told: Any) -> WorldSpec:
        """What `examine` gave when a run began, from its folder alone.

        Args:
            extent: Of the spec.
            told: The spec as plain data; None in runs whose settings and extent say it all.
        """
        ...

    def worlds(self, split: str, *, size: int | None = None) -> Any:
        """What is played in "train" or "test", of a curriculum's stage with mazes of `size` if there is one."""
        ...

    def open(
        self,
        spec: WorldSpec,
        worlds: Any,
        num_envs: int,
        *,
        episodes_per_layout: int | None = None,
        noise: float | None = None,
    ) -> Simulated:
        """Environments to learn in without end or, with `episodes_per_layout`, to be measured in.

        Args:
            spec: What `examine` gave when the run began.
            worlds: Some of `worlds`.
            num_envs: N.
            episodes_per_layout: How often each world is played; None: without end.
            noise: Ego-motion noise; None: the settings'.
        """
        ...


class Posed(Protocol):
    """Environments that know where their players are, whatever noise the observations have."""

    def true_pose(self, index: int) -> np.ndarray:
        """(x, y, phi) of one environment."""
        ...


def known(success: Any) -> bool | None:
    """Whether an episode was solved, as `final_info` tells it; None where it does not."""
    return None if success is None else bool(success)


def copy_into(arrays: Arrays, observation: Mapping[str, np.ndarray]) -> None:
    """Copy an observation into arrays laid out by `observation_arrays`."""
    for name, array in arrays.items():
        np.copyto(array, observation[name])
