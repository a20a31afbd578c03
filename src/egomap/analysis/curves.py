"""Learning curves of a run, as a picture: training return over decisions, and the held-out evaluations on it."""

from __future__ import annotations

import io
from pathlib import Path

from egomap.config import require
from egomap.training.metrics import read_metrics
from egomap.util.files import write_whole


def curve(path: Path, column: str) -> tuple[list[float], list[float]]:
    """Decisions and values of one column of a run's metrics, where it has any."""
    rows = [row for row in read_metrics(path / "metrics.csv") if row[column]]
    return [float(row["decisions"]) for row in rows], [float(row[column]) for row in rows]


def plot_run(path: Path, *, title: str, levels: dict[str, float] | None = None) -> Path:
    """Draw `curve.png` into the run folder; `levels` are horizontal lines, such as Random's score."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    trained, tested = curve(path, "mean_return"), curve(path, "test_return")
    require(bool(trained[0] or tested[0]), f"{path} has no finished episode to draw yet.")
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(*trained, color="#7aa6c2", linewidth=1.5, label="training, mean of 100 episodes")
    axes.plot(*tested, "o-", color="#1f4e79", label="held-out mazes")
    for (name, level), style in zip((levels or {}).items(), ("--", ":", "-."), strict=False):
        axes.axhline(level, color="#666666", linestyle=style, linewidth=1, label=f"{name} ({level:.2f})")
    axes.set_xlabel("decisions (4 frames each)")
    axes.set_ylabel("return")
    axes.set_title(title)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e3:,.0f}k" if value else "0")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=130)
    out = path / "curve.png"
    write_whole(out, picture.getvalue())
    return out
