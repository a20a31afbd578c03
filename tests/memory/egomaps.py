"""Helpers of the EgoMap tests: small memories, and views that put one feature where one wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from egomap.config import Camera, MapSettings
from egomap.memory import EgoMapMemory, MemoryInputs

Memory = TypeVar("Memory", bound=torch.nn.Module)
CAMERA = Camera.from_fov(112, 64, horizontal=1.8, vertical=1.1)

ABLATIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "no global read": {"use_global_read": False},
    "no query": {"use_query": False},
    "no reads": {"use_global_read": False, "use_query": False},
    "no temperature": {"use_beta": False},
    "no position": {"use_query_position": False},
    "l1": {"similarity": "l1"},
    "anchored at the start": {"anchor": "start"},
    "naive": {"map_frame": "ego"},
    "no write gradient": {"write_gradient_steps": 0},
    "write gradient of 1": {"write_gradient_steps": 1},
    "write gradient of 3": {"write_gradient_steps": 3},
    "naive, no write gradient": {"map_frame": "ego", "write_gradient_steps": 0},
    "naive, write gradient of 2": {"map_frame": "ego", "write_gradient_steps": 2},
    "anchored, write gradient of 2": {"anchor": "start", "write_gradient_steps": 2},
    "alpha 0": {"alpha": 0.0},
    "alpha 1": {"alpha": 1.0},
    "ego-motion": {"use_ego_motion": True},
    "normalised": {"normalise": True},
    "maxima": {"write": "max"},
    "maxima of the current write": {"write": "max", "write_gradient_steps": 1},
    "naive, maxima, anchored": {
        "write": "max",
        "map_frame": "ego",
        "anchor": "start",
        "write_gradient_steps": 2,
    },
    "naive, normalised, no write gradient": {
        "map_frame": "ego",
        "normalise": True,
        "write_gradient_steps": 0,
    },
}
"""Every switch of `MapSettings` that changes what is computed, alone and together where they touch."""


def small(*, hidden_size: int = 8, **settings: Any) -> EgoMapMemory:
    """The paper's views of 16 x 4 x 10 features, but a map of 12 x 12 cells that covers a square of side 100."""
    chosen = {"map_size": 12, "extent": 100.0, **settings}
    return EgoMapMemory(CAMERA, MapSettings(**chosen), hidden_size=hidden_size)


def with_biases(memory: Memory) -> Memory:
    """Random biases: with the zeros of a new network an empty cell sits on the kink of every ReLU."""
    with torch.no_grad():
        for name, parameter in memory.named_parameters():
            if "bias" in name:
                parameter.normal_(std=0.1)
    return memory


PINHOLE = Camera(width=1, height=1, fx=1.0, fy=1.0, cx=0.5, cy=0.5)


def one_pixel(**settings: Any) -> EgoMapMemory:
    """A memory with a camera of one pixel that looks straight ahead: each step writes one feature, float64."""
    chosen = {"map_size": 12, "extent": 120.0, "channels": 1, **settings}
    torch.manual_seed(0)
    return EgoMapMemory(
        PINHOLE, MapSettings(**chosen), feature_shape=(chosen["channels"], 1, 1), kernels=(1,), strides=(1,),
        hidden_size=4,
    ).double()  # fmt: skip


def one_pixel_inputs(
    features: Sequence[float], depths: Sequence[float], poses: Sequence[Sequence[float]]
) -> MemoryInputs:
    """A sequence (T, 1, ...) of views of one pixel each."""
    steps = len(features)
    pose = torch.tensor(poses, dtype=torch.float64).view(steps, 1, 3)
    return MemoryInputs(
        torch.tensor(features, dtype=torch.float64).view(steps, 1, 1, 1, 1),
        torch.tensor(depths, dtype=torch.float64).view(steps, 1, 1, 1),
        pose,
        torch.zeros_like(pose),
        torch.zeros_like(pose[..., 0]),
    )


def at(inputs: MemoryInputs, step: int) -> MemoryInputs:
    """One step of a sequence."""
    return inputs.at(step)


def never(steps: int, num_envs: int) -> Tensor:
    """No episode starts."""
    return torch.zeros(steps, num_envs, dtype=torch.bool)
