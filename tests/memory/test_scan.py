from __future__ import annotations

import math

import pytest
import torch
from allocations import large_allocations
from hypothesis import given, settings
from hypothesis import strategies as st
from writes import one_by_one, random_content, random_writes

from egomap.geometry import affine_from_pose
from egomap.memory import native
from egomap.memory.scan import Writes, write_and_read

BACKENDS = ["torch", "numba"]
NORTH = math.pi / 2


@pytest.fixture(params=BACKENDS)
def backend(request):
    if request.param == "numba" and not native.available():
        pytest.skip("numba is not installed")
    with native.use_kernels(request.param):
        yield request.param


def loss_of(maps_ego, again, map_last):
    """Something of everything, each place with a weight of its own; the two readers differ."""
    weight = torch.linspace(-1, 2, maps_ego.numel(), dtype=maps_ego.dtype).view_as(maps_ego)
    return (maps_ego * weight).sum() + again.sin().sum() + (map_last * map_last).sum()


# -- hand values --------------------------------------------------------------------------------------------


def one_env(cells_by_step, starts, size=4, points=1):
    steps = len(cells_by_step)
    pose = torch.tensor([[0.0, 0.0, NORTH]] * steps, dtype=torch.float64)
    cell = torch.tensor(cells_by_step).view(steps, 1, points)
    start = torch.tensor(starts).view(steps, 1)
    return Writes(
        cell, torch.ones_like(cell, dtype=torch.bool), start, None, affine_from_pose(pose, 4.0), 0.9
    )


def test_all_cases_of_eta_in_one_cell_over_time(backend):
    """New; seen again; seen twice at once; left alone; emptied and new again."""
    writes = one_env([[5, 0], [5, 0], [5, 5], [0, 0], [5, 0]], [False] * 4 + [True], points=2)
    features = (
        torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=torch.float64).view(5, 1, 1, 1).repeat(1, 1, 2, 1)
    )
    features[2, 0, 1] = 6.0
    start_map, known = torch.zeros(1, 16, 1, dtype=torch.float64), torch.zeros(1, 16, dtype=torch.bool)
    maps, again, last, known = write_and_read(features, start_map, known, writes)
    once = 0.9 * 1 + 0.1 * 2
    twice = 0.9 * once + 0.1 * (4 + 6) / 2
    expected = torch.tensor([1.0, once, twice, twice, 16.0], dtype=torch.float64)
    torch.testing.assert_close(maps[:, 0, 5, 0], expected)
    torch.testing.assert_close(again, maps, rtol=0, atol=0)
    assert last[0, :, 0].nonzero().flatten().tolist() == [0, 5]
    assert known[0].nonzero().flatten().tolist() == [0, 5]


def test_a_known_start_cell_is_blended_and_an_unknown_one_replaced(backend):
    writes = one_env([[3, 7]], [False], points=2)
    start_map = torch.full((1, 16, 1), 5.0, dtype=torch.float64)
    known = torch.zeros(1, 16, dtype=torch.bool)
    known[0, 3] = True
    features = torch.ones(1, 1, 2, 1, dtype=torch.float64)
    _, _, last, knows = write_and_read(features, start_map, known, writes)
    torch.testing.assert_close(last[0, [3, 7, 8], 0], torch.tensor([4.6, 1.0, 5.0], dtype=torch.float64))
    assert knows[0].nonzero().flatten().tolist() == [3, 7]
    assert (
        known[0].nonzero().flatten().tolist() == [3] and (start_map == 5).all()
    )  # what came in is untouched


def test_a_step_that_sees_nothing_changes_nothing(backend):
    writes = random_writes(3, 2, 4, starts=0.0, seen=0.0)
    features, map_prev, known = random_content(writes, 3, 5)
    _, _, last, knows = write_and_read(features, map_prev, known, writes)
    assert torch.equal(last, map_prev) and torch.equal(knows, known)


# -- against the operators ----------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    steps=st.integers(1, 20),
    num_envs=st.integers(1, 3),
    points=st.integers(1, 8),
    size=st.integers(2, 6),
    cuts=st.sampled_from([None, 0.0, 0.3, 1.0]),
    alpha=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
@pytest.mark.parametrize("name", BACKENDS)
def test_the_scan_is_splat_blend_and_warp_one_by_one(name, steps, num_envs, points, size, cuts, alpha, seed):
    writes = random_writes(steps, num_envs, points, size, seed=seed, cuts=cuts, alpha=alpha)
    features, map_prev, known = random_content(writes, 3, size, seed=seed)
    leaves = (features.requires_grad_(), map_prev.requires_grad_())
    slow, slow_last, slow_known = one_by_one(*leaves, known, writes)
    expected = torch.autograd.grad(loss_of(slow, slow, slow_last), leaves)
    with native.use_kernels(name):
        maps, again, last, knows = write_and_read(*leaves, known, writes)
        gradients = torch.autograd.grad(loss_of(maps, again, last), leaves)
    close = {"rtol": 1e-11, "atol": 1e-11}
    torch.testing.assert_close((maps, last), (slow, slow_last), **close)
    assert torch.equal(knows, slow_known)
    torch.testing.assert_close(gradients, expected, **close)


