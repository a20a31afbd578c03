from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.memory import native
from egomap.memory.attention import EPSILON, attend, normalise, similarities
from egomap.memory.reads import ContextRead, GlobalRead, cell_positions, oneplus

DOUBLE = torch.float64


@pytest.fixture(params=["torch", "numba"])
def backend(request):
    if request.param == "numba" and not native.available():
        pytest.skip("numba is not installed")
    with native.use_kernels(request.param):
        yield request.param


def random(*shape: int, seed: int = 0, dtype: torch.dtype = DOUBLE) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# -- positions and temperature ------------------------------------------------------------------------------


def test_positions_by_hand():
    """Row 0 is farthest ahead, column 0 farthest left; the agent is in the middle."""
    expected = [[-0.5, 0.5], [0.5, 0.5], [-0.5, -0.5], [0.5, -0.5]]
    assert cell_positions(2).tolist() == expected
    assert cell_positions(3)[4].tolist() == [0.0, 0.0]
    assert cell_positions(24)[0].tolist() == pytest.approx([-(1 - 1 / 24), 1 - 1 / 24])


def test_oneplus_is_one_at_least():
    x = torch.tensor([-1000.0, 0.0, 1.0, 1000.0], dtype=DOUBLE)
    expected = torch.tensor([1.0, 1 + math.log(2), 1 + math.log(1 + math.e), 1001.0], dtype=DOUBLE)
    torch.testing.assert_close(oneplus(x), expected)


# -- similarities -------------------------------------------------------------------------------------------


def test_cosine_by_hand():
    rows = torch.tensor([[[3.0, 4.0], [-3.0, -4.0], [4.0, -3.0], [0.0, 0.0], [300.0, 400.0]]], dtype=DOUBLE)
    scores = similarities(rows, torch.tensor([[6.0, 8.0]], dtype=DOUBLE), "cosine")
    expected = torch.tensor([[1.0, -1.0, 0.0, 0.0, 1.0]], dtype=DOUBLE)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)
    assert scores[0, 3] == 0.0  # an empty cell, exactly


def test_l1_by_hand():
    rows = torch.tensor([[[1.0, 2.0], [0.0, 0.0], [-1.0, 5.0]]], dtype=DOUBLE)
    scores = similarities(rows, torch.tensor([[1.0, 2.0]], dtype=DOUBLE), "l1")
    assert scores.tolist() == [[0.0, -3.0, -5.0]]


def test_normalised_lengths():
    vectors = random(4, 7, 5)
    lengths = normalise(vectors).norm(dim=-1)
    expected = (vectors.norm(dim=-1).square() / (vectors.norm(dim=-1).square() + EPSILON)).sqrt()
    torch.testing.assert_close(lengths, expected)
    zero = torch.zeros(3, dtype=DOUBLE, requires_grad=True)
    normalise(zero).sum().backward()
    assert torch.isfinite(zero.grad).all()


# -- attention ----------------------------------------------------------------------------------------------

SIMILARITIES = ["cosine", "l1"]


