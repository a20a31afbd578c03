"""Intrinsic rewards: bonuses beside the task's rewards, for exploration.

Input: a filled rollout and how much of the budget is spent. Output: `rollout.bonus`, which the update
adds to the task's rewards, and figures for the log. The task's rewards, and the returns that are reported, stay as
they are. To add a bonus: a class with `measure`, and a row in `BONUSES`; or its address in `LearnerSettings.bonuses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from egomap.config import LearnerSettings, require, weighted
from egomap.rl.rollout import Rollout
from egomap.rl.schedules import falling
from egomap.util.named import import_named


class Measure(Protocol):
    """A quantity that is rewarded; it may keep state of the running episodes from one rollout to the next."""

    def measure(self, rollout: Rollout) -> np.ndarray:
        """(T, N): how much of it each decision brought, before it is weighted."""
        ...


def newly_visited(
    cells: np.ndarray, episode_start: np.ndarray, visited: Sequence[frozenset[tuple[int, int]]]
) -> tuple[np.ndarray, list[frozenset[tuple[int, int]]]]:
    """Which decisions led into a cell that was not yet visited in their episode.

    The cell of an episode's first observation counts as visited. What follows the last decision of an episode
    belongs to the next one, so that decision brings nothing.

    Args:
        cells: (T + 1, N, 2) whole numbers, the cell of each observation.
        episode_start: (T + 1, N) bool.
        visited: For each environment the cells of the episode that its first row continues.

    Returns:
        (T, N) bool, and the visited cells of the episodes that continue after the last row.
    """
    found = np.zeros((len(cells) - 1, cells.shape[1]), bool)
    after = []
    for n, before in enumerate(visited):
        seen = set(before)
        rows = zip(map(tuple, cells[:, n].tolist()), episode_start[:, n].tolist(), strict=True)
        for t, (cell, start) in enumerate(rows):
            if start:
                seen = {cell}
            elif cell not in seen:
                seen.add(cell)
                if t:
                    found[t - 1, n] = True
        after.append(frozenset(seen))
    return found, after


class Coverage:
    """Newly visited places: square cells of a given side, by the pose; independent of the size of the maze.

    Args:
        side: Of a cell, in map units.
    """

    def __init__(self, side: float) -> None:
        self.side = side
        self._visited: list[frozenset[tuple[int, int]]] = []

    def measure(self, rollout: Rollout) -> np.ndarray:
        """1 where a decision led into a new cell. A rollout of new episodes needs no reset: they say so."""
        cells = np.floor(rollout.arrays["pose"][..., :2] / self.side).astype(np.int64)
        visited = self._visited or [frozenset()] * rollout.num_envs
        found, self._visited = newly_visited(cells, rollout.episode_start.numpy(), visited)
        return found.astype(np.float32)


class Bonus(NamedTuple):
    """A row of the table."""

    weight: Callable[[LearnerSettings], float]
    """What one unit is worth at the start; 0: it is not paid, and not measured."""
    decay: Callable[[LearnerSettings], float]
    """Share of the budget after which it has fallen to 0; 0: it does not fall."""
    make: Callable[[LearnerSettings], Measure]


BONUSES: dict[str, Bonus] = {
    "coverage": Bonus(
        lambda learner: learner.coverage_bonus,
        lambda learner: learner.coverage_decay,
        lambda learner: Coverage(learner.coverage_cell),
    ),
}
"""Every bonus, by its name in the log."""


def bonuses_of(settings: LearnerSettings) -> dict[str, Bonus]:
    """Every bonus: those of `BONUSES`, and those that the settings name by their address, called like the class.

    Raises:
        ValueError: There is no such class, or another bonus of its name.
    """
    found = dict(BONUSES)
    for text in settings.bonuses:
        address, weight = weighted(text, "bonuses")
        measure = import_named(address)
        require(
            isinstance(measure, type) and hasattr(measure, "measure"),
            f"{address} is no bonus: it must be a class with a method measure.",
        )
        name = address.partition(":")[2].lower()
        require(name not in found, f"two bonuses are called {name}; call {address} something else.")
        found[name] = Bonus(_constant(weight), _constant(0.0), measure)
    return found


def _constant(value: float) -> Callable[[LearnerSettings], float]:
    return lambda settings: value


class Bonuses:
    """The bonuses that the settings ask for, over the rollouts of one rank."""

    def __init__(self, settings: LearnerSettings) -> None:
        rows = {name: row for name, row in bonuses_of(settings).items() if row.weight(settings)}
        self._paid = {
            name: (row.weight(settings), row.decay(settings), row.make(settings))
            for name, row in rows.items()
        }

    def pay(self, rollout: Rollout, spent: float) -> dict[str, float]:
        """Fill `rollout.bonus`.

        Args:
            rollout: Filled.
            spent: Share of the budget that was spent before it.

        Returns:
            For each bonus NAME: NAME, units per decision, and NAME_bonus, reward per decision.
        """
        figures: dict[str, float] = {}
        rollout.bonus.zero_()
        for name, (weight, decay, measure) in self._paid.items():
            units = torch.from_numpy(measure.measure(rollout))
            worth = falling(weight, decay, spent)
            rollout.bonus += worth * units
            figures |= {name: float(units.mean()), f"{name}_bonus": worth * float(units.mean())}
        return figures
