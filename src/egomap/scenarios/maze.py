"""The maze: a seeded random grid of cells and the inner walls that stand between them.

What comes in: a stream of random numbers, the size, the probability of a wall. What goes out: the walls,
sorted. Every inner wall is first kept with `wall_probability`; then a random depth-first walk over all cells
removes the walls that it crosses, so every cell can be reached and loops remain. Nothing here knows about
tasks or the engine.
"""

from __future__ import annotations

import hashlib
import random

from egomap.scenarios.layout import Cell, Wall, around


def stream(*parts: object) -> random.Random:
    """A generator of random numbers named by `parts`: equal parts give equal numbers on any machine.

    Choice: the standard library's Mersenne Twister, seeded with an integer taken from SHA-256, read through
    `.random()` only. Python promises that this sequence never changes for an integer seed; it promises
    nothing of the kind for `shuffle`, `choice` or `sample`, nor numpy for its distributions, so none of them
    is used.
    """
    name = "\x1f".join(str(part) for part in parts)
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))


def below(rng: random.Random, count: int) -> int:
    """A uniform integer from 0 to count - 1."""
    return int(rng.random() * count)


def distinct_cells(rng: random.Random, size: int, count: int) -> list[Cell]:
    """`count` different cells of a size x size maze in random order, each order equally likely."""
    cells = [Cell(column, row) for column in range(size) for row in range(size)]
    for index in range(count):
        other = index + below(rng, len(cells) - index)
        cells[index], cells[other] = cells[other], cells[index]
    return cells[:count]


def make_maze(rng: random.Random, size: int, wall_probability: float) -> tuple[Wall, ...]:
    """Draw one maze of size x size cells; returns its inner walls, sorted."""
    walls = {wall for wall in _inner_walls(size) if rng.random() < wall_probability}
    here = Cell(below(rng, size), below(rng, size))
    seen = {here}
    path = [here]
    while path:
        ahead = [cell for cell in around(path[-1], size) if cell not in seen]
        if not ahead:
            path.pop()
            continue
        step = ahead[below(rng, len(ahead))]
        walls.discard(Wall.between(path[-1], step))
        seen.add(step)
        path.append(step)
    return tuple(sorted(walls))


def _inner_walls(size: int) -> list[Wall]:
    cells = [Cell(column, row) for column in range(size) for row in range(size)]
    east = [Wall(cell, Cell(cell.column + 1, cell.row)) for cell in cells if cell.column + 1 < size]
    north = [Wall(cell, Cell(cell.column, cell.row + 1)) for cell in cells if cell.row + 1 < size]
    return sorted(east + north)
