"""The figure of an experiment, as PNG or SVG bytes: ours and the paper's in one picture.

What comes in: what `gather` made. What goes out: the bytes of a file; the same data give the same SVG.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from egomap.config import FRAME_SKIP
from egomap.experiments.paper import SIZES
from egomap.experiments.render import short
from egomap.kinds import colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE, OURS, PAPER = "#212529", "#adb5bd", "#1864ab", "#d9480f"
_OURS: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": OURS}
_PAPER: dict[str, Any] = {
    "marker": "D",
    "linestyle": "none",
    "markersize": 4,
    "color": PAPER,
    "markerfacecolor": "none",
}


def picture(data: dict[str, Any], kind: str) -> bytes:
    """The figure as the bytes of a "png" or "svg" file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "egomap", "axes.edgecolor": PALE}
    with rc_context(style):
        figure = Figure(layout="constrained")
        {"curves": _curves, "noise": _noise}.get(data["experiment"], _tables)(figure, data)
        bytes_ = io.BytesIO()
        figure.savefig(bytes_, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return bytes_.getvalue()


def _tasks(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in data["rows"]:
        found.setdefault(row["task"], []).append(row)
    return found


def title(row: dict[str, Any]) -> str:
    """The task and its mazes; the paper's, too, where they are others, for its figures are in the same panel."""
    size, of_paper = row["size"], SIZES[row["task"]]
    return f"{row['task']}, {size} x {size}" + (
        "" if size == of_paper else f" (paper: {of_paper} x {of_paper})"
    )


def _tables(figure: Figure, data: dict[str, Any]) -> None:
    """One panel for each task: a line for each agent, our mean with its interval, and the paper's."""
    from matplotlib.lines import Line2D

    tasks = _tasks(data)
    most = max(len(rows) for rows in tasks.values())
    figure.set_size_inches(max(5.0, 2.6 * len(tasks)), 0.9 + 0.32 * most)
    for number, rows in enumerate(tasks.values()):
        ax = figure.add_subplot(1, len(tasks), number + 1)
        places = np.arange(len(rows))[::-1]
        for place, row in zip(places, rows, strict=True):
            if (test := row["ours"]["test"]) is not None:
                low, high = test["interval_95"]
                ax.plot([low, high], [place, place], color=OURS, linewidth=2, alpha=0.5)
                ax.plot(test["mean_return"], place, **_OURS)
            if (value := row["paper"]["test"]) is not None:
                ax.errorbar(value["mean"], place - 0.22, xerr=value["std"] or 0.0, linewidth=1, **_PAPER)
        ax.set_yticks(
            places, [row["agent"] for row in rows] if number == 0 or len(tasks) == 1 else [""] * len(rows)
        )
        ax.set_ylim(-0.7, len(rows) - 0.4)
        _finish(ax, title(rows[0]), "return on held-out mazes", axis="x")
    figure.legend(
        handles=[
            Line2D([], [], label="ours, 95 % interval", **_OURS),
            Line2D([], [], label="paper, ± deviation", **_PAPER),
        ],
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=7,
    )


def _noise(figure: Figure, data: dict[str, Any]) -> None:
    """Return over the level of noise, with the baseline as a level line; the paper's beside."""
    figure.set_size_inches(5.4, 3.2)
    ax = figure.add_subplot()
    noisy = [row for row in data["rows"] if row["agent"].startswith("noise")]
    (baseline,) = [row for row in data["rows"] if not row["agent"].startswith("noise")]
    for colour, name in ((OURS, "ours"), (PAPER, "paper")):
        points = [(row["noise"], *level) for row in noisy if (level := _mean_and_std(row, name))]
        if points:
            x, mean, std = (np.array(column) for column in zip(*points, strict=True))
            ax.plot(x, mean, "o-", color=colour, markersize=4, label=f"EgoMap, {name}")
            ax.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
        if level := _mean_and_std(baseline, name):
            ax.axhline(level[0], color=colour, linestyle=":", linewidth=1, label=f"GRU without noise, {name}")
    _finish(ax, title(noisy[0]), "return on held-out mazes", axis="y")
    ax.set_xlabel("standard deviation of the ego-motion noise, in training and test", color=INK)
    ax.legend(frameon=False, fontsize=7)


def _mean_and_std(row: dict[str, Any], whose: str) -> tuple[float, float] | None:
    found = row[whose]["test"]
    if found is None:
        return None
    if whose == "paper":
        return found["mean"], found["std"] or 0.0
    return found["mean_return"], found["std_over_seeds"] or 0.0


def _curves(figure: Figure, data: dict[str, Any]) -> None:
    """A row for each task: held-out return over decisions, and over hours; the band goes from worst to best seed."""
    from matplotlib.lines import Line2D

    tasks = _tasks(data)
    figure.set_size_inches(7.4, 0.4 + 2.3 * len(tasks))
    for number, rows in enumerate(tasks.values()):
        left = figure.add_subplot(len(tasks), 2, 2 * number + 1)
        right = figure.add_subplot(len(tasks), 2, 2 * number + 2, sharey=left)
        for row in rows:
            if row["curves"] is None:
                _level(left, row)
                _level(right, row)
            else:
                _band(left, row, column=0, unit=1e6)
                _band(right, row, column=1, unit=3600.0)
        _finish(left, title(rows[0]), "return on held-out mazes", axis="y")
        _finish(right, "", "", axis="y")
        left.set_xlim(left=0.0)
        right.set_xlim(left=0.0)
        left.set_xlabel("million decisions, 4 frames each", color=INK)
        right.set_xlabel("hours of a run, with its evaluations", color=INK)
        if number == 0:
            learners = dict.fromkeys(row["agent"] for row in data["rows"] if row["curves"] is not None)
            handles = [Line2D([], [], color=colour_of(agent), label=agent) for agent in learners]
            left.legend(handles=handles, frameon=False, fontsize=7)
    end = short(data["paper_frames"] / FRAME_SKIP)
    uneven = any(len({len(curve) for curve in row["curves"]}) > 1 for row in data["rows"] if row["curves"])
    dotted = ", dotted where some seeds are missing" if uneven else ""
    figure.supxlabel(
        f"lines: ours, mean and range of seeds{dotted}; thin: in training; ◇ the paper's at its end, {end} decisions",
        fontsize=7,
    )


def bands(curves: Sequence[Sequence[Sequence[float]]]) -> tuple[np.ndarray, int]:
    """Seeds' curves as one array (seeds, evaluations, 3), NaN where a seed has not come so far; how far all have."""
    lengths = [len(curve) for curve in curves]
    array = np.full((len(curves), max(lengths), 3), np.nan)
    for row, curve in zip(array, curves, strict=True):
        row[: len(curve)] = np.reshape(curve, (-1, 3))
    return array, min(lengths)


def _band(ax: Axes, row: dict[str, Any], *, column: int, unit: float) -> None:
    colour = colour_of(row["agent"])
    training = [np.array(seed) for seed in row.get("training") or () if seed]
    if training:
        x = np.linspace(max(seed[0, column] for seed in training), min(seed[-1, column] for seed in training))
        mean = np.mean([np.interp(x, seed[:, column], seed[:, 2]) for seed in training], 0)
        ax.plot(x / unit, mean, color=colour, linewidth=0.7, alpha=0.6)
    array, whole = bands(row["curves"])
    if array.size:
        x, value = np.nanmean(array[..., column], 0) / unit, array[..., 2]
        line: dict[str, Any] = {"markersize": 2.5, "linewidth": 1.3, "color": colour}
        ax.fill_between(x, np.nanmin(value, 0), np.nanmax(value, 0), color=colour, alpha=0.15, linewidth=0)
        ax.plot(x[:whole], np.nanmean(value, 0)[:whole], "o-", **line)
        ax.plot(x[max(whole - 1, 0) :], np.nanmean(value, 0)[max(whole - 1, 0) :], "o:", **line)
    if (paper := row["paper"]["test"]) is not None:  # on the right edge, whatever the axis shows
        edge: Any = ax.get_yaxis_transform()
        style: dict[str, Any] = {"color": colour, "mfc": "white", "clip_on": False}
        ax.plot([1.0], [paper["mean"]], "D", transform=edge, markersize=4, **style)


def _level(ax: Axes, row: dict[str, Any]) -> None:
    if (test := row["ours"]["test"]) is not None:
        ax.axhline(test["mean_return"], color=PALE, linestyle=":", linewidth=1)
        ax.annotate(
            row["agent"], (1, test["mean_return"]), xycoords=("axes fraction", "data"), fontsize=6, ha="right"
        )


def _finish(ax: Axes, title: str, label: str, *, axis: str) -> None:
    ax.set_title(title, fontsize=8, color=INK)
    (ax.set_xlabel if axis == "x" else ax.set_ylabel)(label, color=INK)
    ax.grid(alpha=0.3, axis="x" if axis == "x" else "both")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=INK, length=2, labelsize=7)
