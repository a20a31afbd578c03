"""A convolution and its ReLU as one step, with a backward pass that wastes less of a CPU.

Input: images (B, C, H, W), channels last in memory, weight and bias. Output: relu(conv(x)). Paper:
the layers of the appendix "Architectures". The arithmetic is torch's own; only the gradient of the bias is taken
out of it: there it is a sum on one core, a sixth of the layer's whole backward pass on two. Elsewhere than on a
CPU and in a compiled graph plain torch does it all.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from egomap.compute import lower


def sum_by_channel(grad: Tensor) -> Tensor:
    """The sum over images and places: (B, C, H, W) -> (C,); a matrix product, for that uses every core."""
    rows = grad.movedim(1, -1).reshape(-1, grad.shape[1])
    return (rows.new_ones(1, rows.shape[0]) @ rows).squeeze(0)


class _ConvRelu(torch.autograd.Function):
    """relu(conv(x)) without padding; what is kept is the input and the output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
        """Takes x (B, C, H, W), weight (Co, C, k, k), bias (Co,) -> (B, Co, Ho, Wo)."""
        out = torch.relu_(F.conv2d(x, weight, bias, stride))
        ctx.save_for_backward(x, weight, out)
        ctx.stride = (stride, stride)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, weight and bias."""
        x, weight, out = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward(grad, out, 0)
        wanted = (ctx.needs_input_grad[0], ctx.needs_input_grad[1], False)
        by_x, by_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, weight, None, ctx.stride, (0, 0), (1, 1), False, (0, 0), 1, wanted
        )
        return by_x, by_weight, sum_by_channel(grad) if ctx.needs_input_grad[2] else None, None


def conv_relu(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """`relu(conv2d(x, weight, bias, stride))`: (B, C, H, W) -> (B, Co, Ho, Wo)."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.relu(F.conv2d(x, weight, bias, stride))
    dtype = lower(x)
    if dtype is not None:
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
    if not torch.is_grad_enabled():  # a Function of our own costs as much as a small layer
        return torch.relu_(F.conv2d(x, weight, bias, stride))
    return cast(Tensor, _ConvRelu.apply(x, weight, bias, stride))
