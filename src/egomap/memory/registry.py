"""From the name of a memory to the memory: its class is found, its settings are read, and it is built.

Input: an agent's settings, and what the memory must fit. Output: a memory. A name is that of a row of
`egomap.kinds`, or `package.module:Class` of any class. Such a class is an `nn.Module` with the methods of
`egomap.memory.protocol.Memory` and a class method `build(config, fitting)`. If it has `Settings` (a dataclass whose
fields all have defaults, with `validate()` or without), `build` gets them as its third argument, made from
`AgentConfig.settings`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from typing import Any, cast

from torch import nn

from egomap.config import AgentConfig, from_pairs, require, to_pairs
from egomap.kinds import KINDS, kind_of
from egomap.memory.protocol import Fitting, Memory
from egomap.util.named import import_named

METHODS = ("build", "state_spec", "initial_state", "step", "unroll")
"""What the class of a memory must have."""


def build_memory(config: AgentConfig, fitting: Fitting) -> Memory:
    """A new memory of the kind that the settings name, initialised from torch's global generator.

    Raises:
        ValueError: There is no such class, it is not a memory, or its settings are wrong.
    """
    found = find(config.kind)
    build: Callable[..., Any] = getattr(found, "build", found)
    settings = own_settings(config)
    memory = build(config, fitting) if settings is None else build(config, fitting, settings)
    size = getattr(memory, "output_size", None)
    require(
        isinstance(size, int) and size >= 1,
        f"{config.kind} is not a memory: output_size must be a whole number of 1 or more; got {size!r:.80}.",
    )
    return cast(Memory, memory)


def find(kind: str) -> Any:
    """The class (or, of a row, the function) that builds memories of this kind.

    Raises:
        ValueError: No such module, no such class in it, or a class that is not a memory; the sentence says which.
    """
    found = import_named(kind_of(kind).address)
    if kind in KINDS:
        return found
    require(
        isinstance(found, type) and issubclass(found, nn.Module),
        f"{kind} is not a memory: it must be a class derived from torch.nn.Module.",
    )
    missing = [each for each in METHODS if not hasattr(found, each)]
    require(not missing, f"{kind} is not a memory: it lacks {', '.join(missing)}.")
    return found


def own_settings(config: AgentConfig) -> Any:
    """The settings of the memory's own class, defaults included; None if it has none.

    Raises:
        ValueError: A setting that it does not have, or with a wrong value.
    """
    kind = kind_of(config.kind)
    of_class = getattr(find(config.kind), "Settings", None) if kind.has_settings else None
    if of_class is None:
        given = ", ".join(config.settings)
        require(not given, f"{config.kind} has no settings of its own; got {given:.80}.")
        return None
    require(
        isinstance(of_class, type) and is_dataclass(of_class),
        f"{config.kind}.Settings must be a dataclass.",
    )
    settings = from_pairs(of_class, config.settings, config.kind)
    validate = getattr(settings, "validate", None)
    if validate is not None:
        validate()
    return settings


def complete(config: AgentConfig) -> AgentConfig:
    """The same with all settings of the memory's own class spelled out, as a run keeps them.

    So a run is rebuilt as it was, even if the defaults of its class have changed.
    """
    settings = own_settings(config)
    return config if settings is None else replace(config, settings=to_pairs(asdict(settings)))
