"""What holds for every memory of the zoo, whatever it keeps; each has a file of its own for the rest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay import (
    assert_unroll_equals_steps,
    gradients_are_smooth,
    loop_of_steps,
    random_inputs,
    random_state,
)

from egomap.config import AgentConfig, Camera
from egomap.memory import Memory, MemoryInputs, MemoryState, RecurrentMemory
from egomap.memory.dnc import DNCMemory
from egomap.memory.ffm import FFMMemory
from egomap.memory.front import steps_since_start
from egomap.memory.gtrxl import GTrXLMemory
from egomap.memory.lesions import Tap, lesioned_parts, parts_of
from egomap.memory.lru import LRUMemory
from egomap.memory.protocol import Fitting, figures, parameter_groups, reset_state
from egomap.memory.registry import build_memory
from egomap.memory.smt import SMTMemory

SMALL: dict[str, Callable[..., torch.nn.Module]] = {
    "lru": lambda **kw: LRUMemory(hidden_size=8, **kw),
    "ffm": lambda **kw: FFMMemory(hidden_size=8, trace_size=5, context_size=3, **kw),
    "gtrxl": lambda **kw: GTrXLMemory(hidden_size=8, size=8, heads=2, memory_size=5, **kw),
    "smt": lambda **kw: SMTMemory(hidden_size=8, size=8, heads=2, window=5, pose_unit=50.0, **kw),
    "dnc": lambda **kw: DNCMemory(hidden_size=8, controller_size=8, slots=4, slot_size=3, heads=2, **kw),
}
FULL: dict[str, Callable[..., torch.nn.Module]] = {
    "lru": LRUMemory,
    "ffm": FFMMemory,
    "gtrxl": GTrXLMemory,
    "smt": SMTMemory,
    "dnc": DNCMemory,
}
NAMES = sorted(SMALL)


def starts(steps: int, num_envs: int, seed: int, rate: float = 0.3) -> torch.Tensor:
    return torch.rand(steps, num_envs, generator=torch.Generator().manual_seed(seed)) < rate


def never(steps: int, num_envs: int) -> torch.Tensor:
    return torch.zeros(steps, num_envs, dtype=torch.bool)


def small(name: str, seed: int = 0, **settings: bool) -> torch.nn.Module:
    torch.manual_seed(seed)
    return SMALL[name](**settings).double()


def carried(memory: torch.nn.Module, num_envs: int, seed: int) -> MemoryState:
    """Any state at all; for the DNC one that can be, for sums of weights beyond 1 would grow without bounds."""
    if not isinstance(memory, DNCMemory):
        return random_state(memory, num_envs, seed)
    before = random_inputs(6, num_envs, seed + 1, dtype=memory.out.weight.dtype)
    with torch.no_grad():
        return memory.unroll(before, memory.initial_state(num_envs), starts(6, num_envs, seed, 0.1))[1]


def doubles(steps: int, num_envs: int, seed: int) -> MemoryInputs:
    return random_inputs(steps, num_envs, seed, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None)
@given(
    steps=st.integers(1, 13),
    num_envs=st.integers(1, 3),
    seed=st.integers(0, 1000),
    rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
@example(steps=13, num_envs=1, seed=273, rate=0.0)  # the LRU's layer norm meets units that are nearly equal
def test_unroll_equals_a_loop_of_steps(name, steps, num_envs, seed, rate):
    torch.manual_seed(seed)
    for dtype in (torch.float32, torch.float64):
        memory = SMALL[name](use_reward=bool(seed % 2)).to(dtype)
        sequence = (
            random_inputs(steps, num_envs, seed, dtype=dtype),
            carried(memory, num_envs, seed),
            starts(steps, num_envs, seed, rate),
        )
        smooth = gradients_are_smooth(memory, *sequence)
        assert_unroll_equals_steps(memory, *sequence, compare_gradients=smooth)


@pytest.mark.parametrize("name", NAMES)
def test_a_long_rollout_in_two_pieces_is_the_same(name):
    """The carried state holds all there is: 40 steps at once, and 17 and 23 one after the other."""
    memory, inputs, begin = small(name), doubles(40, 2, 1), starts(40, 2, 1, 0.05)
    whole, last = memory.unroll(inputs, memory.initial_state(2), begin)
    first, between = memory.unroll(inputs.at(slice(17)), memory.initial_state(2), begin[:17])
    second, end = memory.unroll(inputs.at(slice(17, None)), between, begin[17:])
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(tuple(end), tuple(last), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_start_of_one_episode_leaves_the_others_alone(name):
    memory, inputs = small(name), doubles(7, 3, 0)
    state, one = carried(memory, 3, 1), never(7, 3)
    one[3, 1] = True
    without, _ = memory.unroll(inputs, state, never(7, 3))
    with_one, _ = memory.unroll(inputs, state, one)
    torch.testing.assert_close(without[:, [0, 2]], with_one[:, [0, 2]], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(without[:3, 1], with_one[:3, 1], rtol=1e-12, atol=1e-12)
    assert not torch.isclose(without[3:, 1], with_one[3:, 1]).all(-1).any()
    fresh, _ = memory.unroll(inputs.at(slice(3, None)), memory.initial_state(3), never(4, 3))
    torch.testing.assert_close(with_one[3:, 1], fresh[:, 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_broken_state_outlives_a_reset(name):
    """Neither does NaN, which a product with zero would keep; in outputs as in gradients."""
    memory, inputs = small(name), doubles(6, 2, 0)
    broken = tuple(
        torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else tensor
        for tensor in memory.initial_state(2)
    )
    begin = never(6, 2)
    begin[0] = begin[4, 0] = True
    fresh, _ = memory.unroll(inputs, memory.initial_state(2), begin)
    for run in (memory.unroll, lambda *args: loop_of_steps(memory, *args)):
        out, last = run(inputs, broken, begin)
        torch.testing.assert_close(out, fresh, rtol=1e-12, atol=1e-12)
        gradients = torch.autograd.grad(out.sum(), list(memory.parameters()), allow_unused=True)
        assert all(g is None or bool(torch.isfinite(g).all()) for g in gradients)
        assert all(bool(torch.isfinite(part).all()) for part in last if part.is_floating_point())


@pytest.mark.parametrize("name", NAMES)
def test_environments_do_not_know_of_each_other(name):
    memory, inputs = small(name), doubles(6, 3, 2)
    state, begin = carried(memory, 3, 2), starts(6, 3, 2)
    together, last = memory.unroll(inputs, state, begin)
    for n in range(3):
        one = slice(n, n + 1)
        alone, own = memory.unroll(
            inputs.each(lambda part, one=one: part[:, one]), tuple(part[one] for part in state), begin[:, one]
        )
        torch.testing.assert_close(alone, together[:, one], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(tuple(own), tuple(part[one] for part in last), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_is_as_told(name):
    memory = small(name)
    state = memory.initial_state(3)
    for moved in (state, memory.step(doubles(1, 3, 0).at(0), state)[1]):
        assert [(tuple(s.shape[1:]), s.dtype) for s in moved] == [tuple(spec) for spec in memory.state_spec]
    again = reset_state(memory, carried(memory, 3, 0), torch.ones(3, dtype=torch.bool))
    assert all(torch.equal(a, b) for a, b in zip(state, again, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_it_remembers_and_stays_finite(name):
    """What was seen first changes what is said later; and a thousand steps of large inputs leave finite numbers."""
    memory, inputs = small(name), doubles(4, 1, 3)
    other = inputs._replace(features=torch.cat((-inputs.features[:1], inputs.features[1:])))
    one, two = (memory.unroll(each, memory.initial_state(1), never(4, 1))[0] for each in (inputs, other))
    assert not torch.isclose(one[-1], two[-1]).all()
    memory = SMALL[name]()
    inputs = random_inputs(100, 1, 0).each(lambda part: part * 30)
    state = memory.initial_state(1)
    with torch.no_grad():
        for _ in range(10):
            out, state = memory.unroll(inputs, state, never(100, 1))
            assert bool(torch.isfinite(out).all())
    assert all(bool(torch.isfinite(part).all()) for part in state if part.is_floating_point())


@pytest.mark.parametrize("name", NAMES)
def test_the_reward_is_told_to_those_who_take_it(name):
    inputs = doubles(4, 2, 0)
    paid = inputs._replace(reward=inputs.reward + 1)
    for use_reward in (False, True):
        memory = small(name, use_reward=use_reward)
        runs = [memory.unroll(each, memory.initial_state(2), never(4, 2))[0] for each in (inputs, paid)]
        assert torch.equal(*runs) != use_reward


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_in_one_group_and_learns(name):
    memory = small(name)
    groups = parameter_groups(memory)
    names = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(names) == sorted(id(parameter) for parameter in memory.parameters())
    out, _ = memory.unroll(doubles(6, 2, 0), carried(memory, 2, 0), starts(6, 2, 0))
    out.sin().sum().backward()
    silent = [n for n, p in memory.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert silent == []


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_numbers_and_looking_changes_nothing(name):
    memory, inputs = small(name), doubles(1, 3, 0).at(0)
    state, trace = carried(memory, 3, 0), {}
    out, last = memory.step(inputs, state, trace=trace)
    plain, same = memory.step(inputs, state)
    assert torch.equal(out, plain) and all(torch.equal(a, b) for a, b in zip(last, same, strict=True))
    found = figures(memory, trace)
    assert found and all(math.isfinite(value) for value in found.values())
    assert all(not tensor.requires_grad for tensor in trace.values())


@pytest.mark.parametrize("name", NAMES)
def test_without_all_of_its_parts_it_only_knows_the_present(name):
    """The lesion of what is kept: every step is like the first of an episode."""
    memory, inputs = small(name), doubles(5, 2, 0)
    initial = memory.initial_state(2)
    kept = {name: part for name, part in parts_of(memory).items() if part.state}
    assert sorted(place for part in kept.values() for place in part.state) == list(range(len(initial)))

    def away(key: tuple[str, int], values: torch.Tensor) -> torch.Tensor:
        return initial[kept[key[0]].state[key[1] - 1]]

    state = initial
    with Tap(memory, kept, away) as tap, torch.no_grad():
        for t in range(5):
            out, state = memory.step(inputs.at(t), tap.kept(state))
            alone, _ = memory.step(inputs.at(t), initial)
            torch.testing.assert_close(out, alone)
    assert set(lesioned_parts(memory, "all")) == set(parts_of(memory))


@pytest.mark.parametrize("name", NAMES)
def test_wrong_shapes_are_told(name):
    memory, inputs = small(name), doubles(3, 2, 0)
    state = memory.initial_state(2)
    for arguments, message in (
        ((inputs._replace(features=inputs.features[..., :3]), state, never(3, 2)), "features must"),
        ((inputs, state, never(1, 2)), "episode_start must be bool"),
        ((inputs, state, never(3, 2).float()), "episode_start must be bool"),
        ((inputs, memory.initial_state(3), never(3, 2)), "the state of 2 environments must be"),
        ((inputs, tuple(part.float() for part in state), never(3, 2)), "the state of 2 environments must be"),
    ):
        with pytest.raises(ValueError, match=message):
            memory.unroll(*arguments)
    with pytest.raises(ValueError, match="motion_unit must be a length"):
        SMALL[name](motion_unit=0.0)


@pytest.mark.parametrize("name", sorted(FULL))
def test_as_large_as_the_baseline(name):
    """The zoo compares ways to remember, not sizes: within a tenth of the GRU's parameters, as wide before the
    heads."""
    sizes = [sum(p.numel() for p in memory.parameters()) for memory in (FULL[name](), RecurrentMemory())]
    assert abs(sizes[0] / sizes[1] - 1) < 0.1, sizes
    made: Memory = FULL[name]()
    assert made.output_size == 128


@pytest.mark.parametrize("name", sorted(FULL))
def test_an_agent_has_it_by_name(name):
    """By its row, with the defaults told here and the agent's own settings."""
    fitting = Fitting(
        Camera.from_fov(112, 64, horizontal=1.8, vertical=1.1), (16, 4, 10), (8, 4, 3), (4, 2, 1), 900.0
    )
    memory = build_memory(AgentConfig(kind=name, hidden_size=32, use_reward=True, motion_unit=5.0), fitting)
    assert type(memory) is FULL[name] and memory.output_size == 32
    assert memory.reduce.use_reward and memory.reduce.motion_unit == 5.0
    default = FULL[name](hidden_size=32, use_reward=True)
    assert memory.state_spec == default.state_spec
    assert [p.shape for p in memory.parameters()] == [p.shape for p in default.parameters()]


