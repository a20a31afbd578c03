"""Why the map is kept in the world's frame: what repeated resampling does to a map, as numbers and a figure.

Input: nothing but the operators that the agents use; the map is synthetic, three channels shown as red,
green and blue. Output: for the naive map (`map_frame="ego"`) and the world-frame one, after each of 180
steps with closed eyes, how much of each landmark is left and where an attention query finds it. Paper: section 3,
"Sampling from a global map", and the appendix "Affine transform", whose figure this is. No training, a few seconds.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from egomap.config import Camera, MapFrame, MapSettings
from egomap.geometry import ego_from_world, motion_between, rows_from_image
from egomap.memory import EgoMapMemory, MemoryInputs, MemoryState
from egomap.memory.attention import attend
from egomap.memory.egomap import EgoMapState
from egomap.memory.reads import cell_positions
from egomap.util.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = 180
SIZE = 24
"""Cells along a side; one map unit is one cell here, so all distances are in cells."""
TURN = math.radians(2.0)
STRIDE = (0.2, 0.3)
"""Cells to the right and ahead in one step of the translations: fractions, so that every step interpolates."""
LEG = 10
"""Steps until the translations turn back; few enough that nothing but blur leaves the map."""
BETA = 20.0
"""Inverse temperature of the queries; where the attention peaks does not depend on it."""

MOTIONS = ("turns", "translations")
METHODS: dict[str, MapFrame] = {"naive": "ego", "world": "global"}
LANDMARKS = {"red": (4.5, 3.5), "green": (-5.5, 1.5), "blue": (1.5, -4.5)}
"""One per channel, in the channels' order: x east and y north of the agent's first place, in cells."""
BUMP = (1.0, 0.9, 0.8)
"""A landmark's value in its own cell, in those beside it and in those across a corner: its peak is one cell."""
WALL = 0.35
"""All three channels of the walls: grey, so that they have no part in the contrast of a landmark."""


@dataclass(frozen=True)
class SmearResult:
    """Both maps under both motions; row t of every tensor is after t steps, row 0 before the first."""

    maps: dict[tuple[str, str], Tensor]
    """(motion, method): (T + 1, 3, size, size) the agent's map, in its own frame."""
    peak_left: dict[tuple[str, str], Tensor]
    """(motion, method): (T + 1, landmarks) largest contrast left of each landmark, over that of row 0."""
    peak_moved: dict[tuple[str, str], Tensor]
    """(motion, method): (T + 1, landmarks) cells from where the landmark is to where attention peaks."""
    true_places: dict[str, Tensor]
    """motion: (T + 1, landmarks, 2) where the landmarks are, cells right and ahead of the agent."""
    peak_places: dict[tuple[str, str], Tensor]
    """(motion, method): (T + 1, landmarks, 2) where the attention peaks, cells right and ahead of the agent."""

    def figures(self) -> list[dict[str, str | int | float]]:
        """One row for each motion, method, landmark and step, as in smear.csv."""
        return [
            {
                "motion": motion,
                "method": method,
                "landmark": landmark,
                "step": step,
                "peak_left": float(self.peak_left[motion, method][step, number]),
                "attention_moved_cells": float(self.peak_moved[motion, method][step, number]),
            }
            for motion, method in self.maps
            for number, landmark in enumerate(LANDMARKS)
            for step in range(len(self.true_places[motion]))
        ]


def synthetic_map() -> Tensor:
    """A room seen from above (3, size, size): grey walls and three landmarks, one in each channel."""
    image = torch.zeros(3, SIZE, SIZE, dtype=torch.float64)
    image[:, 4, 4:20] = image[:, 19, 4:20] = image[:, 4:20, 4] = image[:, 4:20, 19] = WALL
    image[:, 4:10, 11] = image[:, 13, 14:20] = WALL
    for channel, (x, y) in enumerate(LANDMARKS.values()):
        row, column = math.floor(SIZE / 2 - y), math.floor(SIZE / 2 + x)
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                image[channel, row + down, column + right] = BUMP[abs(down) + abs(right)]
    return image


def poses(motion: str) -> Tensor:
    """The agent's poses (T + 1, 3): turns on the spot, or a walk there and back; the last is the first again."""
    step = torch.arange(STEPS + 1, dtype=torch.float64)
    pose = torch.tensor([0.0, 0.0, math.pi / 2], dtype=torch.float64).repeat(STEPS + 1, 1)
    if motion == "turns":
        pose[:, 2] += step * TURN
    else:
        out = LEG - (step % (2 * LEG) - LEG).abs()  # 0, 1, ... LEG, ... 1, 0, 1, ...
        pose[:, :2] = out[:, None] * torch.tensor(STRIDE, dtype=torch.float64)
    return pose


