"""Shortest ways through a layout for a player who has a size: exact, by the visibility graph of the walls.

What comes in: a layout. What goes out: for each goal, the corners of the shortest way to it; or only whether there
is a way at all (`solvable`). The engine's bodies are axis-aligned boxes, so a wall or a thing that must not be
touched, widened by the player's radius, is a box again, and a shortest way among boxes bends only at their corners.
How to walk it is the controller's matter (`egomap.agents.planner`).

Convention: world map units, x east, y north, origin in the middle of the arena. A box is (x0, y0, x1, y1).
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import NamedTuple

import numpy as np

from egomap.scenarios.layout import Layout, Wall
from egomap.scenarios.tasks import FAMILIES, PILLAR_DISTANCE, PLAYER_RADIUS, TOUCH_DISTANCE, player_start, way
from egomap.scenarios.udmf import WALL_THICKNESS

Point = tuple[float, float]


class Clearance(NamedTuple):
    """How far a way stays from what it passes, beyond the distance at which the bodies touch."""

    walls: float
    items: float


COMFORTABLE = Clearance(walls=6.0, items=3.0)
"""What a way keeps where there is room: the player drifts in bends."""
TIGHT = Clearance(walls=0.4, items=0.4)
"""What it keeps elsewhere: enough for the engine's rounding (it stops the player 16.02 from a wall), and such that
no gap is exactly as wide as it must be, since walls and items lie on multiples of half a unit. So an item can be
passed beside an inner wall in cells of 122 units or more."""

SLACK = 1e-6
"""What is as near as this to the face of a box is on it."""


class Leg(NamedTuple):
    """The way to one goal."""

    points: tuple[Point, ...]
    """Where it begins, where it bends, and where the goal is touched."""
    length: float
    """Map units along the points."""
    clearance: Clearance
    """What the way keeps from walls and from items that must not be touched."""


def plan(layout: Layout) -> list[Leg]:
    """The shortest way to each goal in order, each from where the one before was touched.

    Raises:
        ValueError: A goal cannot be reached.
    """
    here = player_start(layout)
    legs = []
    for index in range(len(layout.goals)):
        legs.append(plan_leg(layout, index, here))
        here = legs[-1].points[-1]
    return legs


def plan_leg(layout: Layout, leg: int, here: Point) -> Leg:
    """The shortest way from `here` to where goal `leg` is touched: comfortable, else through the gaps.

    Raises:
        ValueError: It cannot be reached.
    """
    goal = layout.center(layout.goals[leg])
    solid = solid_boxes(layout, leg)
    cores = np.concatenate([solid, forbidden_boxes(layout, leg, 0.0)])
    for clearance in (COMFORTABLE, TIGHT):
        boxes = np.concatenate(
            [widened(solid, clearance.walls), forbidden_boxes(layout, leg, clearance.items)]
        )
        half = layout.size * layout.cell / 2 - PLAYER_RADIUS - clearance.walls
        points = shortest_way(here, goal, _with_room(here, boxes, cores), half=max(half, *map(abs, here)))
        if points is not None:
            points = _until_touched(points, TOUCH_DISTANCE - 1.0)
            length = sum(math.dist(a, b) for a, b in itertools.pairwise(points))
            return Leg(tuple(points), length, clearance)
    raise ValueError(f"goal {leg + 1} of this layout cannot be reached.")


def solvable(layout: Layout) -> bool:
    """Whether all goals can be reached in order, without touching one that would end the episode as a wrong one.

    Most ways lead through cells that hold no such goal, which is quick to see; where none does, the player may
    still pass beside an item, and only the exact geometry tells.
    """
    harmful = FAMILIES[layout.task].wrong_reward is not None
    cells = (layout.start, *layout.goals)
    for index, goal in enumerate(layout.goals):
        avoid = layout.goals[index + 1 :] if harmful else ()
        if way(layout, cells[index], goal, avoid=avoid):
            continue
        try:
            plan_leg(layout, index, layout.center(cells[index]) if index else player_start(layout))
        except ValueError:
            return False
    return True


def solid_boxes(layout: Layout, leg: int) -> np.ndarray:
    """(K, 4) boxes that stop the player's centre on the way to goal `leg`: inner walls, and pillars but the goal."""
    walls = wall_boxes(layout, PLAYER_RADIUS)
    if not FAMILIES[layout.task].hides_last:
        return walls
    pillars = [layout.center(goal) for index, goal in enumerate(layout.goals) if index != leg]
    return np.concatenate([walls, _boxes(pillars, PILLAR_DISTANCE)])


def forbidden_boxes(layout: Layout, leg: int, clearance: float = COMFORTABLE.items) -> np.ndarray:
    """(K, 4) boxes that the player's centre must not enter: around items that it is not yet time for."""
    harmful = FAMILIES[layout.task].wrong_reward is not None
    later = [layout.center(goal) for goal in layout.goals[leg + 1 :]] if harmful else []
    return _boxes(later, TOUCH_DISTANCE + clearance)


def widened(boxes: np.ndarray, margin: float) -> np.ndarray:
    """The boxes with `margin` more on every side."""
    return boxes + np.array([-margin, -margin, margin, margin])


def wall_boxes(layout: Layout, margin: float) -> np.ndarray:
    """(K, 4) boxes of the inner walls, widened by `margin` on every side."""
    half, reach = layout.size * layout.cell / 2, WALL_THICKNESS / 2
    ends = [_ends(wall) for wall in layout.walls]
    upright = {end for pair in ends if pair[0][0] == pair[1][0] for end in pair}
    level = {end for pair in ends if pair[0][1] == pair[1][1] for end in pair}
    rows = []
    for first, last in ends:
        x0, y0, x1, y1 = (index * layout.cell - half for index in (*first, *last))
        # A wall ends at the grid line, or half its thickness behind it where it meets another at an angle.
        before, after = (reach if end in upright and end in level else 0.0 for end in (first, last))
        if first[0] == last[0]:
            rows.append((x0 - reach, y0 - before, x1 + reach, y1 + after))
        else:
            rows.append((x0 - before, y0 - reach, x1 + after, y1 + reach))
    return widened(np.asarray(rows, np.float64).reshape(-1, 4), margin)


