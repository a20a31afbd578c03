"""What would be computed without a word and be wrong: cameras, units, NaN and shapes that do not belong together."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from egomap.agents.agent import build_agent
from egomap.config import AgentConfig, AgentKind, Camera
from egomap.geometry import receptive_field_centres
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.floors import FrameStackMemory, NoMemory
from egomap.memory.protocol import MemoryInputs, reset_state
from egomap.memory.recurrent import RecurrentMemory

CAMERA = Camera.from_fov(112, 64, horizontal=math.radians(106), vertical=math.radians(64))
KINDS: tuple[AgentKind, ...] = ("egomap", "neural-map", "gru", "lstm", "none", "frame-stack")


@pytest.mark.parametrize("angle", [0.0, -1.0, math.pi, 106.26, math.radians(200), math.nan, math.inf])
@pytest.mark.parametrize("name", ["horizontal", "vertical"])
def test_angles_that_no_lens_has(name: str, angle: float) -> None:
    angles: dict[str, Any] = {"horizontal": 1.0, "vertical": 1.0, name: angle}
    with pytest.raises(ValueError, match=rf"{name} must be an opening angle .* math.radians"):
        Camera.from_fov(112, 64, **angles)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"fx": -60.0}, "fx must be a focal length above 0"),
        ({"fy": 0.0}, "fy must be"),
        ({"fx": math.nan}, "fx must be"),
        ({"fy": math.inf}, "fy must be"),
        ({"cx": math.nan}, "cx must be a place"),
        ({"cy": math.inf}, "cy must be a place"),
        ({"width": 0}, "1 pixel or more"),
        ({"height": -3}, "1 pixel or more"),
    ],
)
def test_cameras_that_are_none(change: dict[str, Any], told: str) -> None:
    values = {"width": 112, "height": 64, "fx": 60.0, "fy": 60.0, "cx": 56.0, "cy": 32.0}
    with pytest.raises(ValueError, match=told):
        Camera(**{**values, **change})


def test_cameras_are_not_resized_to_nothing() -> None:
    with pytest.raises(ValueError, match="1 pixel or more"):
        CAMERA.resized(0, 64)


@pytest.mark.parametrize(
    ("kernels", "strides", "paddings"), [((3,), (1,), (-1,)), ((0,), (1,), (0,)), ((3,), (0,), None)]
)
def test_convolutions_that_are_none(kernels: Any, strides: Any, paddings: Any) -> None:
    with pytest.raises(ValueError, match="kernels and strides must be 1 or more and paddings 0 or more"):
        receptive_field_centres(64, kernels, strides, paddings)


@pytest.mark.parametrize("unit", [0.0, -32.0, math.nan, math.inf])
def test_units_of_motion(unit: float) -> None:
    for make in (RecurrentMemory, NoMemory, FrameStackMemory, lambda **kw: EgoMapMemory(CAMERA, **kw)):
        with pytest.raises(ValueError, match="motion_unit must be a length above 0"):
            make(motion_unit=unit)


@pytest.mark.parametrize("actions", [0, -1])
def test_no_actions(actions: int) -> None:
    with pytest.raises(ValueError, match="num_actions must be 1 or more"):
        build_agent(AgentConfig(kind="gru"), CAMERA, 640.0, num_actions=actions)


def inputs(*lead: int) -> MemoryInputs:
    return MemoryInputs(
        torch.zeros(*lead, 16, 4, 10),
        torch.ones(*lead, 64, 112),
        torch.zeros(*lead, 3),
        torch.zeros(*lead, 3),
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_features_that_are_no_numbers(kind: AgentKind, value: float) -> None:
    memory = build_agent(AgentConfig(kind=kind), CAMERA, 640.0).memory
    one, many = inputs(3), inputs(2, 3)
    one.features[1, 0, 2, 5] = value
    many.features[1, 0, 0, 0, 0] = many.features[0, 2, 0, 0, 0] = value
    with pytest.raises(ValueError, match="features of 1 of 3 views are NaN or infinite"):
        memory.step(one, memory.initial_state(3))
    with pytest.raises(ValueError, match="features of 2 of 6 views are NaN or infinite"):
        memory.unroll(many, memory.initial_state(3), torch.zeros(2, 3, dtype=torch.bool))


@pytest.mark.parametrize("starts", [torch.ones(2).bool(), torch.ones(3, 1).bool(), torch.ones(3)])
@pytest.mark.parametrize("kind", KINDS)
def test_starts_of_other_environments(kind: AgentKind, starts: torch.Tensor) -> None:
    agent = build_agent(AgentConfig(kind=kind), CAMERA, 640.0)
    observation = {
        "rgb": torch.zeros(3, 3, 64, 112, dtype=torch.uint8),
        "depth": torch.ones(3, 64, 112),
        "pose": torch.zeros(3, 3),
        "ego_motion": torch.zeros(3, 3),
    }
    state = agent.initial_state(3)
    with (
        torch.no_grad(),
        pytest.raises(ValueError, match=r"episode_start must be bool \(3,\) like the inputs"),
    ):
        agent.step(observation, state, starts)
    sequence = {name: tensor[None] for name, tensor in observation.items()}
    with torch.no_grad(), pytest.raises(ValueError, match=r"episode_start must be bool \(1, 3\)"):
        agent.unroll(sequence, state, starts)
    if state:
        with pytest.raises(ValueError, match=r"episode_start must be bool \(3,\)"):
            reset_state(agent.memory, state, starts)
