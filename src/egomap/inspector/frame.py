"""The inspector's panels as one picture, for videos and for the window of `egomap play`.

Input: a `Moment`, all that is shown of one decision. Output: a PIL image of 1280 x 720. Drawn with PIL
alone, about a hundred a second; letters are matplotlib's own DejaVu, which is everywhere that we are.

Convention: screen x right, y down; world places are turned over on their way to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from egomap.inspector.events import Event
from egomap.inspector.figure import sheet
from egomap.inspector.floor_plan import DARK, floor_plan
from egomap.inspector.recording import ACTIONS
from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import wall_boxes
from egomap.scenarios.tasks import goal_looks
from egomap.scenarios.udmf import WALL_THICKNESS

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

WIDTH, HEIGHT = 1280, 720
PAPER, CARD, INK, SOFT, FILL = "#0f1216", "#171b21", "#e9ebee", "#98a2ad", "#272d35"
ACCENT, WALL, GROUND, WAY = "#ff922b", "#8a95a1", "#20262e", "#66d9e8"
EMPTY = (39, 45, 53)

VIEW = (24, 78, 448, 256)
DEPTH = (24, 372, 448, 256)
MEMORY = (
    ((496, 78, 266, 266), (496, 378, 266, 266)),
    ((496, 78, 172, 172), (496, 276, 172, 172), (496, 474, 172, 172)),
)
"""Boxes of up to two panels of the memory, and of three."""
ABOVE = (786, 78, 470, 404)


class Moment(NamedTuple):
    """One decision as it is shown; None where an agent has no such thing."""

    title: str
    subtitle: str
    rgb: np.ndarray
    depth: np.ndarray
    farthest: float
    way: np.ndarray
    """(t + 1, 3) true poses so far, this one last."""
    layout: Layout | None
    arena: float
    reached: np.ndarray
    """(goals,) bool."""
    reward: float
    action: int | None
    probabilities: np.ndarray | None = None
    value: float | None = None
    beta: float | None = None
    colours: np.ndarray | None = None
    """(tiles, size, size, 3) uint8 of the map."""
    known: np.ndarray | None = None
    attention: np.ndarray | None = None
    position: np.ndarray | None = None
    pointing: np.ndarray | None = None
    """(size, size) the pointer's attention over the map."""
    followed: str | None = None
    """The selection, in words."""
    rings: np.ndarray | None = None
    """(goals, 2) where the goals are in the map, right and ahead, -1 to 1 within it."""
    planes: np.ndarray | None = None
    """(planes, window, window) values of the places."""
    decision: int = 0
    decisions: int | None = None
    """In all, if that is known."""
    events: Sequence[Event] = ()


