"""Record walks of the Explorer in the real engine, with bursts of random actions.

Input: settings. Output: `Walks` from the cache, recorded the first time that they are asked for. Every
decision is labelled, those of a burst too, so that states off the Explorer's path are seen. The third split is of
mazes drawn from another seed, without those of the set's training and test splits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from egomap.agents.explorer.agent import Search
from egomap.config import NUM_ACTIONS, ScenarioConfig, require
from egomap.envs.vector import Arrays, DoomVectorEnv
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.mazes.explorer import search_for
from egomap.offline.labels import labels
from egomap.offline.options import SEQUENCE, WalkSettings
from egomap.offline.store import Chunk, Walks, Writer, depths, empty_chunk, folder_of
from egomap.scenarios.dataset import default_set

THIRD_SEED = 3_000_017
"""Added to a set's seed for the mazes of its third split."""
THIRD_LAYOUTS = 64


def walks(settings: WalkSettings, *, progress: Callable[[int, int], None] | None = None) -> Walks:
    """The walks of these settings: from the cache, or recorded now.

    Raises:
        ValueError: Settings out of range, or the recording in the cache is damaged.
    """
    settings.validate()
    worlds = worlds_of_walks(settings.scenario, settings.split)
    folder = folder_of(settings, [world.id for world in worlds])
    if not folder.exists():
        with Writer(folder, settings) as writer:
            record(settings, worlds, writer.add, progress)
    return Walks(folder, settings)


def worlds_of_walks(scenario: ScenarioConfig, split: Literal["train", "held-out"]) -> Worlds:
    """The training mazes of a set, or mazes that are in none of its splits."""
    known = default_set(scenario)
    if split == "train":
        return worlds_of_set(known, "train")
    seen = {layout for layouts in known.layouts.values() for layout in layouts}
    other = replace(scenario, seed=scenario.seed + THIRD_SEED, train=0, test=THIRD_LAYOUTS)
    drawn = worlds_of_set(default_set(other), "test")
    fresh = Worlds(tuple(world for world in drawn if world.layout not in seen))
    require(
        len(fresh) > 0,
        f"every maze of size {scenario.size} that was drawn for the third split is in the set already; ask for a "
        "larger size.",
    )
    return fresh


def record(
    settings: WalkSettings,
    worlds: Worlds,
    add: Callable[[Chunk], None],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Walk, and hand over one chunk of 64 decisions after the other."""
    env = DoomVectorEnv(
        settings.num_envs,
        worlds=worlds,
        rendering=settings.env.rendering,
        frame_skip=settings.env.frame_skip,
        watchdog=settings.env.watchdog,
        copy=False,
    )
    try:
        crowd = _Crowd(env, settings)
        for sequence in range(settings.sequences):
            chunk = empty_chunk(settings.num_envs)
            for t in range(SEQUENCE):
                crowd.decide({name: array[t] for name, array in chunk.items()})
            add(chunk)
            if progress is not None:
                progress((sequence + 1) * SEQUENCE * settings.num_envs, settings.decisions)
    finally:
        env.close()


class _Crowd:
    """N Explorers in N environments."""

    def __init__(self, env: DoomVectorEnv, settings: WalkSettings) -> None:
        self._env, self._settings = env, settings
        self._depths = depths(settings.env.rendering)
        self._draw = np.random.default_rng([settings.seed, 7])
        self._observation: Arrays = env.reset(seed=settings.seed)[0]
        count = env.num_envs
        self._rewards = np.zeros(count)
        self._began = np.ones(count, bool)
        self._episode = np.zeros(count, np.int32)
        self._left = np.zeros(count, np.int64)
        """Random actions that are left of each burst."""
        self._episodes = 0
        self._searches: list[Search | None] = [None] * count

    def decide(self, row: Chunk) -> None:
        """One decision in every environment, written to `row` (N, ...)."""
        for index in np.flatnonzero(self._began).tolist():
            self._begin(index)
        seen = self._observation
        row["rgb"][:] = seen["rgb"]
        row["depth"][:] = np.searchsorted(self._depths, seen["depth"])
        row["pose"][:], row["ego_motion"][:] = seen["pose"], seen["ego_motion"]
        row["episode_start"][:], row["episode"][:] = self._began, self._episode
        row["layout"][:] = [self._env.episode(index).layout for index in range(self._env.num_envs)]
        bursts = self._bursts()
        for index in range(self._env.num_envs):
            row["taken"][index] = self._walk(index, row, int(bursts[index]))
        self._observation, rewards, terminated, truncated, _ = self._env.step(row["taken"].astype(np.int64))
        self._rewards, self._began = rewards.copy(), terminated | truncated

    def _begin(self, index: int) -> None:
        world = self._env.worlds[self._env.episode(index).layout]
        assert world.layout is not None
        self._searches[index] = search_for(
            world.layout.task,
            len(world.layout.goals),
            self._env.camera,
            world.extent,
            frame_skip=self._settings.env.frame_skip,
        )
        self._rewards[index], self._left[index] = 0.0, 0
        self._episode[index] = self._episodes
        self._episodes += 1

    def _bursts(self) -> np.ndarray:
        """(N,) the random action of each environment that is in a burst, -1 elsewhere.

        Everything is drawn for everybody, so that one environment's bursts do not shift the others'.
        """
        count = self._env.num_envs
        begins = (self._draw.random(count) < self._settings.burst) & (self._left == 0)
        lengths = self._draw.integers(1, self._settings.longest_burst + 1, count)
        actions = self._draw.integers(0, NUM_ACTIONS, count)
        self._left = np.where(begins, lengths, self._left)
        bursting = self._left > 0
        self._left -= bursting
        return np.where(bursting, actions, -1)

    def _walk(self, index: int, row: Chunk, burst: int) -> int:
        """One environment's decision: its labels, and the action that is executed."""
        search = self._searches[index]
        assert search is not None
        rgb, depth, pose = (self._observation[name][index] for name in ("rgb", "depth", "pose"))
        search.see(rgb, depth, pose, float(self._rewards[index]))
        choice = search.choose()
        x, y, phi = (float(value) for value in pose)
        for name, value in labels(search, choice, (x, y, phi)).items():
            row[name][index] = value
        return search.take(choice if burst < 0 else choice._replace(action=burst))