def shortest_way(start: Point, goal: Point, boxes: np.ndarray, *, half: float) -> list[Point] | None:
    """The shortest way from `start` to `goal` that enters no box and stays within |x|, |y| <= half; None if none."""
    ends = np.array([start, goal])
    if _inside(ends, boxes).any() or (np.abs(ends) > half).any():
        return None
    nodes = np.concatenate([ends, _bends(boxes, half)])
    order = _search(nodes, boxes)
    return None if order is None else [(float(x), float(y)) for x, y in nodes[order]]


def in_sight(here: Point, places: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """(P,) whether the straight line from `here` to each of `places` (P, 2) enters no box."""
    enter, leave = _crossing(np.array(here), places, boxes)
    return np.asarray(~(enter < leave).any(axis=1))


def _until_touched(points: list[Point], distance: float) -> list[Point]:
    """`points` up to where the last of them, the goal, is as near as `distance` along both axes."""
    box = _boxes(points[-1:], distance)
    for index, (a, b) in enumerate(itertools.pairwise(np.array(points))):
        enter, leave = _crossing(a, b[None], box)
        if enter < leave:
            x, y = a + enter[0, 0] * (b - a)
            return [*points[: index + 1], (float(x), float(y))]
    return points


def _ends(wall: Wall) -> tuple[tuple[int, int], tuple[int, int]]:
    """The crossings of grid lines (column line, row line) that `wall` runs between."""
    (column, row), second = wall
    if second.column > column:
        return (second.column, row), (second.column, row + 1)
    return (column, second.row), (column + 1, second.row)


def _boxes(centers: list[Point], half: float) -> np.ndarray:
    middle = np.asarray(centers, np.float64).reshape(-1, 2)
    return np.concatenate([middle - half, middle + half], axis=1)


def _inside(points: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """(P, K): whether point p lies inside box k, its faces excluded."""
    low, high = boxes[:, :2] + SLACK, boxes[:, 2:] - SLACK
    return np.all((points[:, None] > low) & (points[:, None] < high), axis=2)


def _with_room(here: Point, boxes: np.ndarray, cores: np.ndarray) -> np.ndarray:
    """`boxes` for one who stands at `here`, perhaps nearer to one of them than one would walk.

    Of a box that holds `here` its core counts, the box without the clearance; and should rounding have put the
    player into the core, the core is cut back to where the player is.
    """
    boxes = np.where(_inside(np.array([here]), boxes).T, cores, boxes)
    for box in np.flatnonzero(_inside(np.array([here]), boxes)[0]):
        face = int(np.abs(boxes[box] - np.tile(here, 2)).argmin())
        boxes[box, face] = here[face % 2]
    return boxes


def _bends(boxes: np.ndarray, half: float) -> np.ndarray:
    """(P, 2) corners that a shortest way can bend at: those with one quarter of their surroundings in boxes."""
    x0, y0, x1, y1 = boxes.T
    corners = np.stack([np.r_[x0, x0, x1, x1], np.r_[y0, y1, y0, y1]], axis=1)
    corners = np.unique(corners[(np.abs(corners) <= half).all(axis=1)], axis=0)
    steps = 0.01 * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)])
    filled = sum(_inside(corners + step, boxes).any(axis=1).astype(int) for step in steps)
    return corners[filled == 1]


def _crossing(origin: np.ndarray, targets: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P, K) each: which part, from `enter` to `leave` in [0, 1], of the line origin-target p is inside box k.

    It is not inside at all where enter >= leave (the slab test).
    """
    enter, leave = np.zeros((len(targets), len(boxes))), np.ones((len(targets), len(boxes)))
    for axis in (0, 1):
        low, high = boxes[:, axis] + SLACK - origin[axis], boxes[:, axis + 2] - SLACK - origin[axis]
        along = targets[:, axis, None] - origin[axis]
        still = along == 0
        a, b = low / np.where(still, 1.0, along), high / np.where(still, 1.0, along)
        # A line along the other axis is within this pair of faces everywhere or nowhere.
        within = np.where((low < 0) & (high > 0), np.inf, -np.inf)
        enter = np.maximum(enter, np.where(still, -within, np.minimum(a, b)))
        leave = np.minimum(leave, np.where(still, within, np.maximum(a, b)))
    return enter, leave


def _search(nodes: np.ndarray, boxes: np.ndarray) -> list[int] | None:
    """A* from node 0 to node 1 over lines that enter no box; lines are tested only when they would help."""
    ahead = np.hypot(*(nodes - nodes[1]).T)
    best = np.full(len(nodes), np.inf)
    best[0] = 0.0
    came = {0: 0}
    done: set[int] = set()
    heap = [(float(ahead[0]), 0)]
    while heap:
        here = heapq.heappop(heap)[1]
        if here == 1:
            order = [1]
            while order[-1] != 0:
                order.append(came[order[-1]])
            return order[::-1]
        if here in done:
            continue
        done.add(here)
        through = best[here] + np.hypot(*(nodes - nodes[here]).T)
        better = np.flatnonzero(through < best)
        enter, leave = _crossing(nodes[here], nodes[better], boxes)
        for other in better[~(enter < leave).any(axis=1)].tolist():
            best[other] = through[other]
            came[other] = here
            heapq.heappush(heap, (float(through[other] + ahead[other]), other))
    return None
