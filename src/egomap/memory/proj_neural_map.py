"""The projected map of MultiON's agent, as settings of EgoMap: its nearest ablation.

Input: an agent's settings, and what the memory must fit. Output: an `EgoMapMemory` that differs in
two things, as in Wani et al., "MultiON", NeurIPS 2020: a cell keeps the largest value of each channel that it has
seen (EgoMap: the mean, blended), and a gradient reaches the current write alone (EgoMap: every past one). Choice:
everything else stays EgoMap's, its reads included, so that the difference in a score is due to these two.
"""

from __future__ import annotations

from dataclasses import replace

from egomap.config import AgentConfig
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.protocol import Fitting


def proj_neural_map(config: AgentConfig, fitting: Fitting) -> EgoMapMemory:
    """A new one as an agent's settings ask for it; `map.write` and `map.write_gradient_steps` are its own."""
    settings = replace(config.map, write="max", write_gradient_steps=1)
    return EgoMapMemory.build(replace(config, map=settings), fitting)
