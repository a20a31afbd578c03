"""`egomap play`: a person plays, in a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tyro

from egomap.inspector.options import PlayOptions, check

if TYPE_CHECKING:
    pass


def play(options: tyro.conf.OmitArgPrefixes[PlayOptions]) -> int:
    """Play a layout yourself in a window, with the map of an agent's memory beside it.

    Example: egomap play runs/a --layout 3
    """
    check(options)  # before torch is loaded
    from egomap.inspector.command import play as run

    recording, files = run(options)
    print(f"{recording.outcome}: return {recording.total_reward:.3f} in {len(recording)} decisions.")
    print("".join(f"{path}\n" for path in files), end="")
    return 0
