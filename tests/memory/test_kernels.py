"""Every native kernel equals plain torch, forward and backward, on ordinary and on unusual input."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import EXTENT, random_inputs
from writes import random_content, random_writes

from egomap.memory import Camera, EgoMapMemory, MapSettings, native
from egomap.memory.attention import attend
from egomap.memory.reads import cell_positions
from egomap.memory.scan import write_and_read

pytestmark = pytest.mark.skipif(not native.available(), reason="numba is not installed")

TOLERANCES = {torch.float32: 2e-5, torch.float64: 1e-11}
kinds = st.sampled_from([(1, torch.float64), (3, torch.float64), (16, torch.float32), (16, torch.float64)])
"""Channels and dtypes. The tests of this folder keep to these: each kind is compiled once, at seconds apiece."""


@pytest.fixture
def four_threads():
    """More threads than this machine may have cores, and than a test may have environments."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def both(run, *leaves):
    """`run(*leaves)` and the gradients of a weighted sum, by numba and by torch."""
    results = []
    for backend in ("numba", "torch"):
        with native.use_kernels(backend):
            outputs = [output for output in run(*leaves) if output.is_floating_point()]
            weighted = [
                (output * torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)).sum()
                for output in outputs
                if output.requires_grad
            ]
            gradients = torch.autograd.grad(sum(weighted), leaves, allow_unused=True)
            results.append([*outputs, *gradients])
    return results


def assert_kernels_equal_torch(run, *leaves):
    fast, slow = both(run, *leaves)
    tolerance = TOLERANCES[leaves[0].dtype]
    for got, expected in zip(fast, slow, strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        scale = max(1.0, float(expected.detach().abs().max()))
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance * scale)


# -- write and read -----------------------------------------------------------------------------------------


def check_write_read(writes, features, map_prev, known):
    assert_kernels_equal_torch(
        lambda f, m: write_and_read(f, m, known, writes), features.requires_grad_(), map_prev.requires_grad_()
    )
    with native.use_kernels("numba"):
        fast = write_and_read(features, map_prev, known, writes)[3]
    with native.use_kernels("torch"):
        assert torch.equal(fast, write_and_read(features, map_prev, known, writes)[3])


@settings(max_examples=25)
@given(
    steps=st.integers(1, 12),
    num_envs=st.integers(1, 5),
    points=st.integers(1, 12),
    size=st.integers(1, 9),
    kind=kinds,
    seen=st.sampled_from([0.0, 0.5, 1.0]),
    cuts=st.sampled_from([None, 0.3]),
    alpha=st.sampled_from([0.0, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_write_read(steps, num_envs, points, size, kind, seen, cuts, alpha, seed):
    channels, dtype = kind
    writes = random_writes(
        steps, num_envs, points, size, seed=seed, seen=seen, cuts=cuts, alpha=alpha, dtype=dtype
    )
    check_write_read(writes, *random_content(writes, channels, size, seed=seed, dtype=dtype))


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), size=st.integers(1, 9), kind=kinds)
def test_write_read_into_a_map_without_gradient(seed, size, kind):
    """The kernels pass by what is empty: a map that is known in part, and one whose unknown cells hold values."""
    channels, dtype = kind
    writes = random_writes(6, 3, 4, size, seed=seed, seen=0.5, dtype=dtype)
    features, map_prev, known = random_content(writes, channels, size, seed=seed, dtype=dtype)
    for start in (map_prev * known[..., None], map_prev, torch.zeros_like(map_prev)):
        run = lambda f, start=start: write_and_read(f, start, known, writes)  # noqa: E731
        assert_kernels_equal_torch(run, features.requires_grad_())


@pytest.mark.parametrize("num_envs", [1, 3, 4, 9])
def test_write_read_with_any_number_of_threads(four_threads, num_envs):
    writes = random_writes(4, num_envs)
    check_write_read(writes, *random_content(writes, 3, 5))


def test_write_read_of_strided_input():
    """Features of images that are not channels last, environments last in memory, a map out of a larger one."""
    writes = random_writes(4, 3, 6)
    features, _, known = random_content(writes, 3, 5)
    spread = (
        features.movedim(-1, 2).contiguous().movedim(2, -1),
        torch.randn(3, 50, 3, dtype=torch.float64)[:, ::2],
        known.t().contiguous().t(),
    )
    assert not any(tensor.is_contiguous() for tensor in spread)
    others = writes._replace(
        cell=writes.cell.movedim(0, -1).contiguous().movedim(-1, 0),
        inside=writes.inside.movedim(0, -1).contiguous().movedim(-1, 0),
        episode_start=writes.episode_start.t().contiguous().t(),
        cut=writes.inside[..., 0],
        affine=writes.affine.movedim(0, -1).contiguous().movedim(-1, 0),
    )
    check_write_read(others, *spread)


def test_write_read_of_broadcast_features():
    writes = random_writes(4, 3, 6)
    _, map_prev, known = random_content(writes, 3, 5)
    feature = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert_kernels_equal_torch(
        lambda f, m: write_and_read(f.expand(4, 3, 6, 3), m, known, writes),
        feature,
        map_prev.requires_grad_(),
    )


def test_gradients_of_odd_layout():
    """A gradient that is broadcast, and one whose memory is in another order."""
    writes = random_writes(4, 3, 6)
    features, map_prev, known = random_content(writes, 3, 5)
    leaves = (features.requires_grad_(), map_prev.requires_grad_())
    grads = (
        torch.ones((), dtype=torch.float64).expand(4, 3, 25, 3),
        torch.randn(4, 3, 3, 25, dtype=torch.float64).transpose(-1, -2),
        torch.randn(3, dtype=torch.float64)[:, None, None].expand(3, 25, 3),
    )
    found = []
    for backend in ("numba", "torch"):
        with native.use_kernels(backend):
            found.append(torch.autograd.grad(write_and_read(*leaves, known, writes)[:3], leaves, grads))
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)


