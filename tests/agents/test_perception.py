from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from egomap.agents.perception import RAW_SCALING, STANDARD_SCALING, Perception
from egomap.agents.rgbd import assemble_rgbd
from egomap.memory.native import available, use_kernels

INF = float("inf")


def views(*lead: int, seed: int = 0, size: tuple[int, int] = (64, 112)) -> tuple[torch.Tensor, torch.Tensor]:
    """Colour images in NHWC memory seen through an NCHW view, as environments give them, and depths."""
    g = torch.Generator().manual_seed(seed)
    rgb = torch.randint(0, 120, (*lead, *size, 3), dtype=torch.uint8, generator=g).movedim(-1, -3)
    depth = torch.rand(*lead, *size, generator=g) * 400
    depth[depth > 380] = INF
    return rgb, depth


def reference(perception: Perception, rgb, depth, scaling) -> torch.Tensor:
    """The plain network: assemble floats, scale, three convolutions."""
    mean, deviation = (torch.tensor(v, dtype=torch.float64).view(4, 1, 1) for v in scaling)
    depth = torch.where(depth.isfinite(), depth, perception.unknown_depth)
    x = (torch.cat((rgb.double(), depth.double().unsqueeze(-3)), -3) - mean) / deviation
    x = x.to(perception.conv1.weight.dtype)
    return perception.conv3(F.relu(perception.conv2(F.relu(perception.conv1(x)))))


def stays_clear_of_zero(layer, inputs, output) -> None:
    assert float(output.detach().abs().min()) > 1


@pytest.mark.parametrize(("standardise", "scaling"), [(True, STANDARD_SCALING), (False, RAW_SCALING)])
@pytest.mark.parametrize("batch", [1, 63, 130])
def test_folded_network_is_the_plain_one(standardise, scaling, batch):
    """Every second filter is always on, the others always off.

    A ReLU whose input is within rounding of 0 is on or off as the processor rounds, and gradients then differ by all
    that one place contributes. Filters that switch are the next test's, in float64.
    """
    torch.manual_seed(batch)
    perception = Perception(standardise=standardise)
    for layer, bias in ((perception.conv1, 20.0), (perception.conv2, 200.0)):
        layer.bias.data[0::2], layer.bias.data[1::2] = bias, -bias
    rgb, depth = views(batch)
    plain = copy.deepcopy(perception).double()
    for layer in (plain.conv1, plain.conv2):
        layer.register_forward_hook(stays_clear_of_zero)
    runs = (perception, perception), (plain, lambda *view: reference(plain, *view, scaling))
    results = []
    for network, run in runs:
        out = run(rgb, depth)
        loss = (out * torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)).sum()
        results.append((out, *torch.autograd.grad(loss, list(network.parameters()))))
    # The longest sum is that of a first filter's gradient, over the views and 15 x 27 places; rounding grows with the
    # root of its length, in each of three layers.
    tolerance = 3 * torch.finfo(torch.float32).eps * (batch * 15 * 27) ** 0.5
    for fast, exact in zip(*results, strict=True):
        torch.testing.assert_close(
            fast.double(), exact, rtol=0, atol=tolerance * float(exact.detach().abs().max())
        )


def test_float64_gradients_agree_to_the_last_digits():
    torch.manual_seed(0)
    perception = Perception().double()
    rgb, depth = views(3)
    scaling = tuple(
        tuple(v.flatten().tolist()) for v in (-perception._shift / perception._scale, 1 / perception._scale)
    )
    fast = torch.autograd.grad(perception(rgb, depth).sin().sum(), list(perception.parameters()))
    plain = reference(perception, rgb, depth, scaling).sin().sum()
    for a, b in zip(fast, torch.autograd.grad(plain, list(perception.parameters())), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10 * float(b.abs().max()))


def test_shapes_and_layout():
    perception = Perception()
    assert perception.feature_shape(64, 112) == (16, 4, 10)
    out = perception(*views(2, 3))
    assert out.shape == (2, 3, 16, 4, 10)
    assert out[0].is_contiguous(memory_format=torch.channels_last)
    assert [
        tuple(layer.weight.shape) for layer in (perception.conv1, perception.conv2, perception.conv3)
    ] == [
        (16, 4, 8, 8),
        (32, 16, 4, 4),
        (16, 32, 3, 3),
    ]
    assert (out < 0).any(), "the features are those before the last ReLU"


def test_batch_of_n_equals_n_singles_and_memory_layout_does_not_matter():
    perception = Perception()
    rgb, depth = views(5)
    with torch.no_grad():
        out = perception(rgb, depth)
        # Three layers, in each of which at most 288 rounded products are added.
        close = {"rtol": 0, "atol": 3 * torch.finfo(out.dtype).eps * 288**0.5 * float(out.abs().max())}
        for i in range(5):
            torch.testing.assert_close(out[i], perception(rgb[i : i + 1], depth[i : i + 1])[0], **close)
        torch.testing.assert_close(perception(rgb.contiguous(), depth), out, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_native_and_plain_assembly_give_the_same_bits(dtype):
    if not available():
        pytest.skip("numba is not installed")
    rgb, depth = views(3, size=(5, 7))
    depth[0, 0, 0], depth[1, 1, 1], depth[2, 2, 2] = float("nan"), -INF, 0.0
    outs = []
    for backend in ("numba", "torch"):
        out = torch.empty(3, 4, 5, 7, dtype=dtype).contiguous(memory_format=torch.channels_last)
        with use_kernels(backend):
            outs.append(assemble_rgbd(rgb, depth, 456.0, out))
    assert torch.equal(*outs)
    assert outs[0][0, 3, 0, 0] == outs[0][1, 3, 1, 1] == 456.0
    assert torch.equal(outs[0][:, :3].to(torch.uint8), rgb)


def test_folded_weights_follow_every_change_of_the_weights():
    torch.manual_seed(0)
    perception, other = Perception(), Perception()
    view = views(2)

    @torch.no_grad()
    def agree() -> None:
        torch.testing.assert_close(
            perception(*view), reference(perception, *view, STANDARD_SCALING), rtol=1e-3, atol=1e-3
        )

    agree()
    optimizer = torch.optim.SGD(perception.parameters(), lr=0.01)
    perception(*view).mean().backward()
    optimizer.step()
    agree()
    perception.load_state_dict(other.state_dict())
    agree()
    for parameter in perception.parameters():
        parameter.data.mul_(0.5)  # as an average of weights is often kept
    agree()
    perception.load_state_dict(other.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(copy.deepcopy(perception)(*view), other(*view))
        torch.testing.assert_close(perception.double()(*view).float(), other(*view), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_compiled_is_the_same():
    perception, view = Perception().double(), views(2)
    torch.testing.assert_close(torch.compile(perception, backend="aot_eager")(*view), perception(*view))


def test_wrong_views_are_told():
    perception = Perception()
    rgb, depth = views(2)
    with pytest.raises(ValueError, match="rgb must be uint8"):
        perception(rgb.float(), depth)
    with pytest.raises(ValueError, match="rgb must be uint8"):
        perception(rgb[:, :2], depth)
    with pytest.raises(ValueError, match="depth must be floating point"):
        perception(rgb, depth[:1])
    with pytest.raises(ValueError, match="depth must be floating point"):
        perception(rgb, rgb[:, 0])
    with pytest.raises(ValueError, match="at least 36 x 36"):
        perception(*views(1, size=(30, 112)))
