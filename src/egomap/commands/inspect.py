"""`egomap inspect`: an episode and what its agent remembered, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tyro

from egomap.inspector.options import InspectOptions, check
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    pass


def inspect(options: tyro.conf.OmitArgPrefixes[InspectOptions]) -> int:
    """Look into an agent's memory: a page, a figure, a video or a Rerun file of an episode.

    Example: egomap inspect runs/a --layout 3 --out episode.html
    """
    check(options)  # before torch is loaded
    from egomap.inspector.command import inspect as run

    for path in run(options, progress_bar):
        print(path)
    return 0
