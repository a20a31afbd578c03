"""`egomap reproduce report`: the results page, made from the data of experiments and never typed.

What comes in: folders that `reproduce` wrote, and what earlier reports kept below the documentation. What goes out:
the data in `docs/data`, figures in `docs/images`, and `docs/results.md`. Whatever the page says about what a budget
shows is worked out from the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from egomap.config import FRAME_SKIP, require
from egomap.experiments.command import read_data
from egomap.experiments.figures import picture
from egomap.experiments.render import short, table
from egomap.training.files import write_whole

ORDER = ("results", "curves", "ablation", "noise")
PAPER_SIZES = {"labyrinth": 9, "find-return": 9, "4-item": 5, "6-item": 5}
RANDOM_BAR = 0.1
PLANNER_BAR = 62 / 64

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
        parts.append(f"## {one['title']} ({where})\n")
        parts.append(table(one))
        parts.append("\n".join(f"- {sentence}" for sentence in what_it_shows(one)) + "\n")
        parts.append(f"![{one['title']}, as a figure](images/results-{name}.png)\n")
    return "\n".join(parts)


def what_it_shows(data: dict[str, Any]) -> list[str]:
    """What the figures say, and what so small a budget cannot say; all worked out from the data."""
    rows = data["rows"]
    return [*_references(rows), *_learned(rows), *_limits(data, rows)]


def _references(rows: Sequence[dict[str, Any]]) -> list[str]:
    found = []
    at_paper_size = [row for row in rows if row["size"] == PAPER_SIZES[row["task"]] and row["ours"]["test"]]
    random = [row for row in at_paper_size if row["agent"] == "Random"]
    if random:
        away = {
            row["task"]: row["ours"]["test"]["mean_return"] - row["paper"]["test"]["mean"] for row in random
        }
        worst = max(away, key=lambda task: abs(away[task]))
        verdict = (
            f"within {RANDOM_BAR:g} of" if abs(away[worst]) <= RANDOM_BAR else f"not within {RANDOM_BAR:g} of"
        )
        found.append(
            f"Random on held-out mazes is {verdict} the paper's Random on all tasks; farthest on "
            f"{worst}: {away[worst]:+.3f}."
        )
    planner = [row for row in at_paper_size if row["agent"] == "Planner"]
    if planner:
        least = min(planner, key=lambda row: row["ours"]["test"]["success"])
        share = least["ours"]["test"]["success"]
        verdict = "solves" if share >= PLANNER_BAR else "does not solve"
        found.append(
            f"The Planner {verdict} at least {PLANNER_BAR:.1%} of the held-out mazes of every task; least on "
            f"{least['task']}: {share:.1%}."
        )
    return found


def _learned(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Who is better than Random, by intervals that do not meet."""
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        here = {row["agent"]: row for row in rows if row["task"] == task and row["ours"]["test"]}
        random = here.get("Random")
        learners = [row for row in here.values() if row["decisions"] is not None]
        if random is None or not learners:
            continue
        bar = random["ours"]["test"]["interval_95"][1]
        above = [row["agent"] for row in learners if row["ours"]["test"]["interval_95"][0] > bar]
        rest = [row["agent"] for row in learners if row["agent"] not in above]
        if above:
            found.append(
                f"{task}: better than Random on held-out mazes (intervals apart): {', '.join(above)}."
            )
        if rest:
            found.append(f"{task}: not told from Random by this budget: {', '.join(rest)}.")
    return found


def _limits(data: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[str]:
    learners = [row for row in rows if row["decisions"] is not None]
    if not learners:
        return [
            "Nobody is trained here: this shows that tasks and rewards are the paper's, and nothing of memories."
        ]
    frames = data["budget"] * FRAME_SKIP
    times = data["paper_frames"] / frames
    found = []
    if times > 1.5:
        found.append(
            f"Each run had {short(frames)} frames, the paper's {times:,.0f} times as many. So this shows whether and "
            "how fast agents begin to learn here; it does not show where they end, and a row below the paper's "
            "says nothing against it."
        )
    if data["seeds"] < 3:
        found.append(
            "One seed: nothing is known of the spread between runs."
            if data["seeds"] == 1
            else "Two seeds: next to nothing is known of the spread between runs."
        )
    elif data["seeds"] < 5:
        found.append(
            f"{data['seeds']} seeds: agents whose means differ by less than about twice the deviations are not "
            "told apart."
        )
    smaller = sorted({row["task"] for row in learners if row["size"] < PAPER_SIZES[row["task"]]})
    if smaller:
        found.append(
            f"The mazes of {', '.join(smaller)} are smaller than the paper's, and easier; its figures beside ours "
            "are of the larger ones."
        )
    if data["preset"] != "paper":
        found.append("The algorithm is our PPO preset `fast`, not the paper's A2C.")
    missing = [f"{row['task']} {row['agent']}" for row in rows if not row["ours"]["test"]]
    if missing:
        found.append(f"Not finished: {', '.join(missing)}.")
    return found
