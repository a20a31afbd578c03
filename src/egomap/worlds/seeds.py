"""What is played in somebody's Gymnasium environment: episodes that differ in their seed alone.

What comes in: how many of them. What goes out: a world for each, so that they are evaluated as layouts are: each
played equally often, the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SeededWorld:
    """One fresh seed."""

    id: str
    layout: None = None
    """Nobody knows its plan."""


@dataclass(frozen=True)
class SeededWorlds(Sequence[SeededWorld]):
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

    def first(self, count: int | None) -> SeededWorlds:
        """The first so many of them; all with None."""
        return self if count is None else SeededWorlds(self.name, min(count, self.number))