def test_poses_far_away_and_far_beyond():
    writes = random_writes(3, 2)
    affine = writes.affine.clone()
    affine[:, :, 2] = torch.tensor([[1e9, -1e9], [3.0, -3.0], [1e30, 1e30]]).double().repeat(2, 1)
    check_write_read(writes._replace(affine=affine), *random_content(writes, 3, 5))


def test_no_environment_at_all():
    writes = random_writes(3, 0)
    features, map_prev, known = random_content(writes, 3, 5)
    with native.use_kernels("numba"):
        maps, _, last, _ = write_and_read(features, map_prev, known, writes)
    assert maps.shape == (3, 0, 25, 3) and last.shape == (0, 25, 3)


def test_nothing_is_kept_from_one_call_to_the_next():
    writes = random_writes(5, 3)
    arguments = (*random_content(writes, 3, 5), writes)
    with native.use_kernels("numba"):
        first = [output.clone() for output in write_and_read(*arguments)]
        write_and_read(*random_content(writes, 3, 5, seed=9), writes)
        second = write_and_read(*arguments)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# -- attention ----------------------------------------------------------------------------------------------


def random_attention(batch, size, channels, seed, dtype):
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(batch, size * size, channels, generator=g, dtype=dtype)
    rows[:, 0] = 0.0  # an empty cell
    query = torch.randn(batch, channels, generator=g, dtype=dtype)
    return rows, query, torch.rand(batch, generator=g, dtype=dtype) * 9 + 1


@settings(max_examples=25)
@given(
    batch=st.integers(1, 9),
    size=st.integers(1, 7),
    kind=kinds,
    similarity=st.sampled_from(["cosine", "l1"]),
    seed=st.integers(0, 1000),
)
def test_attend(batch, size, kind, similarity, seed):
    channels, dtype = kind
    leaves = [leaf.requires_grad_() for leaf in random_attention(batch, size, channels, seed, dtype)]
    positions = cell_positions(size).to(dtype)
    assert_kernels_equal_torch(lambda r, q, b: attend(r, q, b, positions, similarity), *leaves)


@pytest.mark.parametrize("batch", [1, 3, 9])
@pytest.mark.parametrize("similarity", ["cosine", "l1"])
def test_attend_with_any_number_of_threads(four_threads, batch, similarity):
    leaves = [leaf.requires_grad_() for leaf in random_attention(batch, 4, 3, 0, torch.float64)]
    assert_kernels_equal_torch(lambda r, q, b: attend(r, q, b, cell_positions(4), similarity), *leaves)


@pytest.mark.parametrize("similarity", ["cosine", "l1"])
def test_attend_of_strided_input(similarity):
    rows, query, beta = random_attention(4, 4, 3, 0, torch.float64)
    spread = (
        rows.transpose(1, 2).contiguous().transpose(1, 2),
        torch.stack((query, query), -1)[..., 0],
        torch.stack((beta, beta), -1)[..., 0],
    )
    positions = cell_positions(4).t().contiguous().t()
    assert not any(tensor.is_contiguous() for tensor in (*spread, positions))
    assert_kernels_equal_torch(
        lambda r, q, b: attend(r, q, b, positions, similarity), *(leaf.requires_grad_() for leaf in spread)
    )
    shared = query[:1].requires_grad_()  # one query for all samples
    assert_kernels_equal_torch(lambda q: attend(rows, q.expand(4, 3), beta, positions, similarity), shared)