@torch.no_grad()
def smear() -> SmearResult:
    """Move an agent with closed eyes, with both kinds of map, and measure what it still knows."""
    maps, left, moved, found = {}, {}, {}, {}
    places = torch.tensor(list(LANDMARKS.values()), dtype=torch.float64)
    true_places = {motion: ego_from_world(places, poses(motion)) for motion in MOTIONS}
    for motion in MOTIONS:
        for method, frame in METHODS.items():
            case = (motion, method)
            maps[case] = maps_seen(frame, poses(motion))
            peak = contrast(maps[case]).flatten(-2).amax(-1)  # (T + 1, landmarks)
            left[case] = peak / peak[0]
            found[case] = attention_peaks(maps[case])
            moved[case] = (found[case] - true_places[motion]).norm(dim=-1)
    return SmearResult(maps, left, moved, true_places, found)


def maps_seen(frame: MapFrame, pose: Tensor) -> Tensor:
    """What an `EgoMapMemory` that began with the synthetic map reads at each pose, (T + 1, 3, size, size)."""
    pinhole = Camera(width=1, height=1, fx=1.0, fy=1.0, cx=0.5, cy=0.5)
    settings = MapSettings(
        channels=3,
        map_size=SIZE,
        extent=float(SIZE),
        map_frame=frame,
        use_global_read=False,
        use_query=False,
    )
    memory = EgoMapMemory(
        pinhole, settings, feature_shape=(3, 1, 1), kernels=(1,), strides=(1,), hidden_size=1
    ).double()
    empty = EgoMapState(*memory.initial_state(1))
    state: MemoryState = empty._replace(
        map=rows_from_image(synthetic_map()[None]), known=torch.ones_like(empty.known)
    )
    motions = torch.cat((torch.zeros_like(pose[:1]), motion_between(pose[:-1], pose[1:])))
    closed_eyes = torch.full((1, 1, 1), math.inf, dtype=torch.float64)
    seen = []
    for pose_t, motion_t in zip(pose, motions, strict=True):
        inputs = MemoryInputs(pose.new_zeros(1, 3, 1, 1), closed_eyes, pose_t[None], motion_t[None])
        trace: dict[str, Tensor] = {}
        _, state = memory.step(inputs, state, trace=trace)
        seen.append(trace["map_ego"][0])
    return torch.stack(seen)


def contrast(maps: Tensor) -> Tensor:
    """Each channel minus the mean of the other two: (..., 3, size, size); 0 on grey, however blurred."""
    return maps - (maps.sum(-3, keepdim=True) - maps) / 2


def attention_peaks(maps: Tensor) -> Tensor:
    """Where a query for each landmark's colour finds it in maps (T, 3, size, size): (T, landmarks, 2), cells."""
    positions = cell_positions(SIZE).to(maps.dtype)
    peaks = []
    for query in torch.eye(len(LANDMARKS), dtype=maps.dtype):
        queries, beta = query.expand(len(maps), -1), maps.new_full((len(maps),), BETA)
        _, attention = attend(rows_from_image(maps), queries, beta, positions, "cosine")
        peaks.append(positions[attention.argmax(-1)] * (SIZE / 2))
    return torch.stack(peaks, dim=1)


# -- files --------------------------------------------------------------------------------------------------


FILES = ("smear.png", "smear.svg", "smear.csv", "smear.md")


def reproduce_smear(out: Path) -> SmearResult:
    """Write smear.png, smear.svg, smear.csv (every step) and smear.md (the end) to the folder `out`."""
    result = smear()
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("png", "svg"):
        write_whole(out / f"smear.{kind}", picture(result, kind))
    write_whole(out / "smear.csv", table_csv(result))
    write_whole(out / "smear.md", table_markdown(result))
    return result


def table_csv(result: SmearResult) -> str:
    """Every figure of the result."""
    rows = result.figures()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def table_markdown(result: SmearResult) -> str:
    """The state of things after the last step, over the three landmarks."""
    lines = [
        f"After {STEPS} steps, over {len(LANDMARKS)} landmarks on a map of {SIZE} x {SIZE} cells:",
        "",
        "| motion | map | peak left, mean (least) | attention peak moved, mean (most), cells |",
        "|---|---|---|---|",
    ]
    for motion, method in result.maps:
        left, moved = result.peak_left[motion, method][-1], result.peak_moved[motion, method][-1]
        lines.append(
            f"| {motion} | {method} | {float(left.mean()):.1%} ({float(left.min()):.1%}) "
            f"| {float(moved.mean()):.2f} ({float(moved.max()):.2f}) |"
        )
    return "\n".join(lines) + "\n"


# -- the figure ---------------------------------------------------------------------------------------------

