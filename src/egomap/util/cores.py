"""The processor's cores that this process may use, and how several processes share them."""

from __future__ import annotations

import os


def usable_cores() -> list[int]:
    """The cores that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def core_shares(processes: int) -> list[list[int]]:
    """The cores that each of so many processes gets: as equal as can be, none twice unless there are too few.

    A training that has a core to itself loses nothing to threads that wait for each other, so several of them at
    once get more done than one after the other on all cores.
    """
    cores = usable_cores()
    return [cores[i::processes] or [cores[i % len(cores)]] for i in range(processes)]
