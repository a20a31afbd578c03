"""Tables of how memory is used, in Markdown: legs, and what lesions cost. Nothing where there is no data of them.

What comes in: what `gather` made. What goes out: lines of text. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egomap.evaluation.tables import leg_cells

LEGS = (
    "Legs on held-out mazes: finished of those begun in time, mean decisions of the finished ones, the planner's "
    "from where they began, efficiency (optimum over decisions, 0 if unfinished), share of cells entered again."
)
LESIONS = (
    "What memory is worth: the same held-out episodes with a part of the memory replaced. The interval is that of "
    "the difference, paired maze by maze. The last leg is the one that needs memory most."
)


def legs_table(data: dict[str, Any]) -> list[str]:
    """A row for each leg of each agent."""
    rows = [
        [*_who(row), *leg_cells(leg)[:7]]
        for row in data["rows"]
        for leg in (row["ours"]["test"] or {}).get("legs", ())
    ]
    heads = ["leg", "finished", "decisions", "optimum", "efficiency", "95 % interval", "revisited"]
    return _table(LEGS, heads, rows)


def lesions_table(data: dict[str, Any]) -> list[str]:
    """A row for each lesion of each agent."""
    rows = [
        [*_who(row), *_lesion_cells(row["ours"]["test"], lesion)]
        for row in data["rows"]
        for lesion in row.get("lesions", ())
    ]
    heads = ["without", "replaced by", "intact", "lesioned", "intact - lesioned", "95 % interval"]
    heads += ["last leg's efficiency, intact", "lesioned"]
    return _table(LESIONS, heads, rows)


def _lesion_cells(intact: dict[str, Any], lesion: dict[str, Any]) -> list[str]:
    worth, (low, high) = lesion["worth"], lesion["worth"]["interval_95"]
    return [
        lesion["lesion"],
        ", ".join(dict.fromkeys(lesion["by"].values())),
        f"{intact['mean_return']:.3f}",
        f"{lesion['summary']['mean_return']:.3f}",
        f"{worth['mean_return']:+.3f}",
        f"{low:+.3f} to {high:+.3f}",
        *(_last_leg(summary, of=intact) for summary in (intact, lesion["summary"])),
    ]


def _last_leg(summary: dict[str, Any], *, of: dict[str, Any]) -> str:
    """Efficiency of the last leg that the intact agent began."""
    last = len(of.get("legs", ()))
    found = [leg["efficiency"] for leg in summary.get("legs", ()) if leg["leg"] == last]
    return "-" if not found or found[0] is None else f"{found[0]:.3f}"


def _who(row: dict[str, Any]) -> list[str]:
    return [row["task"], f"{row['size']} x {row['size']}", row["agent"]]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    heads = ["task", "mazes", "agent", *heads]
    lines = ["", title, "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
