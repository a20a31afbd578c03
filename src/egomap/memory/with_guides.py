"""The two memories that have guides beside them, built from an agent's settings.

Input: settings, and what the memory must fit. Output: a `GuidedMemory` around another one.
"""

from __future__ import annotations

from egomap.config import AgentConfig
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.guided import GuidedMemory
from egomap.memory.protocol import Fitting, Memory
from egomap.memory.recurrent import RecurrentMemory


def gru_with_guides(config: AgentConfig, fitting: Fitting) -> GuidedMemory:
    """The recurrent baseline and guides: what EgoMap+ is without its map of features."""
    return _beside(RecurrentMemory.build(config, fitting), config, fitting)


def egomap_with_guides(config: AgentConfig, fitting: Fitting) -> GuidedMemory:
    """EgoMap+: EgoMap, guides, and a pointer into its map."""
    return _beside(EgoMapMemory.build(config, fitting), config, fitting)


def _beside(inner: Memory, config: AgentConfig, fitting: Fitting) -> GuidedMemory:
    return GuidedMemory(
        inner, fitting.camera, fitting.extent, hidden_size=config.hidden_size, use_reward=config.use_reward
    )
