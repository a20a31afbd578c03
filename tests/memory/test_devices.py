"""One code path for every device and dtype, and for `torch.compile`: no GPU is needed to notice most faults."""

from __future__ import annotations

import copy
import io
import sys

import pytest
import torch
from egomaps import ABLATIONS, at, never, small, with_biases
from replay import loop_of_steps, random_inputs, random_state

from egomap.memory import (
    EgoMapMemory,
    FrameStackMemory,
    NeuralMapMemory,
    NoMemory,
    RecurrentMemory,
    native,
)

MAKERS = {
    **{name: (lambda name=name: small(**ABLATIONS[name])) for name in ABLATIONS},
    "neural map": lambda: NeuralMapMemory(100.0, channels=4, map_size=12, hidden_size=8),
    "gru": lambda: RecurrentMemory(hidden_size=8),
    "lstm": lambda: RecurrentMemory(hidden_size=8, cell="lstm"),
    "none": lambda: NoMemory(hidden_size=8),
    "frame stack": lambda: FrameStackMemory(hidden_size=8, stack_size=3),
}


def starts(steps: int, num_envs: int) -> torch.Tensor:
    begin = never(steps, num_envs)
    begin[steps // 2, 0] = True
    return begin


# -- devices ------------------------------------------------------------------------------------------------


@pytest.fixture
def no_values(monkeypatch):
    """Tensors without values cannot be looked at, as little as those that a compiler records: no value checks."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"neural map"}))  # which looks at where episodes start
def test_no_tensor_is_left_on_another_device(name, no_values):
    """Shapes and devices alone, on torch's device without memory: a constant left on the CPU fails as on a GPU."""
    memory = MAKERS[name]().to("meta")
    inputs = random_inputs(10, 2, 0).each(lambda x: x.to("meta"))
    begin, state = starts(10, 2).to("meta"), memory.initial_state(2)
    assert {tensor.device.type for tensor in state} <= {"meta"}
    for run in (memory.unroll, lambda *arguments: loop_of_steps(memory, *arguments)):
        out, last = run(inputs, state, begin)
        out.sum().backward()
        assert {tensor.device.type for tensor in (out, *last)} == {"meta"}
        assert [tuple(tensor.shape) for tensor in last] == [(2, *spec.shape) for spec in memory.state_spec]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_the_same():
    for make in MAKERS.values():
        torch.manual_seed(0)
        memory = make().double()
        inputs, begin = random_inputs(5, 2, 0, dtype=torch.float64), starts(5, 2)
        state = random_state(memory, 2, 0)
        expected, _ = memory.unroll(inputs, state, begin)
        memory.cuda()
        on_gpu = inputs.each(lambda x: x.cuda()), tuple(s.cuda() for s in state), begin.cuda()
        out, _ = memory.unroll(*on_gpu)
        torch.testing.assert_close(out.cpu(), expected, rtol=1e-9, atol=1e-9)


# -- dtypes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["paper", "l1", "anchored at the start", "naive", "neural map"])
def test_the_dtype_of_the_memory_is_that_of_its_outputs(name, dtype):
    torch.manual_seed(0)
    memory = MAKERS[name]().to(dtype)
    inputs = random_inputs(3, 2, 0).each(lambda x: x.to(dtype))
    for run in (memory.unroll, lambda *arguments: loop_of_steps(memory, *arguments)):
        out, last = run(inputs, memory.initial_state(2), starts(3, 2))
        out.sum().backward()
        assert out.dtype == dtype
        assert [s.dtype for s in last] == [spec.dtype for spec in memory.state_spec]


def test_poses_and_depths_may_be_of_another_dtype():
    """A simulator may give doubles, or whole numbers for depth."""
    torch.manual_seed(0)
    memory = small()
    view = at(random_inputs(1, 2, 0), 0)
    view = view._replace(depth=view.depth.round())
    expected, _ = memory.step(view, memory.initial_state(2))
    other = view._replace(depth=view.depth.to(torch.int16), pose=view.pose.double())
    out, state = memory.step(other, memory.initial_state(2))
    torch.testing.assert_close(out, expected)
    assert [s.dtype for s in state] == [spec.dtype for spec in memory.state_spec]


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("name", ["paper", "l1", "naive", "gru", "lstm"])
def test_autocast(name, backend):
    """In mixed precision the state stays in the memory's own; step and unroll still agree, to what bfloat16 holds."""
    torch.manual_seed(0)
    memory = MAKERS[name]()
    inputs, begin = random_inputs(4, 2, 0), starts(4, 2)
    exact, _ = memory.unroll(inputs, memory.initial_state(2), begin)
    short = inputs._replace(features=inputs.features.bfloat16())  # as a perception under autocast gives them
    for run in (memory.unroll, lambda *arguments: loop_of_steps(memory, *arguments)):
        with native.use_kernels(backend), torch.autocast("cpu", torch.bfloat16):
            out, last = run(short, memory.initial_state(2), begin)
        out.float().sum().backward()
        assert [s.dtype for s in last] == [spec.dtype for spec in memory.state_spec]
        torch.testing.assert_close(out.float(), exact, rtol=0.1, atol=0.1)
    assert all(torch.isfinite(p.grad).all() for p in memory.parameters())


# -- the compiler -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "naive"])
def test_compiled_step_and_unroll_are_the_same(name):
    torch._dynamo.reset()
    torch.manual_seed(0)
    memory = with_biases(small(**ABLATIONS[name]))
    inputs, state, begin = random_inputs(3, 2, 0), random_state(memory, 2, 0), starts(3, 2)

    def gradients(run, *arguments):
        memory.zero_grad()
        out, last = run(*arguments)
        out.square().sum().backward()
        return out, last, [p.grad.clone() for p in memory.parameters()]

    for run, arguments in (
        (memory.unroll, (inputs, state, begin)),
        (memory.step, (at(inputs, 0), state)),
    ):
        expected = gradients(run, *arguments)
        found = gradients(torch.compile(run, backend="aot_eager"), *arguments)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
    torch._dynamo.reset()


# -- what it takes ------------------------------------------------------------------------------------------


def test_a_memory_can_be_copied_saved_and_loaded():
    torch.manual_seed(0)
    memory = EgoMapMemory(small().camera, small().settings, hidden_size=8)
    other = small()
    inputs, state = random_inputs(2, 2, 0), random_state(memory, 2, 0)
    expected, _ = memory.unroll(inputs, state, never(2, 2))
    assert not torch.allclose(other.unroll(inputs, state, never(2, 2))[0], expected)
    file = io.BytesIO()
    torch.save(memory.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    for again in (other, copy.deepcopy(memory)):
        assert torch.equal(again.unroll(inputs, state, never(2, 2))[0], expected)
    # Constants follow from the settings: they are no part of a checkpoint.
    assert set(memory.state_dict()) == {name for name, _ in memory.named_parameters()}


def test_a_numba_that_does_not_import_is_done_without(monkeypatch):
    """As after an upgrade of numpy beyond what numba knows."""
    monkeypatch.setitem(sys.modules, "numba", None)
    native.available.cache_clear()
    try:
        assert not native.enabled(torch.zeros(1))
        with native.use_kernels("numba"), pytest.raises(ValueError, match="cannot be imported"):
            native.enabled(torch.zeros(1))
    finally:
        monkeypatch.undo()
        native.available.cache_clear()
