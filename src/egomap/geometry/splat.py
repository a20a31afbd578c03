"""Writing: features into the cells where they were seen, and new cells into the old map.

Input: feature vectors with the cell of each (from `camera` and `frames`). Output: the mean per cell
with an explicit mask of the cells that were seen, and the map after the blend. Paper: section 3, "Inverse
projective mapping" and equation 6. Beside them stands what others do: the largest per cell, kept. Maps are rows of
cells (B, cells, C): a cell's vector is contiguous, as every access here wants. The whole of a rollout at once is in
`egomap.memory.scan`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from egomap.geometry.checks import require_shape


def splat_mean(features: Tensor, index: Tensor, inside: Tensor, num_cells: int) -> tuple[Tensor, Tensor]:
    """Mean of the features that fall into each cell (the paper's M-tilde).

    Convention: `index` as given by `frames.cells`; a feature whose `inside` is False (out of the map, or of
    unknown depth) is dropped, regardless of its index and value.

    Args:
        features: (B, K, C) feature vectors.
        index: (B, K) int64 cell of each feature.
        inside: (B, K) bool, True where the feature is to be written.
        num_cells: Cells of the map.

    Returns:
        map_observed (B, cells, C), 0 where nothing was seen, and observed (B, cells) bool.

    Example:
        >>> features = torch.tensor([[[1.0], [3.0], [5.0]]])
        >>> splat_mean(features, torch.tensor([[0, 0, 1]]), torch.tensor([[True, True, False]]), 2)
        (tensor([[[2.],
                 [0.]]]), tensor([[ True, False]]))
    """
    require_shape("features", features, (None, None, None), leading=0)
    batch, points, channels = features.shape
    require_shape("index", index, (batch, points), leading=0)
    require_shape("inside", inside, (batch, points), leading=0)
    weight = inside.to(features.dtype)
    count = features.new_zeros(batch, num_cells).scatter_add_(1, index, weight)
    share = weight / count.gather(1, index).clamp(min=1.0)  # 1 / (features in my cell), 0 if dropped
    written = torch.where(inside[..., None], features, 0.0) * share[..., None]
    empty = features.new_zeros(batch, num_cells, channels)
    mean = empty.scatter_add(1, index[..., None].expand(-1, -1, channels), written)
    return mean, count > 0


def blend(
    map_prev: Tensor, known: Tensor, map_observed: Tensor, observed: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """The map after an observation, equation 6: `eta * map_prev + (1 - eta) * map_observed`.

    Convention: eta and alpha weigh the *old* map. Per cell: eta = 1 where only the old is known, 0 where only
    the new, alpha where both. Where neither is known both are 0, and so is the result.

    Args:
        map_prev: (B, cells, C) old map.
        known: (B, cells) bool, cells that the old map knows.
        map_observed: (B, cells, C) new features, 0 where nothing was seen.
        observed: (B, cells) bool, cells that were seen now.
        alpha: Weight of the old map where both are known (paper: 0.9).

    Returns:
        map_next (B, cells, C) and the cells that it knows (B, cells) bool.
    """
    require_shape("map_observed", map_observed, tuple(map_prev.shape), leading=0)
    require_shape("known", known, tuple(map_prev.shape[:-1]), leading=0)
    require_shape("observed", observed, tuple(map_prev.shape[:-1]), leading=0)
    old = known.to(map_prev.dtype) * alpha
    eta = torch.where(observed, old, 1.0)[..., None]
    return eta * map_prev + (1.0 - eta) * map_observed, known | observed


def splat_max(features: Tensor, index: Tensor, inside: Tensor, num_cells: int) -> tuple[Tensor, Tensor]:
    """The largest value of each channel among the features that fall into each cell; not in the paper.

    Convention: as `splat_mean`.

    Args:
        features: (B, K, C) feature vectors.
        index: (B, K) int64 cell of each feature.
        inside: (B, K) bool, True where the feature is to be written.
        num_cells: Cells of the map.

    Returns:
        map_observed (B, cells, C), 0 where nothing was seen, and observed (B, cells) bool.

    Example:
        >>> features = torch.tensor([[[1.0], [-3.0], [5.0]]])
        >>> splat_max(features, torch.tensor([[0, 0, 1]]), torch.tensor([[True, True, False]]), 2)
        (tensor([[[1.],
                 [0.]]]), tensor([[ True, False]]))
    """
    require_shape("features", features, (None, None, None), leading=0)
    batch, points, channels = features.shape
    require_shape("index", index, (batch, points), leading=0)
    require_shape("inside", inside, (batch, points), leading=0)
    written = torch.where(inside[..., None], features, -torch.inf)
    lowest = features.new_full((batch, num_cells, channels), -torch.inf)
    largest = lowest.scatter_reduce(1, index[..., None].expand(-1, -1, channels), written, "amax")
    observed = features.new_zeros(batch, num_cells).scatter_add_(1, index, inside.to(features.dtype)) > 0
    return torch.where(observed[..., None], largest, 0.0), observed


def keep_max(
    map_prev: Tensor, known: Tensor, map_observed: Tensor, observed: Tensor
) -> tuple[Tensor, Tensor]:
    """The map after an observation of which the larger of old and new is kept, channel by channel; not in the paper.

    Args:
        map_prev: (B, cells, C) old map.
        known: (B, cells) bool, cells that the old map knows.
        map_observed: (B, cells, C) new features, 0 where nothing was seen.
        observed: (B, cells) bool, cells that were seen now.

    Returns:
        map_next (B, cells, C) and the cells that it knows (B, cells) bool.
    """
    require_shape("map_observed", map_observed, tuple(map_prev.shape), leading=0)
    require_shape("known", known, tuple(map_prev.shape[:-1]), leading=0)
    require_shape("observed", observed, tuple(map_prev.shape[:-1]), leading=0)
    new = torch.where((known & observed)[..., None], torch.maximum(map_prev, map_observed), map_observed)
    return torch.where(observed[..., None], new, map_prev), known | observed


def image_from_rows(rows: Tensor) -> Tensor:
    """A map of rows (..., cells, C) as images (..., C, size, size); a view, channels last in memory."""
    size = round(rows.shape[-2] ** 0.5)
    if size * size != rows.shape[-2]:
        raise ValueError(f"a map must have a square number of cells; got {rows.shape[-2]}.")
    return rows.unflatten(-2, (size, size)).movedim(-1, -3)


def rows_from_image(image: Tensor) -> Tensor:
    """Images (..., C, size, size) as rows (..., cells, C); a view if the image is channels last in memory."""
    return image.movedim(-3, -1).flatten(-3, -2)
