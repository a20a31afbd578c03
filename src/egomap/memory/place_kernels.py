"""The native kernel (numba) of the place planes: write a step's evidence, and see the planes from the agent's place.

Input: numpy views of CPU tensors and a range of environments. Output: the state changed in place, and
the two views of every step. `egomap.memory.places` in plain torch is the reference that the tests hold this to; the
planes of each step are never stored. No threads here: `native` shares the environments out.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_compile = numba.njit(cache=True, nogil=True, error_model="numpy")


@_compile
def _sample(framed: Array, affine: Array, view: Array) -> None:
    """Bilinear values of planes (side + 2, side + 2, P), framed by empty cells, at the places of a view (W, W, P).

    Convention: as `geometry.warp`, with a view that may cover another square than the planes: `affine` (2, 3) leads
    from the view's normalised coordinates to the planes'.
    """
    side, window, planes = framed.shape[0] - 2, view.shape[0], view.shape[2]
    half = side / 2
    for row in range(window):
        v = (2 * row + 1) / window - 1
        for column in range(window):
            u = (2 * column + 1) / window - 1
            # In cells; 0 is the centre of the frame's first cell.
            x = (affine[0, 0] * u + affine[0, 1] * v + affine[0, 2]) * half + half + 0.5
            y = (affine[1, 0] * u + affine[1, 1] * v + affine[1, 2]) * half + half + 0.5
            if not (0 <= x < side + 1 and 0 <= y < side + 1):
                for p in range(planes):
                    view[row, column, p] = 0
                continue
            left, top = int(x), int(y)
            right, down = np.float32(x - left), np.float32(y - top)
            a, b = (1 - down) * (1 - right), (1 - down) * right
            c, d = down * (1 - right), down * right
            for p in range(planes):
                view[row, column, p] = (
                    a * framed[top, left, p]
                    + b * framed[top, left + 1, p]
                    + c * framed[top + 1, left, p]
                    + d * framed[top + 1, left + 1, p]
                )


@_compile
def _draw(
    free: Array, blocked: Array, first: Array, last: Array, latest: int, fade: float, framed: Array
) -> None:
    """The planes of one state, framed by empty cells."""
    side = framed.shape[0] - 2
    for row in range(side):
        for column in range(side):
            at, cell = framed[row + 1, column + 1], row * side + column
            at[0], at[1] = free[cell], blocked[cell]
            if last[cell] >= 0:
                at[2] = math.exp((last[cell] - latest) / fade)
                at[3] = 1 - first[cell] / (latest + 1)
            else:
                at[2] = at[3] = 0


@_compile
def _pool(framed: Array, factor: int, pooled: Array) -> None:
    """The largest value of each `factor` x `factor` cells, both framed by empty cells."""
    side, planes = framed.shape[0] - 2, pooled.shape[2]
    pooled[:] = 0
    for row in range(side):
        for column in range(side):
            to, value = pooled[row // factor + 1, column // factor + 1], framed[row + 1, column + 1]
            for p in range(planes):
                to[p] = max(to[p], value[p])


@_compile
def _passable(
    free: Array, blocked: Array, last: Array, side: int, open_: Array, beside: Array, edge: Array
) -> None:
    """Cells that can be walked on, and the frontier: those beside two unknown ones, and beside another such cell."""
    for cell in range(side * side):
        open_[cell] = last[cell] >= 0 or (free[cell] and not blocked[cell])
    for row in range(side):
        for column in range(side):
            cell, unknown = row * side + column, 0
            if open_[cell]:
                for r in range(max(row - 1, 0), min(row + 2, side)):
                    for c in range(max(column - 1, 0), min(column + 2, side)):
                        other = r * side + c
                        unknown += not (free[other] or blocked[other] or last[other] >= 0)
            beside[cell] = unknown >= 2
    for row in range(side):
        for column in range(side):
            cell, others = row * side + column, 0
            if beside[cell]:
                for r in range(max(row - 1, 0), min(row + 2, side)):
                    for c in range(max(column - 1, 0), min(column + 2, side)):
                        others += beside[r * side + c]
            edge[cell] = others >= 2


@_compile
def _spread(open_: Array, distance: Array, queue: Array, length: int) -> None:
    """Steps over open cells (four neighbours) from those in the queue, whose distance is 0; -1: no way."""
    side = round(math.sqrt(len(open_)))
    done = 0
    while done < length:
        cell = queue[done]
        done += 1
        row, column = cell // side, cell % side
        for turn in range(4):
            r = row + (turn == 0) - (turn == 1)
            c = column + (turn == 2) - (turn == 3)
            other = r * side + c
            if 0 <= r < side and 0 <= c < side and open_[other] and distance[other] < 0:
                distance[other] = distance[cell] + 1
                queue[length] = other
                length += 1


@_compile
def _begin(distance: Array, here: int, side: int) -> int:
    """Where a way begins: in the cell `here`, or in the nearest to the goal within two cells; -1: nowhere."""
    found = -1
    if here >= side * side or distance[here] >= 0:
        return here if here < side * side else -1
    row, column = here // side, here % side
    for r in range(max(row - 2, 0), min(row + 3, side)):
        for c in range(max(column - 2, 0), min(column + 3, side)):
            near = distance[r * side + c]
            if near >= 0 and (found < 0 or near < distance[found]):
                found = r * side + c
    return found


@_compile
def _draw_way(distance: Array, own: int, reach: float, framed: Array, plane: int) -> None:
    """How much nearer each cell is than `own`, the agent's distance, from -1 to 1, in units of `reach`."""
    side = framed.shape[0] - 2
    for r in range(side):
        for c in range(side):
            far = distance[r * side + c]
            value = 0.0
            if own >= 0 and far >= 0:
                value = min(max((own - far) / reach, -1.0), 1.0)
            framed[r + 1, c + 1, plane] = value


