"""What of a memory can be lesioned: the parts that it names, and how they are reached without a word in `step`.

Input: a memory with an attribute `lesions`, a mapping from names to `Part`s. Output: a `Tap`, through which the
values of these parts pass, step by step, to be written down or replaced. A part that the memory reads from itself is
the output of a submodule (a hook takes it); one that it keeps is a tensor of its state (the code that steps the
memory hands it over). Without a tap nothing of this runs. What replaces a part is decided in `egomap.evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from egomap.memory.protocol import MemoryState

Replacement = Literal["mean", "zero", "shuffle"]
"""The mean over intact episodes; zeros (for what is kept: the initial state); another episode's at the same step."""

ALL = "all"
"""Every part of a memory at once."""
TOGETHER = "+"
"""Joins the names of parts that are lesioned at once."""

Key = tuple[str, int]
"""Name of a part, and which of its tensors: 0 is what the module gives, 1 and on are those of the state."""


class Part(NamedTuple):
    """A part of a memory: what a submodule gives out, or tensors of the state."""

    module: str = ""
    """Name of the submodule (dotted, as in `named_modules`); it is called once a step and gives a tensor (N, ...)."""
    state: tuple[int, ...] = ()
    """Places of the tensors in the memory's state."""

    @property
    def by(self) -> Replacement:
        """How it is replaced by default.

        Choice: reads by their mean, so that the layers behind them see nothing strange; what is kept by the state of
        an episode's start, which the memory knows.
        """
        return "mean" if self.module else "zero"


def parts_of(memory: object) -> dict[str, Part]:
    """The parts that a memory names; none if it has no `lesions`."""
    return dict(getattr(memory, "lesions", {}))


def lesioned_parts(memory: object, lesion: str) -> dict[str, Part]:
    """The parts that a lesion such as "hidden", "global-read+context" or "all" is of.

    Raises:
        ValueError: The memory does not name one of them, or nothing at all.
    """
    named = parts_of(memory)
    kind = type(memory).__name__
    if not named:
        raise ValueError(f"{kind} names no parts that can be lesioned.")
    wanted = list(named) if lesion == ALL else lesion.split(TOGETHER)
    for name in wanted:
        if name not in named:
            known = ", ".join((*named, ALL))
            raise ValueError(f"{kind} has no part {name!r} that can be lesioned; it has {known}.")
    return {name: named[name] for name in wanted}


def possible(memory: object, lesions: Iterable[str]) -> list[str]:
    """Those of the lesions whose parts a memory has."""
    named = set(parts_of(memory))
    return [each for each in lesions if named and (each == ALL or set(each.split(TOGETHER)) <= named)]


class Tap:
    """Lets `through` see, and replace, the values of some parts of a memory; a context manager.

    Args:
        memory: A module that follows `egomap.memory.protocol.Memory`.
        parts: Which of its parts.
        through: Called with a key and a tensor (N, ...); returns the tensor to use in its place.
    """

    def __init__(
        self, memory: nn.Module, parts: Mapping[str, Part], through: Callable[[Key, Tensor], Tensor]
    ) -> None:
        self._memory, self._parts, self._through = memory, dict(parts), through
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> Tap:
        for name, part in self._parts.items():
            if part.module:
                module = self._memory.get_submodule(part.module)
                self._handles.append(module.register_forward_hook(self._hook(name)))
        return self

    def __exit__(self, *_: object) -> None:
        while self._handles:
            self._handles.pop().remove()

    def kept(self, state: MemoryState) -> MemoryState:
        """The state (after any reset) that the next step shall begin with."""
        values = list(state)
        for name, part in self._parts.items():
            for number, place in enumerate(part.state, 1):
                values[place] = self._through((name, number), values[place])
        return tuple(values)

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], Tensor]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Tensor:
            if not isinstance(output, Tensor):
                raise ValueError(
                    f"the part {name!r} must be a submodule that gives one tensor; got {type(output).__name__}."
                )
            return self._through((name, 0), output)

        return hook
