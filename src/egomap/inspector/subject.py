"""The agent to inspect, its worlds and its name, from the options of a command.

Input: `SubjectOptions`. Output: a `Subject`, or a ValueError of one sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from egomap.agents.agent import Agent
from egomap.agents.fitting import agent_for
from egomap.config import AgentConfig, EnvSettings, ScenarioConfig, TrainConfig, require
from egomap.envs.doom import doom_spec
from egomap.envs.worlds import Worlds, named_worlds
from egomap.inspector.options import SubjectOptions
from egomap.memory.shown import shown
from egomap.training.run import worlds_of
from egomap.training.trained import find_agent
from egomap.worlds.api import WorldSpec


class Subject(NamedTuple):
    """The agent and its worlds."""

    agent: Agent | None
    """None for agents without a network."""
    name: str
    """In words."""
    scripted: str | None
    """"random" or "planner", if it is one of these."""
    worlds: Worlds
    settings: EnvSettings
    about: dict[str, str]
    """Settings in words, by name."""


def find_subject(options: SubjectOptions, *, nobody: bool = False) -> Subject:
    """The subject that `options` name; with `nobody` there may be no agent at all."""
    options.validate()
    require(
        options.run is None or options.agent is None,
        "give RUN or --agent, not both: RUN has its own agent.",
    )
    if options.run is not None:
        return _of_run(options, options.run)
    require(
        options.agent is not None or nobody,
        "give RUN, a run folder or an agent's name, or --agent for one without (egomap, gru, ..., random, planner).",
    )
    worlds, settings = _worlds(options), EnvSettings()
    kind = options.agent
    if kind is None or kind == "random" or kind == "planner":
        return Subject(None, kind or "", kind, worlds, settings, {})
    agent = untrained(AgentConfig(kind=kind), doom_spec(settings, worlds.extent), options.seed)
    return Subject(agent, f"{kind}, untrained", None, worlds, settings, dict(shown(agent.memory).words))


def untrained(config: AgentConfig, spec: WorldSpec, seed: int) -> Agent:
    """A new agent with weights that depend on the seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return agent_for(config, spec).eval()


def _of_run(options: SubjectOptions, run: Path) -> Subject:
    found = find_agent(run, which=options.checkpoint)
    agent, config = found.agent, found.config
    require_ours(config, run)
    asked = (options.scenario, options.size, options.items, options.scenarios)
    worlds = _worlds(options, config.scenario) if any(asked) else worlds_of(config, options.split)
    source = found.source
    about = {
        "run": source.folder.resolve().name if source.is_run else source.stem,
        "checkpoint": f"{found.which}, after {found.decisions:,} decisions",
        "trained on": config.told,
        **shown(agent.memory).words,
        "rendering": config.env.rendering,
    }
    if config.env.ego_motion_noise:
        about["ego-motion noise"] = f"{config.env.ego_motion_noise:g}"
    name = f"{config.agent.kind} after {found.decisions:,} decisions"
    return Subject(agent, name, None, worlds, config.env, about)


def require_ours(config: TrainConfig, run: Path) -> None:
    """Raise a ValueError if a run is of another simulator, which cannot be inspected yet."""
    require(
        not config.env.id,
        f"{run} was trained in {config.env.id}; the inspector shows our mazes and .cfg files alone. Its scores: "
        f"egomap evaluate {run}.",
    )


def _worlds(options: SubjectOptions, *trained: ScenarioConfig) -> Worlds:
    """What `options` ask for; what they leave out is as `trained` has it."""
    named = (options.scenario, options.size, options.items)
    return named_worlds(*named, options.scenarios, options.split, trained=trained)
