"""Occupancy from depth and pose: what is free, blocked and unknown, and the paths between.

Input: the depth along the horizon and the pose, decision by decision. Output: a grid of scores, the
cost of walking from the agent to every cell that it knows to be free, and the frontier, where the known free space
ends. Knows no layout. Plain loops, compiled where numba is installed.

Convention: world map units, x east, y north. Cell (row, column) covers x from `origin + column * side`, y from
`origin + row * side`; the origin is the same for both axes. Depth is the forward distance; a column of the picture
with tangent t sees the point `forward = depth, right = depth * t`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from egomap.ways.jit import compiled

SIDE = 16.0
"""Side of a cell in map units; the walls of our mazes are as thick."""
ORTHOGONAL, DIAGONAL = 5, 7
"""Cost of a step to one of the eight neighbours: 1 and 1.4, in whole numbers."""
COST_PER_UNIT = ORTHOGONAL / SIDE
HIT, PASS = 3, -1
LEAST, MOST = -6, 12
"""Bounds of a score, so that what was seen once can be corrected by what is seen later."""
UNREACHED = -1
SHUT, TIGHT, ROOMY = 0, 1, 2
SQUEEZE = 15
"""Cost that a step into a tight cell adds: a body may not fit there, and slows down if it does."""
SETTING_OUT = 4
"""Steps after which a way has set out in its direction."""
LOOKAHEAD = 8
"""Cells ahead that a straight stretch is aimed at."""
SIGHT = 440.0
"""Map units up to which a ray that hit nothing is believed to be free: a little less than the depth's range."""
UNITS_PER_DECISION = 25.0
"""What the walker usually makes good in one decision, for weighing ways against turns."""
TURN_PER_DECISION = math.radians(14.0)
TURN_BACK = 8.0
"""Decisions that it counts for to turn the other way than in the decision before."""


