"""The two memories that have place planes beside them, built from an agent's settings.

Input: settings, and what the memory must fit. Output: a `PlacesMemory` around another one.
"""

from __future__ import annotations

from dataclasses import replace

from egomap.config import AgentConfig
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.places import PlacesMemory
from egomap.memory.protocol import Fitting, Memory
from egomap.memory.recurrent import RecurrentMemory


def gru_and_places(config: AgentConfig, fitting: Fitting) -> PlacesMemory:
    """The recurrent baseline and place planes."""
    return _beside(RecurrentMemory.build(config, fitting), config, fitting)


def egomap_and_places(config: AgentConfig, fitting: Fitting) -> PlacesMemory:
    """EgoMap and place planes; the place read stands in for the global read, at half its cost."""
    without = replace(config, map=replace(config.map, use_global_read=False))
    return _beside(EgoMapMemory.build(without, fitting), config, fitting)


def _beside(inner: Memory, config: AgentConfig, fitting: Fitting) -> PlacesMemory:
    return PlacesMemory(
        inner,
        fitting.camera,
        fitting.extent,
        config.places,
        hidden_size=config.hidden_size,
        use_reward=config.use_reward,
    )
