"""Which rank this process is, as torchrun tells it: read and checked before torch is loaded.

What comes in: environment variables. What goes out: a `Place`, or a ValueError that names the variable.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from egomap.util.checks import require


class Place(NamedTuple):
    """This process among all ranks; the only one where torchrun did not start it."""

    rank: int = 0
    world_size: int = 1
    restarts: int = 0
    local_rank: int = 0
    local_size: int = 1
    port: int = 0
    """Where all ranks meet; 0 for a single one."""


def variable(name: str, default: str | None = None, *, least: int = 0, most: int = 2**31) -> int:
    """A whole number among the environment variables that torchrun sets; a ValueError that names it otherwise."""
    text = os.environ.get(name, default)
    fits = text is not None and text.isdecimal() and len(text) < 12 and least <= int(text) <= most
    require(
        fits,
        f"the environment variable {name} must be a whole number of {least} or more; it is "
        f"{'missing' if text is None else repr(text)}. Start the ranks by torchrun, or unset RANK and WORLD_SIZE.",
    )
    return int(text or 0)


def own_place() -> Place | None:
    """Which rank this is; None where torchrun did not start it."""
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        return None
    rank, size = variable("RANK"), variable("WORLD_SIZE", least=1)
    restarts = variable("TORCHELASTIC_RESTART_COUNT", "0")
    local_rank, local_size = (
        variable("LOCAL_RANK", "0"),
        variable("LOCAL_WORLD_SIZE", "1", least=1, most=65536),
    )
    for name, place, count in (("", rank, size), ("LOCAL_", local_rank, local_size)):
        require(
            place < count,
            f"{name}RANK must be below {name}WORLD_SIZE; got {place} and {count}. Start the ranks by torchrun.",
        )
    port = variable("MASTER_PORT", least=1, most=65535) if size > 1 else 0
    return Place(rank, size, restarts, local_rank, local_size, port)
