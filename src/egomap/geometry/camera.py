"""From feature-map positions to points on the ground, seen from the agent.

Input: a depth image and the shape of the convolutions that made the features. Output: for each
feature its point (x right, y forward), and whether its depth is known. Paper: section 3,
"Inverse projective mapping". Heights are not used: the map is seen from above, so the row of a feature only
determines where its depth is read. Nothing here knows where the agent is in the world (see `frames`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from egomap.geometry.checks import check_depth, require_shape


def receptive_field_centres(
    length: int, kernels: Sequence[int], strides: Sequence[int], paddings: Sequence[int] | None = None
) -> tuple[float, ...]:
    """Pixel index at the centre of each output's receptive field, along one axis of a stack of convolutions.

    Convention: pixel indices, so 0.0 is the centre of the first pixel; an even-sized field has its centre at
    a half index, the edge between two pixels. With padding the first centres may lie outside of the image.

    Args:
        length: Pixels along the axis.
        kernels: Kernel size of each layer, first layer first.
        strides: Stride of each layer.
        paddings: Zero padding on each side in each layer; none if not given.

    Returns:
        One centre per output, in order; the paper's 8/4, 4/2, 3/1 over 64 pixels gives 17.5, 25.5, 33.5,
        41.5.

    Raises:
        ValueError: If the lists differ in length or the image is too small for the layers.

    Example:
        >>> receptive_field_centres(64, (8, 4, 3), (4, 2, 1))
        (17.5, 25.5, 33.5, 41.5)
    """
    pads = tuple(paddings) if paddings is not None else (0,) * len(kernels)
    if not len(kernels) == len(strides) == len(pads):
        raise ValueError(
            f"kernels, strides and paddings must have one value per layer; got {len(kernels)}, "
            f"{len(strides)} and {len(pads)} values."
        )
    if any(value < least for values, least in ((kernels, 1), (strides, 1), (pads, 0)) for value in values):
        raise ValueError(
            f"kernels and strides must be 1 or more and paddings 0 or more; got {tuple(kernels)}, {tuple(strides)} "
            f"and {pads}."
        )
    first, jump, count = 0.0, 1, length
    for kernel, stride, padding in zip(kernels, strides, pads, strict=True):
        if count + 2 * padding < kernel:
            raise ValueError(
                f"a kernel of {kernel} does not fit in {count} positions (image length {length})."
            )
        first += jump * ((kernel - 1) / 2 - padding)
        count = (count + 2 * padding - kernel) // stride + 1
        jump *= stride
    return tuple(first + jump * i for i in range(count))


def touching_pixels(centres: Sequence[float], length: int) -> tuple[int, ...]:
    """The two pixels around each centre, twice the same where it falls on one; 2 * len(centres) indices.

    Choice: centres that padding pushes out of the image use its border pixel.
    """
    near = [side(centre) for centre in centres for side in (math.floor, math.ceil)]
    return tuple(min(max(pixel, 0), length - 1) for pixel in near)


def sample_depth(depth: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Depth at the centres of the receptive fields, and where it is known.

    Choice: a centre between pixels takes the smallest known depth of the (up to four) pixels that touch it.
    An average over an edge would belong to no surface; the smallest is that of a real surface, the one in
    front.

    Convention: depth is the forward distance (along the camera's axis, not along the ray), in map units.
    Zero, infinite and NaN are unknown.

    Args:
        depth: (..., H, W) depth image.
        rows: (2 * Hf,) int64 from `touching_pixels`.
        columns: (2 * Wf,) int64 from `touching_pixels`.

    Returns:
        depth (..., Hf, Wf), 0 where unknown, and valid_depth (..., Hf, Wf) bool.

    Raises:
        ValueError: If a sampled depth is negative, the sign of a wrong unit.
    """
    require_shape("depth", depth, (None, None))
    near = depth.index_select(-2, rows).index_select(-1, columns)  # (..., 2 Hf, 2 Wf)
    check_depth(near)
    near = torch.where(near > 0, near, math.inf)  # NaN > 0 is False
    near = torch.minimum(near[..., ::2, :], near[..., 1::2, :])  # (..., Hf, 2 Wf)
    nearest = torch.minimum(near[..., ::2], near[..., 1::2])  # (..., Hf, Wf)
    valid_depth = nearest < math.inf
    return torch.where(valid_depth, nearest, 0.0), valid_depth


def unproject(depth: Tensor, tangents: Tensor) -> Tensor:
    """Points on the ground plane, in the agent's frame, of pixels with known depth.

    Convention: ego frame, x right, y forward, map units; the camera is at the agent's place and looks along
    y. `x = depth * tangent`, `y = depth`, with tangent = (u + 0.5 - cx) / fx for pixel index u.

    Args:
        depth: (..., Hf, Wf) forward distance.
        tangents: (Wf,) tangent of the angle to the right of the axis, per column.

    Returns:
        (..., Hf, Wf, 2) points.

    Example:
        >>> unproject(torch.tensor([[100.0, 100.0]]), torch.tensor([0.0, 0.5])).tolist()
        [[[0.0, 100.0], [50.0, 100.0]]]
    """
    require_shape("tangents", tangents, (None,), leading=0)
    require_shape("depth", depth, (None, tangents.shape[0]))
    return torch.stack((depth * tangents, depth), dim=-1)
