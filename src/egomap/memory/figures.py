"""Figures, from a trace of one step, of how a memory is used; the training log has them for each update.

Input: tensors of a `MemoryTrace`, N environments. Output: plain numbers. A memory picks what it has.
"""

from __future__ import annotations

import math

from torch import Tensor

SATURATED = 0.95
"""A tanh beyond this passes less than a tenth of the gradient on."""


def saturation(values: Tensor) -> float:
    """Share of the values, each between -1 and 1, whose size is above `SATURATED`."""
    return float((values.abs() > SATURATED).float().mean())


def attention_entropy(attention: Tensor) -> float:
    """Mean entropy of attentions (N, ...), as a part of the largest there is: 1 is flat, 0 is one cell."""
    flat = attention.cpu().flatten(1).double()
    return float(-(flat * flat.clamp(min=1e-300).log()).sum(1).mean()) / math.log(flat.shape[1])


def mass_on(attention: Tensor, chosen: Tensor) -> float:
    """Mean part of attentions (N, ...) that lies on the chosen cells, a bool of the same shape."""
    return float((attention * chosen).flatten(1).sum(1).mean())


def spread(positions: Tensor) -> float:
    """Standard deviation of positions (N, 2) over the environments: 0 if all attend to the same place."""
    return float(positions.cpu().double().var(0, correction=0).mean().sqrt())
