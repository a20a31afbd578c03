"""Frames of reference in the plane: the world, the agent, and the cells of a map.

Input: points, poses (x, y, phi) and motions (dx, dy, dphi). Output: the same in another frame,
or the index of the map cell that holds a point. Paper: section 3, "Affine transform". Pure functions of any
leading shape, whose axes broadcast; resampling of a whole map is in `warp`.

Conventions, for the whole package. World: x east, y north, phi counter-clockwise from +x. Ego: x right, y
forward. A transform is named `a_from_b`. Map image: row 0 is north (world map) or farthest ahead (ego map),
column 0 is west or left; the map is a square of side `extent` whose centre, the origin, is a cell *corner*
when `size` is even.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from egomap.geometry.checks import require_shape


def wrap(angle: Tensor) -> Tensor:
    """The same angle within [-pi, pi), radians (rounding may give pi itself)."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def world_from_ego(points: Tensor, pose: Tensor) -> Tensor:
    """World coordinates of points that the agent sees.

    Convention: ego x is right and y forward; phi turns counter-clockwise from east. So forward is
    (cos phi, sin phi) and right is (sin phi, -cos phi).

    Args:
        points: (..., K, 2) in the ego frame.
        pose: (..., 3) x, y, phi of the agent in the world.

    Returns:
        (..., K, 2) in the world frame.

    Example:
        >>> facing_north = torch.tensor([10.0, 20.0, math.pi / 2], dtype=torch.float64)
        >>> world_from_ego(torch.tensor([[1.0, 5.0]], dtype=torch.float64), facing_north).round().tolist()
        [[11.0, 25.0]]
    """
    require_shape("points", points, (None, 2))
    require_shape("pose", pose, (3,))
    x, y, phi = pose[..., None].unbind(-2)  # each (..., 1)
    sin, cos = phi.sin(), phi.cos()
    right, forward = points.unbind(-1)
    return torch.stack((x + sin * right + cos * forward, y - cos * right + sin * forward), dim=-1)


def ego_from_world(points: Tensor, pose: Tensor) -> Tensor:
    """Where the agent sees points of the world; the inverse of `world_from_ego`.

    Args:
        points: (..., K, 2) in the world frame.
        pose: (..., 3) x, y, phi of the agent in the world.

    Returns:
        (..., K, 2) in the ego frame (x right, y forward).
    """
    require_shape("points", points, (None, 2))
    require_shape("pose", pose, (3,))
    x, y, phi = pose[..., None].unbind(-2)
    sin, cos = phi.sin(), phi.cos()
    east, north = points[..., 0] - x, points[..., 1] - y
    return torch.stack((sin * east - cos * north, cos * east + sin * north), dim=-1)


def compose(pose: Tensor, motion: Tensor) -> Tensor:
    """The pose after a motion.

    Convention: the motion is given in the ego frame *before* it (dx right, dy forward, dphi
    counter-clockwise).

    Args:
        pose: (..., 3) in the world.
        motion: (..., 3) dx, dy, dphi.

    Returns:
        (..., 3) pose in the world, its angle wrapped.
    """
    require_shape("motion", motion, (3,))
    place = world_from_ego(motion[..., None, :2], pose).squeeze(-2)
    return torch.cat((place, wrap(pose[..., 2:] + motion[..., 2:])), dim=-1)


def motion_between(previous: Tensor, current: Tensor) -> Tensor:
    """The motion that leads from one pose to the next: `compose(previous, motion) = current`.

    Args:
        previous: (..., 3) pose in the world.
        current: (..., 3) pose in the world.

    Returns:
        (..., 3) dx, dy, dphi in the ego frame of `previous`.
    """
    require_shape("current pose", current, (3,))
    place = ego_from_world(current[..., None, :2], previous).squeeze(-2)
    return torch.cat((place, wrap(current[..., 2:] - previous[..., 2:])), dim=-1)


def invert(motion: Tensor) -> Tensor:
    """The motion that leads back: composed after `motion` it gives the first pose again.

    Args:
        motion: (..., 3) dx, dy, dphi in the ego frame before the motion.

    Returns:
        (..., 3) in the ego frame after it.
    """
    require_shape("motion", motion, (3,))
    dx, dy, dphi = motion.unbind(-1)
    sin, cos = dphi.sin(), dphi.cos()
    return torch.stack((-(cos * dx + sin * dy), sin * dx - cos * dy, wrap(-dphi)), dim=-1)


def relative_pose(pose: Tensor, origin: Tensor) -> Tensor:
    """The pose in a world whose centre is `origin` and whose north is the way `origin` faces.

    Convention: the pose `origin` itself becomes (0, 0, pi/2): in the middle, facing up in the map image.

    Args:
        pose: (..., 3) in the world.
        origin: (..., 3) in the same world.

    Returns:
        (..., 3) in the world of `origin`.
    """
    motion = motion_between(origin, pose)
    return torch.cat((motion[..., :2], motion[..., 2:] + math.pi / 2), dim=-1)


def cells(points: Tensor, *, extent: float, size: int) -> tuple[Tensor, Tensor]:
    """The map cell that holds each point.

    Convention: index = row * size + column; row 0 is the northern edge (y = extent / 2) and column 0 the
    western (x = -extent / 2). Cells own their western and northern edges.

    Args:
        points: (..., 2) in the map's frame, map units.
        extent: Side of the square that the map covers, map units.
        size: Cells along a side.

    Returns:
        index (...) int64, 0 where outside, and inside (...) bool. A non-finite point is outside.

    Example:
        >>> cells(torch.tensor([[0.5, 0.5], [9.0, 0.0]]), extent=4.0, size=4)
        (tensor([6, 0]), tensor([ True, False]))
    """
    require_shape("points", points, (2,))
    x, y = points.unbind(-1)
    scale = size / extent
    column, row = torch.floor(x * scale + size / 2), torch.floor(size / 2 - y * scale)
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    # Whole numbers before the sum: short floats cannot hold a three-digit index.
    column, row = (torch.where(inside, value, 0.0).long() for value in (column, row))
    return row * size + column, inside
