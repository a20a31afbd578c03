"""Prospects: how soon the unknown beyond each frontier cell would be seen, and how much of it there is.

What comes in: a grid of what was seen, the ways on it, and the agent's pose. What goes out: a price for each frontier
cell; the cheapest one is worth going to first. Knows no layout. Plain loops, compiled where numba is installed.

It differs from the nearest frontier in two respects. The unknown can be seen from a distance: often it is enough to
turn, or to walk to the end of a corner. And only the places where a goal could stand are worth exploring.

Convention: as `egomap.ways.grid`.
"""

from __future__ import annotations

import math

import numpy as np

from egomap.ways.grid import COST_PER_UNIT, SIDE, TURN_PER_DECISION, UNITS_PER_DECISION
from egomap.ways.jit import compiled

BORDER = 3
"""Cells along each edge of a `Grid.over` an arena that hold its outer wall and what is behind it."""
AROUND = 8
"""Cells around a frontier cell whose unknown ones are counted."""
FEW = 30
"""Unknown cells that are added to what was counted: a frontier without any still counts."""
IN_VIEW = 26
"""Cells up to which a place is seen; a little less than `grid.SIGHT`."""
HALF_VIEW = math.radians(50.0)
"""Off the heading up to which a place is in view: a little less than half of the camera's angle."""
TURN_BACK = 4.0
"""Decisions that it counts for to turn the other way than in the decision before."""
RESTART = 4.0
"""Decisions lost by a turn on the spot, after which the body has to gain its speed anew."""
ON_THE_SPOT = math.radians(50.0)
"""Turns from here on are made on the spot."""
BEFORE = 3
"""Cells of a way that tell its direction at the end."""


@compiled
def unseen(score: np.ndarray) -> np.ndarray:
    """(N + 1, N + 1) int32 sums, over all rows and columns before, of the unknown cells where a goal could stand.

    Those are the cells of the arena that are not beside something blocked.
    """
    cells = score.shape[0]
    sums = np.zeros((cells + 1, cells + 1), np.int32)
    for row in range(cells):
        in_row = 0
        for column in range(cells):
            inside = BORDER <= row < cells - BORDER and BORDER <= column < cells - BORDER
            if inside and score[row, column] == 0:
                blocked = False
                for r in range(row - 1, row + 2):
                    for c in range(column - 1, column + 2):
                        blocked = blocked or score[r, c] > 0
                in_row += 0 if blocked else 1
            sums[row + 1, column + 1] = sums[row, column + 1] + in_row
    return sums


@compiled
def amount(sums: np.ndarray, row: int, column: int) -> int:
    """How many of the cells counted in `sums`, from `unseen`, are within AROUND of a cell."""
    cells = sums.shape[0] - 1
    top, left = max(row - AROUND, 0), max(column - AROUND, 0)
    bottom, right = min(row + AROUND + 1, cells), min(column + AROUND + 1, cells)
    count: int = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
    return count


@compiled
def beyond(score: np.ndarray, row: int, column: int) -> tuple[int, int]:
    """The unknown cell beside a frontier cell: where most of them are, else the first one."""
    up, across = 0, 0
    first_row, first_column = row, column
    for dr in range(-1, 2):
        for dc in range(-1, 2):
            if score[row + dr, column + dc] == 0:
                if first_row == row and first_column == column:
                    first_row, first_column = row + dr, column + dc
                up += dr
                across += dc
    to_row, to_column = row + int(np.sign(up)), column + int(np.sign(across))
    if score[to_row, to_column] == 0:
        return to_row, to_column
    return first_row, first_column


@compiled
def shows(score: np.ndarray, row: int, column: int, to_row: int, to_column: int) -> bool:
    """Whether an unknown cell is seen from another cell: what lies between is free."""
    down, across = to_row - row, to_column - column
    steps = max(abs(down), abs(across))
    if steps > IN_VIEW:
        return False
    for i in range(1, steps):
        between = score[
            math.floor(row + down * i / steps + 0.5), math.floor(column + across * i / steps + 0.5)
        ]
        if between > 0 or (between == 0 and i < steps - 1):
            return False
    return True


@compiled
def turns(off: float, turning: int) -> float:
    """Decisions for a turn by `off` when one by `turning` (1, -1 or 0) has begun."""
    count = abs(off) / TURN_PER_DECISION
    # A turn that has begun goes on: otherwise two ways of equal price are looked at in turns, for ever.
    return count + TURN_BACK if off * turning < 0 else count


@compiled
def wrapped(angle: float) -> float:
    """The same angle between -pi and pi."""
    return angle - math.tau * math.floor(angle / math.tau + 0.5)


@compiled
def until_seen(
    score: np.ndarray,
    cost: np.ndarray,
    parent: np.ndarray,
    gate: np.ndarray,
    start: int,
    cell: int,
    origin: float,
    pose: tuple[float, float, float],
    turning: int,
) -> float:
    """About how many decisions it takes until the unknown beyond a frontier cell is seen.

    Args:
        score: (N, N) of the grid.
        cost: From `travel`.
        parent: From `travel`.
        gate: From `travel`.
        start: The agent's cell (flat index).
        cell: The frontier cell (flat index).
        origin: Of the grid.
        pose: x, y, heading.
        turning: 1, -1 or 0: how it turned in the decision before.
    """
    side = score.shape[0]
    x, y, heading = pose
    row, column = beyond(score, cell // side, cell % side)
    view = cell  # the first place of the way that shows it
    while view != start and shows(score, parent[view] // side, parent[view] % side, row, column):
        view = parent[view]
    if view == start:
        east, north = origin + (column + 0.5) * SIDE - x, origin + (row + 0.5) * SIDE - y
        off = wrapped(math.atan2(north, east) - heading)
        left = max(abs(off) - HALF_VIEW, 0.0)
        return 1.0 + turns(math.copysign(left, off), turning) + (RESTART if left > 0 else 0.0)
    east = origin + (gate[view] % side + 0.5) * SIDE - x
    north = origin + (gate[view] // side + 0.5) * SIDE - y
    off = wrapped(math.atan2(north, east) - heading)
    begin = turns(off, turning) + (RESTART if abs(off) > ON_THE_SPOT else 0.0)
    before = view
    for _ in range(BEFORE):
        before = parent[before]
    arriving = math.atan2(view // side - before // side, view % side - before % side)
    looking = math.atan2(row - view // side, column - view % side)
    end = max(abs(wrapped(looking - arriving)) - HALF_VIEW, 0.0) / TURN_PER_DECISION
    walk: float = cost[view] / COST_PER_UNIT / UNITS_PER_DECISION
    return 1.0 + begin + walk + end


@compiled
def prices(
    score: np.ndarray,
    cost: np.ndarray,
    parent: np.ndarray,
    gate: np.ndarray,
    start: int,
    cells: np.ndarray,
    origin: float,
    x: float,
    y: float,
    heading: float,
    turning: int,
) -> np.ndarray:
    """(K,) decisions until the unknown beyond each of `cells` (flat indices) is seen, for what there is to see.

    The arguments are those of `until_seen`.
    """
    side = score.shape[0]
    sums = unseen(score)
    price = np.empty(len(cells), np.float64)
    for k in range(len(cells)):
        much = amount(sums, cells[k] // side, cells[k] % side)
        soon = until_seen(score, cost, parent, gate, start, cells[k], origin, (x, y, heading), turning)
        price[k] = soon * FEW / (FEW + much)
    return price
