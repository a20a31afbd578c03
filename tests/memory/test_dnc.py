from __future__ import annotations

import math

import pytest
import torch
from replay import random_inputs

from egomap.memory.dnc import DNCMemory, DNCState, Interface, allocation, by_content, write_and_read


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def empty(slots: int = 3, size: int = 2, heads: int = 1) -> DNCState:
    shapes = (
        (slots, size),
        (slots,),
        (slots,),
        (slots, slots),
        (slots,),
        (heads, slots),
        (heads, size),
        (1,),
        (1,),
    )
    return DNCState(*(torch.zeros(1, *shape, dtype=torch.float64) for shape in shapes))


def asked(write: tuple[float, float], mode: tuple[float, float, float], **changes: torch.Tensor) -> Interface:
    """One head; what is written goes whole to a free slot; content is compared with the key (1, 0), sharply."""
    wish = Interface(
        read_keys=row(1, 0)[:, None], read_strengths=row(1000), write_key=row(1, 0), write_strength=row(1000)[0],
        erase=row(1, 1), write=row(*write), free=row(0), allocation_gate=row(1)[0], write_gate=row(1)[0],
        modes=row(*mode)[:, None],
    )  # fmt: skip
    return wish._replace(**changes)


BACKWARD, CONTENT, FORWARD = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def test_allocation_by_hand():
    """The freest slot first; a slot that is full gets nothing, nor any after a slot that is free."""
    torch.testing.assert_close(allocation(row(0.5, 0.25, 1.0)), row(0.5 * 0.25, 0.75, 0.0))
    torch.testing.assert_close(allocation(row(0.9, 0.0, 0.3)), row(0.0, 1.0, 0.0))
    assert allocation(row(0.0, 0.0, 0.0)).tolist() == [[1.0, 0.0, 0.0]]
    assert allocation(row(1.0, 1.0, 1.0)).tolist() == [[0.0, 0.0, 0.0]]


def test_content_by_hand():
    slots = torch.tensor([[[2.0, 0.0], [0.0, 3.0], [0.0, 0.0]]], dtype=torch.float64)
    found = by_content(slots, row(5, 0)[:, None], row(math.log(2)))[0, 0]
    torch.testing.assert_close(found, row(2, 1, 1)[0] / 4, rtol=1e-4, atol=0)  # e^(log 2 * cosine)


def test_three_writes_and_the_ways_through_them():
    """Each goes to the next free slot; content finds the first, forward leads on, backward back again."""
    state = empty()
    for write in ((1.0, 0.0), (0.0, 2.0), (-3.0, 0.0)):
        state, _ = write_and_read(asked(write, CONTENT), state)
    close = {"rtol": 0, "atol": 1e-6}
    written = torch.tensor([[1.0, 0], [0, 2], [-3, 0]], dtype=torch.float64)
    torch.testing.assert_close(state.slots[0], written, **close)
    torch.testing.assert_close(
        state.link[0], torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=torch.float64)
    )
    torch.testing.assert_close(state.precedence, row(0, 0, 1))
    torch.testing.assert_close(state.usage, row(1, 1, 0))  # the last write counts from the next step on
    torch.testing.assert_close(state.reads[0], row(1, 0), **close)
    silent = {"write_gate": torch.zeros(1, dtype=torch.float64)}
    for way, expected in ((FORWARD, (0, 2)), (FORWARD, (-3, 0)), (BACKWARD, (0, 2)), (BACKWARD, (1, 0))):
        state, _ = write_and_read(asked((9.0, 9.0), way, **silent), state)
        torch.testing.assert_close(state.reads[0], row(*expected), **close)


def test_a_freed_slot_is_written_anew():
    state = empty()
    for write in ((1.0, 0.0), (0.0, 2.0), (-3.0, 0.0)):
        state, _ = write_and_read(asked(write, CONTENT), state)
    state, free = write_and_read(
        asked((0.0, 7.0), CONTENT, free=row(1)), state
    )  # what was read: the first slot
    torch.testing.assert_close(free, row(1, 0, 0), rtol=0, atol=1e-6)
    expected = torch.tensor([[0.0, 7], [0, 2], [-3, 0]], dtype=torch.float64)
    torch.testing.assert_close(state.slots[0], expected, rtol=0, atol=1e-6)


def test_gradcheck():
    """Away from equal usages, where the order of the slots would jump."""
    g = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(1, *shape, dtype=torch.float64, generator=g)

    state = empty()._replace(
        slots=draw(3, 2) - 0.5, usage=row(0.2, 0.9, 0.5), precedence=draw(3) / 3, link=draw(3, 3) / 3,
        write_weights=draw(3) / 9, read_weights=draw(1, 3) / 3,
    )  # fmt: skip
    wish = Interface(
        draw(1, 2), 1 + draw(1), draw(2), 1 + draw()[:], draw(2), draw(2), draw(1), draw()[:], draw()[:],
        draw(1, 3).softmax(-1),
    )  # fmt: skip

    def run(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        after, free = write_and_read(
            Interface(*leaves[: len(wish)]),
            state._replace(**dict(zip(names, leaves[len(wish) :], strict=True))),
        )
        return (*(getattr(after, name) for name in (*names, "reads")), free)

    names = ("slots", "usage", "precedence", "link", "write_weights", "read_weights")
    leaves = (*wish, *(getattr(state, name) for name in names))
    assert torch.autograd.gradcheck(run, tuple(leaf.clone().requires_grad_() for leaf in leaves))


def test_weights_stay_weights():
    """From an episode's start: usage and weights within 0 and 1, no slot follows itself, sums are 1 at most."""
    torch.manual_seed(0)
    memory = DNCMemory(hidden_size=16, controller_size=16, slots=6, slot_size=4, heads=2).double()
    with torch.no_grad():
        memory.interface.weight.mul_(8)  # wishes all over their ranges
        inputs = random_inputs(60, 3, 0, dtype=torch.float64)
        state = memory.initial_state(3)
        for t in range(60):
            _, state = memory.step(inputs.at(t), state)
            for name in ("usage", "write_weights", "read_weights", "precedence", "link"):
                part = getattr(state, name)
                assert float(part.min()) >= -1e-9 and float(part.max()) <= 1 + 1e-9, name
            for part in (
                state.write_weights,
                state.read_weights,
                state.precedence,
                state.link,
                state.link.mT,
            ):
                assert float(part.sum(-1).max()) <= 1 + 1e-9
            assert float(state.link.diagonal(dim1=1, dim2=2).abs().max()) == 0
    assert float(state.usage.mean()) > 0.1


def test_what_is_read_can_be_lesioned():
    memory = DNCMemory(hidden_size=8, controller_size=8, slots=3, slot_size=2, heads=1)
    assert memory.lesions["read"].module == "read"
    inputs, state = random_inputs(1, 2, 0).at(0), memory.initial_state(2)
    handle = memory.read.register_forward_hook(lambda *_: torch.full((2, 1, 2), 7.0))
    _, last = memory.step(inputs, state)
    handle.remove()
    assert last.reads.tolist() == [[[7.0, 7.0]]] * 2


@pytest.mark.parametrize("sizes", [{"slots": 1}, {"slot_size": 0}, {"heads": 0}])
def test_wrong_settings_are_told(sizes):
    with pytest.raises(ValueError, match="there must be 2 slots or more"):
        DNCMemory(**sizes)
