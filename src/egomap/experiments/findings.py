"""What the figures of an experiment say, and what so small a budget cannot say, in sentences.

What comes in: what `gather` made. What goes out: sentences, all worked out from the data. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egomap.config import FRAME_SKIP
from egomap.experiments.paper import SIZES
from egomap.experiments.plan import settings_digest
from egomap.experiments.render import short, times_as_many

RANDOM_BAR = 0.1
PLANNER_BAR = 62 / 64

Rows = Sequence[dict[str, Any]]


def what_it_shows(data: dict[str, Any]) -> list[str]:
    """What it shows, who learned, and what it leaves open."""
    rows = data["rows"]
    return [*_references(rows), *_learned(rows), *_limits(data), *_unfinished(data)]


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a list in Markdown."""
    return "".join(f"- {sentence}\n" for sentence in sentences)


def _references(rows: Rows) -> list[str]:
    """How Random and the Planner compare with the paper's, where the mazes are as large."""
    found = []
    at_paper_size = [row for row in rows if row["size"] == SIZES[row["task"]] and row["ours"]["test"]]
    random = [row for row in at_paper_size if row["agent"] == "Random"]
    planner = [row for row in at_paper_size if row["agent"] == "Planner"]
    near = solves = False
    if random:
        away = {
            row["task"]: row["ours"]["test"]["mean_return"] - row["paper"]["test"]["mean"] for row in random
        }
        worst = max(away, key=lambda task: abs(away[task]))
        near = abs(away[worst]) <= RANDOM_BAR
        found.append(
            f"Random on held-out mazes is {'' if near else 'not '}within {RANDOM_BAR:g} of the paper's Random on "
            f"{_listed(away)}; farthest on {worst}: {away[worst]:+.3f}."
        )
    if planner:
        share = {row["task"]: row["ours"]["test"]["success"] for row in planner}
        least = min(share, key=lambda task: share[task])
        solves = share[least] >= PLANNER_BAR
        found.append(
            f"The Planner {'solves' if solves else 'does not solve'} at least {PLANNER_BAR:.1%} of the held-out "
            f"mazes of {_listed(share)}; least of {least}: {share[least]:.1%}."
        )
    if near and solves and all({row["task"] for row in rows_} == set(SIZES) for rows_ in (random, planner)):
        found.append("So tasks and rewards are the paper's, as far as these two can tell.")
    return found


def _learned(rows: Rows) -> list[str]:
    """Who is better than Random, and who is worse, by intervals that do not meet."""
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        here = {row["agent"]: row for row in rows if row["task"] == task and row["ours"]["test"]}
        random = here.get("Random")
        learners = {agent: row for agent, row in here.items() if row["decisions"] is not None}
        if random is None or not learners:
            continue
        low, high = random["ours"]["test"]["interval_95"]
        intervals = {agent: row["ours"]["test"]["interval_95"] for agent, row in learners.items()}
        above = [agent for agent, interval in intervals.items() if interval[0] > high]
        below = [agent for agent, interval in intervals.items() if interval[1] < low]
        rest = [agent for agent in learners if agent not in above + below]
        for agents, verdict in (
            (above, "better than Random on held-out mazes (intervals apart)"),
            (below, "worse than Random on held-out mazes (intervals apart)"),
            (rest, "not told from Random by this budget"),
        ):
            if agents:
                found.append(f"{task}: {verdict}: {', '.join(agents)}.")
    return found


def _limits(data: dict[str, Any]) -> list[str]:
    """What must not be read into the figures."""
    learners = [row for row in data["rows"] if row["decisions"] is not None]
    if not learners:
        return ["No agent is trained here: this shows nothing about memories."]
    found = []
    frames = data["budget"] * FRAME_SKIP
    if data["paper_frames"] / frames > 1.5:
        found.append(
            f"Each run had {short(frames)} frames, the paper's {times_as_many(data)}. So this shows whether and how "
            "fast agents begin to learn here; it does not show where they end, and a row below the paper's says "
            "nothing against it."
        )
    seeds = min((row["ours"]["test"]["runs"] for row in learners if row["ours"]["test"]), default=0)
    if seeds in (1, 2):
        found.append(
            "One seed: nothing is known of the spread between runs."
            if seeds == 1
            else "Two seeds: next to nothing is known of the spread between runs."
        )
    elif 3 <= seeds < 5:
        found.append(
            f"{seeds} seeds: agents whose means differ by less than about twice the deviations are not told apart."
        )
    smaller = sorted({row["task"] for row in learners if row["size"] < SIZES[row["task"]]})
    if smaller:
        found.append(
            f"The mazes of {_listed(smaller)} are smaller than the paper's, and easier; its figures beside ours are "
            "of the larger ones."
        )
    if data["preset"] != "paper":
        found.append(f"The algorithm is our PPO preset `{data['preset']}`, not the paper's A2C.")
    if data.get("settings") != settings_digest(data["preset"]):
        found.append(
            f"The preset `{data['preset']}` has changed since these runs: the command above may give other figures."
        )
    return found


def _unfinished(data: dict[str, Any]) -> list[str]:
    missing = []
    for row in data["rows"]:
        runs = min((row["ours"][split] or {"runs": 0})["runs"] for split in ("train", "test"))
        if runs < data["seeds"]:
            missing.append(f"{row['task']} {row['agent']} ({runs} of {data['seeds']} seeds)")
    return [f"Not finished: {', '.join(missing)}."] if missing else []


def _listed(names: Sequence[str] | dict[str, Any]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
