"""`egomap agents`: the trained agents that come with this package."""

from __future__ import annotations


def agents() -> int:
    """List the trained agents that come with egomap: task, training, score, size.

    Wherever a command takes RUN it takes such a name.

    Example: egomap agents
    """
    from rich.table import Table

    from egomap.training.names import released
    from egomap.util.bars import table_console

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
    print(f"Look into one: egomap inspect {found[0]['name']}")
    return 0
