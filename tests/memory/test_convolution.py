"""The convolution with its ReLU: equal to torch's two, forward and backward, in any layout."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from egomap.memory.convolution import conv_relu, sum_by_channel


def layer(kernel: int, *, channels_last: bool, dtype: torch.dtype = torch.float64):
    g = torch.Generator().manual_seed(kernel)
    x = torch.randn(3, 4, 11, 9, generator=g, dtype=dtype)
    weight = torch.randn(5, 4, kernel, kernel, generator=g, dtype=dtype)
    bias = torch.randn(5, generator=g, dtype=dtype)
    if channels_last:
        x, weight = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (x, weight))
    return [leaf.requires_grad_() for leaf in (x, weight, bias)]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("kernel, stride", [(1, 1), (3, 1), (4, 2), (3, 3)])
def test_equals_torch(kernel, stride, channels_last):
    leaves = layer(kernel, channels_last=channels_last)
    got, expected = conv_relu(*leaves, stride), F.relu(F.conv2d(*leaves, stride))
    torch.testing.assert_close(got, expected)
    weights = torch.linspace(-1, 2, got.numel(), dtype=got.dtype).view_as(got)
    for fast, slow in zip(
        *(torch.autograd.grad(out, leaves, weights) for out in (got, expected)), strict=True
    ):
        torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-11)


def test_gradcheck():
    torch.autograd.gradcheck(lambda *leaves: conv_relu(*leaves, 2), layer(4, channels_last=True))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_one_input_without_gradient(frozen):
    leaves = layer(3, channels_last=True)
    leaves[frozen] = leaves[frozen].detach()
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    got = torch.autograd.grad(conv_relu(*leaves, 1).square().sum(), wanted)
    expected = torch.autograd.grad(F.relu(F.conv2d(*leaves)).square().sum(), wanted)
    torch.testing.assert_close(got, expected)


def test_autocast_keeps_the_gradients_of_its_leaves():
    leaves = layer(3, channels_last=True, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv_relu(*leaves, 1)
    assert out.dtype == torch.bfloat16
    gradients = torch.autograd.grad(out.float().sum(), leaves)
    assert all(gradient.dtype == torch.float32 for gradient in gradients)


def test_sum_by_channel():
    grad = torch.arange(24.0).view(2, 3, 2, 2)
    assert sum_by_channel(grad).tolist() == [60.0, 92.0, 124.0]
    assert sum_by_channel(grad.contiguous(memory_format=torch.channels_last)).tolist() == [60.0, 92.0, 124.0]
