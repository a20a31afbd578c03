"""Guides: where an agent could go by what it has seen, and the action that begins the way there.

Input: the depth along the horizon, the pose and the last turn, step by step, of many environments. What
goes out, for each step: for each guide an action, the direction of its way and its length; and for each cell of a map
in the agent's frame the action that begins the way to it. Whether to follow any of them is for others to decide.
Plain loops over the Explorer's grid, compiled where numba is installed.

Convention: as `egomap.ways.grid`; `right` and `forward` are in the agent's frame, actions are the five of our mazes:
left, right, forward, forward and left, forward and right.
"""

from __future__ import annotations

import math

import numpy as np

from egomap.ways.grid import (
    COST_PER_UNIT,
    LOOKAHEAD,
    ROOMY,
    SIDE,
    SIGHT,
    UNITS_PER_DECISION,
    ahead,
    decisions,
    frontier,
    look,
    travel,
    walkable,
)
from egomap.ways.jit import compiled

GUIDES = ("outward", "homeward")
"""To the frontier, the end of the known free space, that is reached soonest; and to where the episode began."""
LEFT, RIGHT, FORWARD, FORWARD_LEFT, FORWARD_RIGHT = range(5)
NUM_ACTIONS = 5
NO_WAY = NUM_ACTIONS
"""Stands for an action where there is no way."""
TURN_FIRST = math.radians(50)
"""Off the direction beyond which one turns without pushing."""
STRAIGHT = math.radians(8)
"""Off the direction below which one does not turn."""
TURNED = math.radians(0.5)
"""The least turn between two observations that counts as one."""
KEEP = 0.4
"""A frontier that was chosen is given up only for one that takes less than this part of its decisions."""
NEARBY = 2
"""Cells around a place of a map from which it counts as reached: what was seen there may stand in the way."""
CLOSE = 80.0
"""Map units within which a place is headed for in a straight line."""
LONG = 64.0
"""Decisions that lengths of ways are divided by."""
NONE = -1


@compiled
def steer(right: float, forward: float) -> int:
    """The action that leads towards a point."""
    off = math.atan2(right, forward)
    if off > TURN_FIRST:
        return RIGHT
    if off < -TURN_FIRST:
        return LEFT
    if off > STRAIGHT:
        return FORWARD_RIGHT
    if off < -STRAIGHT:
        return FORWARD_LEFT
    return FORWARD


