"""A device to test with: tensors that lie on the CPU, say that they are on another device, and refuse to mix.

torch has no device like that on a machine without a GPU: its meta device has no values, so nothing that samples,
looks at a number or hands an action to a simulator can run there. A `Twin` calls itself "meta" and carries a real
tensor. Any operation on one and an ordinary tensor of more than 0 axes is refused, as on a GPU; only copies cross.
Like Apple's GPUs it has no float64. `device()` takes over what is created there or copied there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from egomap.compute import Compute

DEVICE = torch.device("meta")


class Twin(torch.Tensor):
    """A tensor that says it is elsewhere."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, real: Tensor) -> Twin:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            real.shape,
            strides=real.stride(),
            storage_offset=real.storage_offset(),
            dtype=real.dtype,
            device=DEVICE,
        )
        made.inner = real
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return _run(function, arguments, named or {})


def _run(function: Any, arguments: Any, named: dict[str, Any]) -> Any:
    leaves = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, Tensor)]
    twins = [leaf for leaf in leaves if isinstance(leaf, Twin)]
    others = [leaf for leaf in leaves if not isinstance(leaf, Twin) and leaf.dim() > 0]
    name = function._schema.name
    if twins and others and name != "aten::copy_":
        raise RuntimeError(f"{name}: all tensors must be on the same device")
    to = named.get("device")
    if DEVICE in (to, *(leaf.device for leaf in twins)) and torch.float64 in _dtypes(named, leaves):
        raise RuntimeError(f"{name}: there is no float64 on this device")
    there = bool(twins) if to is None else torch.device(to) == DEVICE
    named = named if to is None else {**named, "device": torch.device("cpu")}
    plain = tree_map(lambda leaf: leaf.inner if isinstance(leaf, Twin) else leaf, (arguments, named))
    found = function(*plain[0], **plain[1])
    known = {id(twin.inner): twin for twin in twins}  # what is changed in place is still what it was

    def back(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if id(leaf) in known or not there:
            return known.get(id(leaf), leaf)
        return Twin(leaf.resolve_conj().resolve_neg())  # the twin could not say that these are put off

    return tree_map(back, found)


def _dtypes(named: dict[str, Any], leaves: list[Tensor]) -> set[Any]:
    return {named.get("dtype"), *(leaf.dtype for leaf in leaves if leaf.dim() > 0)}


class _Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        return _run(function, arguments, named or {})


class _Literals(TorchFunctionMode):
    """torch makes tensors of numbers at once where they are to lie, unseen by the other mode: copy them there."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function is torch.Tensor.new_tensor:
            like, data = arguments
            return torch.tensor(data, dtype=named.get("dtype", like.dtype)).to(like.device)
        if function is torch.tensor and "device" in named:
            rest = {name: value for name, value in named.items() if name != "device"}
            return torch.tensor(*arguments, **rest).to(named["device"])
        return function(*arguments, **named)


@contextlib.contextmanager
def device() -> Iterator[Compute]:
    """Within the block there is such a device; gives what computes on it."""
    with _Literals(), _Dispatch():
        yield Compute(DEVICE)
