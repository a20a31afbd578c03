"""Argument checks of the geometry functions and the memories built on them.

Input: tensors and numbers as a caller gave them. Output: nothing, or a ValueError that says
what was got, what was expected and what to do. Shapes are checked always (free); values only eagerly, for a
check of values has to wait for the device and would cut a graph that `torch.compile` records.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def require_shape(
    name: str, tensor: Tensor, trailing: tuple[int | None, ...], *, leading: int | None = None
) -> None:
    """Raise a ValueError unless `tensor` ends in the axes `trailing`.

    Args:
        name: What the message calls the tensor.
        tensor: The tensor to look at.
        trailing: Sizes of the last axes; None means any size.
        leading: How many axes come before them; None allows any number.

    Raises:
        ValueError: With the shape that was got and the one that was expected.
    """
    shape = tuple(tensor.shape)
    known = len(trailing)
    fits = len(shape) >= known if leading is None else len(shape) == known + leading
    if fits and known:
        fits = all(want is None or want == got for want, got in zip(trailing, shape[-known:], strict=True))
    if not fits:
        before = "..." if leading is None else ", ".join("*" * leading)
        after = ", ".join("*" if want is None else str(want) for want in trailing)
        expected = ", ".join(part for part in (before, after) if part)
        raise ValueError(f"{name} must have shape ({expected}); got {shape}.")


def check_pose(pose: Tensor) -> None:
    """Raise a ValueError if a pose (..., 3) is not finite; does nothing while compiling."""
    if torch.compiler.is_compiling() or bool(torch.isfinite(pose).all()):
        return
    count = int((~torch.isfinite(pose)).any(-1).sum())
    raise ValueError(f"poses and motions must be finite (map units and radians); got {count} that are not.")


def check_features(features: Tensor) -> None:
    """Raise a ValueError if features (..., C, Hf, Wf) are not all numbers.

    Their sum is tested first, at the speed of memory (2 microseconds for each step); only if it is not finite, which
    may be an overflow, each value is tested. Does nothing while compiling, nor on a GPU, which would have to be
    synchronised at every step: a training there notices at its loss.
    """
    if torch.compiler.is_compiling() or features.device.type != "cpu":
        return
    if math.isfinite(float(features.detach().sum())) or bool(torch.isfinite(features).all()):
        return
    views = (~torch.isfinite(features)).flatten(-3).any(-1)
    raise ValueError(
        f"the features of {int(views.sum())} of {views.numel()} views are NaN or infinite: the network that "
        "computes them has diverged. Try a lower learning rate."
    )


def check_depth(depth: Tensor) -> None:
    """Raise a ValueError if a depth (...) is negative; does nothing while compiling."""
    if torch.compiler.is_compiling() or not bool((depth < 0).any()):
        return
    lowest = float(depth[depth < 0].min())
    raise ValueError(
        f"depth must be a forward distance in map units, above 0 where it is known and 0, inf or NaN where "
        f"it is not; got {lowest:.4g}. If it is a raw or normalised depth buffer, convert it first."
    )
