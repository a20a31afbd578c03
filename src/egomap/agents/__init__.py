"""Agents: perception, memory and heads wired together; nothing here needs ViZDoom."""

from egomap.agents.agent import Agent, AgentOutput, AgentStep, Observation, build_agent
from egomap.agents.heads import Heads, choose, entropy, log_prob
from egomap.agents.perception import Perception

__all__ = [
    "Agent",
    "AgentOutput",
    "AgentStep",
    "Heads",
    "Observation",
    "Perception",
    "build_agent",
    "choose",
    "entropy",
    "log_prob",
]
