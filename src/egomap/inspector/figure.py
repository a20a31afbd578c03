"""Figures like the paper's: chosen decisions as rows of view, principal components and attention.

Input: a recording, the colours of its map, the decisions. Output: the bytes of a PNG, SVG or PDF; in
the last two, letters stay letters and cells stay cells. Paper: section "Analysis", figure of the attention.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from egomap.config import require
from egomap.inspector.components import Basis, colours
from egomap.inspector.events import events
from egomap.inspector.floor_plan import LIGHT, floor_plan
from egomap.inspector.recording import ACTIONS, MapTrack, Recording
from egomap.scenarios.sheet import draw_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, EMPTY, AGENT, WAY = "#1b1f24", "#667079", "#eeede8", "#ff922b", "#0b7285"
ROW = 1.22
"""Inches."""


def parse_steps(text: str, recording: Recording) -> list[int]:
    """The requested decisions, such as "5,105,108,140"; by default those around the events."""
    if not text.strip():
        return default_steps(recording)
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"steps must be decisions like 5,105,108,140; got {text!r}.") from None
    last = len(recording) - 1
    outside = [step for step in steps if not 0 <= step <= last]
    require(not outside, f"this episode has decisions 0 to {last}; got {', '.join(map(str, outside))}.")
    return steps


def default_steps(recording: Recording, most: int = 5) -> list[int]:
    """An early decision, the events and what follows them, as many as `most`; evenly spread without events."""
    last = len(recording) - 1
    found = {min(5, last), last}
    for event in events(recording):
        found |= {event.decision, min(event.decision + 3, last)}
    if len(found) < most:
        found |= {round(share * last) for share in np.linspace(0, 1, most)}
    ordered = sorted(found)
    return [ordered[round(place)] for place in np.linspace(0, len(ordered) - 1, min(most, len(ordered)))]


def figure(recording: Recording, basis: Basis | None, steps: list[int], kind: str) -> bytes:
    """The figure as "png", "svg" or "pdf"."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    track = recording.map
    titles = ["view"]
    if track is not None:
        titles += ["map"] if track.attention is None else ["map", "attention"]
    else:
        titles += ["depth"]
    if recording.planes is not None:
        titles += ["places"]
    if recording.layout is not None:
        titles += ["from above"]
    widths = [1.75 if title in ("view", "depth") else 1.0 for title in titles]
    left, top, bottom = 0.78, 0.3, 0.12
    width = left + ROW * sum(widths) + 0.06 * len(widths) + 0.1
    height = top + ROW * len(steps) + 0.06 * (len(steps) - 1) + bottom
    style: Any = {"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "egomap"}
    with rc_context(style):
        drawn = Figure(figsize=(width, height))
        FigureCanvasAgg(drawn)
        grid = drawn.add_gridspec(
            len(steps), len(titles), width_ratios=widths,
            left=left / width, right=1 - 0.1 / width, top=1 - top / height, bottom=bottom / height,
            wspace=0.06, hspace=0.05,
        )  # fmt: skip
        happened = {event.decision: event.name for event in events(recording)}
        for row, step in enumerate(steps):
            for column, title in enumerate(titles):
                ax = drawn.add_subplot(grid[row, column])
                _draw(ax, title, recording, basis, step)
                if row == 0:
                    ax.set_title(title, fontsize=8, color=INK, pad=4)
                if column == 0:
                    _label(ax, step, happened.get(step), ACTIONS[recording.action[step]])
        data = io.BytesIO()
        # No date, so that the same episode gives the same bytes.
        dated = {"svg": "Date", "pdf": "CreationDate"}
        drawn.savefig(data, format=kind, dpi=220, metadata={dated[kind]: None} if kind in dated else None)
    return data.getvalue()


def _label(ax: Axes, step: int, event: str | None, action: str) -> None:
    ax.text(
        -0.06, 0.62, f"t = {step}", transform=ax.transAxes, ha="right", va="center", color=INK, fontsize=9
    )
    text = event if event is not None else action
    ax.text(
        -0.06, 0.44, text.replace(" ", "\n", 1), transform=ax.transAxes, ha="right", va="top",
        color=INK if event else SOFT, fontsize=6.5, linespacing=1.05,
    )  # fmt: skip


def _draw(ax: Axes, title: str, recording: Recording, basis: Basis | None, step: int) -> None:
    track = recording.map
    if title == "view":
        ax.imshow(recording.rgb[step], interpolation="nearest", aspect="auto")
    elif title == "depth":
        finite = recording.depth[np.isfinite(recording.depth)]
        ax.imshow(recording.depth[step], cmap="cividis_r", vmin=0, vmax=float(finite.max()), aspect="auto")
    elif title == "from above":
        _draw_above(ax, recording, step)
        return
    elif title == "places" and recording.planes is not None:
        planes = recording.planes
        side = float(planes.size)
        ax.imshow(floor_plan(planes.at(step), LIGHT), interpolation="nearest", extent=(0.0, side, 0.0, side))
        _mark_agent(ax, side / 2)
    elif track is not None and basis is not None:
        _draw_cells(ax, title, track, basis, recording.pose[step], step)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(linewidth=0.4, color=SOFT)


def _draw_cells(ax: Axes, title: str, track: MapTrack, basis: Basis, pose: np.ndarray, step: int) -> None:
    """The map or the attention, in cells; Neural Map's four headings side by side."""
    side = 2 if len(track.tiles) > 1 else 1
    extent = (0.0, float(side * track.size), 0.0, float(side * track.size))
    if title == "map":
        shown = sheet(colours(basis, track.features[step], track.known[step]))
        known = sheet(track.known[step][..., None])
        empty = np.array([int(EMPTY[place : place + 2], 16) for place in (1, 3, 5)], np.uint8)
        ax.imshow(np.where(known, shown, empty), interpolation="nearest", extent=extent)
    else:
        assert track.attention is not None
        ax.imshow(
            sheet(track.attention[step][..., None])[..., 0], cmap="inferno", vmin=0.0,
            interpolation="nearest", extent=extent,
        )  # fmt: skip
    if track.frame == "ego":
        middle = track.size / 2
        _mark_agent(ax, middle)
        if title == "attention" and track.position is not None:
            right, ahead = track.position[step] * middle
            ax.annotate(
                "", (middle + right, middle + ahead), (middle, middle),
                arrowprops={"arrowstyle": "->", "color": "white", "lw": 1.1, "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip
    else:
        x, y = ((pose[:2] / track.extent + 0.5) * track.size).tolist()
        for tile in range(len(track.tiles)):
            row, column = divmod(tile, side)
            ax.plot(x + column * track.size, y + (side - 1 - row) * track.size, "o", ms=2, color=AGENT)
        ax.plot([track.size] * 2, extent[:2], color="white", lw=0.8)
        ax.plot(extent[:2], [track.size] * 2, color="white", lw=0.8)
        ax.set(xlim=extent[:2], ylim=extent[:2])


def _mark_agent(ax: Axes, middle: float) -> None:
    """In the middle, facing up."""
    ax.plot(
        middle, middle, marker="^", markersize=4, color=AGENT, markeredgecolor="white", markeredgewidth=0.4
    )


def sheet(tiles: np.ndarray) -> np.ndarray:
    """Tiles (1 or 4, size, size, C) as one picture: a single one, or two rows of two."""
    if len(tiles) == 1:
        return tiles[0]
    return np.concatenate([np.concatenate(tiles[:2], 1), np.concatenate(tiles[2:], 1)], 0)


def _draw_above(ax: Axes, recording: Recording, step: int) -> None:
    assert recording.layout is not None
    draw_layout(recording.layout, ax, numbers=len(recording.layout.goals) > 2)
    way = recording.true_pose[: step + 1]
    ax.plot(way[:, 0], way[:, 1], color=WAY, lw=1.2, zorder=6)
    x, y, phi = recording.true_pose[step]
    ax.plot(
        x, y, marker=(3, 0, float(np.degrees(phi)) - 90), markersize=7, color=INK,
        markeredgecolor="white", markeredgewidth=0.7, zorder=7,
    )  # fmt: skip
