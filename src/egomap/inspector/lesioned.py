"""What the agent would have decided without a part of its memory, at every decision of a recorded episode.

Input: a recording, the agent it is about, and names of lesions (`egomap.memory.lesions`). Output: the
recording with a `LesionTrack` for each. A lesioned copy takes in the observations of the intact episode, remembers
them in its own, lesioned way, and computes its policy; none of its actions is executed. So a difference
comes from the memory alone, never from another way through the maze.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from egomap.agents.agent import Agent
from egomap.config import EnvSettings, TrainConfig, require
from egomap.envs.worlds import World, Worlds
from egomap.evaluation.lesions import Bar, Record, lesion_surgery, play_intact, replacements
from egomap.evaluation.network import NetworkPlayer
from egomap.inspector.recording import LesionTrack, Recording
from egomap.memory.lesions import ALL, Replacement, lesioned_parts, parts_of
from egomap.training.sources import source_of
from egomap.worlds.episodes import Episode, episode_seed

EACH = "each"
"""Stands for every part of a memory by itself, and all of them at once."""

INTACT_LAYOUTS = 16
"""So many intact episodes give the means; an evaluation takes all of its own."""


def lesion_names(memory: object, asked: Sequence[str]) -> list[str]:
    """The lesions that were asked for, "each" spelled out.

    Raises:
        ValueError: The memory has no such part, or a lesion is given twice.
    """
    named = list(parts_of(memory))
    each = [*named, ALL] if len(named) > 1 else named  # of a single part, all is the same
    names = [name for one in asked for name in (each if one == EACH and each else [one])]
    for name in names:
        lesioned_parts(memory, name)
    require(len(set(names)) == len(names), "a lesion is given twice.")
    return names


def intact_record(
    agent: Agent,
    lesions: Sequence[str],
    worlds: Worlds,
    settings: EnvSettings,
    *,
    by: Replacement | None = None,
    seed: int = 0,
    deterministic: bool = False,
    bar: Bar | None = None,
) -> Record:
    """What replaces parts, from the agent's own intact episodes in the first layouts, as in evaluations.

    Nothing is played where zeros replace every part.
    """
    how = {way for lesion in lesions for way in replacements(agent.memory, lesion, by).values()}
    if how <= {"zero"}:
        return Record(set())
    some = Worlds(worlds.worlds[:INTACT_LAYOUTS])
    source = source_of(TrainConfig(env=settings))
    env = source.open(source.recall(some.extent, None), some, len(some), episodes_per_layout=1)
    try:
        return play_intact(env, agent, lesions, by=by, seed=seed, deterministic=deterministic, bar=bar)[1]
    finally:
        env.close()


def with_lesions(
    recording: Recording,
    agent: Agent,
    lesions: Sequence[str],
    world: World,
    record: Record,
    *,
    by: Replacement | None = None,
) -> Recording:
    """The recording with what each lesioned copy of the agent would have decided.

    Args:
        recording: An episode with this agent's observations; any agent may have acted.
        agent: The agent to lesion.
        lesions: Names of parts, several joined by "+", or "all".
        world: Where the episode was played.
        record: Of `intact_record`, for these lesions.
        by: "mean", "zero" or "shuffle"; None for each part's own.
    """
    tracks = tuple(_watch(recording, agent, lesion, world, record, by) for lesion in lesions)
    return replace(recording, lesions=tracks)


def _watch(
    recording: Recording, agent: Agent, lesion: str, world: World, record: Record, by: Replacement | None
) -> LesionTrack:
    surgery = lesion_surgery(agent, lesion, record, 1, by=by)
    player = NetworkPlayer(agent, 1, surgery=surgery)
    layout = recording.layout_index
    player.begin(0, world, Episode(layout, episode_seed(recording.seed, layout, 0)))
    alone = np.array([True])
    # The selection is a decision, not memory: the copy gets the intact agent's.
    choices = None if recording.guides is None else recording.guides.choice
    with surgery:
        policies = []
        for t in range(len(recording)):
            observation = {name: array[None] for name, array in recording.observation(t).items()}
            policies.append(player.policy(observation, alone)[0])
            player.acted(recording.action[t : t + 1], None if choices is None else choices[t : t + 1])
    return LesionTrack(lesion, replacements(agent.memory, lesion, by), np.stack(policies).astype(np.float32))
