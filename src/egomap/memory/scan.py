"""The world map over a whole rollout: every write of T steps, and what the agent sees of it at each.

Input: features of all steps with the cells they fall into, the map before, and where the agent
stands. Output: the agent-centred map of every step and the last world map. Paper: section 3, equation
6 and "Sampling from a global map". Where a feature falls and how much it weighs does not depend on the
network, so the recursion `M_t = eta_t M_{t-1} + written_t` is linear with known factors, per cell; only that
is a loop. Gradients are exact through every past write. Poses are data: no gradient goes to them.

Of T full maps only the ones that the reads look at are ever stored. Plain torch here, for any device and dtype,
a few steps at a time; on a CPU `egomap.memory.native` does the same in one pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from egomap.geometry import image_from_rows, rows_from_image, warp, warp_transposed
from egomap.geometry.checks import require_shape
from egomap.memory import native
from egomap.memory.eager import eager

_SLAB = 8
"""Steps whose world maps exist at the same time in plain torch. Few enough for the cache, enough to fill a GPU
at the usual 16 environments and more."""


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
    _check(features, map_prev, known, writes)
    if native.enabled(features):
        return native.write_and_read(features, map_prev, known, writes)
    plan = _plan(known, writes, features.dtype)
    written = features * plan.share[..., None]
    maps_ego, maps_again, map_last = cast(
        tuple[Tensor, Tensor, Tensor],
        _write_read(written, map_prev, writes.cell, plan.eta, writes.cut, writes.affine),
    )
    return maps_ego, maps_again, map_last, plan.known


def _check(features: Tensor, map_prev: Tensor, known: Tensor, writes: Writes) -> None:
    """Compiled kernels do not check bounds: a wrong size or index would access other memory."""
    require_shape("features", features, (None,) * 4, leading=0)
    steps, num_envs, points, channels = features.shape
    require_shape("map_prev", map_prev, (num_envs, None, channels), leading=0)
    cells = map_prev.shape[1]
    require_shape("known", known, (num_envs, cells), leading=0)
    for name in ("cell", "inside"):
        require_shape(name, getattr(writes, name), (steps, num_envs, points), leading=0)
    require_shape("episode_start", writes.episode_start, (steps, num_envs), leading=0)
    if writes.cut is not None:
        require_shape("cut", writes.cut, (steps, num_envs), leading=0)
    require_shape("affine", writes.affine, (steps * num_envs, 2, 3), leading=0)
    on_cpu = writes.cell.device.type == "cpu" and not torch.compiler.is_compiling()
    if on_cpu and writes.cell.numel():  # elsewhere a look would have to wait for the device
        least, most = (int(value) for value in writes.cell.aminmax())
        if least < 0 or most >= cells:
            raise ValueError(f"cell must be 0 to {cells - 1}; got {least} to {most}.")


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


class _WriteRead(torch.autograd.Function):
    """`M_t = eta_t * M_{t-1} + (the features written at t)`, and M_t as seen from the agent's place."""

    @staticmethod
    def forward(
        ctx: Any,
        written: Tensor,
        map_prev: Tensor,
        cell: Tensor,
        eta: Tensor,
        cut: Tensor | None,
        affine: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Takes written (T, N, K, C), map_prev (N, cells, C), cell (T, N, K), eta (T, N, cells), cut (T, N)."""
        steps, num_envs, points, channels = written.shape
        cells = map_prev.shape[1]
        first_row = torch.arange(num_envs, device=cell.device)[:, None] * cells
        rows = (cell + first_row).view(steps, num_envs * points)
        affine = affine.view(steps, num_envs, 2, 3)
        maps_ego = written.new_empty(steps, num_envs, cells, channels)
        worlds = written.new_empty(min(_SLAB, steps), num_envs * cells, channels)
        current = map_prev.reshape(num_envs * cells, channels)
        for slab in _slabs(steps):
            by_step = zip(
                worlds.unbind(0),
                eta[slab].flatten(1).unsqueeze(-1).unbind(0),
                rows[slab].unbind(0),
                written[slab].flatten(1, 2).unbind(0),
                strict=False,  # the last slab may be shorter
            )
            for world, eta_t, rows_t, written_t in by_step:
                current = torch.mul(current, eta_t, out=world).index_add_(0, rows_t, written_t)
            seen = maps_ego[slab]
            images = image_from_rows(worlds[: len(seen)].view(-1, cells, channels))  # channels last in memory
            seen.copy_(rows_from_image(warp(images, affine[slab].flatten(0, 1))).view_as(seen))
        passed = eta if cut is None else eta.masked_fill(cut[..., None], 0.0)
        ctx.save_for_backward(rows, passed, affine)
        ctx.shape = (num_envs, cells, channels)
        ctx.set_materialize_grads(False)
        return maps_ego, maps_ego.detach(), current.clone().view(ctx.shape)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_a: Tensor | None, grad_b: Tensor | None, grad_last: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Gradients of the written features and the first map, walking back in time."""
        rows, passed, affine = ctx.saved_tensors
        num_envs, cells, channels = ctx.shape
        steps, readers = rows.shape[0], [grad for grad in (grad_a, grad_b) if grad is not None]
        grad = passed.new_zeros(num_envs * cells, channels)
        if grad_last is not None:
            grad += grad_last.reshape_as(grad)
        grad_written = passed.new_empty(steps, rows.shape[1], channels)
        for slab in reversed(_slabs(steps)):
            worlds = _unseen([reader[slab] for reader in readers], affine[slab])
            by_step = zip(
                worlds.unbind(0) if worlds is not None else [None] * len(rows[slab]),
                passed[slab].flatten(1).unsqueeze(-1).unbind(0),
                rows[slab].unbind(0),
                grad_written[slab].unbind(0),
                strict=True,
            )
            for world, passed_t, rows_t, grad_written_t in reversed(list(by_step)):
                if world is not None:
                    grad.add_(world)
                torch.index_select(grad, 0, rows_t, out=grad_written_t)
                grad.mul_(passed_t)
        shape = (steps, num_envs, -1, channels)
        return grad_written.view(shape), grad.view(ctx.shape), None, None, None, None


def _slabs(steps: int) -> list[slice]:
    return [slice(first, min(first + _SLAB, steps)) for first in range(0, steps, _SLAB)]


def _unseen(grads: list[Tensor], affine: Tensor) -> Tensor | None:
    """Gradients of world maps (S, N * cells, C) from those of the maps seen of them, each (S, N, cells, C)."""
    if not grads:
        return None
    grad = grads[0] if len(grads) == 1 else grads[0] + grads[1]
    images = warp_transposed(image_from_rows(grad.flatten(0, 1)), affine.flatten(0, 1))
    return rows_from_image(images).reshape(len(grad), -1, grad.shape[-1])


# A loop of a few in-place operations per step is nothing for a compiler to gain on: run it as it stands.
_write_read = eager(_WriteRead.apply)
