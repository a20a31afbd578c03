"""The list of the agents that come with the package, made from their cards.

Input: the folder of released agents. Output: its index, which `egomap agents` shows and names are
looked up in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from egomap.sharing.card import headline
from egomap.training.exported import WEIGHTS, read_exported
from egomap.training.names import INDEX, INDEX_FORMAT
from egomap.util.files import write_whole


def entries(root: Path) -> list[dict[str, Any]]:
    """The entries of the index: one for each exported agent below `root`, by name."""
    folders = sorted(path.parent for path in root.rglob(WEIGHTS))
    return [_entry(folder, folder.relative_to(root).as_posix()) for folder in folders]


def write_index(root: Path) -> None:
    """Write the index of the agents below `root`."""
    data = {"format": INDEX_FORMAT, "agents": entries(root)}
    write_whole(root / INDEX, json.dumps(data, indent=1, allow_nan=False) + "\n")


def _entry(folder: Path, name: str) -> dict[str, Any]:
    card = read_exported(folder).card
    score, task = headline(card), card["task"]
    items = "" if task["items"] is None else f"{task['items']} "
    return {
        "name": name,
        "agent": card["agent"]["label"],
        "task": f"{items}{task['task']}" + (f", size {task['size']}" if task["size"] else ""),
        "decisions": card["training"]["decisions"],
        "mean_return": None if score is None else score["mean_return"],
        "interval_95": None if score is None else score["interval_95"],
        "bytes": sum(path.stat().st_size for path in folder.iterdir()),
    }