class Grid(NamedTuple):
    """Scores of N cells a side: below 0 free, above 0 blocked, 0 unknown."""

    score: np.ndarray
    """(N, N) int8, row north, column east."""
    origin: float
    """World x and y of the corner of cell (0, 0)."""

    @staticmethod
    def over(extent: float) -> Grid:
        """An unknown grid over an arena of that side around the world's origin.

        The cells are laid so that a wall of 16 units on a border of our mazes fills one row of them.
        """
        cells = math.ceil(extent / SIDE) + 5
        return Grid(np.zeros((cells, cells), np.int8), -extent / 2 - 2.5 * SIDE)

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Row and column of the cell that holds a point; the nearest one for points outside."""
        last = len(self.score) - 1
        row, column = int((y - self.origin) // SIDE), int((x - self.origin) // SIDE)
        return min(max(row, 0), last), min(max(column, 0), last)

    def center(self, row: int, column: int) -> tuple[float, float]:
        """World x, y of the middle of a cell."""
        return self.origin + (column + 0.5) * SIDE, self.origin + (row + 0.5) * SIDE


@compiled
def look(
    score: np.ndarray,
    origin: float,
    x: float,
    y: float,
    phi: float,
    depth: np.ndarray,
    tangents: np.ndarray,
    sight: float,
) -> None:
    """Take one scan into `score`: what each ray passes is freer, where it ends is more blocked.

    Args:
        score: (N, N) int8, changed in place.
        origin: Of the grid.
        x: Of the agent.
        y: Of the agent.
        phi: Heading.
        depth: (W,) forward distance per column of the picture; beyond `sight` or not finite: nothing was hit.
        tangents: (W,) right over forward of each column.
        sight: Map units, forward, up to which free space is believed.
    """
    cells = score.shape[0]
    cos, sin = math.cos(phi), math.sin(phi)
    hits = np.zeros(score.shape, np.bool_)
    seen = np.zeros(score.shape, np.bool_)
    for k in range(len(depth)):
        z = depth[k]
        hit = z < sight  # False for inf and NaN
        if not hit:
            z = sight
        ahead_x = cos + tangents[k] * sin  # world motion per unit of forward distance
        ahead_y = sin - tangents[k] * cos
        if hit:
            inside = z + 0.25 * SIDE
            column = int((x + inside * ahead_x - origin) // SIDE)
            row = int((y + inside * ahead_y - origin) // SIDE)
            if 0 <= row < cells and 0 <= column < cells:
                hits[row, column] = True
        stretch = 0.5 * SIDE / math.sqrt(1.0 + tangents[k] * tangents[k])
        free = z - 0.5 * SIDE if hit else z
        distance = 0.0
        while distance < free:
            column = int((x + distance * ahead_x - origin) // SIDE)
            row = int((y + distance * ahead_y - origin) // SIDE)
            if 0 <= row < cells and 0 <= column < cells:
                seen[row, column] = True
            distance += stretch
    for row in range(cells):
        for column in range(cells):
            # What was seen never becomes unknown again: no score of it is 0.
            if hits[row, column]:
                new = min(score[row, column] + HIT, MOST)
                score[row, column] = new if new != 0 else 1
            elif seen[row, column]:
                new = max(score[row, column] + PASS, LEAST)
                score[row, column] = new if new != 0 else -1


@compiled
def walkable(score: np.ndarray) -> np.ndarray:
    """(N, N) uint8: ROOMY where a body fits with ease, TIGHT beside something blocked, SHUT where it is not free."""
    cells = score.shape[0]
    room = np.where(score < 0, ROOMY, SHUT).astype(np.uint8)
    for row in range(cells):
        for column in range(cells):
            if score[row, column] > 0:
                for r in range(max(row - 1, 0), min(row + 2, cells)):
                    for c in range(max(column - 1, 0), min(column + 2, cells)):
                        if room[r, c] == ROOMY:
                            room[r, c] = TIGHT
    return room


@compiled
def travel(room: np.ndarray, row: int, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cheapest ways from one cell over the cells that are not shut, by Dijkstra's algorithm with buckets.

    Returns:
        cost (N * N,) int32, UNREACHED where there is no way; parent (N * N,) int32, the cell before; and gate
        (N * N,) int32, the cell about four steps from the start through which the way goes: where it sets out to.
    """
    cells = room.shape[0]
    count = cells * cells
    cost = np.full(count, UNREACHED, np.int32)
    parent = np.full(count, UNREACHED, np.int32)
    gate = np.full(count, UNREACHED, np.int32)
    steps = np.zeros(count, np.int32)
    buckets = DIAGONAL + SQUEEZE + 1
    queue = np.empty((buckets, 2 * count), np.int32)
    length = np.zeros(buckets, np.int64)
    done = np.zeros(count, np.bool_)
    start = row * cells + column
    cost[start], parent[start], gate[start] = 0, start, start
    queue[0, 0] = start
    length[0] = 1
    now, empty = 0, 0
    while empty < buckets:
        slot = now % buckets
        if length[slot] == 0:
            empty += 1
            now += 1
            continue
        empty = 0
        length[slot] -= 1
        here = queue[slot, length[slot]]
        if done[here] or cost[here] != now:
            continue
        done[here] = True
        r, c = here // cells, here % cells
        for dr in range(-1, 2):
            for dc in range(-1, 2):
                rr, cc = r + dr, c + dc
                if (dr == 0 and dc == 0) or not (0 <= rr < cells and 0 <= cc < cells) or room[rr, cc] == SHUT:
                    continue
                there = rr * cells + cc
                total = now + (ORTHOGONAL if dr == 0 or dc == 0 else DIAGONAL)
                if room[rr, cc] == TIGHT:
                    total += SQUEEZE
                if done[there] or (cost[there] != UNREACHED and cost[there] <= total):
                    continue
                cost[there], parent[there], steps[there] = total, here, steps[here] + 1
                gate[there] = there if steps[here] < SETTING_OUT else gate[here]
                target = total % buckets
                if length[target] < 2 * count:
                    queue[target, length[target]] = there
                    length[target] += 1
    return cost, parent, gate


