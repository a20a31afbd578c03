"""Play every layout of a split exactly k times and write down what happened.

Input: a `Playground`, such as a vector environment made with `episodes_per_layout`, and a player. What goes
out: one `EpisodeResult` for each episode, ordered by layout and repeat. Every episode has a seed of its own that
depends on the layout, the repeat and the evaluation's seed, and players draw from it; so the same seed gives the same
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from egomap.evaluation.watching import NOBODY, Leg, Watcher
from egomap.worlds.api import Arrays, Playground, Posed, World, known
from egomap.worlds.episodes import Episode

if TYPE_CHECKING:  # they know what a layout is
    from egomap.agents.scripted import ScriptedAgent


class EpisodeResult(NamedTuple):
    """One episode."""

    layout: int
    """Index in the split."""
    layout_id: str
    repeat: int
    """Which of the k episodes of this layout, from 0."""
    total_reward: float
    """The undiscounted return."""
    success: bool | None
    """None where the simulator does not say."""
    decisions: int
    timed_out: bool
    legs: tuple[Leg, ...] | None = None
    """The ways to its goals; None if they were not recorded."""


class Player(Protocol):
    """Plays N environments at once."""

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Environment `index` begins an episode."""
        ...

    def act(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
        """Actions (N,) int64; what is said for environments that are not `playing` is ignored."""
        ...


@runtime_checkable
class Listener(Protocol):
    """A player that also receives the rewards."""

    def hear(self, rewards: np.ndarray) -> None:
        """What the last actions brought, (N,); called before the episodes that follow begin."""
        ...


class ScriptedPlayer:
    """An agent without a network as a player; it gets the true pose, without the noise of the observations."""

    def __init__(self, agent: ScriptedAgent, env: Posed) -> None:
        self._agent, self._env = agent, env

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Tell the agent its layout."""
        self._agent.begin(index, world.layout, episode.seed)

    def act(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
        """Ask the agent for each environment that is playing."""
        actions = np.zeros(len(playing), np.int64)
        for index in np.flatnonzero(playing).tolist():
            actions[index] = self._agent.act(index, self._env.true_pose(index))
        return actions


def play(
    env: Playground,
    player: Player,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    watcher: Watcher = NOBODY,
) -> list[EpisodeResult]:
    """Play all episodes of `env`.

    Args:
        env: Made with `episodes_per_layout`.
        player: The player.
        seed: Fixes the episodes and the player's random choices.
        progress: Called with (episodes done, episodes in all).
        watcher: Records the legs; a `Recorder` of `env`.
    """
    observation, _ = env.reset(seed=seed)
    total = env.episodes_in_all
    results: list[EpisodeResult] = []
    began = np.ones(env.num_envs, bool)
    while not env.exhausted:
        for index in np.flatnonzero(began & ~env.idle).tolist():
            episode = env.episode(index)
            player.begin(index, env.worlds[episode.layout], episode)
            watcher.begin(index, env.worlds[episode.layout], episode)
        playing = ~env.idle
        actions = player.act(observation, playing)
        watcher.deciding(playing)
        observation, rewards, terminated, truncated, infos = env.step(actions)
        watcher.paid(playing, rewards)
        if isinstance(player, Listener):
            player.hear(rewards)
        began = terminated | truncated
        for index in np.flatnonzero(began).tolist():
            final = infos["final_info"]
            if final["interrupted"][index]:
                continue  # its engine died; the episode has been restarted
            timed_out = bool(truncated[index])
            legs = watcher.legs(index, timed_out=timed_out)
            results.append(_result(final, index, timed_out=timed_out)._replace(legs=legs))
            if progress is not None:
                progress(len(results), total)
    return sorted(results, key=lambda result: (result.layout, result.repeat))


def _result(final: Mapping[str, np.ndarray], index: int, *, timed_out: bool) -> EpisodeResult:
    return EpisodeResult(
        layout=int(final["layout"][index]),
        layout_id=str(final["layout_id"][index]),
        repeat=int(final["repeat"][index]),
        total_reward=round(float(final["return"][index]), 6),
        success=known(final["success"][index]),
        decisions=int(final["decisions"][index]),
        timed_out=timed_out,
    )
