"""What memory is worth: the same episodes, intact and with parts of the memory replaced.

Input: an agent, an environment whose episodes can be played again, and the names of parts that its memory can
be lesioned in (`egomap.memory.lesions`). Output: the results of both, episode by episode: the same layouts,
the same seeds, the same draws, so that all that differs comes from the lesion. The intact episodes are played first,
for what takes a part's place may come from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from egomap.agents.agent import Agent
from egomap.config import require
from egomap.evaluation.network import NetworkPlayer
from egomap.evaluation.runner import EpisodeResult, play
from egomap.evaluation.watching import NOBODY, Watcher
from egomap.memory.lesions import Key, Part, Replacement, Tap, lesioned_parts
from egomap.memory.protocol import MemoryState
from egomap.worlds.api import Playground
from egomap.worlds.episodes import Episode

INTACT = "intact"

DONOR_BYTES = 2**28
"""At most so much of one part is kept for shuffling: large parts come from the first few layouts only."""
LONGEST_EPISODE = 525
"""Decisions, by which the number of donors is reckoned."""

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Opens a progress bar for "intact" or a lesion; what it gives is called with (done, in all)."""


def play_lesions(
    env: Playground,
    agent: Agent,
    lesions: Sequence[str],
    *,
    by: Replacement | None = None,
    seed: int = 0,
    deterministic: bool = False,
    bar: Bar | None = None,
    watcher: Watcher = NOBODY,
) -> dict[str, list[EpisodeResult]]:
    """Play all episodes of `env` intact, and once more with each lesion.

    Args:
        env: Made with `episodes_per_layout`.
        agent: Whose memory names its parts (`lesions`).
        lesions: Names of parts, several joined by "+", or "all".
        by: "mean", "zero" or "shuffle"; None for each part's own: reads by their mean, what is kept by zeros.
        seed: Fixes the episodes and the agent's draws.
        deterministic: The most probable actions instead of sampled ones.
        bar: Opened for every play.
        watcher: Records the legs; a `Recorder` of `env`.

    Returns:
        The episodes of "intact" and of each lesion, in the same order.

    Raises:
        ValueError: The memory has no such part, or there is no other layout to shuffle with.
    """
    bar = bar or _no_bar
    intact, record = play_intact(
        env, agent, lesions, by=by, seed=seed, deterministic=deterministic, bar=bar, watcher=watcher
    )
    results = {INTACT: intact}
    for lesion in lesions:
        surgery = lesion_surgery(agent, lesion, record, env.num_envs, by=by)
        player = NetworkPlayer(agent, env.num_envs, deterministic=deterministic, surgery=surgery)
        with surgery, bar(lesion) as progress:
            results[lesion] = play(env, player, seed=seed, progress=progress, watcher=watcher)
    return results


def play_intact(
    env: Playground,
    agent: Agent,
    lesions: Sequence[str],
    *,
    by: Replacement | None = None,
    seed: int = 0,
    deterministic: bool = False,
    bar: Bar | None = None,
    watcher: Watcher = NOBODY,
) -> tuple[list[EpisodeResult], Record]:
    """Play all episodes of `env` intact, and take down what `lesions` will need of them.

    The arguments are those of `play_lesions`.

    Returns:
        The episodes, and the record that `lesion_surgery` takes from.

    Raises:
        ValueError: The memory has no such part, or there is no other layout to shuffle with.
    """
    memory = cast(nn.Module, agent.memory)
    plan = [pair for lesion in lesions for pair in replacements(memory, lesion, by).items()]
    require(
        len(env.worlds) > 1 or all(how != "shuffle" for _, how in plan),
        "a lesion by shuffle takes from an episode in another layout, and there is only one.",
    )
    record = Record(set(plan))
    parts = {name: part for lesion in lesions for name, part in lesioned_parts(memory, lesion).items()}
    surgery = Surgery(memory, parts, env.num_envs, record.keep)
    player = NetworkPlayer(agent, env.num_envs, deterministic=deterministic, surgery=surgery)
    with surgery, (bar or _no_bar)(INTACT) as progress:
        return play(env, player, seed=seed, progress=progress, watcher=watcher), record


def lesion_surgery(
    agent: Agent, lesion: str, record: Record, num_envs: int, *, by: Replacement | None = None
) -> Surgery:
    """What replaces the parts of one lesion while a `NetworkPlayer` of `num_envs` environments plays within it.

    Args:
        agent: Whose memory names its parts.
        lesion: Names of parts, several joined by "+", or "all".
        record: Of intact episodes; one that wants nothing will do where every part is replaced by zeros.
        num_envs: N.
        by: How; None for each part's own.
    """
    memory = cast(nn.Module, agent.memory)
    replace = Replace(agent, replacements(memory, lesion, by), record, num_envs)
    return Surgery(memory, lesioned_parts(memory, lesion), num_envs, replace)


