"""An agent that fits a world: its pictures, its arena, its actions.

Input: the settings of an agent, and what the world's `WorldSpec` says. Output: a new agent. The agent
of a run is always made here, so that it is the same in training, evaluation and inspection.
"""

from __future__ import annotations

from dataclasses import replace

from egomap.agents.agent import Agent, build_agent
from egomap.config import ACTIONS, AgentConfig, require
from egomap.worlds.api import WorldSpec


def agent_for(config: AgentConfig, spec: WorldSpec, *, auxiliary_size: int = 0) -> Agent:
    """A new agent for a world, initialised from torch's global generator.

    Where the world declares its unknown depth and the standardisation of its pictures, these are used;
    otherwise the settings, which are for our Doom mazes. `auxiliary_size` is that of an auxiliary head, 0 for none.

    Raises:
        ValueError: The agent has guides, and these actions are not those that they propose.
    """
    if spec.unknown_depth is not None:
        config = replace(config, unknown_depth=spec.unknown_depth)
    agent = build_agent(
        config,
        spec.camera,
        spec.extent,
        num_actions=spec.num_actions,
        auxiliary_size=auxiliary_size,
    )
    require(
        not agent.heads.votes or spec.actions == ACTIONS,
        f"guides propose the actions of the mazes ({', '.join(ACTIONS)}), and {spec.name} has "
        f"{', '.join(spec.actions)}; choose an agent without guides.",
    )
    if spec.statistics is not None and config.standardise:
        agent.perception.standardise(*spec.statistics)
    return agent