@compiled
def frontier(score: np.ndarray, room: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """(N * N,) bool: reached, roomy cells beside at least two unknown ones, in a run of at least two such cells."""
    cells = score.shape[0]
    edge = np.zeros((cells, cells), np.bool_)
    for row in range(1, cells - 1):
        for column in range(1, cells - 1):
            if cost[row * cells + column] > 0 and room[row, column] == ROOMY:
                unknown = 0
                for dr in range(-1, 2):
                    for dc in range(-1, 2):
                        if score[row + dr, column + dc] == 0:
                            unknown += 1
                edge[row, column] = unknown >= 2
    kept = np.zeros(cells * cells, np.bool_)
    for row in range(1, cells - 1):
        for column in range(1, cells - 1):
            if edge[row, column]:
                beside = 0
                for dr in range(-1, 2):
                    for dc in range(-1, 2):
                        if edge[row + dr, column + dc]:
                            beside += 1
                kept[row * cells + column] = beside >= 2
    return kept


@compiled
def sees(room: np.ndarray, row: int, column: int, to_row: int, to_column: int) -> bool:
    """Whether the straight line between two cells stays on roomy ones; the first may be anywhere."""
    steps = 2 * max(abs(to_row - row), abs(to_column - column))
    for i in range(2, steps + 1):
        r = math.floor(row + (to_row - row) * i / steps + 0.5)
        c = math.floor(column + (to_column - column) * i / steps + 0.5)
        if room[r, c] != ROOMY:
            return False
    return True


@compiled
def ahead(room: np.ndarray, parent: np.ndarray, row: int, column: int, target: int, most: int) -> int:
    """The farthest cell of the way to `target` that can be walked to in a straight line, within `most` cells.

    In a tight place it is the second cell of the way.
    """
    cells = room.shape[0]
    start = row * cells + column
    here = target
    while here != start and parent[here] != start and parent[parent[here]] != start:
        r, c = here // cells, here % cells
        if max(abs(r - row), abs(c - column)) <= most and sees(room, row, column, r, c):
            return here
        here = parent[here]
    return here


@compiled
def along(parent: np.ndarray, side: int, start: int, target: int, length: float) -> int:
    """The cell of the way from `start` to `target` that is about `length` cells from the start; the target if nearer.

    Args:
        parent: From `travel`.
        side: Cells along each side of the grid.
        start: Flat index of the cell that `travel` began with.
        target: Flat index of a cell that was reached.
        length: In cells; a diagonal step counts as the square root of 2.
    """
    total = 0.0
    here = target
    while here != start:
        before = parent[here]
        total += 1.0 if here // side == before // side or here % side == before % side else math.sqrt(2.0)
        here = before
    here = target
    while here != start and total > length:
        before = parent[here]
        total -= 1.0 if here // side == before // side or here % side == before % side else math.sqrt(2.0)
        here = before
    return here


@compiled
def decisions(
    cost: np.ndarray,
    gate: np.ndarray,
    cells: np.ndarray,
    side: int,
    origin: float,
    x: float,
    y: float,
    heading: float,
    turning: int,
) -> np.ndarray:
    """About how many decisions it takes to each of `cells` (flat indices) of a grid with `side` cells a side.

    Args:
        cost: From `travel`.
        gate: From `travel`.
        cells: (K,) where to.
        side: Cells.
        origin: Of the grid.
        x: Of the agent.
        y: Of the agent.
        heading: Of the agent.
        turning: 1, -1 or 0: how it turned in the decision before.
    """
    price = np.empty(len(cells), np.float64)
    for k in range(len(cells)):
        row, column = gate[cells[k]] // side, gate[cells[k]] % side
        east = origin + (column + 0.5) * SIDE - x
        north = origin + (row + 0.5) * SIDE - y
        off = math.atan2(north, east) - heading
        off -= math.tau * np.round(off / math.tau)
        turns = abs(off) / TURN_PER_DECISION
        # A turn that has begun continues: otherwise the agent alternates for ever between two paths of equal cost.
        if off * turning < 0:
            turns += TURN_BACK
        price[k] = cost[cells[k]] / COST_PER_UNIT / UNITS_PER_DECISION + turns
    return price