def replacements(memory: object, lesion: str, by: Replacement | None = None) -> dict[str, Replacement]:
    """How each part of a lesion is replaced."""
    return {name: by or part.by for name, part in lesioned_parts(memory, lesion).items()}


class Moment:
    """The progress of N environments: episode, step, and the agent that plays."""

    def __init__(self, num_envs: int) -> None:
        self.episodes: list[Episode | None] = [None] * num_envs
        self.steps = np.full(num_envs, -1)
        self.playing = np.zeros(num_envs, bool)


Through = Callable[[Key, Tensor, Moment], Tensor]


class Surgery:
    """A tap on a memory that knows the moment; what a `NetworkPlayer` asks of one. A context manager."""

    def __init__(self, memory: nn.Module, parts: Mapping[str, Part], num_envs: int, through: Through) -> None:
        self._moment = Moment(num_envs)
        self._tap = Tap(memory, parts, lambda key, value: through(key, value, self._moment))

    def __enter__(self) -> Surgery:
        self._tap.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tap.__exit__()

    def begin(self, index: int, episode: Episode) -> None:
        """Environment `index` begins an episode."""
        self._moment.episodes[index] = episode
        self._moment.steps[index] = -1

    def before(self, state: MemoryState, playing: np.ndarray) -> MemoryState:
        """The state that the next step shall begin with."""
        self._moment.playing = playing
        self._moment.steps[playing] += 1
        return self._tap.kept(state)


class Record:
    """What intact episodes leave for lesions: the means of parts, and parts of whole episodes by layout.

    Args:
        wanted: Names of parts with how they will be replaced.
    """

    def __init__(self, wanted: set[tuple[str, Replacement]]) -> None:
        self._means = {name for name, how in wanted if how == "mean"}
        self._shuffled = {name for name, how in wanted if how == "shuffle"}
        self._sums: dict[Key, Tensor] = {}
        self._counts: dict[Key, int] = {}
        self._donors: dict[Key, dict[int, list[Tensor]]] = {}

    def keep(self, key: Key, value: Tensor, moment: Moment) -> Tensor:
        """Record what is needed of a value, and return it unchanged."""
        if key[0] in self._means:
            chosen = value[torch.from_numpy(moment.playing)]
            total = chosen.sum(0, dtype=torch.float64)
            self._sums[key] = self._sums[key] + total if key in self._sums else total
            self._counts[key] = self._counts.get(key, 0) + len(chosen)
        if key[0] in self._shuffled:
            self._keep_donors(key, value, moment)
        return value

    def mean(self, key: Key, like: Tensor) -> Tensor:
        """The mean of a part over all decisions, in the type of `like`: flags by majority, counts rounded."""
        mean = self._sums[key] / self._counts[key]
        return (mean if like.dtype.is_floating_point else mean.round()).to(like.dtype)

    def donor(self, key: Key, episode: Episode, step: int) -> Tensor:
        """A part of another layout's episode at the same step, or at its last one if it was shorter."""
        others = [layout for layout in sorted(self._donors[key]) if layout != episode.layout]
        chosen = others[int(np.random.default_rng([episode.seed, 5]).integers(len(others)))]
        values = self._donors[key][chosen]
        return values[min(step, len(values) - 1)]

    def _keep_donors(self, key: Key, value: Tensor, moment: Moment) -> None:
        most = max(2, DONOR_BYTES // (value[0].numel() * value.element_size() * LONGEST_EPISODE))
        for index in np.flatnonzero(moment.playing).tolist():
            episode = moment.episodes[index]
            assert episode is not None
            if episode.repeat == 0 and episode.layout < most:
                values = self._donors.setdefault(key, {}).setdefault(episode.layout, [])
                del values[moment.steps[index] :]  # of an episode that was restarted because its engine died
                values.append(value[index].clone())


class Replace:
    """Puts something else in the place of parts, step by step.

    Args:
        agent: For its memory's initial state.
        plan: How each part is replaced.
        record: Of the intact episodes.
        num_envs: N.
    """

    def __init__(self, agent: Agent, plan: Mapping[str, Replacement], record: Record, num_envs: int) -> None:
        self._plan, self._record = dict(plan), record
        initial = agent.initial_state(num_envs)
        parts = lesioned_parts(agent.memory, "+".join(plan))
        self._initial = {
            (name, number): initial[place]
            for name, part in parts.items()
            for number, place in enumerate(part.state, 1)
        }

    def __call__(self, key: Key, value: Tensor, moment: Moment) -> Tensor:
        """What replaces `value` in the memory."""
        how = self._plan[key[0]]
        if how == "zero":
            return self._initial.get(key, torch.zeros_like(value)).clone()
        if how == "mean":
            return self._record.mean(key, value).expand_as(value).clone()
        rows = []
        for index, (episode, step) in enumerate(zip(moment.episodes, moment.steps.tolist(), strict=True)):
            known = episode is not None and bool(moment.playing[index])
            rows.append(self._record.donor(key, episode, step) if known and episode else value[index])
        return torch.stack(rows)


@contextmanager
def _no_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None
