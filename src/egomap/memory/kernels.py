"""Native kernels (numba) for the two loops over map cells that tensor operations serve badly.

Input: numpy views of CPU tensors and a range of environments (or samples) to work on. Output:
results written into arrays that the caller made. Paper: equations 6 and 7, and the warp. One pass per
environment keeps its map in the cache and never stores the world map of each step. No autograd and no threads
here: both are in `native`. Plain torch (`scan`, `attention`) is the reference that the tests hold these to.

All sums are in the arrays' own dtype (a literal 0.0 would make them double, at half the speed), coordinates in
double precision. Cells are taken four at a time where one alone would wait for its own sum.

Each kernel is one long function, for numba keeps no compiled function on disk that calls another one made for a
number of channels: it would be compiled again in every process.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Kernel = Callable[..., None]


class Kernels(NamedTuple):
    """The kernels for one number of channels; each takes (first, last, ...) and works on that range."""

    write_read: Kernel
    write_read_backward: Kernel
    attend: Kernel
    attend_backward: Kernel


Function = TypeVar("Function", bound=Callable[..., Any])

# Sums over channels may be added up in any order, but NaN and inf keep their meaning.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


def _compile(function: Function) -> Function:
    """The compiled function, kept beside this file (or in numba's user cache) if either is writable."""
    try:
        compiled: Function = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no place to keep it
        compiled = numba.njit(**_OPTIONS)(function)
    return compiled


@functools.cache
def build(channels: int) -> Kernels:
    """The kernels for `channels` channels: a constant, so that the inner loops become vector instructions."""
    return Kernels(*_build_map_kernels(channels), *_build_attention_kernels(channels))


@_compile
def _place(affine: Array, row: int, column: int, size: int) -> tuple[float, float]:
    """Where a cell of the resampled map lies in the stored one: x to the right, y down, in cells.

    Convention: as `geometry.warp`; `affine` (2, 3) leads from the resampled to the stored map. The stored map
    has a frame of one empty cell around it, and 0, 0 is the centre of that frame's first cell.
    """
    half = size / 2
    u, v = column + 0.5 - half, row + 0.5 - half
    x = affine[0, 0] * u + affine[0, 1] * v + affine[0, 2] * half + (half + 0.5)
    y = affine[1, 0] * u + affine[1, 1] * v + affine[1, 2] * half + (half + 0.5)
    return x, y


def _build_map_kernels(channels: int) -> tuple[Kernel, Kernel]:
    """Write and read of the map over time, and the same backwards.

    Both work on a copy of one map with an empty cell all around, so that the four cells around any place exist.
    """

    @_compile
    def write_read(
        first: int,
        last: int,
        features: Array,
        cell: Array,
        start: Array,
        affine: Array,
        alpha: float,
        maps: Array,
        known: Array,
        live: Array,
        maps_ego: Array,
        share: Array,
        keep: Array,
        visible: Array,
    ) -> None:
        """Blend step by step into `maps` and `known` (in place), and resample the map of each step.

        features (T, N, K, C), cell (T, N, K) -1 where dropped, start (T, N), affine (T, N, 2, 3),
        maps (N, cells, C), known (N, cells), live (N, cells) the cells of the first map that matter even if they
        are zero, being known or in want of a gradient -> maps_ego (T, N, cells, C). For the backward pass also
        share (T, N, K), the weight of each feature, keep (T, N, K), that of its cell's old value (1 for all but
        the first feature in a cell), and visible (T, N, cells), the resampled cells with anything live in them.
        Most have nothing.
        """
        steps, points, cells = cell.shape[0], cell.shape[2], known.shape[1]
        size = round(math.sqrt(cells))
        wide = size + 2
        one = maps.dtype.type(1)
        framed, alive = np.zeros((wide * wide, channels), maps.dtype), np.zeros(wide * wide, np.bool_)
        count, cell_share = np.zeros(cells, np.int64), np.zeros(cells, maps.dtype)
        for n in range(first, last):
            for i in range(cells):
                at = (i // size + 1) * wide + i % size + 1
                matters = live[n, i]
                for c in range(channels):
                    framed[at, c] = maps[n, i, c]
                    matters |= maps[n, i, c] != 0
                alive[at] = matters
            for t in range(steps):
                if start[t, n]:
                    known[n] = False
                    alive[:] = False
                    framed[:] = 0.0
                for k in range(points):
                    if cell[t, n, k] >= 0:
                        count[cell[t, n, k]] += 1
                for k in range(points):
                    i = cell[t, n, k]
                    keep[t, n, k] = 1.0
                    share[t, n, k] = 0.0
                    if i < 0:
                        continue
                    at = (i // size + 1) * wide + i % size + 1
                    if count[i] > 0:  # the first feature of this cell
                        eta = alpha if known[n, i] else 0.0
                        keep[t, n, k] = eta
                        cell_share[i] = (1.0 - eta) / count[i]
                        old = keep[t, n, k]
                        for c in range(channels):
                            framed[at, c] *= old
                        known[n, i] = True
                        alive[at] = True
                        count[i] = 0
                    new = cell_share[i]
                    share[t, n, k] = new
                    for c in range(channels):
                        framed[at, c] += new * features[t, n, k, c]
                for row in range(size):
                    for column in range(size):
                        out = row * size + column
                        x, y = _place(affine[t, n], row, column, size)
                        seen = x > 0.0 and y > 0.0 and x < size + 1 and y < size + 1
                        if seen:
                            left, top = min(int(x), size), min(int(y), size)
                            a = top * wide + left
                            b = a + wide
                            seen = alive[a] or alive[a + 1] or alive[b] or alive[b + 1]
                        visible[t, n, out] = seen
                        if not seen:
                            for c in range(channels):
                                maps_ego[t, n, out, c] = 0.0
                            continue
                        wx, wy = maps.dtype.type(x - left), maps.dtype.type(y - top)
                        w0, w1, w2, w3 = (one - wx) * (one - wy), wx * (one - wy), (one - wx) * wy, wx * wy
                        for c in range(channels):
                            maps_ego[t, n, out, c] = (
                                w0 * framed[a, c]
                                + w1 * framed[a + 1, c]
                                + w2 * framed[b, c]
                                + w3 * framed[b + 1, c]
                            )
            for i in range(cells):
                at = (i // size + 1) * wide + i % size + 1
                for c in range(channels):
                    maps[n, i, c] = framed[at, c]

    @_compile
    def write_read_backward(
        first: int,
        last: int,
        grad_a: Array,
        grad_b: Array,
        cell: Array,
        start: Array,
        cut: Array,
        affine: Array,
        share: Array,
        keep: Array,
        visible: Array,
        grad_map: Array,
        grad_features: Array,
    ) -> None:
        """Walk back in time; `grad_map` (N, cells, C) goes from the last map's gradient to the first's.

        grad_a and grad_b (T, N, cells, C) are the gradients of maps_ego from its two readers. In the end only
        the cells of `grad_map` that were live in the forward pass are right.
        """
        steps, points, cells = cell.shape[0], cell.shape[2], grad_map.shape[1]
        size = round(math.sqrt(cells))
        wide = size + 2
        one = grad_map.dtype.type(1)
        framed = np.zeros((wide * wide, channels), grad_map.dtype)
        for n in range(first, last):
            for i in range(cells):
                at = (i // size + 1) * wide + i % size + 1
                for c in range(channels):
                    framed[at, c] = grad_map[n, i, c]
            for t in range(steps - 1, -1, -1):
                for row in range(size):
                    for column in range(size):
                        out = row * size + column
                        if not visible[t, n, out]:
                            continue
                        x, y = _place(affine[t, n], row, column, size)
                        left, top = min(int(x), size), min(int(y), size)
                        a = top * wide + left
                        b = a + wide
                        wx, wy = grad_map.dtype.type(x - left), grad_map.dtype.type(y - top)
                        w0, w1, w2, w3 = (one - wx) * (one - wy), wx * (one - wy), (one - wx) * wy, wx * wy
                        # Two loops: neighbours in one would have to be written one after the other.
                        for c in range(channels):
                            grad = grad_a[t, n, out, c] + grad_b[t, n, out, c]
                            framed[a, c] += w0 * grad
                            framed[b, c] += w2 * grad
                        for c in range(channels):
                            grad = grad_a[t, n, out, c] + grad_b[t, n, out, c]
                            framed[a + 1, c] += w1 * grad
                            framed[b + 1, c] += w3 * grad
                for k in range(points):
                    i = max(cell[t, n, k], 0)
                    at = (i // size + 1) * wide + i % size + 1
                    new = share[t, n, k]
                    for c in range(channels):
                        grad_features[t, n, k, c] = new * framed[at, c]
                for k in range(points):
                    i, old = cell[t, n, k], keep[t, n, k]
                    if i >= 0 and old != 1.0:
                        at = (i // size + 1) * wide + i % size + 1
                        for c in range(channels):
                            framed[at, c] *= old
                if start[t, n] or cut[t, n]:
                    framed[:] = 0.0
            for i in range(cells):
                at = (i // size + 1) * wide + i % size + 1
                for c in range(channels):
                    grad_map[n, i, c] = framed[at, c]

    return write_read, write_read_backward


def _build_attention_kernels(channels: int) -> tuple[Kernel, Kernel]:
    """Attention over the cells of each sample, and its gradients."""

    @_compile
    def attend(
        first: int,
        last: int,
        rows: Array,
        query: Array,
        beta: Array,
        positions: Array,
        epsilon: float,
        cosine: bool,
        context: Array,
        attention: Array,
        score: Array,
        inverse: Array,
    ) -> None:
        """Scores, softmax and weighted mean of rows (B, cells, C) -> context (B, C + 2).

        For the cosine `query` (B, C) is normalised already. attention, score and inverse (B, cells), the last
        one over each cell's length, serve the backward pass.
        """
        cells, kind = rows.shape[1], rows.dtype.type
        zero, one, small = kind(0), kind(1), kind(epsilon)
        fours = cells - cells % 4
        mean = np.empty(channels, rows.dtype)
        for s in range(first, last):
            b = beta[s]
            if cosine:
                for i in range(0, cells, 4):
                    j, k, m = min(i + 1, cells - 1), min(i + 2, cells - 1), min(i + 3, cells - 1)
                    di, dj, dk, dm = zero, zero, zero, zero
                    ni, nj, nk, nm = zero, zero, zero, zero
                    for c in range(channels):
                        q, ri, rj, rk, rm = (
                            query[s, c],
                            rows[s, i, c],
                            rows[s, j, c],
                            rows[s, k, c],
                            rows[s, m, c],
                        )
                        di += ri * q
                        dj += rj * q
                        dk += rk * q
                        dm += rm * q
                        ni += ri * ri
                        nj += rj * rj
                        nk += rk * rk
                        nm += rm * rm
                    score[s, i], score[s, j], score[s, k], score[s, m] = di, dj, dk, dm
                    inverse[s, i], inverse[s, j], inverse[s, k], inverse[s, m] = ni, nj, nk, nm
                for i in range(cells):
                    inverse[s, i] = one / math.sqrt(inverse[s, i] + small)
                    score[s, i] *= inverse[s, i]
            else:
                for i in range(cells):
                    distance = zero
                    for c in range(channels):
                        distance += abs(rows[s, i, c] - query[s, c])
                    score[s, i] = -distance
            highest = b * score[s, 0]
            for i in range(cells):
                highest = max(highest, b * score[s, i])
            norm = zero
            for i in range(cells):
                weight = math.exp(b * score[s, i] - highest)
                attention[s, i] = weight
                norm += weight
            x, y, scale = zero, zero, one / norm
            for i in range(cells):
                weight = attention[s, i] * scale
                attention[s, i] = weight
                x += weight * positions[i, 0]
                y += weight * positions[i, 1]
            mean[:] = zero
            for i in range(0, fours, 4):
                wi, wj, wk, wm = (
                    attention[s, i],
                    attention[s, i + 1],
                    attention[s, i + 2],
                    attention[s, i + 3],
                )
                for c in range(channels):
                    mean[c] += (
                        wi * rows[s, i, c]
                        + wj * rows[s, i + 1, c]
                        + wk * rows[s, i + 2, c]
                        + wm * rows[s, i + 3, c]
                    )
            for i in range(fours, cells):
                weight = attention[s, i]
                for c in range(channels):
                    mean[c] += weight * rows[s, i, c]
            for c in range(channels):
                context[s, c] = mean[c]
            context[s, channels], context[s, channels + 1] = x, y

    @_compile
    def attend_backward(
        first: int,
        last: int,
        grad: Array,
        rows: Array,
        query: Array,
        beta: Array,
        positions: Array,
        cosine: bool,
        attention: Array,
        score: Array,
        inverse: Array,
        grad_rows: Array,
        grad_query: Array,
        grad_beta: Array,
    ) -> None:
        """Gradients of rows, query and beta from that of the context, `grad` (B, C + 2)."""
        cells = rows.shape[1]
        zero = rows.dtype.type(0)
        fours = cells - cells % 4
        # Per cell: the gradient of its attention, of its dot product (or distance), and of its length.
        by_weight, by_dot, by_length = np.empty((3, cells), rows.dtype)
        by_query = np.empty(channels, rows.dtype)
        for s in range(first, last):
            b, gx, gy = beta[s], grad[s, channels], grad[s, channels + 1]
            for i in range(0, cells, 4):
                j, k, m = min(i + 1, cells - 1), min(i + 2, cells - 1), min(i + 3, cells - 1)
                di, dj, dk, dm = zero, zero, zero, zero
                for c in range(channels):
                    g = grad[s, c]
                    di += rows[s, i, c] * g
                    dj += rows[s, j, c] * g
                    dk += rows[s, k, c] * g
                    dm += rows[s, m, c] * g
                by_weight[i], by_weight[j], by_weight[k], by_weight[m] = di, dj, dk, dm
            average, slope = zero, zero
            for i in range(cells):
                by_weight[i] += gx * positions[i, 0] + gy * positions[i, 1]
                average += attention[s, i] * by_weight[i]
            for i in range(cells):
                by_logit = attention[s, i] * (by_weight[i] - average)
                slope += by_logit * score[s, i]
                by_dot[i] = by_logit * b
                if cosine:
                    by_dot[i] *= inverse[s, i]
                    by_length[i] = by_dot[i] * score[s, i] * inverse[s, i]
            grad_beta[s] = slope
            by_query[:] = zero
            if cosine:
                for i in range(cells):
                    weight, along, shrink = attention[s, i], by_dot[i], by_length[i]
                    for c in range(channels):
                        grad_rows[s, i, c] = (
                            weight * grad[s, c] + along * query[s, c] - shrink * rows[s, i, c]
                        )
                for i in range(0, fours, 4):
                    wi, wj, wk, wm = by_dot[i], by_dot[i + 1], by_dot[i + 2], by_dot[i + 3]
                    for c in range(channels):
                        by_query[c] += (
                            wi * rows[s, i, c]
                            + wj * rows[s, i + 1, c]
                            + wk * rows[s, i + 2, c]
                            + wm * rows[s, i + 3, c]
                        )
                for i in range(fours, cells):
                    along = by_dot[i]
                    for c in range(channels):
                        by_query[c] += along * rows[s, i, c]
            else:
                for i in range(cells):
                    weight, along = attention[s, i], by_dot[i]
                    for c in range(channels):
                        sign = np.sign(rows[s, i, c] - query[s, c])
                        grad_rows[s, i, c] = weight * grad[s, c] - along * sign
                        by_query[c] += along * sign
            for c in range(channels):
                grad_query[s, c] = by_query[c]

    return attend, attend_backward
