"""Perception f_p: three convolutions from an RGBD view to a small map of features.

Input: rgb (..., 3, H, W) uint8, depth (..., H, W) in map units, non-finite where unknown. What goes
out: features s_t (..., 16, 4, 10) *before* the last ReLU (EgoMap maps those; every memory applies the ReLU
itself before its flat layer). Paper: appendix "Architectures": kernels 8, 4, 3, strides 4, 2, 1, no padding.

The scaling of the input is folded into the first layer (exact, for there is no padding), so pixels stay bytes
until the moment they are convolved, piece by piece within the cache, and are converted again in the backward
pass instead of being kept (2048 views are 235 MB as floats). No gradient flows to the pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from egomap.agents.rgbd import assemble_rgbd
from egomap.compute import lower
from egomap.config import UNKNOWN_DEPTH
from egomap.memory.convolution import conv_relu, sum_by_channel
from egomap.memory.eager import eager

KERNELS, STRIDES = (8, 4, 3), (4, 2, 1)

DEPTH_LEVEL = 7.14
"""Map units per level of the engine's depth buffer; the paper's network saw level / 255."""

RAW_SCALING = ((0.0, 0.0, 0.0, 0.0), (255.0, 255.0, 255.0, 255.0 * DEPTH_LEVEL))
"""Mean and deviation per channel that leave the input as in the paper: every channel between 0 and 1."""

STANDARD_SCALING = ((52.3, 52.3, 52.3, 54.0), (15.3, 15.3, 15.3, 73.0))
"""Mean and deviation per channel of views of these (dark) mazes: RGB / 255 has mean 0.205 and deviation 0.06,
the depth buffer / 255 mean 0.026 and deviation 0.04; here in levels and map units."""

_PIECE = 64
"""Views per piece on a CPU: their floats (7 MB) fit the cache. Measured best of 16 to 2048."""


class _FirstConvolution(torch.autograd.Function):
    """Convolution of an RGBD view that is assembled from bytes on the fly, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, rgb: Tensor, depth: Tensor, weight: Tensor, bias: Tensor, unknown: float, stride: int
    ) -> Tensor:
        """Takes rgb (B, 3, H, W), depth (B, H, W), weight (C, 4, k, k): (B, C, Ho, Wo), channels last.

        What comes out has the weight's dtype, and so have the views that are assembled.
        """
        ctx.save_for_backward(rgb, depth, weight)
        ctx.unknown, ctx.stride = unknown, stride
        batch, _, height, width = rgb.shape
        kernel = weight.shape[-1]
        shape = (batch, weight.shape[0], (height - kernel) // stride + 1, (width - kernel) // stride + 1)
        out = torch.empty(shape, dtype=weight.dtype, device=weight.device, memory_format=torch.channels_last)
        for piece, view in _pieces(rgb, depth, weight, unknown):
            out[piece] = F.conv2d(view, weight, bias, stride)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of weight and bias."""
        rgb, depth, weight = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        grad_weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        stride = (ctx.stride, ctx.stride)
        for piece, view in _pieces(rgb, depth, weight, ctx.unknown):
            _, by_weight, _ = torch.ops.aten.convolution_backward(
                grad[piece], view, weight, None, stride, (0, 0), (1, 1), False, (0, 0), 1,
                (False, True, False),
            )  # fmt: skip
            grad_weight += by_weight
        return None, None, grad_weight.to(weight.dtype), sum_by_channel(grad), None, None


def _pieces(rgb: Tensor, depth: Tensor, weight: Tensor, unknown: float) -> Iterator[tuple[slice, Tensor]]:
    """Yields (rows, RGBD view of those rows); the view's memory is used again for the next piece."""
    batch, _, height, width = rgb.shape
    size = min(batch, _PIECE) if rgb.device.type == "cpu" else batch
    view = torch.empty(
        (size, 4, height, width), dtype=weight.dtype, device=rgb.device, memory_format=torch.channels_last
    )
    for start in range(0, batch, max(size, 1)):
        piece = slice(start, min(start + size, batch))
        part = view[: piece.stop - start]
        yield piece, assemble_rgbd(rgb[piece], depth[piece], unknown, part)


_first_convolution = eager(_FirstConvolution.apply)


class Perception(nn.Module):
    """The paper's CNN over an RGBD view.

    Shapes: rgb (..., 3, H, W) uint8, depth (..., H, W) -> features (..., C, Hf, Wf), channels last.

    Args:
        channels: Filters of the three layers (paper: 16, 32, 16).
        standardise: Standardise each channel with `STANDARD_SCALING`; False is the paper's raw input. On raw
            input the features of these dark mazes are at first 99 % one common vector.
        unknown_depth: Map units used for an unknown depth.
    """

    def __init__(
        self,
        channels: tuple[int, int, int] = (16, 32, 16),
        *,
        standardise: bool = True,
        unknown_depth: float = UNKNOWN_DEPTH,
    ):
        super().__init__()
        self.unknown_depth = float(unknown_depth)
        layers, width = [], 4
        for out, kernel, stride in zip(channels, KERNELS, STRIDES, strict=True):
            layer = nn.Conv2d(width, out, kernel, stride)
            nn.init.orthogonal_(layer.weight, gain=2**0.5)
            nn.init.zeros_(cast(Tensor, layer.bias))
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
            layers.append(layer)
            width = out
        self.conv1, self.conv2, self.conv3 = layers
        self._scale: Tensor
        self._shift: Tensor
        self.standardise(*(STANDARD_SCALING if standardise else RAW_SCALING))

    def standardise(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        """From now on bring pictures with this mean and deviation to 0 and 1.

        Args:
            mean: Of red, green, blue (0 to 255) and depth (map units).
            deviation: Of the same.
        """
        scale = 1 / torch.tensor(deviation, dtype=torch.float64)
        shift = -torch.tensor(mean, dtype=torch.float64) * scale
        like = self.conv1.weight  # in float32 first, as it was made
        self.register_buffer("_scale", scale.float().view(1, 4, 1, 1).to(like), persistent=False)
        self.register_buffer("_shift", shift.float().view(1, 4, 1, 1).to(like), persistent=False)

    def feature_shape(self, height: int, width: int) -> tuple[int, int, int]:
        """(C, Hf, Wf) for views of height x width; (16, 4, 10) for the paper's 64 x 112."""
        for kernel, stride in zip(KERNELS, STRIDES, strict=True):
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        if height < 1 or width < 1:
            raise ValueError("views must be at least 36 x 36 pixels for the three convolutions.")
        return self.conv3.out_channels, height, width

    def forward(self, rgb: Tensor, depth: Tensor) -> Tensor:
        """The features before the last ReLU."""
        lead = rgb.shape[:-3]
        if rgb.dim() < 3 or rgb.shape[-3] != 3 or rgb.dtype != torch.uint8:
            raise ValueError(f"rgb must be uint8 (..., 3, H, W); got {rgb.dtype} {tuple(rgb.shape)}.")
        if depth.shape != (*lead, *rgb.shape[-2:]) or not depth.is_floating_point():
            raise ValueError(
                f"depth must be floating point {(*lead, *rgb.shape[-2:])}, in map units, to go with rgb; "
                f"got {depth.dtype} {tuple(depth.shape)}."
            )
        self.feature_shape(*rgb.shape[-2:])
        weight, bias = self._fold()
        x = _first_convolution(
            rgb.reshape(-1, *rgb.shape[-3:]), depth.reshape(-1, *depth.shape[-2:]), weight, bias,
            self.unknown_depth, self.conv1.stride[0],
        )  # fmt: skip
        x = conv_relu(F.relu_(x), self.conv2.weight, cast(Tensor, self.conv2.bias), self.conv2.stride[0])
        x = self.conv3(x)
        return cast(Tensor, x.view(*lead, *x.shape[1:]))

    def _fold(self) -> tuple[Tensor, Tensor]:
        """First layer for unscaled pixels: conv(W, scale x + shift) = conv(W scale, x) + sum(W shift)."""
        weight, bias = self.conv1.weight, cast(Tensor, self.conv1.bias)
        scaled, dtype = weight * self._scale, lower(weight)
        if dtype is None:
            return scaled, bias + (weight * self._shift).sum((1, 2, 3))
        # The sum belongs to the weights as they are rounded: what is mostly one colour would leave its error in all.
        rounded = scaled.to(dtype)
        return rounded, (bias + (rounded.float() * (self._shift / self._scale)).sum((1, 2, 3))).to(dtype)
