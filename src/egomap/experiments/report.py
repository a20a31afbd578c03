"""`egomap reproduce report`: the results page, made from the data of experiments and never typed.

What comes in: folders that `reproduce` wrote, and what earlier reports kept below the documentation. What goes out:
the data in `docs/data`, figures in `docs/images`, and `docs/results.md`. What the page says about a table comes from
`findings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from egomap.config import require
from egomap.experiments.command import read_data
from egomap.experiments.figures import picture
from egomap.experiments.findings import bullets, what_it_shows
from egomap.experiments.render import table
from egomap.util.files import write_whole

ORDER = ("results", "curves", "ablation", "noise")

HEAD = """# Results

<!-- Made by `egomap reproduce report` from docs/data; whatever is typed here is lost. -->

Every table below is made from run folders by the command above it, with the paper's figure beside ours. The return
is the undiscounted sum of rewards of an episode with sampled actions. *Train* and *test* are training and held-out
mazes. A deviation is over seeds; the 95 % interval is over mazes, for these very agents (stratified bootstrap); IQM
is the inter-quartile mean; the share of the optimum is the planner's decisions over the agent's, 0 where it did not
get there ([evaluation](evaluation.md) has the definitions). The paper's row *Planner* is an upper bound that no
player reaches; ours is what the Planner, who knows the maze, really gets.
"""


@dataclass(frozen=True)
class Report:
    """Make docs/results.md from the output of experiments, and from what earlier reports kept.

    Example: egomap reproduce report out/results out/curves
    """

    folders: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Output folders of `egomap reproduce`; an experiment is kept by the name of its folder."""
    docs: Path = Path("docs")
    """Folder of the documentation."""

    def run(self) -> int:
        """Take the data in, and write the page."""
        require(self.docs.is_dir(), f"{self.docs} is not a folder; give the documentation's by --docs.")
        found = {folder.name: _data_file(folder) for folder in self.folders}
        require(len(found) == len(self.folders), "two of these folders have the same name.")
        kept, images = self.docs / "data", self.docs / "images"
        for folder in (kept, images):
            folder.mkdir(exist_ok=True)
        for name, path in found.items():
            write_whole(kept / f"{name}.json", path.read_bytes())
        data = {path.stem: read_data(path) for path in sorted(kept.glob("*.json"))}
        require(bool(data), f"there is no experiment in {kept}; give the output folder of one.")
        for name, one in data.items():
            write_whole(images / f"results-{name}.png", picture(one, "png"))
        write_whole(self.docs / "results.md", page(data))
        print(self.docs / "results.md")
        return 0


def _data_file(folder: Path) -> Path:
    found = [path for path in sorted(folder.glob("*.json")) if path.stem in ORDER]
    require(len(found) == 1, f"{folder} is not the output folder of an experiment.")
    read_data(found[0])
    return found[0]


def page(data: dict[str, dict[str, Any]]) -> str:
    """The results page."""
    parts = [HEAD]
    ordered = sorted(data.items(), key=lambda entry: (ORDER.index(entry[1]["experiment"]), entry[0]))
    for name, one in ordered:
        sizes = sorted({(row["task"], row["size"]) for row in one["rows"]})
        where = ", ".join(f"{task} {size} x {size}" for task, size in sizes)
        parts.append(f"## {one['title']} ({where}{_seeds(one)})\n")
        parts.append(table(one))
        parts.append(bullets(what_it_shows(one)))
        parts.append(f"![{one['title']}, as a figure](images/results-{name}.png)\n")
    return "\n".join(parts)


def _seeds(data: dict[str, Any]) -> str:
    """Which seeds, where they are not the usual ones, for two experiments may differ in nothing else."""
    first = re.search(r"--first-seed (\d+)", data["command"])
    return f", seeds {first[1]} to {int(first[1]) + data['seeds'] - 1}" if first else ""
