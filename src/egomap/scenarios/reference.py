"""A reader for the JSON files that the paper's authors put beside their maps.

What comes in: the path of such a file and the task. What goes out: a `Layout` and where its centre lies in the
map, since their arenas are not centred on the origin. Their WADs and .cfg files need no reader of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from egomap.config import Task
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.util.reading import read_json


class ReferenceLayout(NamedTuple):
    """A layout and the map coordinates of its centre: map point = layout's world point + (offset_x, offset_y)."""

    layout: Layout
    offset_x: float
    offset_y: float


def read_reference(path: Path, task: Task) -> ReferenceLayout:
    """Read the JSON side-car of one of the authors' maps.

    Args:
        path: A file with `exterior`, `walls` and either `start` and `end` or `spawn` and `items`, in map units.
        task: Which family it belongs to; labyrinth and find-return files look alike.

    Raises:
        ValueError: The file cannot be read or is not such a file.
    """
    try:
        return _layout(read_json(path), task)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}.") from error
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{path} does not describe a {task} map of the authors: {error!r:.200}.") from error


def _layout(data: dict[str, Any], task: Task) -> ReferenceLayout:
    xs, ys = zip(*data["exterior"], strict=True)
    left, bottom, side = min(xs), min(ys), max(xs) - min(xs)
    # Every wall is one cell long; a map without walls does not tell its cell.
    x1, y1, x2, y2 = data["walls"][0]
    width = abs(x2 - x1) + abs(y2 - y1)

    def cell(x: float, y: float) -> Cell:
        return Cell(int((x - left) // width), int((y - bottom) // width))

    walls = []
    for x1, y1, x2, y2 in data["walls"]:
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        across = (width / 2, 0.0) if x1 == x2 else (0.0, width / 2)
        walls.append(Wall(cell(x - across[0], y - across[1]), cell(x + across[0], y + across[1])))
    if task == "ordered-items":
        start, goals = cell(*data["spawn"]), tuple(cell(x, y) for x, y, _ in data["items"])
    else:
        start, goals = cell(*data["start"]), (cell(*data["end"]),)
        if task == "find-return":
            goals = (*goals, start)
    layout = Layout(task, round(side / width), round(width), tuple(sorted(set(walls))), start, goals)
    return ReferenceLayout(layout, left + side / 2, bottom + side / 2)
