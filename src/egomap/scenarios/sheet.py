"""Pictures of layouts: one contact sheet per scenario set, and single layouts for figures.

What comes in: layouts. What goes out: a PNG, or marks on a given matplotlib axis. matplotlib is imported only
when something is drawn, and never through pyplot, so no display and no global state is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from egomap.config import ScenarioConfig
from egomap.scenarios.layout import Layout
from egomap.scenarios.tasks import FAMILIES, goal_looks, player_start
from egomap.scenarios.udmf import wall_outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 12
ROWS = {"train": 4, "test": 2}
"""How many rows of each split are shown; the picture says how many layouts there are in all."""

FLOOR = "#f1f3f5"
WALL = "#343a40"
START = "#f08c00"
INK = "#212529"


def draw_layout(layout: Layout, ax: Axes, *, numbers: bool = True) -> None:
    """Draw `layout` on `ax` in world map units: walls, start (triangle), goals in their colours."""
    _draw_many([layout], [(0.0, 0.0)], ax, marker=60.0, numbers=numbers)
    half = layout.size * layout.cell / 2
    ax.set_xlim(-half * 1.03, half * 1.03)
    ax.set_ylim(-half * 1.03, half * 1.03)
    ax.set_aspect("equal")
    ax.set_axis_off()


def save_sheet(config: ScenarioConfig, layouts: dict[str, tuple[Layout, ...]], path: Path) -> None:
    """Write the contact sheet of a set: the first layouts of each split with a title and a legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = {split: layouts[split][: COLUMNS * ROWS[split]] for split in ROWS if layouts.get(split)}
    columns = min(COLUMNS, max(8, *(len(group) for group in shown.values())))
    rows = {split: -(-len(group) // columns) for split, group in shown.items()}
    # Everything in inches, so that text keeps its size whatever the number of rows.
    tile, margin, header, heading = 1.35, 0.35, 0.8, 0.42
    width = columns * tile + 2 * margin
    height = header + sum(heading + count * tile for count in rows.values()) + margin
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)

    family = FAMILIES[config.task]
    figure.text(
        margin / width,
        1 - 0.28 / height,
        f"{family.title}, {config.size} × {config.size} cells",
        fontsize=17,
        weight="bold",
        color=INK,
        va="center",
    )
    figure.text(margin / width, 1 - 0.6 / height, family.rule, fontsize=11, color=INK, va="center")
    example = next(iter(shown.values()))[0]
    numbered = len(example.goals) > 2
    handles = [Line2D([], [], marker="^", ls="", color=START, ms=8, label="start")]
    handles += [
        Line2D(
            [],
            [],
            marker="o",
            ls="",
            color=look.colour,
            ms=9,
            label=f"{number} {look.name}" if numbered else look.name,
        )
        for number, look in enumerate(goal_looks(example), start=1)
    ]
    figure.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(1 - margin / width, 1 - 0.1 / height),
        ncols=min(len(handles), 5),
        frameon=False,
        fontsize=10,
        handletextpad=0.2,
        columnspacing=1.2,
    )

    top = height - header
    pitch = config.size * config.cell * 1.08
    for split, group in shown.items():
        total = len(layouts[split])
        label = (
            f"{split}: all {total}" if total == len(group) else f"{split}: the first {len(group)} of {total}"
        )
        figure.text(margin / width, (top - heading / 2) / height, label, fontsize=12, color=INK, va="center")
        top -= heading + rows[split] * tile
        ax = figure.add_axes(
            (margin / width, top / height, columns * tile / width, rows[split] * tile / height)
        )
        places = [(i % columns * pitch, -(i // columns) * pitch) for i in range(len(group))]
        _draw_many(group, places, ax, marker=46.0, numbers=numbered)
        ax.set_xlim(-pitch / 2, (columns - 0.5) * pitch)
        ax.set_ylim(-(rows[split] - 0.5) * pitch, pitch / 2)
        ax.set_axis_off()
    figure.savefig(path, format="png", metadata={"Software": "egomap"})


def _draw_many(
    layouts: Sequence[Layout],
    places: Sequence[tuple[float, float]],
    ax: Axes,
    *,
    marker: float,
    numbers: bool,
) -> None:
    """Draw layouts with their centres at `places`, with few artists, so that hundreds are quick."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Outline

    blocks, floors, dots, colours, starts, texts = [], [], [], [], [], []
    for layout, (x0, y0) in zip(layouts, places, strict=True):
        loops = [np.array([*loop, loop[0]]) + (x0, y0) for loop in wall_outline(layout)]
        # Loops around walls run the other way than the one around the arena, so filling leaves the walls out.
        floors.append(Outline.make_compound_path(*(Outline(loop, closed=True) for loop in loops)))
        half = layout.size * layout.cell / 2
        square = np.array([(-half, -half), (-half, half), (half, half), (half, -half), (-half, -half)])
        blocks.append(Outline(square + (x0, y0), closed=True))
        x, y = player_start(layout)
        starts.append((x0 + x, y0 + y))
        for number, (goal, look) in enumerate(zip(layout.goals, goal_looks(layout), strict=True), start=1):
            gx, gy = layout.center(goal)
            dots.append((x0 + gx, y0 + gy))
            colours.append(look.colour)
            texts.append((x0 + gx, y0 + gy, str(number)))
    # A dark square below the floors shows through where walls stand.
    ax.add_collection(PathCollection(blocks, facecolors=WALL, edgecolors=WALL, linewidths=1.5))
    floor = ax.add_collection(PathCollection(floors, facecolors=FLOOR, linewidths=0))
    floor.set_snap(False)  # Snapping to pixels would draw walls of different thickness.
    xs, ys = np.array(dots).T
    ax.scatter(xs, ys, s=marker, c=colours, zorder=3, linewidths=0)
    xs, ys = np.array(starts).T
    ax.scatter(xs, ys, s=marker * 0.8, c=START, marker="^", zorder=4, linewidths=0)
    if numbers:
        for x, y, text in texts:
            size = 0.9 * marker**0.5
            ax.text(x, y, text, size=size, color="white", ha="center", va="center_baseline", zorder=5)