@compiled
def to_agent(cell: int, side: int, origin: float, x: float, y: float, phi: float) -> tuple[float, float]:
    """Right and forward, from the agent's pose, to the middle of a cell (flat index)."""
    east = origin + (cell % side + 0.5) * SIDE - x
    north = origin + (cell // side + 0.5) * SIDE - y
    cos, sin = math.cos(phi), math.sin(phi)
    return east * sin - north * cos, east * cos + north * sin


@compiled
def set_out(
    room: np.ndarray,
    cost: np.ndarray,
    parent: np.ndarray,
    start: int,
    target: int,
    origin: float,
    pose: np.ndarray,
    told: np.ndarray,
) -> int:
    """The first action of the path to a cell; writes direction (right, forward) and length of the path to `told`.

    Args:
        room: (side, side) from `walkable`.
        cost: From `travel`.
        parent: From `travel`.
        start: The agent's cell (flat index).
        target: Another cell that was reached.
        origin: Of the grid.
        pose: (3,).
        told: (3,) written.
    """
    side = room.shape[0]
    aim = ahead(room, parent, start // side, start % side, target, LOOKAHEAD)
    right, forward = to_agent(aim, side, origin, pose[0], pose[1], pose[2])
    length = math.hypot(right, forward)
    if length > 0:
        told[0], told[1] = right / length, forward / length
    told[2] = cost[target] / COST_PER_UNIT / UNITS_PER_DECISION / LONG
    return steer(right, forward)


@compiled
def next_frontier(
    score: np.ndarray,
    room: np.ndarray,
    cost: np.ndarray,
    gate: np.ndarray,
    origin: float,
    pose: np.ndarray,
    turned: float,
    kept: int,
) -> int:
    """The frontier cell that is reached soonest, -1 without any; one that was `kept` is not lightly given up."""
    side = room.shape[0]
    cells = np.flatnonzero(frontier(score, room, cost))
    turning = 0
    if abs(turned) > TURNED:
        turning = 1 if turned > 0 else -1
    price = decisions(cost, gate, cells, side, origin, pose[0], pose[1], pose[2], turning)
    best, least = NONE, math.inf
    for k in range(len(cells)):
        cell = cells[k]
        near = kept >= 0 and max(abs(cell // side - kept // side), abs(cell % side - kept % side)) <= 2
        its = price[k] * KEEP if near else price[k]
        if its < least:
            best, least = cell, its
    return best


@compiled
def begin_ways(
    cost: np.ndarray,
    gate: np.ndarray,
    side: int,
    origin: float,
    pose: np.ndarray,
    extent: float,
    begins: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """For each cell of a map in the agent's frame: the action that begins the way there, and how long it is.

    Convention: as `egomap.geometry`: the agent is in the middle of a square of side `extent`, facing up; row 0 is
    farthest ahead, column 0 farthest to the left.

    Args:
        cost: From `travel`.
        gate: From `travel`.
        side: Of the grid, in cells.
        origin: Of the grid.
        pose: (3,).
        extent: Side of the map in map units.
        begins: (size, size) int8 written; NO_WAY where no way is known, and where the agent stands.
        lengths: (size, size) float32 written, in decisions / LONG.
    """
    size = len(begins)
    cell = extent / size
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    for r in range(size):
        for c in range(size):
            begins[r, c], lengths[r, c] = NO_WAY, 0.0
            right, forward = (c + 0.5) * cell - extent / 2, extent / 2 - (r + 0.5) * cell
            if max(abs(right), abs(forward)) < cell / 2:
                continue
            row = math.floor((pose[1] + forward * sin - right * cos - origin) / SIDE)
            column = math.floor((pose[0] + forward * cos + right * sin - origin) / SIDE)
            best = NONE
            for rr in range(max(row - NEARBY, 0), min(row + NEARBY + 1, side)):
                for cc in range(max(column - NEARBY, 0), min(column + NEARBY + 1, side)):
                    its = cost[rr * side + cc]
                    if its >= 0 and (best < 0 or its < cost[best]):
                        best = rr * side + cc
            if best < 0:
                continue
            lengths[r, c] = cost[best] / COST_PER_UNIT / UNITS_PER_DECISION / LONG
            if right * right + forward * forward >= CLOSE * CLOSE:
                right, forward = to_agent(gate[best], side, origin, pose[0], pose[1], pose[2])
            begins[r, c] = steer(right, forward)


@compiled
def advise_once(
    line: np.ndarray,
    tangents: np.ndarray,
    pose: np.ndarray,
    turned: float,
    origin: float,
    extent: float,
    score: np.ndarray,
    home: np.ndarray,
    kept: int,
    action: np.ndarray,
    told: np.ndarray,
    begins: np.ndarray,
    lengths: np.ndarray,
) -> int:
    """One step of one environment: take the view into `score`, write what the guides say; the frontier to keep."""
    side = score.shape[0]
    look(score, origin, pose[0], pose[1], pose[2], line, tangents, SIGHT)
    last = side - 1
    row = min(max(math.floor((pose[1] - origin) / SIDE), 0), last)
    column = min(max(math.floor((pose[0] - origin) / SIDE), 0), last)
    score[row, column] = -6  # the body's own cell is free, whatever was seen of walls beside it
    room = walkable(score)
    home_row = min(max(math.floor((home[1] - origin) / SIDE), 0), last)
    home_column = min(max(math.floor((home[0] - origin) / SIDE), 0), last)
    room[home_row, home_column] = ROOMY
    cost, parent, gate = travel(room, row, column)
    start = row * side + column
    action[:], told[:] = NO_WAY, 0.0
    target = next_frontier(score, room, cost, gate, origin, pose, turned, kept)
    if target >= 0:
        action[0] = set_out(room, cost, parent, start, target, origin, pose, told[0])
    there = home_row * side + home_column
    if cost[there] > 0:
        action[1] = set_out(room, cost, parent, start, there, origin, pose, told[1])
    if len(begins):
        begin_ways(cost, gate, side, origin, pose, extent, begins, lengths)
    return target


@compiled
def advise(
    begin: int,
    end: int,
    line: np.ndarray,
    tangents: np.ndarray,
    pose: np.ndarray,
    turned: np.ndarray,
    episode_start: np.ndarray,
    origin: float,
    extent: float,
    score: np.ndarray,
    home: np.ndarray,
    kept: np.ndarray,
    begun: np.ndarray,
    action: np.ndarray,
    told: np.ndarray,
    begins: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Environments `begin` to `end` through T steps.

    Args:
        begin: First environment.
        end: One behind the last.
        line: (T, N, W) forward distance along the horizon.
        tangents: (W,) right over forward of each column.
        pose: (T, N, 3) float64.
        turned: (T, N) turn since the observation before, counter-clockwise.
        episode_start: (T, N) bool.
        origin: Of the grid.
        extent: Side of the map in the agent's frame.
        score: (N, side, side) int8, changed in place; see `Grid`.
        home: (N, 2) where the episode began, changed in place.
        kept: (N,) the frontier that was chosen last, changed in place.
        begun: (N,) bool, changed in place: whether an episode runs.
        action: (T, N, guides) written; NO_WAY where a guide knows no way.
        told: (T, N, guides, 3) written: direction (right, forward) and length of each way; 0 without one.
        begins: (T, N, size, size) written; see `begin_ways`. Size 0: no map.
        lengths: (T, N, size, size) written.
    """
    for n in range(begin, end):
        for t in range(line.shape[0]):
            if episode_start[t, n]:
                begun[n] = False
            if not begun[n]:
                begun[n] = True
                score[n] = 0
                home[n, 0], home[n, 1] = pose[t, n, 0], pose[t, n, 1]
                kept[n] = NONE
            kept[n] = advise_once(
                line[t, n],
                tangents,
                pose[t, n],
                turned[t, n],
                origin,
                extent,
                score[n],
                home[n],
                kept[n],
                action[t, n],
                told[t, n],
                begins[t, n],
                lengths[t, n],
            )
