"""`egomap bench`: how fast this machine is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from egomap.kinds import CHOICES, require_kind
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    pass


def bench(
    *,
    parts: tuple[Literal["engines", "memory", "training"], ...] = ("engines", "memory", "training"),
    agents: Annotated[tuple[str, ...], tyro.conf.arg(metavar=f"{CHOICES} ...")] = (),
    print_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Measure this machine's throughput: each part against its ceiling, in one run, as ratios.

    Let nothing else run meanwhile. Example: egomap bench --parts engines --json

    Args:
        parts: What to measure.
        agents: Memories to measure beside gru, neural-map and egomap.
        print_json: Print one flat JSON object of names and figures, and nothing else, on stdout.
    """
    for kind in agents:
        require_kind(kind)
    from egomap.bench import measure, show

    with progress_bar("bench") as progress:
        figures = measure(parts, others=agents, progress=progress)
    if print_json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0
