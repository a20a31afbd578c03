"""The native kernels as differentiable functions, and the switch between them and plain torch.

Input: the same tensors that `scan` and `attention` get. Output: the same results and
gradients, sooner. The kernels are used for float32 and float64 tensors on the CPU if numba is installed (the
extra `kernels`); set the environment variable EGOMAP_KERNELS to `torch`, `numba` or `auto`, or call
`use_kernels`. Environments are shared out among `torch.get_num_threads()` threads of our own, so numba's
thread pool never meets torch's.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from egomap.memory.kernels import Kernels
    from egomap.memory.scan import Writes

Backend = Literal["auto", "torch", "numba"]
_choice: Backend | None = None


@functools.cache
def available() -> bool:
    """Whether numba can be imported; one that is installed may still refuse a newer numpy."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def use_kernels(backend: Backend) -> Iterator[None]:
    """Within the block, use `torch`, `numba` or `auto` (numba where it can); stronger than EGOMAP_KERNELS."""
    global _choice
    _require_backend("kernels", backend)
    before, _choice = _choice, backend
    try:
        yield
    finally:
        _choice = before


def enabled(tensor: Tensor) -> bool:
    """Whether the kernels serve tensors like this one."""
    if torch.compiler.is_compiling() or tensor.device.type != "cpu":
        return False
    backend = _choice or os.environ.get("EGOMAP_KERNELS", "auto")
    _require_backend("EGOMAP_KERNELS", backend)
    if backend == "numba" and not available():
        raise ValueError(
            "numba kernels were asked for, but numba cannot be imported: pip install 'egomap[kernels]'."
        )
    return backend != "torch" and available() and tensor.dtype in (torch.float32, torch.float64)


def _require_backend(name: str, backend: str) -> None:
    if backend not in get_args(Backend):
        raise ValueError(f"{name} must be torch, numba or auto; got {backend!r}.")


def _kernels(channels: int) -> Kernels:
    from egomap.memory.kernels import build  # numba is optional and takes a while to import

    return build(channels)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="egomap-kernel")


# The threads of a pool do not exist in a forked child.
os.register_at_fork(after_in_child=_pool.cache_clear)


def share_out(kernel: Callable[..., None], count: int, *args: Any) -> None:
    """Run `kernel(first, last, *args)` over range(count), in as many slices as torch has threads."""
    arrays = [arg.detach().numpy() if isinstance(arg, Tensor) else arg for arg in args]
    threads = min(torch.get_num_threads(), count)
    bounds = [count * i // threads for i in range(threads + 1)] if threads else [0]
    slices = list(itertools.pairwise(bounds))
    others = [_pool(threads - 1).submit(kernel, *bounds, *arrays) for bounds in slices[1:]]
    for own in slices[:1]:
        kernel(*own, *arrays)
    for other in others:
        other.result()


class _WriteRead(torch.autograd.Function):
    """`kernels.write_read`: the agent-centred maps of all steps (twice, one for each reader) and the last map."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, map_prev: Tensor, known: Tensor, writes: Writes
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features (T, N, K, C), map_prev (N, cells, C), known (N, cells) -> maps, maps again, last map, known."""
        steps, num_envs, points, channels = features.shape
        cell = torch.where(writes.inside, writes.cell, -1)
        affine = writes.affine.view(steps, num_envs, 2, 3).contiguous()
        start = writes.episode_start.contiguous()
        maps = map_prev.clone(memory_format=torch.contiguous_format)
        known = known.clone(memory_format=torch.contiguous_format)
        maps_ego = features.new_empty(steps, num_envs, *maps.shape[1:])
        share, keep = features.new_empty(2, steps, num_envs, points)
        visible = known.new_empty(maps_ego.shape[:-1])
        # Cells that were never written are zero, and their gradient goes nowhere: the kernels pass them by,
        # unless the given map has another.
        live = torch.ones_like(known) if ctx.needs_input_grad[1] else known
        kernel = _kernels(channels).write_read
        alpha = float(writes.alpha)
        out = (maps, known, live, maps_ego, share, keep, visible)
        share_out(kernel, num_envs, features.contiguous(), cell, start, affine, alpha, *out)
        cut = start if writes.cut is None else writes.cut.contiguous()
        ctx.save_for_backward(cell, start, cut, affine, share, keep, visible)
        ctx.map_shape = maps.shape
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(known)
        return maps_ego, maps_ego.detach(), maps, known

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_a: Tensor | None, grad_b: Tensor | None, grad_last: Tensor | None, _: Any
    ) -> tuple[Tensor | None, ...]:
        """Gradients of the features and of the first map."""
        cell, start, cut, affine, share, keep, visible = ctx.saved_tensors
        steps, num_envs, points = cell.shape
        one_map = ctx.map_shape
        grads = [grad.contiguous() for grad in (grad_a, grad_b) if grad is not None]
        grad_map = share.new_zeros(one_map) if grad_last is None else grad_last.clone().contiguous()
        if not grads:
            grads = [share.new_zeros(1, 1, 1, 1).expand(steps, *one_map)]
        if len(grads) == 1:  # the kernel adds two; a broadcast zero costs no memory
            grads.append(share.new_zeros(1, 1, 1, 1).expand(steps, *one_map))
        grad_features = share.new_empty(steps, num_envs, points, one_map[-1])
        kernel = _kernels(one_map[-1]).write_read_backward
        known = (cell, start, cut, affine, share, keep, visible)
        share_out(kernel, num_envs, *grads, *known, grad_map, grad_features)
        return grad_features, grad_map if ctx.needs_input_grad[1] else None, None, None


