"""Pictures of layouts: one contact sheet per scenario set, and single layouts for figures.

What comes in: layouts. What goes out: a PNG, or marks on a given matplotlib axis. matplotlib is imported only
when something is drawn, and never through pyplot, so no display and no global state is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from egomap.config import ScenarioConfig
from egomap.scenarios.layout import Layout
from egomap.scenarios.tasks import FAMILIES, Look, goal_looks, player_start
from egomap.scenarios.udmf import WALL_THICKNESS, wall_outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 12
ROWS = {"train": 4, "test": 2}
"""How many rows of each split are shown; the picture says how many layouts there are in all."""

LEAST_COLUMNS = 8
BORDER = WALL_THICKNESS
"""Map units; how thick the arena's border is drawn, which has no thickness of its own."""
PITCH = 1.08
"""From one layout to the next, in sides of a layout."""
LEGEND_LINE = 0.27  # inches
LETTER = 0.085  # inches, a letter's width at the size of the legend, on the safe side

FLOOR = "#f1f3f5"
WALL = "#343a40"
START = "#f08c00"
INK = "#212529"


def draw_layout(layout: Layout, ax: Axes, *, numbers: bool = True) -> None:
    """Draw `layout` on `ax` in world map units: walls, start (triangle), goals in their colours."""
    _draw_many([layout], [(0.0, 0.0)], ax, marker=60.0, numbers=numbers)
    half = layout.size * layout.cell / 2 + 2 * BORDER
    ax.set_xlim(-half, half)
    ax.set_ylim(-half, half)
    ax.set_aspect("equal")
    ax.set_axis_off()


def save_sheet(config: ScenarioConfig, layouts: dict[str, tuple[Layout, ...]], path: Path) -> None:
    """Write the contact sheet of a set: the first layouts of each split with a title and a legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {split: layouts[split][: COLUMNS * ROWS[split]] for split in ROWS if layouts.get(split)}
    columns = min(COLUMNS, max(LEAST_COLUMNS, *(len(group) for group in shown.values())))
    rows = {split: -(-len(group) // columns) for split, group in shown.items()}
    family = FAMILIES[config.task]
    example = next(iter(shown.values()))[0]
    numbered = len(example.goals) > 2
    # Everything in inches, so that text keeps its size whatever the number of rows.
    tile, margin, heading = 1.35, 0.35, 0.42
    width = columns * tile + 2 * margin
    entries = _place_legend(example, width - 2 * margin, numbered=numbered)
    header = 0.95 + LEGEND_LINE * (1 + max(line for line, _, _ in entries))
    height = header + sum(heading + count * tile for count in rows.values()) + margin
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)

    page = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
    page.set_axis_off()
    write = partial(page.text, color=INK, va="center")
    title = f"{family.title}, {config.size} × {config.size} cells"
    write(margin, height - 0.35, title, fontsize=17, weight="bold")
    write(margin, height - 0.68, family.rule, fontsize=11)
    for line, x, look in entries:
        y = height - 1.0 - LEGEND_LINE * line
        marker = "^" if look.colour == START else "o"
        page.scatter(margin + x + 0.08, y, s=64, c=look.colour, marker=marker, linewidths=0)
        write(margin + x + 0.2, y, look.name, fontsize=10, va="center_baseline")

    top = height - header
    side = config.size * config.cell
    pitch = side * PITCH
    for split, group in shown.items():
        total = len(layouts[split])
        label = f"all {total}" if total == len(group) else f"the first {len(group)} of {total}"
        write(margin, top - heading / 2, f"{split}: {label}", fontsize=12)
        top -= heading + rows[split] * tile
        ax = figure.add_axes(
            (margin / width, top / height, columns * tile / width, rows[split] * tile / height)
        )
        places = [(i % columns * pitch, -(i // columns) * pitch) for i in range(len(group))]
        _draw_many(group, places, ax, marker=46.0, numbers=numbered)
        left, upper = -side / 2 - BORDER, side / 2 + BORDER
        ax.set_xlim(left, left + columns * pitch)
        ax.set_ylim(upper - rows[split] * pitch, upper)
        ax.set_axis_off()
    figure.savefig(path, format="png", metadata={"Software": "egomap"})


def _place_legend(layout: Layout, width: float, *, numbered: bool) -> list[tuple[int, float, Look]]:
    """The legend's entries with their line and their x in inches, so that no line is wider than `width`."""
    looks = [
        Look(f"{number} {look.name}" if numbered else look.name, look.colour)
        for number, look in enumerate(goal_looks(layout), start=1)
    ]
    entries = []
    line, x = 0, 0.0
    for look in [Look("start", START), *looks]:
        needed = 0.5 + LETTER * len(look.name)
        if x + needed > width:
            line, x = line + 1, 0.0
        entries.append((line, x, look))
        x += needed
    return entries


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
        half = layout.size * layout.cell / 2 + BORDER
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
    for shapes, colour in ((blocks, WALL), (floors, FLOOR)):
        drawn = ax.add_collection(PathCollection(shapes, facecolors=colour, linewidths=0))
        drawn.set_snap(False)  # Snapping to pixels would draw walls of different thickness.
    xs, ys = np.array(dots).T
    ax.scatter(xs, ys, s=marker, c=colours, zorder=3, linewidths=0)
    xs, ys = np.array(starts).T
    ax.scatter(xs, ys, s=marker * 0.8, c=START, marker="^", zorder=4, linewidths=0)
    if numbers:
        for x, y, text in texts:
            size = 0.9 * marker**0.5
            ax.text(x, y, text, size=size, color="white", ha="center", va="center_baseline", zorder=5)