def test_a_gradient_that_is_broadcast():
    leaves = [leaf.requires_grad_() for leaf in random_attention(4, 4, 3, 0, torch.float64)]
    found = []
    for backend in ("numba", "torch"):
        with native.use_kernels(backend):
            context, _ = attend(*leaves, cell_positions(4), "cosine")
            found.append(torch.autograd.grad(context.sum(), leaves))
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)


# -- the whole memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "l1"])
@pytest.mark.parametrize("start", ["empty", "used"])
def test_unroll_from_a_state_without_gradient(similarity, start):
    """As in training: most of the map is empty, and the kernels leave that part out."""
    torch.manual_seed(0)
    camera = Camera.from_fov(112, 64, horizontal=1.8, vertical=1.1)
    memory = EgoMapMemory(camera, MapSettings(extent=EXTENT, similarity=similarity)).double()
    inputs = random_inputs(9, 3, 0, dtype=torch.float64)
    inputs = inputs._replace(depth=torch.where(inputs.depth < 40, inputs.depth, torch.inf))
    episode_start = torch.zeros(9, 3, dtype=torch.bool)
    episode_start[4, 1] = True
    state = memory.initial_state(3)
    if start == "used":
        state = tuple(tensor.detach() for tensor in memory.unroll(inputs, state, episode_start)[1])
    leaves = (inputs.features.requires_grad_(), *memory.parameters())
    fast, slow = both(
        lambda features, *_: memory.unroll(inputs._replace(features=features), state, episode_start)[:1],
        *leaves,
    )
    for got, expected in zip(fast, slow, strict=True):
        torch.testing.assert_close(
            got, expected, rtol=1e-10, atol=1e-10 * max(1, float(expected.detach().abs().max()))
        )


# -- the switch ---------------------------------------------------------------------------------------------


def test_which_tensors_the_kernels_serve():
    with native.use_kernels("auto"):
        assert native.enabled(torch.zeros(1)) and native.enabled(torch.zeros(1).double())
        assert not native.enabled(torch.zeros(1, dtype=torch.bfloat16))
        assert not native.enabled(torch.zeros(1, device="meta"))
    with native.use_kernels("torch"):
        assert not native.enabled(torch.zeros(1))
        with native.use_kernels("numba"):
            assert native.enabled(torch.zeros(1))
        assert not native.enabled(torch.zeros(1))


def test_the_switch_in_the_environment(monkeypatch):
    for value, enabled in (("torch", False), ("numba", True), ("auto", True)):
        monkeypatch.setenv("EGOMAP_KERNELS", value)
        assert native.enabled(torch.zeros(1)) is enabled
        with native.use_kernels("torch"):  # stronger
            assert not native.enabled(torch.zeros(1))
    monkeypatch.setenv("EGOMAP_KERNELS", "fortran")
    with pytest.raises(ValueError, match="EGOMAP_KERNELS must be torch, numba or auto; got 'fortran'"):
        native.enabled(torch.zeros(1))
    monkeypatch.delenv("EGOMAP_KERNELS")
    with pytest.raises(ValueError, match="kernels must be torch, numba or auto; got 'fortran'"):
        with native.use_kernels("fortran"):
            pass


WITHOUT_NUMBA = """
import os, sys, torch
sys.modules["numba"] = None  # as if it were not installed
from egomap.memory import Camera, EgoMapMemory, MemoryInputs
memory = EgoMapMemory(Camera.from_fov(112, 64, horizontal=1.8, vertical=1.1))
inputs = MemoryInputs(torch.zeros(2, 1, 16, 4, 10), torch.ones(2, 1, 64, 112), *torch.zeros(2, 2, 1, 3))
def run():
    memory.unroll(inputs, memory.initial_state(1), torch.zeros(2, 1, dtype=torch.bool))[0].sum().backward()
run()
print("works")
os.environ["EGOMAP_KERNELS"] = "numba"
try:
    run()
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_numba():
    """Plain torch needs no numba; asking for it says how to get it."""
    environment = {key: value for key, value in os.environ.items() if key != "EGOMAP_KERNELS"}
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], env=environment, capture_output=True, text=True, check=False
    )
    assert result.stdout.splitlines() == [
        "works",
        "numba kernels were asked for, but numba cannot be imported: pip install 'egomap[kernels]'.",
    ], result.stderr


def test_kernels_after_a_fork(four_threads):
    """A forked child has none of its parent's threads; it must make its own, not wait for those."""
    writes = random_writes(4, 8)
    arguments = (*random_content(writes, 3, 5), writes)
    with native.use_kernels("numba"):
        expected = write_and_read(*arguments)[0]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            same = torch.equal(native.write_and_read(*arguments)[0], expected)
            os.write(writing, b"same" if same else b"other")
            os._exit(0)
        os.close(writing)
        answer = os.read(reading, 5)
        os.waitpid(child, 0)
    assert answer == b"same"
