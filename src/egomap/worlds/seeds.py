"""What is played in Gymnasium environments; in somebody's own: episodes that differ in their seed alone.

What comes in: how many of them. What goes out: a world for each, so that they are evaluated as layouts are: each
played equally often, the same in every run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from egomap.worlds.api import World
from egomap.worlds.episodes import EpisodeStream, FreshEpisodes


class Startable(Sequence[World]):
    """Worlds that are played by the `reset` of an environment."""

    @abstractmethod
    def options(self, index: int) -> dict[str, Any] | None:
        """What `reset` is given to play one of them, beside the episode's seed."""

    @abstractmethod
    def endless(self, seed: int, position: int) -> EpisodeStream:
        """Episodes to learn in, from a position on."""


@dataclass(frozen=True)
class SeededWorld:
    """One fresh seed."""

    id: str
    layout: None = None
    """Nobody knows its plan."""


@dataclass(frozen=True)
class SeededWorlds(Startable):
    """So many fresh seeds of one environment."""

    name: str
    """Of the environment."""
    number: int

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> SeededWorld:  # type: ignore[override]
        if not 0 <= index < self.number:
            raise IndexError(index)
        return SeededWorld(f"{self.name}#{index}")

    def options(self, index: int) -> dict[str, Any] | None:
        """None: the seed says it all."""
        return None

    def endless(self, seed: int, position: int) -> FreshEpisodes:
        """Episodes to learn in: no seed comes twice."""
        return FreshEpisodes(seed, position)

    def first(self, count: int | None) -> SeededWorlds:
        """The first so many of them; all with None."""
        return self if count is None else SeededWorlds(self.name, min(count, self.number))
