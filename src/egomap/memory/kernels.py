"""Native kernels (numba) for the two loops over map cells that tensor operations serve badly.

What comes in: numpy views of CPU tensors and a range of environments (or samples) to work on. What goes out:
results written into arrays that the caller made. Paper: equations 6 and 7, and the warp. One pass per
environment keeps its map in the cache and never stores the world map of each step. No autograd and no threads
here: both are in `native`. Plain torch (`scan`, `attention`) is the reference that the tests hold these to.

Cells are added up in the arrays' own dtype; coordinates and weights are found in double precision.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

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


# Sums over channels may be added up in any order, but NaN and inf keep their meaning.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


def _compile(function: Kernel) -> Kernel:
    """The compiled function, kept beside this file (or in numba's user cache) if either is writable."""
    try:
        compiled: Kernel = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no place to keep it
        compiled = numba.njit(**_OPTIONS)(function)
    return compiled


@functools.cache
def build(channels: int) -> Kernels:
    """The kernels for `channels` channels: a constant, so that the inner loops become vector instructions."""
    return Kernels(*_build_map_kernels(channels), *_build_attention_kernels(channels))


@_compile
def _find_taps(affine: Array, size: int, taps: Array, weights: Array) -> None:
    """The four cells that each cell of a resampled map is made of: taps and weights (cells, 4).

    Convention: as `geometry.warp`; `affine` (2, 3) leads from the resampled to the stored map. A tap outside of
    the map weighs nothing, and its index is moved inside to stay legal.
    """
    half = size / 2
    for row in range(size):
        v = (row + 0.5) / half - 1.0
        for column in range(size):
            u = (column + 0.5) / half - 1.0
            x = (affine[0, 0] * u + affine[0, 1] * v + affine[0, 2]) * half + (half - 0.5)
            y = (affine[1, 0] * u + affine[1, 1] * v + affine[1, 2]) * half + (half - 0.5)
            x, y = min(max(x, -1.0), size * 1.0), min(max(y, -1.0), size * 1.0)
            left, top = math.floor(x), math.floor(y)
            wx, wy = x - left, y - top
            at = row * size + column
            for down in range(2):
                for across in range(2):
                    i, j = top + down, left + across
                    weight = (wy if down else 1.0 - wy) * (wx if across else 1.0 - wx)
                    inside = i >= 0 and i < size and j >= 0 and j < size
                    taps[at, 2 * down + across] = i * size + j if inside else 0
                    weights[at, 2 * down + across] = weight if inside else 0.0


def _build_map_kernels(channels: int) -> tuple[Kernel, Kernel]:
    """Write and read of the map over time, and the same backwards."""

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
        maps_ego: Array,
        share: Array,
        keep: Array,
    ) -> None:
        """Blend step by step into `maps` and `known` (in place), and resample the map of each step.

        features (T, N, K, C), cell (T, N, K) -1 where dropped, start (T, N), affine (T, N, 2, 3),
        maps (N, cells, C), known (N, cells) -> maps_ego (T, N, cells, C). For the backward pass also
        share (T, N, K), the weight of each feature, and keep (T, N, K), that of its cell's old value
        (1 for all but the first feature in a cell).
        """
        steps, points, cells = cell.shape[0], cell.shape[2], known.shape[1]
        size = round(math.sqrt(cells))
        taps, weights = np.empty((cells, 4), np.int64), np.empty((cells, 4), maps.dtype)
        count, cell_share = np.zeros(cells, np.int64), np.zeros(cells, maps.dtype)
        for n in range(first, last):
            for t in range(steps):
                if start[t, n]:
                    known[n] = False
                    maps[n] = 0.0
                for k in range(points):
                    if cell[t, n, k] >= 0:
                        count[cell[t, n, k]] += 1
                for k in range(points):
                    i = cell[t, n, k]
                    keep[t, n, k] = 1.0
                    share[t, n, k] = 0.0
                    if i < 0:
                        continue
                    if count[i] > 0:  # the first feature of this cell
                        eta = alpha if known[n, i] else 0.0
                        keep[t, n, k] = eta
                        cell_share[i] = (1.0 - eta) / count[i]
                        for c in range(channels):
                            maps[n, i, c] *= keep[t, n, k]
                        known[n, i] = True
                        count[i] = 0
                    share[t, n, k] = cell_share[i]
                    for c in range(channels):
                        maps[n, i, c] += cell_share[i] * features[t, n, k, c]
                _find_taps(affine[t, n], size, taps, weights)
                for out in range(cells):
                    i0, i1, i2, i3 = taps[out, 0], taps[out, 1], taps[out, 2], taps[out, 3]
                    w0, w1, w2, w3 = weights[out, 0], weights[out, 1], weights[out, 2], weights[out, 3]
                    for c in range(channels):
                        maps_ego[t, n, out, c] = (
                            w0 * maps[n, i0, c]
                            + w1 * maps[n, i1, c]
                            + w2 * maps[n, i2, c]
                            + w3 * maps[n, i3, c]
                        )

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
        grad_map: Array,
        grad_features: Array,
    ) -> None:
        """Walk back in time; `grad_map` (N, cells, C) goes from the last map's gradient to the first's.

        grad_a and grad_b (T, N, cells, C) are the gradients of maps_ego from its two readers.
        """
        steps, points, cells = cell.shape[0], cell.shape[2], grad_map.shape[1]
        size = round(math.sqrt(cells))
        taps, weights = np.empty((cells, 4), np.int64), np.empty((cells, 4), grad_map.dtype)
        grad = np.empty(channels, grad_map.dtype)
        for n in range(first, last):
            for t in range(steps - 1, -1, -1):
                _find_taps(affine[t, n], size, taps, weights)
                for out in range(cells):
                    for c in range(channels):
                        grad[c] = grad_a[t, n, out, c] + grad_b[t, n, out, c]
                    for tap in range(4):
                        i, weight = taps[out, tap], weights[out, tap]
                        if weight == 0.0:
                            continue
                        for c in range(channels):
                            grad_map[n, i, c] += weight * grad[c]
                for k in range(points):
                    i = max(cell[t, n, k], 0)
                    for c in range(channels):
                        grad_features[t, n, k, c] = share[t, n, k] * grad_map[n, i, c]
                for k in range(points):
                    i = cell[t, n, k]
                    if i >= 0 and keep[t, n, k] != 1.0:
                        for c in range(channels):
                            grad_map[n, i, c] *= keep[t, n, k]
                if start[t, n] or cut[t, n]:
                    grad_map[n] = 0.0

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
        cells = rows.shape[1]
        mean = np.empty(channels, rows.dtype)
        for s in range(first, last):
            for i in range(cells):
                total = rows[s, i, 0] * 0.0
                square = total
                if cosine:
                    for c in range(channels):
                        total += rows[s, i, c] * query[s, c]
                        square += rows[s, i, c] * rows[s, i, c]
                else:
                    for c in range(channels):
                        total -= abs(rows[s, i, c] - query[s, c])
                score[s, i] = total
                inverse[s, i] = square
            highest = -np.inf
            for i in range(cells):
                if cosine:
                    inverse[s, i] = 1.0 / math.sqrt(inverse[s, i] + epsilon)
                    score[s, i] *= inverse[s, i]
                highest = max(highest, beta[s] * score[s, i])
            norm = 0.0
            for i in range(cells):
                attention[s, i] = math.exp(beta[s] * score[s, i] - highest)
                norm += attention[s, i]
            x, y, scale = 0.0, 0.0, 1.0 / norm
            mean[:] = 0.0
            for i in range(cells):
                attention[s, i] *= scale
                weight = attention[s, i]
                x += weight * positions[i, 0]
                y += weight * positions[i, 1]
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
        wanted, w = np.empty(cells, rows.dtype), np.empty(2, rows.dtype)
        for s in range(first, last):
            average, slope = 0.0, 0.0
            for i in range(cells):
                total = rows[s, i, 0] * 0.0
                for c in range(channels):
                    total += grad[s, c] * rows[s, i, c]
                x, y = positions[i, 0], positions[i, 1]
                wanted[i] = total + grad[s, channels] * x + grad[s, channels + 1] * y
                average += attention[s, i] * wanted[i]
            for c in range(channels):
                grad_query[s, c] = 0.0
            for i in range(cells):
                weight = attention[s, i]
                by_logit = weight * (wanted[i] - average)
                slope += by_logit * score[s, i]
                by_score = by_logit * beta[s]
                if cosine:
                    w[0] = by_score * inverse[s, i]
                    w[1] = -by_score * score[s, i] * inverse[s, i] * inverse[s, i]
                    for c in range(channels):
                        grad_rows[s, i, c] = weight * grad[s, c] + w[0] * query[s, c] + w[1] * rows[s, i, c]
                    for c in range(channels):
                        grad_query[s, c] += w[0] * rows[s, i, c]
                else:
                    w[0] = by_score
                    for c in range(channels):
                        sign = np.sign(rows[s, i, c] - query[s, c])
                        grad_rows[s, i, c] = weight * grad[s, c] - w[0] * sign
                        grad_query[s, c] += w[0] * sign
            grad_beta[s] = slope

    return attend, attend_backward
