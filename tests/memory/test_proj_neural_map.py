"""Maxima in EgoMap's map by hand; that `unroll` equals the loop is among the switches of test_egomap_unroll."""

from __future__ import annotations

import math

import pytest
import torch
from egomaps import at, never, one_pixel, one_pixel_inputs
from replay import loop_of_steps

from egomap.config import AgentConfig, Camera, MapSettings
from egomap.memory import EgoMapMemory, native
from egomap.memory.protocol import Fitting
from egomap.memory.registry import build_memory

HERE, AWAY = (5.0, 5.0, math.pi / 2), (5.0, 5.0, math.pi)
CELL = 3 * 12 + 6


@pytest.mark.parametrize("map_frame", ["global", "ego"])
def test_a_cell_keeps_the_largest_that_it_has_seen(map_frame):
    """A first value even if it is negative; then only larger ones; nothing while it looks elsewhere."""
    memory = one_pixel(write="max", map_frame=map_frame)
    inputs = one_pixel_inputs([-8.0, -9.0, 3.0, 2.0], [20.0] * 4, [HERE] * 4)
    state, values = memory.initial_state(1), []
    for t in range(4):
        _, state = memory.step(at(inputs, t), state)
        (cell,) = state[1][0].nonzero().flatten().tolist()  # the same one each time
        values.append((cell, float(state[0][0, cell, 0].detach())))
    cell = CELL if map_frame == "global" else 4 * 12 + 6
    assert values == [(cell, -8.0), (cell, -8.0), (cell, 3.0), (cell, 3.0)]


def test_acting_and_learning_write_the_same():
    """Without gradient and trace, EgoMap's step takes a kernel; that kernel knows means alone."""
    memory = one_pixel(write="max").float()
    inputs = one_pixel_inputs([4.0, 8.0, 2.0], [20.0] * 3, [HERE, HERE, AWAY]).each(lambda part: part.float())
    for backend in ("torch", *(["numba"] if native.available() else [])):
        with native.use_kernels(backend), torch.no_grad():
            state = memory.initial_state(1)
            for t in range(3):
                _, state = memory.step(at(inputs, t), state)
            assert float(state[0][0, CELL, 0]) == 8.0
            _, last = memory.unroll(inputs, memory.initial_state(1), never(3, 1))
            assert torch.equal(last[0], state[0])


@pytest.mark.parametrize(
    ("values", "every", "reached"),
    [
        ([4.0, 8.0, 2.0], 1, []),
        ([4.0, 2.0, 8.0], 1, [2]),
        ([4.0, 8.0, 2.0], None, [1]),
        ([4.0, 8.0, 2.0], 2, []),
    ],
)
def test_which_write_gets_gradient(values, every, reached):
    """The one that is the largest, if no cut lies between; with a cut before every write, the current one alone."""
    memory = one_pixel(write="max", write_gradient_steps=every)
    inputs = one_pixel_inputs(values, [20.0] * 3, [HERE] * 3)
    features = inputs.features.requires_grad_()
    for run in (memory.unroll, lambda *arguments: loop_of_steps(memory, *arguments)):
        _, state = run(inputs, memory.initial_state(1), never(3, 1))
        (gradient,) = torch.autograd.grad(state[0].sum(), features)
        assert gradient.flatten().nonzero().flatten().tolist() == reached


def test_by_name_it_is_egomap_with_two_settings():
    camera = Camera.from_fov(112, 64, horizontal=1.8, vertical=1.1)
    fitting = Fitting(camera, (16, 4, 10), (8, 4, 3), (4, 2, 1), 900.0)
    memory = build_memory(AgentConfig(kind="proj-neural-map", map=MapSettings(use_beta=False)), fitting)
    assert isinstance(memory, EgoMapMemory)
    expected = MapSettings(extent=900.0, use_beta=False, write="max", write_gradient_steps=1)
    assert memory.settings == expected
