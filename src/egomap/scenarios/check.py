"""Checks of scenario files by reading them, before an engine is allowed near them.

What comes in: paths of WADs and .cfg files, ours or foreign. What goes out: what is inside, or a ValueError
of one sentence that names the file. The engine answers a broken WAD by playing another map, a broken map by
crashing Python, and a missing map by hanging; so everything those faults depend on is looked at here. Maps
may be UDMF or the binary Doom and Hexen formats. Scripts are not checked, and nothing is repaired.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from egomap.scenarios.cfg import ScenarioFile, read_cfg
from egomap.scenarios.udmf_reader import parse_textmap
from egomap.scenarios.wad import Lump, read_wad

__all__ = ["MapInfo", "ScenarioFile", "Start", "inspect_wad", "map_names", "read_cfg", "require_map"]

PLAYER_START = 1
# The lumps that follow a binary map's name, in this order; later ones (nodes, BEHAVIOR) may be missing.
BINARY_LUMPS = ("THINGS", "LINEDEFS", "SIDEDEFS", "VERTEXES")


class Start(NamedTuple):
    """A start of player 1: map units and degrees counter-clockwise from +x."""

    x: float
    y: float
    angle: float


@dataclass(frozen=True)
class MapInfo:
    """What a map is like, as far as it can be read without playing it."""

    name: str
    format: Literal["udmf", "doom", "hexen"]
    bounds: tuple[float, float, float, float]
    """Smallest x, smallest y, largest x, largest y of the vertices, in map units."""
    starts: tuple[Start, ...]
    """Starts of player 1, at least one."""

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the bounds."""
        left, bottom, right, top = self.bounds
        return (left + right) / 2, (bottom + top) / 2


def inspect_wad(path: Path) -> dict[str, MapInfo]:
    """Read every map of the WAD at `path`; returns them by name, in the order of the file.

    Raises:
        ValueError: Not a WAD, truncated, without maps, or with a map that the engine could not load.
    """
    return {name: _inspect(name, lumps, path) for name, lumps in _maps(path).items()}


def map_names(path: Path) -> list[str]:
    """The names of the maps of the WAD at `path`, in the order of the file; nothing is looked into."""
    return list(_maps(path))


def require_map(path: Path, name: str) -> MapInfo:
    """The map `name` (in any case) of the WAD at `path`; the other maps are not looked into.

    Raises:
        ValueError: As `inspect_wad`, or there is no such map; the message lists some that there are.
    """
    maps = _maps(path)
    if name.upper() not in maps:
        some = ", ".join(list(maps)[:5]) + (f", ... ({len(maps)} in all)" if len(maps) > 5 else "")
        raise ValueError(f"{path} has no map {name!r:.80}; it has {some}.")
    return _inspect(name.upper(), maps[name.upper()], path)


def _maps(path: Path) -> dict[str, list[Lump]]:
    """Each map's name and the lumps that belong to it."""
    lumps = read_wad(path)
    names = [lump.name for lump in lumps]
    maps: dict[str, list[Lump]] = {}
    for index, lump in enumerate(lumps[:-1]):
        if names[index + 1] == "TEXTMAP":
            end = index + 2
            while end < len(names) and names[end] not in ("ENDMAP", "TEXTMAP"):
                end += 1
            if names[end : end + 1] != ["ENDMAP"]:
                raise ValueError(f"map {lump.name} of {path} has no ENDMAP.")
            maps[lump.name] = lumps[index + 1 : end]
        elif names[index + 1] == BINARY_LUMPS[0]:
            # THINGS to BLOCKMAP are ten lumps, BEHAVIOR an eleventh.
            maps[lump.name] = lumps[index + 1 : index + 12]
    if not maps:
        raise ValueError(f"{path} holds no map.")
    return maps


def _inspect(name: str, lumps: list[Lump], path: Path) -> MapInfo:
    where = f"map {name} of {path}"
    if lumps[0].name == "TEXTMAP":
        return _udmf(name, lumps[0].data, where)
    return _binary(name, lumps, where)


def _udmf(name: str, data: bytes, where: str) -> MapInfo:
    blocks = parse_textmap(data, where)

    def number(block: dict[str, object], kind: str, key: str, default: float | None = None) -> float:
        value = block.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"a {kind} in {where} has {key} = {value!r:.80}, which is not a number.")
        return value

    def refer(kind: str, key: str, to: str, *, optional: bool = False) -> None:
        """Check that field `key` of every `kind` counts an existing `to`; a wrong one crashes the engine."""
        for block in blocks.get(kind, []):
            index = number(block, kind, key, -1)
            if index != int(index):
                raise ValueError(f"a {kind} in {where} has {key} = {index}, which is not a whole number.")
            if not (0 <= index < len(blocks.get(to, [])) or (optional and index == -1)):
                raise ValueError(f"a {kind} in {where} names {to} {index:.0f}, which does not exist.")

    refer("linedef", "v1", "vertex")
    refer("linedef", "v2", "vertex")
    refer("linedef", "sidefront", "sidedef")
    refer("linedef", "sideback", "sidedef", optional=True)
    refer("sidedef", "sector", "sector")
    points = [(number(block, "vertex", "x"), number(block, "vertex", "y")) for block in blocks["vertex"]]
    starts = [
        Start(number(thing, "thing", "x"), number(thing, "thing", "y"), number(thing, "thing", "angle", 0.0))
        for thing in blocks.get("thing", [])
        if thing.get("type") == PLAYER_START
    ]
    return _info(name, "udmf", points, starts, where)


def _binary(name: str, lumps: list[Lump], where: str) -> MapInfo:
    if tuple(lump.name for lump in lumps[:4]) != BINARY_LUMPS:
        raise ValueError(f"{where} lacks one of the lumps {', '.join(BINARY_LUMPS)}.")
    hexen = len(lumps) > 10 and lumps[10].name == "BEHAVIOR"
    # Records: Doom x, y, angle, type, flags; Hexen has an id before and the height after the place.
    things = _records(lumps[0], "<2x2h2x2h8x" if hexen else "<4h2x", where)
    lines = _records(lumps[1], "<2H8x2H" if hexen else "<2H6x2H", where)
    sides = _records(lumps[2], "<30x", where)
    points = _records(lumps[3], "<2h", where)
    for v1, v2, front, back in lines:
        if max(v1, v2) >= len(points) or front >= len(sides) or (back != 0xFFFF and back >= len(sides)):
            raise ValueError(f"a line in {where} names a vertex or side that does not exist.")
    starts = [Start(float(x), float(y), float(a)) for x, y, a, kind in things if kind == PLAYER_START]
    return _info(name, "hexen" if hexen else "doom", [(float(x), float(y)) for x, y in points], starts, where)


def _records(lump: Lump, layout: str, where: str) -> list[tuple[int, ...]]:
    if len(lump.data) % struct.calcsize(layout):
        raise ValueError(f"{lump.name} in {where} has {len(lump.data)} bytes, not a whole number of records.")
    return list(struct.iter_unpack(layout, lump.data))


def _info(
    name: str,
    kind: Literal["udmf", "doom", "hexen"],
    points: Sequence[tuple[float, float]],
    starts: Sequence[Start],
    where: str,
) -> MapInfo:
    if len(points) < 3:
        raise ValueError(f"{where} has {len(points)} vertices; a room needs at least 3.")
    if not starts:
        raise ValueError(f"{where} has no start for player 1 (a thing of type 1).")
    xs, ys = zip(*points, strict=True)
    return MapInfo(name, kind, (min(xs), min(ys), max(xs), max(ys)), tuple(starts))
