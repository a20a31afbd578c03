"""A training that begins with the weights of another agent, and a finished one that gets a larger budget.

What comes in: a trained agent, or a run and its new budget. What goes out: files in the run folder, from which the
run can be begun again on any machine: the weights are copied, for the other run may go on, or away.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from egomap.agents.agent import Agent
from egomap.config import TrainConfig, require
from egomap.training.checkpoint import (
    Tensors,
    digest,
    load_checkpoint,
    load_module,
    module_tensors,
    save_checkpoint,
)
from egomap.training.run import RunFolder
from egomap.training.trained import Trained
from egomap.util.files import read_versioned, write_whole

INITIAL = "initial.safetensors"
FORMAT = "egomap weights 1"
BUDGETS = "budgets.json"
BUDGETS_FORMAT = "egomap budgets 1"


def told(found: Trained) -> str:
    """Which weights a run begins with, for its settings; no path, for they are copied."""
    name = found.card["name"] if found.card is not None else found.source.folder.resolve().name
    return f"{name} after {found.decisions:,} decisions ({digest(_weights(found), {})[:12]})"


def with_settings_of(config: TrainConfig, found: Trained, default: TrainConfig) -> TrainConfig:
    """The config of a run that goes on with an agent: settings that were not chosen are as the agent has them.

    Args:
        config: What a person asked for.
        found: The agent.
        default: What they would have got without asking for anything.

    Raises:
        ValueError: They chose another kind of agent, or another setting of it or of its pictures.
    """
    own = found.config
    require_kind(config, found)
    chosen = {
        **_chosen(config.agent.__dict__, default.agent.__dict__, own.agent.__dict__),
        **_chosen(
            {"rendering": config.env.rendering}, {"rendering": default.env.rendering}, own.env.__dict__
        ),
    }
    chosen.pop("unknown_depth", None)  # it follows from the rendering
    chosen.pop("kind", None)
    require(
        not chosen,
        f"{found.source.name} keeps its settings when it is trained on: leave out what changes "
        f"{', '.join(sorted(chosen)).replace('_', '-')}.",
    )
    env = config.env
    if env.id == own.env.id:  # in another simulator it sees and acts as that one has it
        env = replace(env, rendering=own.env.rendering, frame_skip=own.env.frame_skip)
    return replace(config, agent=own.agent, env=env)


def _chosen(config: dict[str, Any], default: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The settings that a person changed into something that the agent has not."""
    return {name: value for name, value in config.items() if value not in (default[name], own[name])}


def require_kind(config: TrainConfig, found: Trained) -> None:
    """Raise a ValueError unless an agent is of the kind that is to be trained."""
    own = found.config.agent.kind
    require(
        own == config.agent.kind,
        f"{found.source.name} is of kind {own}, and this run is to train {config.agent.kind}: say --agent {own}.",
    )


def require_fit(agent: Agent, config: TrainConfig, found: Trained) -> None:
    """Raise a ValueError unless a new `agent` of a run with `config` can take the weights of another one."""
    require_kind(config, found)
    shapes = {name: tuple(tensor.shape) for name, tensor in module_tensors(agent).items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in _weights(found).items()}
    other = sorted(name for name in {*shapes, *theirs} if shapes.get(name) != theirs.get(name))
    if other:
        name = other[0]
        raise ValueError(
            f"{found.source.name} has other sizes than this run's agent: {name.removeprefix('agent.')} is "
            f"{theirs.get(name, 'not there')} and should be {shapes.get(name, 'not there')}."
        )


def keep_weights(run: RunFolder, found: Trained) -> None:
    """Copy the weights that a run begins with into its folder."""
    save_checkpoint(run.path / INITIAL, _weights(found), {}, format=FORMAT)


def take_weights(run: RunFolder, agent: Agent) -> None:
    """Give a new agent the weights that its run begins with.

    Raises:
        ValueError: They are missing or damaged.
    """
    where = run.path / INITIAL
    load_module(agent, load_checkpoint(where, format=FORMAT, what="file of first weights").tensors, where)


def _weights(found: Trained) -> Tensors:
    return {name: value for name, value in found.weights.tensors.items() if name.startswith("agent.")}


def extend(run: RunFolder, config: TrainConfig, budget: int, decisions: int) -> TrainConfig:
    """Give a run more decisions, and write that down in its folder.

    Args:
        run: Its folder; the caller holds its lock.
        config: Its settings so far.
        budget: Decisions in all; as many as before change nothing, so a command may be given twice.
        decisions: How many are spent.

    Raises:
        ValueError: The budget is smaller than it was.
    """
    require(
        budget >= config.budget,
        f"{run.path} has a budget of {config.budget:,} decisions, and a run can only be extended; got {budget:,}.",
    )
    if budget == config.budget:
        return config
    longer = replace(config, budget=budget).validate()
    step = {"decisions": decisions, "from": config.budget, "to": budget}
    entries = [*extensions(run), step]
    text = json.dumps({"format": BUDGETS_FORMAT, "extensions": entries}, indent=1)
    write_whole(run.path / BUDGETS, text + "\n")
    data = json.loads(run.config.read_text())
    write_whole(run.config, json.dumps({**data, "budget": budget}, indent=1) + "\n")
    return longer


def extensions(run: RunFolder) -> list[dict[str, int]]:
    """The times that a run was given more decisions: how many were spent, the budget before and after."""
    path = run.path / BUDGETS
    if not path.exists():
        return []
    like = {"extensions": [{"decisions": int, "from": int, "to": int}]}
    found: list[dict[str, int]] = read_versioned(path, BUDGETS_FORMAT, "a list of budgets", like)[
        "extensions"
    ]
    return found


def rate_at(config: TrainConfig, decisions: int) -> float:
    """The learning rate after so many decisions of the budget."""
    learner = config.learner
    falls = learner.learning_rate_decay == "linear"
    return learner.learning_rate * (max(0.0, 1 - decisions / config.budget) if falls else 1.0)