@_compile
def _aim(distance: Array, begin: int, steps: int, aim: Array) -> int:
    """Write the column and row, in cells, of the cell that a way comes to after some steps; returns that cell."""
    side, cell = round(math.sqrt(len(distance))), begin
    for _ in range(steps):
        row, column = cell // side, cell % side
        for turn in range(4):
            r = row + (turn == 0) - (turn == 1)
            c = column + (turn == 2) - (turn == 3)
            inside = 0 <= r < side and 0 <= c < side and distance[cell] > 0
            if inside and distance[r * side + c] == distance[cell] - 1:
                cell = r * side + c
                break
    aim[0], aim[1] = cell % side + 0.5, cell // side + 0.5
    return cell


@_compile
def _lead(
    distance: Array, here: int, reach: float, setting_out: int, framed: Array, plane: int, aim: Array
) -> tuple[int, int]:
    """Draw a way and where it sets out to; the agent's own distance and the cell it is led to, -1 without a way."""
    begins, own, end = _begin(distance, here, framed.shape[0] - 2), -1, -1
    if begins >= 0:
        own, end = distance[begins], _aim(distance, begins, setting_out, aim)
    _draw_way(distance, own, reach, framed, plane)
    return own, end


@_compile
def _beyond(free: Array, blocked: Array, last: Array, side: int, cell: int, aim: Array) -> None:
    """Move an aim on to the middle of the unknown cells around a cell."""
    row, column = cell // side, cell % side
    right, down, count = 0.0, 0.0, 0
    for r in range(max(row - 1, 0), min(row + 2, side)):
        for c in range(max(column - 1, 0), min(column + 2, side)):
            other = r * side + c
            if not (free[other] or blocked[other] or last[other] >= 0):
                right, down, count = right + c - column, down + r - row, count + 1
    if count:
        aim[0], aim[1] = aim[0] + right / count, aim[1] + down / count


@_compile
def follow(
    begin: int,
    end: int,
    passed: Array,
    hit: Array,
    here: Array,
    pose: Array,
    start: Array,
    affine_near: Array,
    affine_far: Array,
    fade: float,
    factor: int,
    reach: float,
    setting_out: int,
    free: Array,
    blocked: Array,
    first: Array,
    last: Array,
    steps: Array,
    home: Array,
    homeward: Array,
    near: Array,
    far: Array,
    homes: Array,
    ways: Array,
    aims: Array,
) -> None:
    """Environments `begin` to `end` through T steps.

    passed (T, N, K), hit (T, N, R) and here (T, N, 1) are the evidence, pose (T, N, 3), start (T, N), the affine
    matrices (T, N, 2, 3); the state (see `PlaceState`) is changed in place; near and far (T, N, W, W, P), homes
    (T, N, 2), the start of the episode of each step, ways (T, N, 2), the agent's distances, and aims (T, N, 2, 2),
    where the ways set out to, are written. Near has two planes more than far if there are to be ways.
    """
    cells = free.shape[1] - 1
    side = round(math.sqrt(cells))
    planes = far.shape[-1]
    framed = np.zeros((side + 2, side + 2, near.shape[-1]), np.float32)
    open_, beside, edge = np.zeros(cells, np.bool_), np.zeros(cells, np.bool_), np.zeros(cells, np.bool_)
    distance, queue = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
    coarse = (side + factor - 1) // factor
    pooled = np.zeros((coarse + 2, coarse + 2, planes), np.float32)
    for n in range(begin, end):
        for t in range(passed.shape[0]):
            if start[t, n]:
                free[n, :] = False
                blocked[n, :] = False
                first[n, :] = -1
                last[n, :] = -1
                steps[n] = 0
            if steps[n] == 0:
                home[n, 0], home[n, 1] = pose[t, n, 0], pose[t, n, 1]
                homeward[n] = here[t, n, 0]
            for k in range(passed.shape[2]):
                free[n, passed[t, n, k]] = True
            for k in range(hit.shape[2]):
                blocked[n, hit[t, n, k]] = True
            now, place = min(steps[n], 32767), here[t, n, 0]
            if first[n, place] == -1:
                first[n, place] = now
            last[n, place] = now
            _draw(free[n], blocked[n], first[n], last[n], steps[n], fade, framed)
            if near.shape[-1] > planes:
                _passable(free[n], blocked[n], last[n], side, open_, beside, edge)
                distance[:] = -1
                queue[0] = homeward[n]
                if homeward[n] < cells:
                    distance[homeward[n]] = 0
                    _spread(open_, distance, queue, 1)
                ways[t, n, 0], _ = _lead(distance, place, reach, setting_out, framed, planes, aims[t, n, 0])
                distance[:] = -1
                length = 0
                for cell in range(cells):
                    if edge[cell]:
                        distance[cell] = 0
                        queue[length] = cell
                        length += 1
                _spread(open_, distance, queue, length)
                ways[t, n, 1], end = _lead(
                    distance, place, reach, setting_out, framed, planes + 1, aims[t, n, 1]
                )
                if end >= 0 and distance[end] == 0:
                    _beyond(free[n], blocked[n], last[n], side, end, aims[t, n, 1])
            _sample(framed, affine_near[t, n], near[t, n])
            _pool(framed, factor, pooled)
            _sample(pooled, affine_far[t, n], far[t, n])
            homes[t, n, 0], homes[t, n, 1] = home[n, 0], home[n, 1]
            steps[n] += 1
