"""Who is evaluated, and on what: an entry for each run and each agent without a network.

What comes in: runs or exported agents, names of scripted agents, worlds. What goes out: entries that are known to be
good, or a ValueError; nothing is played here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from egomap.agents.agent import Agent
from egomap.agents.scripted import ScriptedKind
from egomap.commands.evaluate.question import Question
from egomap.config import TrainConfig, WorldKind, require
from egomap.envs.worlds import Worlds
from egomap.memory.lesions import lesioned_parts, parts_of, possible
from egomap.memory.protocol import has_map
from egomap.training.names import Source, find_source
from egomap.training.run import worlds_of
from egomap.training.sources import source_of
from egomap.training.trained import find_agent
from egomap.worlds.api import WorldSpec


@dataclass(frozen=True)
class Entry:
    """A player: a trained agent, or one without a network."""

    kind: str
    worlds: Any
    """What it plays on."""
    stage: TrainConfig
    """Whose worlds these are: its own settings, or those of the run that it shares them with."""
    spec: WorldSpec
    """What is known of them."""
    source: Source | None = None
    """Where its weights lie."""
    config: TrainConfig | None = None
    agent: Agent | None = None
    decisions: int | None = None
    """That it was trained for."""
    arena: float = 0.0
    """Side of the arenas that it was trained in, in map units."""

    @property
    def name(self) -> str:
        """The run or the exported agent as it was given, or the kind of one without a network."""
        return self.source.name if self.source is not None else self.kind

    def lesions(self, question: Question) -> list[str]:
        """Those of the lesions asked for that its memory has; none without a network."""
        return [] if self.agent is None else possible(self.agent.memory, question.lesions)


def entries_of(
    runs: Sequence[str | os.PathLike[str]],
    agents: Sequence[ScriptedKind | Literal["explorer"]],
    question: Question,
    worlds: Worlds | None,
) -> list[Entry]:
    """Everybody who plays, with what they play on: `worlds`, or else each run's own, which scripted agents share.

    Args:
        runs: Run folders, exported agents, names of released ones; see `egomap.training.names`.
        agents: Who plays besides.
        question: What is asked.
        worlds: What is played; None: what each run was trained for.

    Raises:
        ValueError: No run in a folder, no checkpoint or one of another agent, a run twice, a split without layouts.
    """
    question.validate()
    require(bool(runs or agents), "there is nothing to evaluate: give run folders, or --agents.")
    sources = [find_source(run) for run in runs]
    require(len({one.folder.resolve() for one in sources}) == len(runs), "a run folder is given twice.")
    found = [_of_run(run, question, worlds) for run in runs]
    _require_lesions(found, question)
    places = [_ours(worlds, question.world)] if worlds is not None else [_shared(one) for one in found]
    require(bool(places) or not agents, "an agent without a run needs scenarios to play.")
    for kind in agents:
        seen: list[Any] = []
        for place, stage, spec in places:
            part = place.first(question.layouts)
            if (part, stage.env.simulator) not in seen:
                seen.append((part, stage.env.simulator))
                found.append(Entry(kind, part, stage, spec))
        require(
            kind == "random" or all(world.layout is not None for part, _ in seen for world in part),
            f"the {kind} needs the layout{' for its task' if kind == 'explorer' else ''}, and these scenario files "
            "come without one.",
        )
    return found


def _of_run(run: str | os.PathLike[str], question: Question, worlds: Worlds | None) -> Entry:
    """The entry of a trained agent: on `worlds`, or on its own."""
    one = find_agent(run, which=question.checkpoint)
    config = one.config
    require(
        worlds is None or not config.env.id,
        f"{one.source.name} was trained in {config.env.id} and plays nothing else; name no scenario.",
    )
    require(
        question.world is None or not config.env.id,
        f"{one.source.name} was trained in {config.env.id}, which no other simulator draws; leave out --world.",
    )
    own = worlds if worlds is not None else worlds_of(config, question.split)
    stage = _in_world(config, question.world)
    return Entry(
        config.agent.kind,
        own.first(question.layouts),
        stage,
        one.spec if stage is config else source_of(stage).recall(one.extent, None),
        one.source,
        config,
        one.agent,
        one.decisions,
        one.extent,
    )


def _in_world(config: TrainConfig, world: WorldKind | None) -> TrainConfig:
    """The settings with the mazes drawn by a simulator; the same object if it is their own, or none is named."""
    if world in (None, config.env.world):
        return config
    return replace(config, env=replace(config.env, world=world))


def _ours(worlds: Worlds, world: WorldKind | None) -> tuple[Any, TrainConfig, WorldSpec]:
    """Worlds of our own for an agent without a run, shown as by default."""
    stage = _in_world(TrainConfig(), world)
    return worlds, stage, source_of(stage).recall(worlds.extent, None)


def _shared(one: Entry) -> tuple[Any, TrainConfig, WorldSpec]:
    """A run's worlds, for an agent without one; our own are shown to it as by default."""
    return (one.worlds, one.stage, one.spec) if one.stage.env.id else _ours(one.worlds, one.stage.env.world)


def warnings(found: Sequence[Entry]) -> list[str]:
    """What a reader of the scores should know."""
    return [
        f"{one.name} was trained in arenas of {one.arena:g} map units and has a map of that size; these are up to "
        f"{one.worlds.extent:g}: it will not remember what lies beyond."
        for one in found
        if one.agent is not None
        and not one.stage.env.id
        and has_map(one.agent.memory)
        and one.worlds.extent > one.arena
    ]


def left_out(found: Sequence[Entry], question: Question) -> list[str]:
    """Lesions that are left out for an agent, because its memory has no such part."""
    return [
        f"{one.name} plays without a lesion of {', '.join(missing)}; its memory names "
        f"{', '.join(parts_of(one.agent.memory)) or 'nothing'}."
        for one in found
        if one.agent is not None
        and (missing := [name for name in question.lesions if name not in one.lesions(question)])
    ]


def _require_lesions(found: Sequence[Entry], question: Question) -> None:
    """At least one agent must have each part that is to be lesioned; otherwise the name is wrong."""
    require(bool(found) or not question.lesions, "lesions are of a run's memory; give a run folder.")
    for lesion in question.lesions:
        if not any(lesion in one.lesions(question) for one in found):
            lesioned_parts(cast(Agent, found[0].agent).memory, lesion)  # its sentence says what there is