def test_gradcheck(backend):
    writes = random_writes(4, 2, 5, 3)
    features, map_prev, known = random_content(writes, 3, 3)
    assert torch.autograd.gradcheck(
        lambda f, m: write_and_read(f, m, known, writes)[:3],
        (features.requires_grad_(), map_prev.requires_grad_()),
    )


@pytest.mark.parametrize("used", ["first", "second", "last", "both"])
def test_gradients_of_some_outputs_only(backend, used):
    writes = random_writes(6, 2)
    features, map_prev, known = random_content(writes, 3, 5)
    leaves = (features.requires_grad_(), map_prev.requires_grad_())
    maps, again, last, _ = write_and_read(*leaves, known, writes)
    slow, slow_last, _ = one_by_one(*leaves, known, writes)
    pick = {"first": (maps,), "second": (again,), "last": (last,), "both": (maps, again)}[used]
    slow_pick = {"last": (slow_last,), "both": (slow, slow)}.get(used, (slow,))
    gradients = torch.autograd.grad(sum(p.sin().sum() for p in pick), leaves)
    expected = torch.autograd.grad(sum(p.sin().sum() for p in slow_pick), leaves)
    torch.testing.assert_close(gradients, expected, rtol=1e-11, atol=1e-11)


def test_without_gradients_nothing_is_recorded(backend):
    writes = random_writes()
    features, map_prev, known = random_content(writes, 3, 5)
    outputs = write_and_read(features, map_prev, known, writes)
    assert not any(output.requires_grad for output in outputs)
    with torch.no_grad():
        with_leaf = write_and_read(features.requires_grad_(), map_prev, known, writes)
    torch.testing.assert_close(outputs, with_leaf)


def test_a_cut_keeps_the_values_and_drops_the_past(backend):
    writes = random_writes(6, 1, starts=0.0, seen=1.0)
    features, map_prev, known = random_content(writes, 3, 5)
    leaves = (features.requires_grad_(), map_prev.requires_grad_())
    uncut = write_and_read(*leaves, known, writes)[0]
    cut = torch.zeros(6, 1, dtype=torch.bool)
    cut[3] = True
    maps = write_and_read(*leaves, known, writes._replace(cut=cut))[0]
    assert torch.equal(uncut, maps)
    by_features, by_map = torch.autograd.grad(maps[5].sum(), leaves)
    assert (by_features[:3] == 0).all() and (by_map == 0).all()
    assert (by_features[3:] != 0).any((1, 2, 3)).all()
    whole, _ = torch.autograd.grad(uncut[5].sum(), leaves)
    assert torch.equal(by_features[3:], whole[3:]) and (whole[:3] != 0).any()


# -- what it takes ------------------------------------------------------------------------------------------


def test_one_map_per_step_and_no_more(backend):
    """Of T full maps only the one that the reads look at exists, forward and backward."""
    writes = random_writes(64, 2, 6, 8, dtype=torch.float32)
    features, map_prev, known = random_content(writes, 16, 8, dtype=torch.float32)
    leaves = (features.requires_grad_(), map_prev.requires_grad_())
    full = 64 * 2 * 8 * 8 * 16
    with large_allocations(full) as forward:
        maps, again, _, _ = write_and_read(*leaves, known, writes)
    assert maps.numel() == full and len(forward) == 1
    gradients = (torch.randn_like(maps), torch.randn_like(maps))
    with large_allocations(full) as backward:
        torch.autograd.grad((maps, again), leaves, gradients)
    assert backward == []


# -- wrong input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f, m, k, w: (f[0], m, k, w), r"features must have shape \(\*, \*, \*, \*\)"),
        (lambda f, m, k, w: (f, m[:1], k, w), r"map_prev must have shape \(3, \*, 3\); got \(1, 25, 3\)"),
        (
            lambda f, m, k, w: (f, m[..., :2], k, w),
            r"map_prev must have shape \(3, \*, 3\); got \(3, 25, 2\)",
        ),
        (lambda f, m, k, w: (f, m, k[:, :4], w), r"known must have shape \(3, 25\); got \(3, 4\)"),
        (lambda f, m, k, w: (f, m, k, w._replace(cell=w.cell[:2])), r"cell must have shape \(5, 3, 7\)"),
        (
            lambda f, m, k, w: (f, m, k, w._replace(inside=w.inside[..., :1])),
            r"inside must have shape \(5, 3, 7\)",
        ),
        (
            lambda f, m, k, w: (f, m, k, w._replace(episode_start=w.episode_start[:1])),
            r"episode_start must have shape \(5, 3\)",
        ),
        (lambda f, m, k, w: (f, m, k, w._replace(cut=w.episode_start[0])), r"cut must have shape \(5, 3\)"),
        (
            lambda f, m, k, w: (f, m, k, w._replace(affine=w.affine[:3])),
            r"affine must have shape \(15, 2, 3\)",
        ),
        (lambda f, m, k, w: (f, m, k, w._replace(cell=w.cell + 20)), r"cell must be 0 to 24; got 20 to 44"),
        (lambda f, m, k, w: (f, m, k, w._replace(cell=w.cell - 1)), r"cell must be 0 to 24; got -1 to 23"),
    ],
)
def test_wrong_input_is_told_before_any_memory_is_touched(backend, change, message):
    writes = random_writes()
    arguments = (*random_content(writes, 3, 5), writes)
    write_and_read(*arguments)
    with pytest.raises(ValueError, match=message):
        write_and_read(*change(*arguments))
