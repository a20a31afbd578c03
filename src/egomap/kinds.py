"""The kinds of memory that an agent can have, one row each: label, colour in figures, how it is built.

What comes in: the settings of an agent, and what the memory must fit. What goes out: a memory. Commands list their
choices from here and from `AgentKind`, so this file imports torch only when something is built. To add a memory: its
name in `AgentKind` (`egomap.config`) and a row in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from egomap.config import AgentConfig, AgentKind, Camera

if TYPE_CHECKING:
    from torch import nn

    from egomap.memory.protocol import Memory


class Fitting(NamedTuple):
    """What a memory must fit: the views, what perception makes of them, and the arena."""

    camera: Camera
    """Of the depth image."""
    feature_shape: tuple[int, int, int]
    """(C, Hf, Wf) of the features."""
    kernels: tuple[int, ...]
    """Kernel sizes of the convolutions that made them."""
    strides: tuple[int, ...]
    """Their strides."""
    extent: float
    """Side of the square that a map is to cover, in map units: the arena and the padding."""


Builder = Callable[[AgentConfig, Fitting], "nn.Module"]


class Kind(NamedTuple):
    """One kind of memory."""

    label: str
    """In tables and figures."""
    colour: str
    """In figures."""
    build: Builder
    """Makes a new one, initialised from torch's global generator."""
    has_map: bool = False
    """Whether it keeps a map of a fixed extent, so that it cannot remember what lies beyond."""


def _none(config: AgentConfig, fitting: Fitting) -> nn.Module:
    from egomap.memory.floors import NoMemory

    return NoMemory(
        fitting.feature_shape,
        hidden_size=config.hidden_size,
        motion_unit=config.motion_unit,
        use_reward=config.use_reward,
    )


def _frame_stack(config: AgentConfig, fitting: Fitting) -> nn.Module:
    from egomap.memory.floors import FrameStackMemory

    return FrameStackMemory(
        fitting.feature_shape,
        stack_size=config.stack_size,
        hidden_size=config.hidden_size,
        motion_unit=config.motion_unit,
        use_reward=config.use_reward,
    )


def _recurrent(config: AgentConfig, fitting: Fitting) -> nn.Module:
    from egomap.memory.recurrent import RecurrentMemory

    return RecurrentMemory(
        fitting.feature_shape,
        hidden_size=config.hidden_size,
        cell="lstm" if config.kind == "lstm" else "gru",
        motion_unit=config.motion_unit,
        use_reward=config.use_reward,
    )


def _neural_map(config: AgentConfig, fitting: Fitting) -> nn.Module:
    from egomap.memory.neural_map import NeuralMapMemory

    return NeuralMapMemory(
        fitting.extent,
        feature_shape=fitting.feature_shape,
        channels=config.neural_map_channels,
        map_size=config.neural_map_size,
        hidden_size=config.hidden_size,
    )


def _egomap(config: AgentConfig, fitting: Fitting) -> nn.Module:
    from egomap.memory.egomap import EgoMapMemory

    return EgoMapMemory(
        fitting.camera,
        replace(config.map, extent=fitting.extent),
        feature_shape=fitting.feature_shape,
        kernels=fitting.kernels,
        strides=fitting.strides,
        hidden_size=config.hidden_size,
        motion_unit=config.motion_unit,
        use_reward=config.use_reward,
    )


def _egomap_without_global_read(config: AgentConfig, fitting: Fitting) -> nn.Module:
    """EgoMap whose map is read by its query alone: the place read stands in for the global read, at half its cost."""
    return _egomap(replace(config, map=replace(config.map, use_global_read=False)), fitting)


def _with_places(inner: Builder) -> Builder:
    """A builder that puts place planes beside what another builds."""

    def build(config: AgentConfig, fitting: Fitting) -> nn.Module:
        from egomap.memory.places import PlacesMemory

        memory = cast("Memory", inner(config, fitting))
        return PlacesMemory(
            memory,
            fitting.camera,
            fitting.extent,
            config.places,
            hidden_size=config.hidden_size,
            use_reward=config.use_reward,
        )

    return build


KINDS: dict[AgentKind, Kind] = {
    "none": Kind("No memory", "#ced4da", _none),
    "frame-stack": Kind("Frame stack", "#74b816", _frame_stack),
    "gru": Kind("GRU", "#868e96", _recurrent),
    "lstm": Kind("LSTM", "#ae3ec9", _recurrent),
    "neural-map": Kind("Neural Map", "#e67700", _neural_map, has_map=True),
    "egomap": Kind("EgoMap", "#1864ab", _egomap, has_map=True),
    "places": Kind("GRU and places", "#099268", _with_places(_recurrent), has_map=True),
    "egomap+": Kind("EgoMap+", "#c2255c", _with_places(_egomap_without_global_read), has_map=True),
}
"""Every kind, from the least memory to the most."""


def build_memory(config: AgentConfig, fitting: Fitting) -> Memory:
    """A new memory of the kind that the settings name."""
    return cast("Memory", KINDS[config.kind].build(config, fitting))