class _Attend(torch.autograd.Function):
    """`kernels.attend`: context and attention; for the cosine the query must be normalised already."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, query: Tensor, beta: Tensor, positions: Tensor, epsilon: float, cosine: bool
    ) -> tuple[Tensor, Tensor]:
        """Takes rows (B, cells, C), query (B, C), beta (B,), positions (cells, 2) -> (B, C + 2), (B, cells)."""
        batch, cells, channels = rows.shape
        given = (rows.contiguous(), query.contiguous(), beta.contiguous(), positions.to(rows.dtype))
        context = rows.new_empty(batch, channels + 2)
        attention, score, inverse = rows.new_empty(3, batch, cells)
        kernel = _kernels(channels).attend
        share_out(kernel, batch, *given, epsilon, cosine, context, attention, score, inverse)
        ctx.save_for_backward(*given, attention, score, inverse)
        ctx.cosine = cosine
        ctx.mark_non_differentiable(attention)
        return context, attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of rows, query and beta."""
        rows, query, beta, positions, *found = ctx.saved_tensors
        grads = (torch.empty_like(rows), torch.empty_like(query), torch.empty_like(beta))
        kernel = _kernels(rows.shape[-1]).attend_backward
        given = (grad.contiguous(), rows, query, beta, positions, ctx.cosine)
        share_out(kernel, rows.shape[0], *given, *found, *grads)
        return *grads, None, None, None


def attend(
    rows: Tensor, query: Tensor, beta: Tensor, positions: Tensor, *, epsilon: float, cosine: bool
) -> tuple[Tensor, Tensor]:
    """As `attention.attend`; for the cosine the query must be normalised already."""
    return cast(tuple[Tensor, Tensor], _Attend.apply(rows, query, beta, positions, epsilon, cosine))


def write_and_read(
    features: Tensor, map_prev: Tensor, known: Tensor, writes: Writes
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `scan.write_and_read`."""
    return cast(tuple[Tensor, Tensor, Tensor, Tensor], _WriteRead.apply(features, map_prev, known, writes))


def follow_places(num_envs: int, *arguments: Any) -> None:
    """`place_kernels.follow` over all environments; its arguments, arrays as tensors."""
    from egomap.memory.place_kernels import follow

    share_out(follow, num_envs, *arguments)
