"""What memories tell of their use: by hand, and that every kind names groups that are all of it."""

from __future__ import annotations

import math

import pytest
import torch
from egomaps import small
from replay import random_inputs, random_state

from egomap.memory import FrameStackMemory, NeuralMapMemory, NoMemory, RecurrentMemory
from egomap.memory.figures import attention_entropy, mass_on, saturation, spread
from egomap.memory.protocol import figures, parameter_groups

MEMORIES = {
    "egomap": (small, {"global_read", "query", "core"}),
    "no reads": (lambda: small(use_query=False, use_global_read=False), {"global_read", "query", "core"}),
    "neural map": (lambda: NeuralMapMemory(100.0, channels=4, map_size=12), {"global_read", "core"}),
    "gru": (lambda: RecurrentMemory(hidden_size=8), {"core"}),
    "lstm": (lambda: RecurrentMemory(hidden_size=8, cell="lstm"), {"core"}),
    "none": (lambda: NoMemory(hidden_size=8), {"core"}),
    "frame stack": (lambda: FrameStackMemory(hidden_size=8), {"core"}),
}


def test_figures_by_hand():
    flat, peak = torch.full((2, 4, 4), 1 / 16), torch.zeros(2, 4, 4)
    peak[:, 1, 2] = 1.0
    assert attention_entropy(flat) == pytest.approx(1.0) and attention_entropy(peak) == pytest.approx(0.0)
    half = torch.zeros(1, 4, 4)
    half[0, 0, :2] = 0.5
    assert attention_entropy(half) == pytest.approx(math.log(2) / math.log(16))
    known = torch.zeros(2, 4, 4, dtype=torch.bool)
    known[:, 0, 0] = known[0, 1, 2] = True
    assert mass_on(peak, known) == pytest.approx(0.5) and mass_on(flat, known) == pytest.approx(3 / 32)
    assert saturation(torch.tensor([[0.96, -0.97], [0.94, 0.0]])) == pytest.approx(0.5)
    assert spread(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])) == pytest.approx(math.sqrt(0.5))
    assert spread(torch.ones(5, 2)) == 0.0


@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_groups_are_all_of_a_memory_and_figures_are_numbers(name):
    make, names = MEMORIES[name]
    torch.manual_seed(0)
    memory = make()
    groups = parameter_groups(memory)
    assert set(groups) == names
    grouped = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(grouped) == sorted(id(parameter) for parameter in memory.parameters())
    trace: dict[str, torch.Tensor] = {}
    state = memory.initial_state(3) if name != "gru" else random_state(memory, 3, 0)
    memory.step(random_inputs(1, 3, 0).each(lambda x: x[0]), state, trace=trace)
    found = figures(memory, trace)
    assert all(math.isfinite(value) for value in found.values())
    assert bool(found) == (name not in ("none", "frame stack"))
    assert ("beta" in found) == (name == "egomap")
    if name == "egomap":
        assert found["beta"] >= 1.0 and 0 < found["known"] < 1
        assert 0 < found["attention_known"] < 1 and 0 < found["attention_entropy"] <= 1
