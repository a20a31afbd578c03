"""One player in one world, whichever simulator draws it.

Input: worlds, how they are shown, a layout and a seed, an action for each decision. Output: observations, rewards and
how the episode ended. An episode depends on (seed, layout) alone and equals the one of an evaluation with that seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from egomap.config import Camera, EnvSettings, TrainConfig, require
from egomap.envs.simulator import Simulator, blank_observation
from egomap.envs.worlds import Worlds
from egomap.inspector.recording import Outcome
from egomap.training.sources import source_of
from egomap.worlds.api import Simulated
from egomap.worlds.episodes import Episode, episode_seed

Observation = Mapping[str, np.ndarray]
EVENT = 0.1
"""A reward at least this large is an event where the simulator does not say what mere living costs."""


class Turn(NamedTuple):
    """What one decision led to."""

    observation: Observation
    reward: float
    event: bool
    """Whether it paid more or less than living does."""
    outcome: Outcome | None
    """How the episode ended; None while it lasts."""


class Player(Protocol):
    """Plays one episode after the other."""

    camera: Camera

    def begin(self, layout: int, seed: int) -> Observation:
        """Begin an episode."""
        ...

    @property
    def true_pose(self) -> np.ndarray:
        """(x, y, phi), whatever noise the observation has."""
        ...

    def step(self, action: int) -> Turn:
        """One decision."""
        ...

    def close(self) -> None:
        """End the simulator."""
        ...


class InDoom:
    """In one engine."""

    def __init__(self, worlds: Worlds, settings: EnvSettings) -> None:
        self._simulator = Simulator(worlds, settings)
        self.camera = self._simulator.mode.observation_camera

    def begin(self, layout: int, seed: int) -> Observation:
        """Load the layout."""
        observation, row = blank_observation()
        self._simulator.reset(Episode(layout, episode_seed(seed, layout, 0)), row)
        return observation

    @property
    def true_pose(self) -> np.ndarray:
        """Where the player is."""
        pose: np.ndarray = self._simulator.accounts.odometry.true_pose[0].copy()
        return pose

    def step(self, action: int) -> Turn:
        """One decision in the engine."""
        simulator = self._simulator
        observation, row = blank_observation()
        reward, terminated, truncated = simulator.step(action, row)
        require(not simulator.interrupted, "the engine died in mid-episode; please try again.")
        outcome = _outcome(simulator.success, terminated) if terminated or truncated else None
        return Turn(observation, reward, bool(simulator.accounts.decisions_since_event[0] == 0), outcome)

    def close(self) -> None:
        """End the engine."""
        self._simulator.close()


class InVector:
    """In a vector environment of one player, as evaluations play it."""

    def __init__(self, worlds: Worlds, settings: EnvSettings) -> None:
        source = source_of(TrainConfig(env=replace(settings, workers=1)))
        self._env: Simulated = source.open(
            source.recall(worlds.extent, None), worlds, 1, episodes_per_layout=1
        )
        self.camera = self._env.world_spec.camera

    def begin(self, layout: int, seed: int) -> Observation:
        """Begin where the evaluation's list of episodes has this layout."""
        return _first(self._env.reset(seed=seed, options={"position": layout})[0])

    @property
    def true_pose(self) -> np.ndarray:
        """Where the player is."""
        return self._env.true_pose(0)

    def step(self, action: int) -> Turn:
        """One decision; the end of an episode begins the next one, which nobody looks at."""
        observation, rewards, terminated, truncated, infos = self._env.step(np.array([action]))
        reward, outcome = float(rewards[0]), None
        if terminated[0] or truncated[0]:
            final = infos["final_info"]
            require(not final["interrupted"][0], "the simulator died in mid-episode; please try again.")
            outcome = _outcome(bool(final["success"][0]), bool(terminated[0]))
        return Turn(_first(observation), reward, abs(reward) >= EVENT, outcome)

    def close(self) -> None:
        """End the worker."""
        self._env.close()


def player_of(worlds: Worlds, settings: EnvSettings) -> Player:
    """A player in the simulator that the settings name."""
    return InDoom(worlds, settings) if settings.simulator == "doom" else InVector(worlds, settings)


def _outcome(success: bool, terminated: bool) -> Outcome:
    return "solved" if success else "failed" if terminated else "time is up"


def _first(observation: Mapping[str, np.ndarray]) -> Observation:
    return {name: array[0].copy(order="K") for name, array in observation.items()}
