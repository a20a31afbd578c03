"""`egomap export`: a run's agent, to be given away."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro


def export(
    run: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    *,
    checkpoint: Literal["first", "last", "best"] = "last",
    name: str | None = None,
    licence: str = "MIT",
    overwrite: bool = False,
) -> int:
    """Write a run's agent to a folder that can be given away: weights, settings and a card, and nothing else.

    Scores on the card are what `egomap evaluate RUN` found before.

    Example: egomap export runs/a my-agent

    Args:
        run: Run folder.
        out: Folder to write to; new or empty.
        checkpoint: Which of the run's agents: the first that is still there, the last, or the best on held-out mazes.
        name: What the card calls it (default: the name of the folder).
        licence: Of the weights, as SPDX names it.
        overwrite: Replace an exported agent.
    """
    from egomap.sharing.export import export as run_export

    card = run_export(run, out, which=checkpoint, name=name, licence=licence, overwrite=overwrite)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(
        f"{out}: {card['agent']['label']} after {card['training']['decisions']:,} decisions, {size / 1e6:.1f} MB."
    )
    if not card["scores"]:
        print(f"The card has no scores. For some: egomap evaluate {run}, then export again with --overwrite.")
    print(f"Load it: egomap inspect {out}, or in Python egomap.load_agent({str(out)!r}).")
    return 0
