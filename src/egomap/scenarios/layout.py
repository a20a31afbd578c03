"""A layout: one maze with the places of one task, and its JSON form and hash. Pure data, no engine.

Convention: cell (column, row) counts from the south-west corner; column runs east (+x), row runs north (+y).
The arena is centred on the origin, so cell (c, r) of a size-s maze with cells of side w has its centre at
((c + 0.5) * w - s * w / 2, (r + 0.5) * w - s * w / 2) in map units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from egomap.config import LARGEST_CELL, LARGEST_SIZE, TASKS, Task, require
from egomap.util.digest import canonical, sha256


class Cell(NamedTuple):
    """One square of the maze."""

    column: int
    row: int


class Wall(NamedTuple):
    """The inner wall between two neighbouring cells; `first` is the western or the southern one."""

    first: Cell
    second: Cell

    @staticmethod
    def between(one: Cell, other: Cell) -> Wall:
        """The wall between two neighbours, given in any order."""
        return Wall(min(one, other), max(one, other))


def around(cell: Cell, size: int) -> list[Cell]:
    """The cells beside `cell` in a maze of size x size: east, north, west, south."""
    column, row = cell
    cells = (Cell(column + 1, row), Cell(column, row + 1), Cell(column - 1, row), Cell(column, row - 1))
    return [beside for beside in cells if 0 <= beside.column < size and 0 <= beside.row < size]


@dataclass(frozen=True)
class Layout:
    """One maze and the task's places in it.

    `goals` are the cells to visit, in order: labyrinth (exit,), find-return (red, green), ordered-items
    (item 1, ..., item k). In find-return the green pillar stands in the start cell: goals[1] == start.
    """

    task: Task
    size: int
    cell: int
    walls: tuple[Wall, ...]
    start: Cell
    goals: tuple[Cell, ...]

    def __post_init__(self) -> None:
        """Refuse what no maze is like: ways through it are searched, which would take for ever."""
        require(
            1 <= self.size <= LARGEST_SIZE,
            f"a layout has at most {LARGEST_SIZE} x {LARGEST_SIZE} cells; got size {self.size}.",
        )
        require(
            1 <= self.cell <= LARGEST_CELL,
            f"a layout's cells have a side of at most {LARGEST_CELL} map units; got {self.cell}.",
        )
        inner = 2 * self.size * (self.size - 1)
        require(
            len(self.walls) <= inner,
            f"a layout of size {self.size} has at most {inner} inner walls; got {len(self.walls)}.",
        )

    def center(self, cell: Cell) -> tuple[float, float]:
        """World x, y (map units) of the middle of `cell`."""
        half = self.size * self.cell / 2
        return ((cell.column + 0.5) * self.cell - half, (cell.row + 0.5) * self.cell - half)

    def cell_at(self, x: float, y: float) -> Cell:
        """The cell that holds the world point (x, y); points beyond the border go to the nearest one."""
        half = self.size * self.cell / 2
        column, row = (int((v + half) // self.cell) for v in (x, y))
        return Cell(min(max(column, 0), self.size - 1), min(max(row, 0), self.size - 1))

    def neighbours(self, cell: Cell) -> tuple[Cell, ...]:
        """The cells that one can walk to from `cell`: east, north, west, south where no wall is."""
        if cell not in self._open:
            self._open[cell] = tuple(
                other for other in around(cell, self.size) if Wall.between(cell, other) not in self._blocked
            )
        return self._open[cell]

    @cached_property
    def _blocked(self) -> frozenset[Wall]:
        return frozenset(self.walls)

    @cached_property
    def _open(self) -> dict[Cell, tuple[Cell, ...]]:
        """Neighbours of the cells asked for so far: searches ask for the same ones again and again."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers; `from_json` is its inverse."""
        return {
            "task": self.task,
            "size": self.size,
            "cell": self.cell,
            "walls": [[*wall.first, *wall.second] for wall in self.walls],
            "start": list(self.start),
            "goals": [list(goal) for goal in self.goals],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Layout:
        """Read what `to_json` wrote; raise ValueError if it is not a layout."""
        try:
            layout = Layout(
                task=data["task"],
                size=_whole(data["size"]),
                cell=_whole(data["cell"]),
                walls=tuple(Wall(_cell(wall[:2]), _cell(wall[2:])) for wall in data["walls"]),
                start=_cell(data["start"]),
                goals=tuple(_cell(goal) for goal in data["goals"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is not a layout: {error!r:.200}") from error
        layout._check()
        return layout

    def _check(self) -> None:
        require(self.task in TASKS, f"this layout has an unknown task: {self.task!r:.80}.")
        require(bool(self.goals), "this is not a layout: it has no goal.")
        for cell in (self.start, *self.goals):
            inside = 0 <= cell.column < self.size and 0 <= cell.row < self.size
            require(
                inside, f"this is not a layout: {cell} is not one of its {self.size} x {self.size} cells."
            )
        sound = all(wall.second in around(wall.first, self.size) for wall in self.walls)
        # Another order would give another hash and other bytes for the same maze.
        sound = sound and all(wall.first < wall.second for wall in self.walls)
        sound = sound and list(self.walls) == sorted(set(self.walls))
        require(sound, "this is not a layout: walls must stand between neighbours, sorted, each once.")

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON: equal layouts, equal hashes."""
        return sha256(canonical(self.to_json()))


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.80} is not a whole number")
    return value


def _cell(values: list[object]) -> Cell:
    column, row = (_whole(value) for value in values)
    return Cell(column, row)
