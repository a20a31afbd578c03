"""The world map over a whole rollout: every write of T steps, and what the agent sees of it at each.

What comes in: features of all steps with the cells they fall into, the map before, and where the agent
stands. What goes out: the agent-centred map of every step and the last world map. Paper: section 3, equation
6 and "Sampling from a global map". Where a feature falls and how much it weighs does not depend on the
network, so the recursion `M_t = eta_t M_{t-1} + written_t` is linear with known factors, per cell; only that
is a loop. Gradients are exact through every past write. Poses are data: no gradient goes to them.

Plain torch here, for any device and dtype; on a CPU `egomap.memory.native` does both parts in one pass
without storing the world maps.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from egomap.geometry import image_from_rows, rows_from_image, warp
from egomap.memory import native


class Writes(NamedTuple):
    """Where and when the features of a rollout are written; all known before the network runs."""

    cell: Tensor
    """(T, N, K) int64 cell of each feature, any valid cell where it is not written."""
    inside: Tensor
    """(T, N, K) bool, False for features out of the map or of unknown depth."""
    episode_start: Tensor
    """(T, N) bool: the map is emptied before this write."""
    cut: Tensor | None
    """(T, N) bool: no gradient goes from this write on to earlier ones; None for never."""
    affine: Tensor
    """(T * N, 2, 3) from ego to world map, see `geometry.affine_from_pose`."""
    alpha: float
    """Weight of the old map where old and new meet."""


class _Plan(NamedTuple):
    """Factors of the recursion."""

    share: Tensor
    """(T, N, K) weight of each feature in its cell's new value."""
    eta: Tensor
    """(T, N, cells) weight of each cell's old value."""
    known: Tensor
    """(N, cells) bool, cells that the last map knows."""


def write_and_read(
    features: Tensor, map_prev: Tensor, known: Tensor, writes: Writes
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Write T observations, one after the other, and see the map from the agent's place after each.

    Args:
        features: (T, N, K, C) feature vectors.
        map_prev: (N, cells, C) world map before the first write.
        known: (N, cells) bool, the cells that it knows.
        writes: Where each feature goes, and from where the map is read.

    Returns:
        maps_ego (T, N, cells, C); the same again for a second reader (so that the two gradients are added
        where they are used, not in a pass of its own); the last world map (N, cells, C); the cells that it
        knows (N, cells).
    """
    if native.enabled(features):
        return native.write_and_read(features, map_prev, known, writes)
    plan = _plan(known, writes, features.dtype)
    maps = cast(Tensor, _scan(features * plan.share[..., None], map_prev, writes.cell, plan.eta, writes.cut))
    images = image_from_rows(maps.flatten(0, 1))  # (T * N, C, size, size), channels last in memory
    # grid_sample answers in another layout; one copy back serves the convolutions and the attention alike.
    maps_ego = rows_from_image(warp(images, writes.affine)).contiguous()
    maps_ego = maps_ego.unflatten(0, maps.shape[:2])
    return maps_ego, maps_ego, maps[-1], plan.known


def _plan(known: Tensor, writes: Writes, dtype: torch.dtype) -> _Plan:
    """The factors of equation 6 for all steps at once: which cells are seen, and which were known by then."""
    steps, cells = writes.cell.shape[0], known.shape[-1]
    weight = writes.inside.to(dtype)
    count = weight.new_zeros(*weight.shape[:2], cells).scatter_add_(2, writes.cell, weight)  # (T, N, cells)
    seen = count > 0
    # A cell is known before step t if its last sighting (step + 1; 0 for the start map) is not before the
    # last reset.
    clock = torch.arange(1, steps + 1, dtype=torch.int32, device=known.device)
    sightings = torch.cat((known[None].int() - 1, torch.where(seen, clock[:, None, None], -1)))
    last_sighting = sightings.cummax(0).values  # (T + 1, N, cells)
    last_reset = torch.where(writes.episode_start, clock[:, None], 0).cummax(0).values[..., None]
    known_before = last_sighting[:-1] >= last_reset
    old = known_before.to(dtype) * writes.alpha  # eta where the cell is seen
    share = weight * (1.0 - old.gather(2, writes.cell)) / count.gather(2, writes.cell).clamp_(min=1.0)
    eta = torch.where(seen, old, 1.0).masked_fill_(writes.episode_start[..., None], 0.0)
    return _Plan(share, eta, last_sighting[-1] >= last_reset[-1])


class _Scan(torch.autograd.Function):
    """`M_t = eta_t * M_{t-1} + (the features written at t)`, all M_t kept."""

    @staticmethod
    def forward(
        ctx: Any, written: Tensor, map_prev: Tensor, index: Tensor, eta: Tensor, cut: Tensor | None
    ) -> Tensor:
        """Takes written (T, N, K, C), map_prev (N, cells, C), eta (T, N, cells) -> (T, N, cells, C)."""
        steps, num_envs, points, channels = written.shape
        cells = map_prev.shape[1]
        first_row = torch.arange(num_envs, device=index.device)[:, None] * cells
        rows = (index + first_row).view(steps, num_envs * points)
        maps = written.new_empty(steps, num_envs * cells, channels)
        current = map_prev.reshape(num_envs * cells, channels)
        by_step = zip(
            maps.unbind(0),
            eta.view(steps, num_envs * cells, 1).unbind(0),
            rows.unbind(0),
            written.reshape(steps, num_envs * points, channels).unbind(0),
            strict=True,
        )
        for map_t, eta_t, rows_t, written_t in by_step:
            current = torch.mul(current, eta_t, out=map_t).index_add_(0, rows_t, written_t)
        passed = eta if cut is None else eta.masked_fill(cut[..., None], 0.0)
        ctx.save_for_backward(rows, passed)
        return maps.view(steps, num_envs, cells, channels)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_maps: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the written features and the first map, walking back in time."""
        rows, passed = ctx.saved_tensors
        steps, num_envs, cells, channels = grad_maps.shape
        grad = grad_maps.new_zeros(num_envs * cells, channels)
        grad_written = grad_maps.new_empty(steps, rows.shape[1], channels)
        by_step = zip(
            grad_maps.reshape(steps, num_envs * cells, channels).unbind(0),
            passed.view(steps, num_envs * cells, 1).unbind(0),
            rows.unbind(0),
            grad_written.unbind(0),
            strict=True,
        )
        for grad_t, passed_t, rows_t, grad_written_t in reversed(list(by_step)):
            grad.add_(grad_t)
            torch.index_select(grad, 0, rows_t, out=grad_written_t)
            grad.mul_(passed_t)
        shape = (steps, num_envs, -1, channels)
        return grad_written.view(shape), grad.view(num_envs, cells, channels), None, None, None


# A loop of a few in-place operations per step is nothing for a compiler to gain on: run it as it stands.
_scan = torch.compiler.disable(_Scan.apply)
