"""Which layout is played next, and with which seed: a stream of episodes.

What comes in: the number of layouts and a seed. What goes out: episodes one after the other, the same for the
same seed. The position in the stream is all the state there is, so that a run can resume where it stopped.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np


class Episode(NamedTuple):
    """What fixes an episode completely."""

    layout: int
    seed: int
    repeat: int = 0
    """How often the stream has given out this layout before."""


class EpisodeStream(Protocol):
    """A source of episodes; None when there are no more."""

    position: int
    """How many episodes have been given out."""

    def next(self) -> Episode | None:
        """The next episode."""
        ...


def episode_seed(*key: int) -> int:
    """A 31-bit seed (what the engine takes) from any non-negative integers."""
    return int(np.random.SeedSequence(key).generate_state(1)[0] >> 1)


class FreshEpisodes:
    """Endless: every episode has a seed of its own, and no layout comes twice."""

    def __init__(self, seed: int, position: int = 0) -> None:
        self._seed = seed
        self.position = position

    def next(self) -> Episode:
        """The next episode; never None."""
        episode = Episode(0, episode_seed(self._seed, self.position))
        self.position += 1
        return episode


class ShuffledEpisodes:
    """Endless: every layout once in random order, then all again in another order."""

    def __init__(self, num_layouts: int, seed: int, position: int = 0) -> None:
        self._num_layouts = num_layouts
        self._seed = seed
        self.position = position
        self._round = -1
        self._order = np.empty(0, dtype=np.int64)

    def next(self) -> Episode:
        """The next episode; never None."""
        round_, index = divmod(self.position, self._num_layouts)
        if round_ != self._round:
            self._order = np.random.default_rng([self._seed, round_]).permutation(self._num_layouts)
            self._round = round_
        episode = Episode(int(self._order[index]), episode_seed(self._seed, self.position), round_)
        self.position += 1
        return episode


class EachLayout:
    """Finite: every layout exactly `repeats` times, in order; for evaluation.

    The seed of an episode depends on (seed, layout, repeat) alone: not on how many environments play.
    """

    def __init__(self, num_layouts: int, repeats: int, seed: int, position: int = 0) -> None:
        self._num_layouts = num_layouts
        self._repeats = repeats
        self._seed = seed
        self.position = position

    def __len__(self) -> int:
        return self._num_layouts * self._repeats

    def next(self) -> Episode | None:
        """The next episode, or None when all have been given out."""
        if self.position >= len(self):
            return None
        repeat, layout = divmod(self.position, self._num_layouts)
        self.position += 1
        return Episode(layout, episode_seed(self._seed, layout, repeat), repeat)
