"""Resampling a whole map into another frame, by one affine transform and bilinear interpolation.

Input: map images and a pose or a motion. Output: the map as seen in the other frame. Paper:
section 3, "Affine transform" and "Sampling from a global map". One warp per read loses nothing of the stored
map; a warp per step of the stored map itself smears it (the paper's appendix), which is why `EgoMapMemory`
keeps a world map.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from egomap.compute import exactly
from egomap.geometry.checks import require_shape


def affine_from_pose(pose: Tensor, extent: float) -> Tensor:
    """The affine matrix that finds, for a place in the agent's map, its place in the world map.

    Convention: maps (ego -> world), the direction that resampling needs. Coordinates are those of
    `grid_sample` with `align_corners=False`: (x, y) in (-1, 1) over the map image, x to the right, y *down*.
    Both maps cover a square of side `extent`; the ego map has the agent in its centre, facing up.

    Args:
        pose: (B, 3) x, y (map units), phi (radians) of the agent in the map's world.
        extent: Side of the square that a map covers, map units.

    Returns:
        (B, 2, 3) matrices.
    """
    require_shape("pose", pose, (3,), leading=1)
    x, y, phi = pose.unbind(-1)
    sin, cos = phi.sin(), phi.cos()
    scale = 2.0 / extent
    return torch.stack((sin, -cos, x * scale, cos, sin, y * -scale), dim=-1).unflatten(-1, (2, 3))


def affine_from_motion(motion: Tensor, extent: float) -> Tensor:
    """The affine matrix that finds, for a place in the new ego map, its place in the one before the motion.

    Convention: as `affine_from_pose`; the motion is (dx right, dy forward, dphi) in the frame before it.

    Args:
        motion: (B, 3) dx, dy, dphi.
        extent: Side of the square that a map covers, map units.

    Returns:
        (B, 2, 3) matrices.
    """
    require_shape("motion", motion, (3,), leading=1)
    # In the old ego frame the agent faced +y, so its new heading is pi/2 + dphi.
    turned = torch.cat((motion[:, :2], motion[:, 2:] + math.pi / 2), dim=-1)
    return affine_from_pose(turned, extent)


def warp(image: Tensor, affine: Tensor) -> Tensor:
    """Resample maps: output place p takes the bilinear value of the input at `affine @ (p, 1)`.

    Convention: row 0 is farthest ahead or north, column 0 left or west; `align_corners=False`, so -1 and 1
    are the outer *edges* of the border cells; outside of the map all is 0.

    Args:
        image: (B, C, size, size) maps.
        affine: (B, 2, 3) from `affine_from_pose` or `affine_from_motion`.

    Returns:
        (B, C, size, size) maps in the other frame; differentiable in both arguments.

    Example:
        >>> image = torch.zeros(1, 1, 4, 4); image[0, 0, 0, 3] = 1.0  # a mark in the north-east
        >>> facing_east = affine_from_pose(torch.tensor([[0.0, 0.0, 0.0]]), extent=4.0)
        >>> int(warp(image, facing_east)[0, 0].argmax())  # ahead and to the left: row 0, column 0
        0
    """
    with exactly(image):
        grid = _grid(image, affine)
        return grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def warp_transposed(image: Tensor, affine: Tensor) -> Tensor:
    """The gradient of `warp` with respect to its maps: every value goes back to the cells it was made of.

    `warp` is linear in its maps; this is the transposed matrix: `<warp(a), b> = <a, warp_transposed(b)>`. For
    backward passes written by hand; it is not differentiable itself.

    Args:
        image: (B, C, size, size) gradients of the resampled maps.
        affine: (B, 2, 3) as given to `warp`.

    Returns:
        (B, C, size, size) gradients of the maps that were resampled.
    """
    with exactly(image):
        grid = _grid(image, affine)
    # Bilinear, zeros, align_corners=False. The second argument, the maps, matters to the grid's gradient only,
    # which is not asked for; it has the shape of the first.
    gradients = torch.ops.aten.grid_sampler_2d_backward(image, image, grid, 0, 0, False, (True, False))
    return cast(Tensor, gradients[0])


def _grid(image: Tensor, affine: Tensor) -> Tensor:
    """Where each cell of the resampled maps lies in the given ones, (B, size, size, 2)."""
    require_shape("image", image, (None, None, None), leading=1)
    batch, _, height, width = image.shape
    if height != width:
        raise ValueError(f"the maps must be square; got {height} x {width} cells.")
    require_shape("affine", affine, (batch, 2, 3), leading=0)
    return affine_grid(affine, list(image.shape), align_corners=False)