def paint(moment: Moment) -> Image:
    """The picture of one decision."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(picture)
    draw.text((24, 14), moment.title, INK, _font(20, bold=True))
    draw.text((24, 40), moment.subtitle, SOFT, _font(12))
    _label(draw, VIEW, "view")
    _paste(picture, moment.rgb, VIEW)
    _label(draw, DEPTH, "depth: bright is near")
    _paste(picture, _depth_picture(moment.depth, moment.farthest), DEPTH)
    above = ABOVE
    panels = _memory_panels(moment)
    for panel, box in zip(panels, MEMORY[len(panels) > 2], strict=False):
        _label(draw, box, panel.label)
        _paste(picture, panel.pixels, box)
        _mark(draw, panel, box)
        if panel.of_map:
            _draw_rings(draw, moment, box)
    if not panels:
        above = (520, 78, 736, 404)
    _label(draw, above, "from above")
    _draw_above(draw, moment, above)
    _draw_decision(draw, moment, above[0])
    _draw_time(draw, moment)
    return picture


class _Panel(NamedTuple):
    """A picture of the memory."""

    label: str
    pixels: np.ndarray
    tiles: int = 1
    position: np.ndarray | None = None
    of_map: bool = True


def _memory_panels(moment: Moment) -> list[_Panel]:
    """Map, attention (the pointer's, if it has one, for the agent acts on that) and places, as far as it has them."""
    found = []
    if moment.colours is not None and moment.known is not None:
        tiles, arrow = len(moment.colours), moment.position
        cells = np.where(moment.known[..., None], moment.colours, np.array(EMPTY, np.uint8))
        found.append(_Panel("memory map: principal components", sheet(cells), tiles, arrow))
        if moment.pointing is not None:
            label = f"pointer: at most {100 * moment.pointing.max():.2f} % in a cell"
            found.append(_Panel(label, _heat(moment.pointing)))
        elif moment.attention is not None:
            label = f"attention: at most {100 * moment.attention.max():.2f} % in a cell"
            found.append(_Panel(label, _heat(sheet(moment.attention[..., None])[..., 0]), tiles, arrow))
    if moment.planes is not None:
        plan = floor_plan(moment.planes, DARK)
        found.append(_Panel("places: floor, walls, trail", plan, of_map=False))
    return found


def _draw_decision(draw: ImageDraw, moment: Moment, left: int) -> None:
    top, bar = 500, 118
    for index, name in enumerate(ACTIONS):
        y, taken = top + 25 * index, index == moment.action
        draw.text((left, y), name, ACCENT if taken else INK, _font(13, bold=taken))
        if moment.probabilities is not None:
            share = float(moment.probabilities[index])
            box = (left + 112, y + 3, left + 112 + bar, y + 14)
            draw.rounded_rectangle(box, 5, FILL)
            if share * bar >= 2:
                draw.rounded_rectangle((*box[:2], box[0] + share * bar, box[3]), 5, ACCENT if taken else SOFT)
            draw.text((left + 240, y), f"{100 * share:3.0f} %", SOFT, _font(12))
        elif taken:
            draw.text((left + 112, y), "●", ACCENT, _font(12))
    rows = [("reward so far", f"{moment.reward:.3f}")]
    if moment.value is not None:
        rows.append(("value", f"{moment.value:.3f}"))
    if moment.followed is not None:
        rows.append(("follows", moment.followed))
    elif moment.beta is not None:
        rows.append(("beta", f"{moment.beta:.2f}"))
    for index, (name, text) in enumerate(rows):
        draw.text((left + 306, top + 38 * index), name, SOFT, _font(11))
        draw.text((left + 306, top + 13 + 38 * index), text, INK, _font(16, bold=True))


def _draw_time(draw: ImageDraw, moment: Moment) -> None:
    y, left, right = 688, 24, 1180
    last = max((moment.decisions or 526) - 1, 1)
    draw.rounded_rectangle((left, y, right, y + 6), 3, FILL)
    here = left + (right - left) * min(moment.decision / last, 1.0)
    draw.rounded_rectangle((left, y, max(here, left + 6), y + 6), 3, ACCENT)
    for event in moment.events:
        x = left + (right - left) * event.decision / last
        draw.line((x, y - 14, x, y + 6), event.colour or SOFT, 2)
        late = event.decision > 0.75 * last
        draw.text(
            (x - 5 if late else x + 5, y - 16), event.name, SOFT, _font(11), anchor="ra" if late else "la"
        )
    of = "" if moment.decisions is None else f" / {moment.decisions - 1}"
    draw.text((1256, y - 6), f"{moment.decision}{of}", INK, _font(14, bold=True), anchor="ra")


def _mark(draw: ImageDraw, panel: _Panel, box: tuple[int, int, int, int]) -> None:
    """The agent in the middle and the arrow to what it reads; or the seams between several tiles."""
    left, top, width, height = box
    x, y = left + width / 2, top + height / 2
    if panel.tiles > 1:
        draw.line((x, top, x, top + height), PAPER, 3)
        draw.line((left, y, left + width, y), PAPER, 3)
        return
    _wedge(draw, x, y, math.pi / 2, 8)
    if panel.position is not None:
        right, ahead = (float(value) for value in panel.position)
        _arrow(draw, (x, y), (x + right * width / 2, y - ahead * height / 2), "#ffffff")


def _draw_rings(draw: ImageDraw, moment: Moment, box: tuple[int, int, int, int]) -> None:
    """A ring where each goal is that lies within the map, as it is drawn from above."""
    left, top, width, height = box
    if moment.rings is None or moment.layout is None:
        return
    looks = goal_looks(moment.layout)
    for (right, ahead), look, done in zip(moment.rings.tolist(), looks, moment.reached, strict=True):
        if max(abs(right), abs(ahead)) < 1:
            x, y = left + (1 + right) * width / 2, top + (1 - ahead) * height / 2
            draw.circle((x, y), 9, None, "#000000", 5)
            draw.circle((x, y), 8, None, SOFT if done else look.colour, 3)


def _draw_above(draw: ImageDraw, moment: Moment, box: tuple[int, int, int, int]) -> None:
    left, top, width, height = box
    side = min(width, height)
    half = moment.arena / 2 + WALL_THICKNESS
    scale = side / (2 * half)
    x0, y0 = left + (width - side) / 2, top

    def screen(x: float, y: float) -> tuple[float, float]:
        return x0 + (x + half) * scale, y0 + (half - y) * scale

    def box_of(west: float, south: float, east: float, north: float) -> tuple[float, ...]:
        return (*screen(west, north), *screen(east, south))

    arena = moment.arena / 2
    draw.rectangle(box_of(-half, -half, half, half), WALL if moment.layout is not None else FILL)
    draw.rectangle(box_of(-arena, -arena, arena, arena), GROUND)
    layout = moment.layout
    if layout is not None:
        for wall in wall_boxes(layout, 0.0).tolist():
            draw.rectangle(box_of(*wall), WALL)
    places = [screen(x, y) for x, y, _ in moment.way.tolist()]
    if len(places) > 1:
        draw.line(places, WAY, 3, joint="curve")
    if layout is not None:
        for index, (goal, look) in enumerate(zip(layout.goals, goal_looks(layout), strict=True)):
            x, y = screen(*layout.center(goal))
            done = bool(moment.reached[index])
            draw.circle((x, y), 9, GROUND if done else look.colour, look.colour, 3)
            if len(layout.goals) > 2:
                draw.text((x, y), str(index + 1), INK, _font(11, bold=True), anchor="mm")
    _wedge(draw, *places[-1], float(moment.way[-1, 2]), 11)


def _wedge(draw: ImageDraw, x: float, y: float, phi: float, size: float) -> None:
    """The agent at screen x, y, facing phi (counter-clockwise from right)."""
    outline = ((0.0, size), (2.45, size), (math.pi, 0.35 * size), (-2.45, size))  # (turn, reach)
    corners = [
        (x + reach * math.cos(phi + turn), y - reach * math.sin(phi + turn)) for turn, reach in outline
    ]
    draw.polygon(corners, ACCENT, "#ffffff")


def _arrow(draw: ImageDraw, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    if length < 4:
        return  # it would only hide the agent
    for ink, width in (("#000000", 5), (colour, 2)):
        draw.line((*start, *end), ink, width)
        head = min(9.0, 0.6 * length)
        for turn in (2.6, -2.6):
            angle = math.atan2(dy, dx) + turn
            tip = (end[0] + head * math.cos(angle), end[1] + head * math.sin(angle))
            draw.line((*end, *tip), ink, width)


def _paste(picture: Image, pixels: np.ndarray, box: tuple[int, int, int, int]) -> None:
    from PIL import Image

    left, top, width, height = box
    small = Image.fromarray(np.ascontiguousarray(pixels, dtype=np.uint8))
    picture.paste(small.resize((width, height), Image.Resampling.NEAREST), (left, top))


def _label(draw: ImageDraw, box: tuple[int, int, int, int], text: str) -> None:
    draw.text((box[0], box[1] - 18), text, SOFT, _font(12))


def _depth_picture(depth: np.ndarray, farthest: float) -> np.ndarray:
    known = np.isfinite(depth)
    shares = np.clip(np.where(known, depth, 0.0) / farthest, 0.0, 1.0)
    shown = _table("cividis_r")[np.round(255 * shares).astype(np.uint8)]
    return np.where(known[..., None], shown, np.array(EMPTY, np.uint8))


def _heat(attention: np.ndarray) -> np.ndarray:
    return _table("inferno")[np.round(255 * attention / attention.max()).astype(np.uint8)]


@cache
def _table(name: str) -> np.ndarray:
    from matplotlib import colormaps

    return np.round(colormaps[name](np.arange(256))[:, :3] * 255).astype(np.uint8)


@cache
def _font(size: int, *, bold: bool = False) -> FreeTypeFont:
    from pathlib import Path

    from matplotlib import get_data_path
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / name), size)
