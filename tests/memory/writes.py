"""Helpers of the scan and kernel tests: random writes, and the recursion written out step by step."""

from __future__ import annotations

import torch
from torch import Tensor

from egomap.geometry import affine_from_pose, blend, image_from_rows, rows_from_image, splat_mean, warp
from egomap.memory.scan import Writes


def random_writes(
    steps: int = 5,
    num_envs: int = 3,
    points: int = 7,
    size: int = 5,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    starts: float = 0.3,
    cuts: float | None = None,
    seen: float = 0.8,
    alpha: float = 0.9,
) -> Writes:
    """Few cells, so that many features share one; poses all over a map of side 10, and beyond."""
    g = torch.Generator().manual_seed(seed)
    lead = (steps, num_envs)
    pose = (torch.rand(steps * num_envs, 3, generator=g, dtype=torch.float64) - 0.5) * 12
    return Writes(
        cell=torch.randint(0, size * size, (*lead, points), generator=g),
        inside=torch.rand(*lead, points, generator=g) < seen,
        episode_start=torch.rand(*lead, generator=g) < starts,
        cut=None if cuts is None else torch.rand(*lead, generator=g) < cuts,
        affine=affine_from_pose(pose, 10.0).to(dtype),
        alpha=alpha,
    )


def random_content(
    writes: Writes, channels: int, size: int, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Features (T, N, K, C), a start map (N, cells, C) and the cells that it knows (N, cells)."""
    g = torch.Generator().manual_seed(seed)
    num_envs, cells = writes.cell.shape[1], size * size
    features = torch.randn(*writes.cell.shape, channels, generator=g, dtype=dtype)
    known = torch.rand(num_envs, cells, generator=g) < 0.5
    return features, torch.randn(num_envs, cells, channels, generator=g, dtype=dtype), known


def one_by_one(
    features: Tensor, map_prev: Tensor, known: Tensor, writes: Writes
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as `scan.write_and_read` by the operators of `geometry`, one step after the other."""
    maps, affines = [], writes.affine.unflatten(0, writes.cell.shape[:2])
    for t in range(features.shape[0]):
        start = writes.episode_start[t]
        map_prev = torch.where(start[:, None, None], 0.0, map_prev)
        known = known & ~start[:, None]
        if writes.cut is not None:
            map_prev = torch.where(writes.cut[t][:, None, None], map_prev.detach(), map_prev)
        mean, observed = splat_mean(features[t], writes.cell[t], writes.inside[t], map_prev.shape[1])
        map_prev, known = blend(map_prev, known, mean, observed, writes.alpha)
        maps.append(rows_from_image(warp(image_from_rows(map_prev), affines[t])))
    return torch.stack(maps), map_prev, known
