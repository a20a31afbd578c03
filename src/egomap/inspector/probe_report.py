"""The results of a probe as a table and a figure."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from egomap.inspector.probe import ProbeResult, Score
from egomap.util.bars import table_console

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"trained": "#0b7285", "untrained": "#adb5bd"}
INK = "#1b1f24"


def held(result: ProbeResult) -> int:
    """How many kinds of things the maps held."""
    return sum(not math.isnan(score.value) for score in result.trained.recall.values())


def rows(result: ProbeResult) -> Iterator[tuple[str, str, str, str]]:
    """Name, trained, untrained, chance: one for each figure."""

    def percent(score: Score) -> str:
        if math.isnan(score.value):
            return "-"
        return f"{100 * score.value:.0f} % [{100 * score.low:.0f}, {100 * score.high:.0f}]"

    def degrees(score: Score) -> str:
        return f"{score.value:.0f}° [{score.low:.0f}, {score.high:.0f}]"

    one, other = result.trained, result.untrained
    chance = f"{100 / max(held(result), 1):.0f} %"
    for name in one.recall:
        yield f"map: {name}", percent(one.recall[name]), percent(other.recall[name]), chance
    if one.balanced is not None and other.balanced is not None:
        yield "map: mean of these", percent(one.balanced), percent(other.balanced), chance
    yield (
        "state: direction of the next goal, error",
        degrees(one.bearing_error),
        degrees(other.bearing_error),
        f"{result.constant_error:.0f}°",
    )


def print_table(result: ProbeResult) -> None:
    """The table, on stdout."""
    from rich.table import Table

    table = Table("linear probe", "trained", "untrained", "chance")
    for row in rows(result):
        table.add_row(*row)
    table_console().print(table)


def figure(result: ProbeResult, kind: str) -> bytes:
    """The figure as "png" or "svg"."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: Any = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "egomap"}
    with rc_context(style):
        names = list(result.trained.recall)
        widths = [len(names) + 1, 2] if names else [2]
        drawn = Figure(figsize=(1.4 + 0.66 * sum(widths), 3.0), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        if names:
            assert result.trained.balanced is not None and result.untrained.balanced is not None
            pairs = {name: (result.trained.recall[name], result.untrained.recall[name]) for name in names}
            pairs["mean"] = (result.trained.balanced, result.untrained.balanced)
            _bars(axes[0], pairs, scale=100)
            axes[0].axhline(100 / max(held(result), 1), color=INK, lw=0.8, ls=":", label="chance")
            axes[0].set(
                ylim=(0, 100), ylabel="cells classified correctly, %", title="map cell: what is there"
            )
        pair = {"next goal": (result.trained.bearing_error, result.untrained.bearing_error)}
        _bars(axes[-1], pair, scale=1)
        axes[-1].axhline(result.constant_error, color=INK, lw=0.8, ls=":", label="chance")
        axes[-1].set(ylim=(0, 110), ylabel="mean error, degrees", title="state: direction")
        drawn.legend(
            *axes[-1].get_legend_handles_labels(),
            frameon=False,
            fontsize=7,
            ncols=3,
            loc="outside upper center",
        )
        data = io.BytesIO()
        drawn.savefig(data, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return data.getvalue()


def _bars(ax: Axes, pairs: dict[str, tuple[Score, Score]], *, scale: float) -> None:
    for k, who in enumerate(("trained", "untrained")):
        for place, pair in enumerate(pairs.values()):
            score = pair[k]
            if math.isnan(score.value):
                continue
            x = place + (k - 0.5) * 0.38
            ax.bar(x, scale * score.value, 0.36, color=COLOURS[who], label=who if place == 0 else None)
            if not math.isnan(score.low):
                ax.plot([x, x], [scale * score.low, scale * score.high], color=INK, lw=0.9)
    ax.set_xticks(range(len(pairs)), list(pairs), rotation=20, ha="right")
    ax.spines[["top", "right"]].set_visible(False)
    ax.title.set_fontsize(8)
