"""The native kernel (numba) of the place planes: write a step's evidence, and see the planes from the agent's place.

What comes in: numpy views of CPU tensors and a range of environments. What goes out: the state changed in place, and
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
    side, planes = framed.shape[0] - 2, framed.shape[2]
    pooled[:] = 0
    for row in range(side):
        for column in range(side):
            to, value = pooled[row // factor + 1, column // factor + 1], framed[row + 1, column + 1]
            for p in range(planes):
                to[p] = max(to[p], value[p])


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
    free: Array,
    blocked: Array,
    first: Array,
    last: Array,
    steps: Array,
    home: Array,
    near: Array,
    far: Array,
    homes: Array,
) -> None:
    """Environments `begin` to `end` through T steps.

    passed (T, N, K), hit (T, N, R) and here (T, N, 1) are the evidence, pose (T, N, 3), start (T, N), the affine
    matrices (T, N, 2, 3); the state (see `PlaceState`) is changed in place; near and far (T, N, W, W, P) and homes
    (T, N, 2), the start of the episode of each step, are written.
    """
    cells = free.shape[1] - 1
    side = round(math.sqrt(cells))
    planes = near.shape[-1]
    framed = np.zeros((side + 2, side + 2, planes), np.float32)
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
            for k in range(passed.shape[2]):
                free[n, passed[t, n, k]] = True
            for k in range(hit.shape[2]):
                blocked[n, hit[t, n, k]] = True
            now, place = min(steps[n], 32767), here[t, n, 0]
            if first[n, place] == -1:
                first[n, place] = now
            last[n, place] = now
            _draw(free[n], blocked[n], first[n], last[n], steps[n], fade, framed)
            _sample(framed, affine_near[t, n], near[t, n])
            _pool(framed, factor, pooled)
            _sample(pooled, affine_far[t, n], far[t, n])
            homes[t, n, 0], homes[t, n, 1] = home[n, 0], home[n, 1]
            steps[n] += 1
