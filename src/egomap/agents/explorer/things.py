"""Which goals are in view, and where: by colour and depth, pixel by pixel.

Input: an RGBD view and the pose. Output: a list of things, each with its place and what it probably
is, from all the views so far. The table of colours was counted over views of each goal and of empty mazes
(`tools/count_colours.py`); a colour that is much more common on a goal than in a maze is evidence for a thing there.

Convention: as `grid`; a thing's place is the mean of its pixels in world map units.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np

from egomap.ways.jit import compiled

LEVELS = 16
"""Levels per colour channel that are distinguished."""
EVIDENCE = 5.0
"""Log of how much likelier a colour must be on a goal than in a maze to count."""
APART = 64.0
"""Map units: pixels nearer than this to a thing belong to it."""
MOST_THINGS = 16
ENOUGH_PIXELS = 2
"""So many pixels in one view make a thing; fewer are noise."""
TELLING = 80.0
"""Smallest area of a goal, in square map units, by which it is recognised: a nearer thing must show more pixels."""
SURE = 6.0
"""A thing counts from so many pixels on, all views together: those of a wall or a floor are few."""
DOUBT = 0.1
"""Weight of a thing that was not where it seemed to be."""
FAINT = 0.5
"""Smoothing of the counts, in pixels."""
TINT = 3.0
"""Median of red less blue among the pixels above the horizon, which are grey, from which on a view is tinted."""

LOOKS = (
    "green armour", "blue armour", "medikit", "soul sphere", "red key", "blue key", "armour bonus", "health bonus",
    "red pillar", "green pillar",
)  # fmt: skip
"""Names of what the table knows, in its order."""


@functools.cache
def colour_counts() -> np.ndarray:
    """(looks + 1, 4096) pixels of each colour on each look; the last row is of empty mazes."""
    with np.load(Path(__file__).with_name("colours.npz"), allow_pickle=False) as stored:
        counts: np.ndarray = stored["counts"].astype(np.float64)
    return counts


@functools.cache
def evidence(looks: tuple[str, ...]) -> np.ndarray:
    """(4096, K) log-probability of each colour for each of K looks; NaN where a colour carries no information."""
    counts = colour_counts()
    rows = counts[[LOOKS.index(name) for name in looks]] + FAINT / LEVELS**3
    maze = counts[-1] + FAINT
    shares, background = rows / rows.sum(1, keepdims=True), maze / maze.sum()
    telling = (np.log(shares) - np.log(background)).max(0) > EVIDENCE
    telling &= (rows.max(0) > 2) & colourful()
    among = rows[:, telling] + FAINT
    table = np.full((LEVELS**3, len(looks)), np.nan)
    table[telling] = np.log(among / among.sum(1, keepdims=True)).T
    return table


def colourful() -> np.ndarray:
    """(4096,) bool: neither grey nor brown, which a wall and a floor may be in any brightness."""
    red, green, blue = np.unravel_index(np.arange(LEVELS**3), (LEVELS,) * 3)
    highest, lowest = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    grey = highest - lowest < 2
    between = (green - blue) / np.maximum(red - blue, 1)
    brown = (red >= green) & (green >= blue) & (between > 0.2) & (between < 0.75)
    result: np.ndarray = ~(grey | brown)
    return result


@compiled
def nearest(place: np.ndarray, weight: np.ndarray, x: float, y: float) -> int:
    """The entry of the nearest thing within APART of a point, else of the first free one, else -1."""
    best, least = -1, APART
    for m in range(len(weight)):
        if weight[m] == 0:
            return best if best >= 0 else m
        distance = math.hypot(place[m, 0] - x, place[m, 1] - y)
        if distance < least:
            best, least = m, distance
    return best


@compiled
def spot(
    rgb: np.ndarray,
    depth: np.ndarray,
    x: float,
    y: float,
    phi: float,
    tangents: np.ndarray,
    table: np.ndarray,
    place: np.ndarray,
    weight: np.ndarray,
    belief: np.ndarray,
) -> None:
    """Gather the telling pixels of one view into things, written over what the last four arrays held.

    Args:
        rgb: (3, H, W) uint8.
        depth: (H, W) forward distance; not finite where unknown.
        x: Of the agent.
        y: Of the agent.
        phi: Heading.
        tangents: (W,) right over forward of each column.
        table: From `evidence`.
        place: (M, 2) mean place of each thing's pixels.
        weight: (M,) pixels of each thing, 0 for a free entry; used ones come first.
        belief: (M, K) summed log-probabilities.
    """
    height, width = depth.shape
    cos, sin = math.cos(phi), math.sin(phi)
    weight[:] = 0.0
    belief[:] = 0.0
    for v in range(height):
        for u in range(width):
            colour = (int(rgb[0, v, u]) >> 4) * 256 + (int(rgb[1, v, u]) >> 4) * 16 + (int(rgb[2, v, u]) >> 4)
            z = depth[v, u]
            if math.isnan(table[colour, 0]) or not math.isfinite(z):
                continue
            px = x + z * (cos + tangents[u] * sin)
            py = y + z * (sin - tangents[u] * cos)
            m = nearest(place, weight, px, py)
            if m < 0:
                continue
            weight[m] += 1
            place[m, 0] += (px - place[m, 0]) / weight[m]
            place[m, 1] += (py - place[m, 1]) / weight[m]
            for k in range(belief.shape[1]):
                belief[m, k] += table[colour, k]


@compiled
def tint(rgb: np.ndarray) -> float:
    """Median of red less blue over a part of the pixels above the horizon, of a view (3, H, W)."""
    counts = np.zeros(511, np.int64)  # by the difference, -255 to 255
    pixels = 0
    for v in range(0, rgb.shape[1] // 3, 3):
        for u in range(0, rgb.shape[2], 4):
            counts[int(rgb[0, v, u]) - int(rgb[2, v, u]) + 255] += 1
            pixels += 1
    lower, passed = -1, 0
    for value in range(511):
        passed += counts[value]
        if lower < 0 and passed > (pixels - 1) // 2:
            lower = value
        if passed > pixels // 2:
            return 0.5 * (lower + value) - 255
    return 0.0


def tinted(rgb: np.ndarray) -> bool:
    """Whether the engine has tinted the view (3, H, W), as it does when something is picked up or hurts."""
    return abs(tint(rgb)) >= TINT


class Things:
    """What has been seen of the goals in one episode."""

    def __init__(self, looks: tuple[str, ...]) -> None:
        self._table = evidence(looks)
        self._place, self._weight, self._belief = _entries(len(looks))
        self._now = _entries(len(looks))
        self._gone = 0
        """So many looks, from the first on, are there no more."""

    def see(
        self, rgb: np.ndarray, depth: np.ndarray, pose: tuple[float, float, float], tangents: np.ndarray
    ) -> None:
        """Take in a view: rgb (3, H, W), depth (H, W)."""
        if tinted(rgb):
            return
        spot(rgb, depth, *pose, tangents, self._table, *self._now)
        focal = 1 / (tangents[1] - tangents[0])
        for x_y, pixels, belief in zip(*self._now, strict=True):
            away = max(math.hypot(x_y[0] - pose[0], x_y[1] - pose[1]), 1.0)
            if pixels >= max(ENOUGH_PIXELS, TELLING * (focal / away) ** 2):
                self._add(x_y, pixels, belief)

    def _add(self, x_y: np.ndarray, pixels: float, belief: np.ndarray) -> None:
        m = nearest(self._place, self._weight, *x_y)
        if m < 0:
            return
        self._weight[m] += pixels
        # The place follows what is seen now, when the thing is large in the picture: from afar it is less exact.
        self._place[m] += (x_y - self._place[m]) * (pixels / min(self._weight[m], 4 * pixels))
        self._belief[m] += belief

    def kinds(self) -> list[tuple[int, float, float]]:
        """(look, x, y) of each thing so far: its most probable look."""
        found = np.flatnonzero(self._weight >= SURE)
        return [(self._look(int(m)), *self._place[m].tolist()) for m in found]

    def where(self, look: int) -> tuple[float, float] | None:
        """The place of a look, or None: of the things that are most probably this, the one that was seen best."""
        best = self._best(look)
        if best is None:
            return None
        x, y = self._place[best].tolist()
        return x, y

    def dismiss(self, look: int) -> None:
        """This look is not at `where`; it must be observed anew."""
        best = self._best(look)
        if best is not None:
            self._weight[best], self._belief[best] = DOUBT, 0.0

    def dismiss_around(self, x: float, y: float, within: float) -> None:
        """Nothing is within so many map units of a point, along each axis; things that seemed to be are forgotten."""
        around = np.abs(self._place - (x, y)).max(1) < within
        self._weight[around & (self._weight > 0)] = DOUBT
        self._belief[around] = 0.0

    def taken(self, look: int, x: float, y: float) -> None:
        """The thing at a point has been taken, and with it the last of the looks up to this one."""
        m = nearest(self._place, self._weight, x, y)
        if m >= 0 and self._weight[m] > 0:
            self._weight[m], self._belief[m] = DOUBT, 0.0
        self._gone = look + 1

    def _look(self, m: int) -> int:
        """What a thing most probably is."""
        return self._gone + int(self._belief[m, self._gone :].argmax())

    def _best(self, look: int) -> int | None:
        """The thing of a look that was seen best."""
        found = [m for m in map(int, np.flatnonzero(self._weight >= SURE)) if self._look(m) == look]
        return max(found, key=lambda m: self._weight[m]) if found else None


def _entries(looks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros((MOST_THINGS, 2)), np.zeros(MOST_THINGS), np.zeros((MOST_THINGS, looks))