def attention_by_the_book(rows, query, beta, positions, similarity):
    """Equation 7, cell by cell."""
    contexts, weights = [], []
    for cells, q, b in zip(rows, query, beta, strict=True):
        if similarity == "cosine":
            scores = [(c @ q) / ((c @ c + EPSILON).sqrt() * (q @ q + EPSILON).sqrt()) for c in cells]
        else:
            scores = [-(c - q).abs().sum() for c in cells]
        w = torch.exp(b * torch.stack(scores))
        w = w / w.sum()
        weights.append(w)
        contexts.append(torch.cat((w @ cells, w @ positions)))
    return torch.stack(contexts), torch.stack(weights)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_attention_is_equation_7(backend, similarity):
    rows, query, beta = random(3, 9, 3), random(3, 3, seed=1), 1 + random(3, seed=2).abs()
    context, attention = attend(rows, query, beta, cell_positions(3), similarity)
    expected = attention_by_the_book(rows, query, beta, cell_positions(3), similarity)
    torch.testing.assert_close((context, attention), expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(attention.sum(-1), torch.ones(3, dtype=DOUBLE))
    assert (attention > 0).all() and not attention.requires_grad


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_large_batch_is_its_parts(backend, similarity):
    rows, query, beta = random(600, 4, 3), random(600, 3, seed=1), 1 + random(600, seed=2).abs()
    leaves = [leaf.requires_grad_() for leaf in (rows, query, beta)]
    context, attention = attend(*leaves, cell_positions(2), similarity)
    gradients = torch.autograd.grad(context.sin().sum(), leaves)
    for part in (slice(0, 100), slice(100, 101), slice(101, 600)):
        some = [leaf[part].detach().requires_grad_() for leaf in leaves]
        expected, weights = attend(*some, cell_positions(2), similarity)
        torch.testing.assert_close((context[part], attention[part]), (expected, weights))
        torch.testing.assert_close(
            [g[part] for g in gradients], list(torch.autograd.grad(expected.sin().sum(), some))
        )


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_large_beta_picks_the_best_cell_and_its_place(backend, similarity):
    rows, query = random(2, 16, 3), random(2, 3, seed=1)
    best = similarities(rows, query, similarity).argmax(-1)
    context, attention = attend(
        rows, query, torch.full((2,), 1e4, dtype=DOUBLE), cell_positions(4), similarity
    )
    one_hot = torch.nn.functional.one_hot(best, 16).to(DOUBLE)
    torch.testing.assert_close(attention, one_hot, rtol=0, atol=1e-9)
    for sample, cell in enumerate(best.tolist()):
        row, column = divmod(cell, 4)
        place = torch.tensor([(column - 1.5) / 2, (1.5 - row) / 2], dtype=DOUBLE)
        torch.testing.assert_close(context[sample], torch.cat((rows[sample, cell], place)), rtol=0, atol=1e-8)


def test_every_cell_can_be_asked_for(backend):
    """One-hot attention returns exactly that cell's x, y, for each cell in turn."""
    positions, cells = cell_positions(4), 16
    rows = torch.eye(cells, dtype=DOUBLE).expand(cells, -1, -1)  # cell i holds the unit vector i
    query, beta = torch.eye(cells, dtype=DOUBLE), torch.full((cells,), 1e4, dtype=DOUBLE)
    context, _ = attend(rows, query, beta, positions, "cosine")
    torch.testing.assert_close(context[:, cells:], positions, rtol=0, atol=1e-9)
    torch.testing.assert_close(context[:, :cells], torch.eye(cells, dtype=DOUBLE), rtol=0, atol=1e-9)


def test_an_empty_map_is_looked_at_evenly(backend):
    rows, beta = torch.zeros(2, 25, 3, dtype=DOUBLE), torch.tensor([1.0, 50.0], dtype=DOUBLE)
    context, attention = attend(rows, random(2, 3), beta, cell_positions(5), "cosine")
    torch.testing.assert_close(attention, torch.full((2, 25), 1 / 25, dtype=DOUBLE))
    torch.testing.assert_close(context, torch.zeros(2, 5, dtype=DOUBLE))


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_scores_far_apart_do_not_overflow(backend, similarity):
    rows = random(1, 9, 16, dtype=torch.float32) * 1e4
    query = random(1, 16, seed=1, dtype=torch.float32) * 1e4
    positions = cell_positions(3).float()
    context, attention = attend(rows, query, torch.tensor([1e3]), positions, similarity)
    assert torch.isfinite(context).all()
    torch.testing.assert_close(attention.sum(-1), torch.ones(1))


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_attention_gradcheck(backend, similarity):
    rows = torch.cat((random(2, 8, 3), torch.zeros(2, 1, 3, dtype=DOUBLE)), 1)  # with an empty cell
    query, beta = random(2, 3, seed=1), 1 + random(2, seed=2).abs()
    assert torch.autograd.gradcheck(
        lambda r, q, b: attend(r, q, b, cell_positions(3), similarity)[0],
        (rows.requires_grad_(), query.requires_grad_(), beta.requires_grad_()),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r, q, b, p: (r[0], q, b, p, "l1"), r"rows must have shape \(\*, \*, \*\); got \(9, 3\)"),
        (lambda r, q, b, p: (r, q[:1], b, p, "l1"), r"query must have shape \(3, 3\); got \(1, 3\)"),
        (lambda r, q, b, p: (r[:1], q, b, p, "cosine"), r"query must have shape \(1, 3\); got \(3, 3\)"),
        (lambda r, q, b, p: (r, q[:, :2], b, p, "cosine"), r"query must have shape \(3, 3\); got \(3, 2\)"),
        (lambda r, q, b, p: (r, q, b[:1], p, "l1"), r"beta must have shape \(3\); got \(1,\)"),
        (lambda r, q, b, p: (r, q, b[:, None], p, "l1"), r"beta must have shape \(3\); got \(3, 1\)"),
        (lambda r, q, b, p: (r, q, b, p[:4], "l1"), r"positions must have shape \(9, 2\); got \(4, 2\)"),
        (lambda r, q, b, p: (r, q, b, p, "dot"), "similarity must be 'cosine' or 'l1'; got 'dot'"),
    ],
)
def test_wrong_input_is_told_before_any_memory_is_touched(backend, change, message):
    arguments = (random(3, 9, 3), random(3, 3), random(3).abs(), cell_positions(3))
    attend(*arguments, "cosine")
    with pytest.raises(ValueError, match=message):
        attend(*change(*arguments))


# -- the context read ---------------------------------------------------------------------------------------


