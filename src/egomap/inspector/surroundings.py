"""What stands where: the layout as it is seen from a cell of a map. The truth that a memory is compared with.

Input: a layout and points, or the cells of a map and the agent's pose. Output: labels. Numpy only.

Convention: world map units, x east, y north; an ego map has row 0 farthest ahead and column 0 left, a world map
row 0 in the north and column 0 in the west (docs/conventions.md).
"""

from __future__ import annotations

import numpy as np

from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import wall_boxes
from egomap.scenarios.tasks import FAMILIES, goal_looks
from egomap.scenarios.udmf import WALL_THICKNESS

OUTSIDE, FREE, WALL, FIRST_GOAL = range(4)
"""Labels; goal k has FIRST_GOAL + k."""

GOAL_RADIUS = 20.0
"""Map units; items and pillars are 16 to 20 wide from their centre."""
SAMPLES = 5
"""Points along each side of a cell at which it is looked at."""
WALL_SHARE = 0.1
"""Of a cell that must be wall for it to count as one: a wall is narrower than a cell."""


def label_names(layout: Layout) -> list[str]:
    """The names of the labels, in order."""
    return ["outside", "free", "wall", *(look.name for look in goal_looks(layout))]


def standing(layout: Layout, reached: np.ndarray) -> np.ndarray:
    """(..., goals) bool: which goals still stand there. Items are taken away when collected, pillars stay."""
    return np.ones_like(reached) if FAMILIES[layout.task].hides_last else ~reached


def label_points(layout: Layout, points: np.ndarray, present: np.ndarray) -> np.ndarray:
    """(...) int8 labels of world points (..., 2); goals that are not `present` (goals,) are floor."""
    x, y = points[..., 0], points[..., 1]
    half = layout.size * layout.cell / 2
    farthest = np.maximum(np.abs(x), np.abs(y))
    labels = np.where(farthest < half, FREE, np.where(farthest < half + WALL_THICKNESS, WALL, OUTSIDE))
    for x0, y0, x1, y1 in wall_boxes(layout, 0.0).tolist():
        labels[(x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)] = WALL
    for goal, cell in enumerate(layout.goals):
        if present[goal]:
            gx, gy = layout.center(cell)
            labels[np.hypot(x - gx, y - gy) <= GOAL_RADIUS] = FIRST_GOAL + goal
    return labels.astype(np.int8)


def cell_points(size: int, extent: float, pose: np.ndarray | None) -> np.ndarray:
    """(size, size, SAMPLES^2, 2) world points of the cells of a map: an ego map at `pose`, or a world map."""
    places = ((np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES) - 0.5) * extent
    ahead, right = np.meshgrid(-places, places, indexing="ij")
    if pose is not None:
        px, py, phi = (float(value) for value in pose)
        cos, sin = np.cos(phi), np.sin(phi)
        x, y = px + right * sin + ahead * cos, py - right * cos + ahead * sin
    else:
        x, y = right, ahead
    points = np.stack((x, y), -1).reshape(size, SAMPLES, size, SAMPLES, 2)
    return points.swapaxes(1, 2).reshape(size, size, SAMPLES**2, 2)


def label_cells(
    layout: Layout, size: int, extent: float, pose: np.ndarray | None, present: np.ndarray
) -> np.ndarray:
    """(size, size) int8: what stands in each cell of a map.

    A goal of which any part is in the cell, the one with most of it first; else wall if WALL_SHARE of it is; else
    free if most of it is, or outside.
    """
    labels = label_points(layout, cell_points(size, extent, pose), present)
    counts = np.stack([(labels == label).sum(-1) for label in range(FIRST_GOAL + len(layout.goals))], -1)
    found = np.where(counts[..., FREE] * 2 > SAMPLES**2, FREE, OUTSIDE)
    found = np.where(counts[..., WALL] >= WALL_SHARE * SAMPLES**2, WALL, found)
    goals = counts[..., FIRST_GOAL:]
    return np.where(goals.any(-1), FIRST_GOAL + goals.argmax(-1), found).astype(np.int8)
