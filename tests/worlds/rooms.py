"""The room of docs/extending.md, and rooms that lack something or are told in other words; found by name."""

# ruff: noqa: RUF012  (metadata is a dictionary in Gymnasium)

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
EXAMPLE = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
exec(compile(EXAMPLE, str(PAGE), "exec"), globals())
Room: Any = globals()["Room"]


def _observing(**changed: spaces.Space[Any] | None) -> spaces.Dict:
    """The room's space of observations with other parts, or without some."""
    parts = {**Room.observation_space.spaces, **changed}
    return spaces.Dict({name: part for name, part in parts.items() if part is not None})


class NoDepth(Room):  # type: ignore[misc]
    observation_space = _observing(depth=None)


class NoPose(Room):  # type: ignore[misc]
    observation_space = _observing(pose=None)


class Pictures(Room):  # type: ignore[misc]
    observation_space = Room.observation_space["rgb"]


class FloatColours(Room):  # type: ignore[misc]
    observation_space = _observing(rgb=spaces.Box(0, 1, (96, 96, 3), np.float32))


class SmallDepth(Room):  # type: ignore[misc]
    observation_space = _observing(depth=spaces.Box(0, 1, (48, 48), np.float32))


class FlatPose(Room):  # type: ignore[misc]
    observation_space = _observing(pose=spaces.Box(-1, 1, (2,), np.float32))


class Continuous(Room):  # type: ignore[misc]
    action_space = spaces.Box(-1, 1, (2,), np.float32)


class NoCamera(Room):  # type: ignore[misc]
    metadata = {"egomap": {"extent": 8.0}}


class NoArena(Room):  # type: ignore[misc]
    metadata = {"egomap": {"fov": 80.0}}


class Unknown(Room):  # type: ignore[misc]
    metadata = {"egomap": {"fov": 80.0, "extent": 8.0, "colour": "red"}}


class Unnamed(Room):  # type: ignore[misc]
    metadata = {"egomap": {"fov": 80.0, "extent": 8.0, "actions": ("go", "stop")}}


class Five(Room):  # type: ignore[misc]
    """As many actions as our mazes, but others."""

    metadata = {"egomap": {"fov": 80.0, "extent": 8.0}}
    action_space = spaces.Discrete(5)


class Blind(Room):  # type: ignore[misc]
    def observe(self) -> dict[str, np.ndarray]:
        return {**super().observe(), "depth": np.ones((96, 96), np.float32)}


class Broken(Room):  # type: ignore[misc]
    """Fails at its third decision."""

    def step(self, action: int) -> Any:
        if self.steps == 2:
            raise ZeroDivisionError("the room is broken")
        return super().step(action)


class InCentimetres(Room):  # type: ignore[misc]
    """The same room in other lengths, with its origin in the south-western corner, channels first, actions from 3."""

    metadata = {"egomap": {"fov": 80.0, "extent": (0.0, 0.0, 800.0, 800.0)}}
    observation_space = spaces.Dict(
        {
            "rgb": spaces.Box(0, 255, (3, 96, 96), np.uint8),
            "depth": spaces.Box(0, np.inf, (96, 96), np.float64),
            "pose": spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "clock": spaces.Box(0, 1, (1,), np.float32),
        }
    )
    action_space = spaces.Discrete(7, start=3)

    def step(self, action: int) -> Any:
        return super().step(action - 3)

    def observe(self) -> dict[str, np.ndarray]:
        seen = super().observe()
        x, y, phi = seen["pose"]
        return {
            "rgb": seen["rgb"].transpose(2, 0, 1),
            "depth": seen["depth"][..., 0].astype(np.float64) * 100,
            "pose": np.array([x * 100 + 400, y * 100 + 400, phi + 2 * math.pi]),
            "clock": np.zeros(1),
        }


def no_env() -> str:
    return "nothing"


gymnasium.register("Rooms/Centimetres-v0", InCentimetres, max_episode_steps=5)