SHOWN = (0, 10, 25, 50, 100, 180)
"""Steps that have a column of their own."""
TITLES = {"turns": "Turns of 2°", "translations": "There and back"}
NAMES = {"naive": "naive map", "world": "world map"}
LINES = {"naive": "#d9480f", "world": "#1864ab"}
INK, PALE = "#212529", "#adb5bd"


def picture(result: SmearResult, kind: str) -> bytes:
    """The figure as a PNG or SVG file: a row for each motion and map, a column for each shown step, and curves."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # Letters stay text in the SVG, and its ids do not change from run to run.
    style: Any = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "egomap", "axes.edgecolor": PALE}
    with rc_context(style):
        figure = Figure(figsize=(10.2, 5.3))
        widths = [1.0] * len(SHOWN) + [0.42, 1.75]
        grid = figure.add_gridspec(
            5, len(widths), width_ratios=widths, height_ratios=[1, 1, 0.1, 1, 1],
            left=0.062, right=0.985, top=0.945, bottom=0.105, wspace=0.06, hspace=0.09,
        )  # fmt: skip
        for block, motion in enumerate(MOTIONS):
            for below, method in enumerate(METHODS):
                row = 3 * block + below
                for column, step in enumerate(SHOWN):
                    ax = figure.add_subplot(grid[row, column])
                    _draw_map(ax, result, motion, method, step)
                    if row == 0:
                        ax.set_title("start" if step == 0 else f"step {step}", fontsize=8, color=INK, pad=4)
                    if column == 0:
                        ax.set_ylabel(NAMES[method], fontsize=8, color=LINES[method], labelpad=3)
            height = (
                grid[3 * block, 0].get_position(figure).y1 + grid[3 * block + 1, 0].get_position(figure).y0
            ) / 2
            figure.text(
                0.012, height, TITLES[motion], rotation=90, va="center", fontsize=9, weight="bold", color=INK
            )
            _draw_curve(
                figure.add_subplot(grid[3 * block, len(widths) - 1]), result.peak_left, motion, "peak left"
            )
            _draw_curve(
                figure.add_subplot(grid[3 * block + 1, len(widths) - 1]),
                result.peak_moved,
                motion,
                "cells off",
            )
        figure.axes[2 * len(SHOWN)].set_title("over the steps", fontsize=8, color=INK, pad=4)
        figure.text(
            0.062, 0.025,
            "▲ agent, facing up    ○ where a landmark is    × where attention to its colour peaks    "
            "curves: mean of the landmarks, band from least to most",
            fontsize=8, color=INK,
        )  # fmt: skip
        data = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(data, format=kind, dpi=200, metadata=metadata)
    return data.getvalue()


def _draw_map(ax: Axes, result: SmearResult, motion: str, method: str, step: int) -> None:
    half = SIZE / 2
    image = result.maps[motion, method][step].clamp(0, 1).permute(1, 2, 0)  # (size, size, 3)
    ax.imshow(image.numpy(), extent=(-half, half, -half, half), interpolation="nearest")
    x, y = result.true_places[motion][step].unbind(-1)
    ax.scatter(x, y, s=46, facecolors="none", edgecolors="white", linewidths=0.7)
    x, y = result.peak_places[motion, method][step].unbind(-1)
    ax.scatter(x, y, s=14, marker="x", c="white", linewidths=0.8)
    ax.plot(0, 0, marker="^", markersize=3.5, color="#ffd43b", markeredgewidth=0)
    ax.set(xticks=[], yticks=[], xlim=(-half, half), ylim=(-half, half))
    for spine in ax.spines.values():
        spine.set_linewidth(0.4)


def _draw_curve(ax: Axes, values: dict[tuple[str, str], Tensor], motion: str, label: str) -> None:
    share = label == "peak left"
    for method, colour in LINES.items():
        value = values[motion, method]  # (T + 1, landmarks)
        ax.fill_between(
            range(len(value)), value.amin(-1), value.amax(-1), color=colour, alpha=0.15, linewidth=0
        )
        ax.plot(value.mean(-1), color=colour, linewidth=1.2, label=NAMES[method])
    ax.set(xlim=(0, STEPS), ylim=(0, 1.05) if share else (0, 6), xticks=[0, 60, 120, 180])
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"]) if share else ax.set_yticks([0, 2, 4])
    ax.set_ylabel(label, color=INK, labelpad=2)
    ax.tick_params(colors=INK, length=2, labelsize=7, labelbottom=not share)
    ax.spines[["top", "right"]].set_visible(False)
    if share:
        ax.legend(frameon=False, fontsize=7, loc="center right", handlelength=1.2)
    elif motion == MOTIONS[-1]:
        ax.set_xlabel("step", color=INK, labelpad=1)
