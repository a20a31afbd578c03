"""`egomap probe`: how much a memory knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tyro

from egomap.inspector.options import ProbeOptions, check
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    pass


def probe(options: tyro.conf.OmitArgPrefixes[ProbeOptions]) -> int:
    """How much an agent's memory knows: linear probes of its map and state, against an untrained agent.

    Example: egomap probe runs/a --layouts 32
    """
    check(options)  # before torch is loaded
    from egomap.inspector.command import probe as run
    from egomap.inspector.probe_report import print_table

    result, files = run(options, progress_bar)
    print_table(result)
    print("\n".join(map(str, files)))
    return 0
