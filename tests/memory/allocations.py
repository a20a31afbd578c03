"""Helper of the memory tests: which large tensors a piece of code makes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Watch(TorchDispatchMode):
    """Notes every operator whose result is a large tensor in memory of its own."""

    def __init__(self, elements: int, found: list[str]):
        super().__init__()
        self.elements, self.found = elements, found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = [t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if torch.is_tensor(t)]
        result = func(*args, **(kwargs or {}))
        for tensor in filter(torch.is_tensor, tree_leaves(result)):
            memory = tensor.untyped_storage()
            if memory.nbytes() >= self.elements * tensor.itemsize and memory.data_ptr() not in before:
                self.found.append(f"{func} {tuple(tensor.shape)}")
        return result


@contextlib.contextmanager
def large_allocations(elements: int) -> Iterator[list[str]]:
    """Within the block, the operators that made a new tensor of at least that many elements."""
    found: list[str] = []
    with _Watch(elements, found):
        yield found
