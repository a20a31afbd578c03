"""`egomap agents`, `export` and `push`: their options and output. Torch is loaded when needed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro

from egomap.bars import table_console


def agents() -> int:
    """List the released agents, which come with egomap: task, training, score, size.

    Wherever a command takes RUN it takes such a name.

    Example: egomap agents
    """
    from rich.table import Table

    from egomap.training.names import released

    found = released()
    if not found:
        print("No agents come with this version. Train one: egomap train --preset quick")
        return 0
    table = Table("name", "agent", "task", "decisions", "held-out return", "95 % interval", "size")
    for entry in found:
        score, interval = entry["mean_return"], entry["interval_95"]
        table.add_row(
            *(entry["name"], entry["agent"], entry["task"], f"{entry['decisions']:,}"),
            "-" if score is None else f"{score:.3f}",
            "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
            f"{entry['bytes'] / 1e6:.1f} MB",
        )
    table_console().print(table)
    print(f"Inspect one: egomap inspect {found[0]['name']}")
    return 0


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


def push(
    run: tyro.conf.Positional[Path],
    repository: tyro.conf.Positional[str],
    *,
    checkpoint: Literal["first", "last", "best"] = "last",
    licence: str = "MIT",
    private: bool = False,
) -> int:
    """Export an agent and upload it to the Hugging Face hub (extra `hub`); log in by `hf auth login` before.

    Example: egomap push runs/a my-name/my-agent

    Args:
        run: Run folder, exported agent, or name of a released one.
        repository: OWNER/NAME; made if it is not there.
        checkpoint: Which of a run's agents: the first that is still there, the last, or the best on held-out mazes.
        licence: Of a run's weights, as SPDX names it.
        private: Make a new repository for its owner alone.
    """
    from egomap.sharing.push import push as run_push

    name = run_push(run, repository, which=checkpoint, licence=licence, private=private)
    print(f"Load it: egomap inspect {name}, or in Python egomap.load_agent({name!r}).")
    return 0