def context_read(**changes) -> ContextRead:
    torch.manual_seed(0)
    return ContextRead(**{"hidden_size": 6, "channels": 3, "map_size": 4, **changes}).double()


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("use_beta", [True, False])
@pytest.mark.parametrize("use_position", [True, False])
def test_context_shapes_and_switches(backend, similarity, use_beta, use_position):
    read = context_read(similarity=similarity, use_beta=use_beta, use_position=use_position)
    hidden, maps = random(5, 6), random(5, 3, 4, 4)
    trace: dict[str, torch.Tensor] = {}
    context = read(hidden, maps, trace=trace)
    assert context.shape == (5, read.output_size) and read.output_size == 3 + 2 * use_position
    assert read.query.out_features == 3 + use_beta
    assert trace["attention"].shape == (5, 4, 4) and trace["query_position"].shape == (5, 2)
    # Equation 7 by the parts that the trace shows.
    query = read.query(hidden)
    beta = oneplus(query[:, 3]) if use_beta else torch.ones(5, dtype=DOUBLE)
    rows = maps.flatten(2).transpose(1, 2)
    expected, attention = attention_by_the_book(rows, query[:, :3], beta, cell_positions(4), similarity)
    torch.testing.assert_close(context, expected[:, : read.output_size], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(trace["attention"].flatten(1), attention, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(trace["query_position"], expected[:, 3:], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close((trace["beta"], trace["query"]), (beta, query[:, :3]))
    assert not any(value.requires_grad for value in trace.values())


def test_a_landmark_on_the_right_is_read_on_the_right(backend):
    read = context_read(hidden_size=4)
    with torch.no_grad():
        read.query.weight.zero_()
        read.query.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 60.0]))
    maps = torch.zeros(1, 3, 4, 4, dtype=DOUBLE)
    maps[0, 0, 1, 3] = 5.0  # the second row from the top: ahead; the last column: right
    context = read(torch.zeros(1, 4, dtype=DOUBLE), maps)
    torch.testing.assert_close(
        context[0], torch.tensor([5.0, 0, 0, 0.75, 0.25], dtype=DOUBLE), rtol=0, atol=1e-6
    )


def test_a_batch_is_its_single_samples(backend):
    read, hidden, maps = context_read(), random(4, 6), random(4, 3, 4, 4)
    batch = read(hidden, maps)
    for n in range(4):
        torch.testing.assert_close(batch[n : n + 1], read(hidden[n : n + 1], maps[n : n + 1]))
    last = maps.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(read(hidden, last), batch)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_context_gradcheck(backend, similarity):
    read = context_read(similarity=similarity)
    hidden, maps = random(2, 6), random(2, 3, 4, 4)
    assert torch.autograd.gradcheck(read, (hidden.requires_grad_(), maps.requires_grad_()))


def test_context_read_tells_wrong_input(backend):
    read = context_read()
    for hidden, maps, message in (
        (random(2, 5), random(2, 3, 4, 4), r"hidden must have shape \(\*, 6\); got \(2, 5\)"),
        (random(2, 6), random(2, 3, 4, 5), r"map_ego must have shape \(2, 3, 4, 4\); got \(2, 3, 4, 5\)"),
        (random(1, 6), random(2, 3, 4, 4), r"map_ego must have shape \(1, 3, 4, 4\); got \(2, 3, 4, 4\)"),
        (random(2, 6), random(1, 3, 4, 4), r"map_ego must have shape \(2, 3, 4, 4\); got \(1, 3, 4, 4\)"),
    ):
        with pytest.raises(ValueError, match=message):
            read(hidden, maps)
    with pytest.raises(ValueError, match="similarity must be 'cosine' or 'l1'; got 'l2'"):
        context_read(similarity="l2")


# -- the global read ----------------------------------------------------------------------------------------


def test_global_read_of_the_paper():
    read = GlobalRead()
    layers = [m for m in read.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    kernels = [(m.kernel_size[0], m.stride[0], m.out_channels) for m in layers[:3]]
    assert kernels == [(3, 1, 16), (4, 2, 16), (4, 2, 16)]
    assert [(m.in_features, m.out_features) for m in layers[3:]] == [(256, 256), (256, 32)]
    out = read(random(3, 16, 24, 24, dtype=torch.float32))
    assert out.shape == (3, 32) and out.abs().max() < 1


@settings(max_examples=8)
@given(st.integers(12, 40), st.integers(1, 5))
def test_global_read_fits_every_size(size, channels):
    assert GlobalRead(channels, size)(torch.zeros(2, channels, size, size)).shape == (2, 32)


def test_global_read_of_a_batch_and_of_any_memory_layout():
    torch.manual_seed(0)
    read, maps = GlobalRead(4, 12).double(), random(3, 4, 12, 12)
    batch = read(maps)
    torch.testing.assert_close(batch[1:2], read(maps[1:2]))
    torch.testing.assert_close(read(maps.contiguous(memory_format=torch.channels_last)), batch)
    # It sees where things are, not only what they are.
    assert not torch.allclose(read(maps.flip(-1)), batch)


def test_global_read_gradcheck():
    torch.manual_seed(0)
    read = GlobalRead(1, 12, output_size=3).double()
    assert torch.autograd.gradcheck(read, (random(1, 1, 12, 12).requires_grad_(),))


def test_global_read_tells_wrong_input():
    with pytest.raises(ValueError, match="map_size must be 12 or more for the global read; got 11"):
        GlobalRead(4, 11)
    with pytest.raises(ValueError, match=r"map_ego must have shape \(\*, 4, 12, 12\); got \(2, 5, 12, 12\)"):
        GlobalRead(4, 12)(torch.zeros(2, 5, 12, 12))