@pytest.mark.parametrize(
    ("name", "settings", "attribute", "told"),
    [
        ("ffm", ("trace_size=7",), lambda memory: len(memory.alpha) == 7, "trace_size must be 1 or more"),
        (
            "gtrxl",
            ("memory_size=9",),
            lambda memory: memory.memory_size == 9,
            "memory_size must be 1 or more",
        ),
        ("smt", ("window=9",), lambda memory: memory.window == 9, "window must be 2 or more"),
        ("dnc", ("slots=9",), lambda memory: memory.slots == 9, "slots must be 2 or more"),
    ],
)
def test_its_own_settings(name, settings, attribute, told):
    fitting = Fitting(
        Camera.from_fov(112, 64, horizontal=1.8, vertical=1.1), (16, 4, 10), (8, 4, 3), (4, 2, 1), 900.0
    )
    config = AgentConfig(kind=name, settings=settings)
    assert attribute(build_memory(config, fitting))
    with pytest.raises(ValueError, match=told):
        build_memory(dataclasses.replace(config, settings=(settings[0].partition("=")[0] + "=0",)), fitting)


@pytest.mark.parametrize("name", sorted(FULL))
def test_the_page_tells_its_size(name):
    """Parameters and bytes of state in docs/zoo.md."""
    memory: torch.nn.Module = FULL[name]()
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{type(memory).__name__}` |"))
    cells = [cell.strip().replace(" ", "") for cell in row.split("|")]
    size = sum(
        math.prod(spec.shape) * torch.empty(0, dtype=spec.dtype).element_size() for spec in memory.state_spec
    )
    assert cells[-3:-1] == [str(sum(p.numel() for p in memory.parameters())), str(size)]


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(1, 12), seed=st.integers(0, 1000), rate=st.sampled_from([0.0, 0.3, 1.0]))
def test_steps_since_start(steps, seed, rate):
    begin = starts(steps, 2, seed, rate)
    found, count = steps_since_start(begin, otherwise=99), [99, 99]
    for t in range(steps):
        for n in range(2):
            count[n] = 0 if begin[t, n] else (99 if count[n] == 99 else count[n] + 1)
            assert found[t, n] == count[n]
