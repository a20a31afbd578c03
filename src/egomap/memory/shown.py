"""What of a memory can be shown: how to read the pictures in its trace. The inspector knows no memory but by this.

Input: any memory. Output: a `Shown`. A memory tells it by a property `shown`; one that wraps another
adds its own to `shown(inner)`. Without the property only the decision and the recurrent state are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple


class ShownMap(NamedTuple):
    """A learned map.

    With frame "ego" the trace holds `map_ego` (N, C, size, size), `known_ego` and, with a query, `attention`,
    `query_position` and `beta`. With frame "world" it holds `map_world` (N, tiles, C, size, size), `attention`, and
    `row`, the vector that was written to, (row * size + column) * tiles + tile.
    """

    frame: Literal["ego", "world"]
    extent: float
    """Side of the square that a tile covers, in map units."""
    tiles: tuple[str, ...] = ("",)
    """Their names."""


class ShownPlanes(NamedTuple):
    """Planes of given meaning around the agent, which is in the centre and faces up.

    The trace holds `place_near` (N, planes, window, window): from 0 to 1, or from -1 to 1 if signed.
    """

    names: tuple[str, ...]
    signed: tuple[bool, ...]
    extent: float
    """Side of the square that the window covers, in map units."""


class ShownGuides(NamedTuple):
    """Guides that the policy may select instead of its own action.

    The trace holds `ways` (N, guides with a way, 3): right and forward of the direction of each way, in the agent's
    frame, and its length in decisions; 0 where there is none. With a pointer, which comes last and has no way of its
    own, it holds `pointing` (N, size, size), the attention over the cells of the map in the agent's frame.
    """

    names: tuple[str, ...]


class Shown(NamedTuple):
    """All that can be shown."""

    map: ShownMap | None = None
    planes: ShownPlanes | None = None
    guides: ShownGuides | None = None
    words: Mapping[str, str] = MappingProxyType({})
    """Sizes and the like in words, by name."""


def shown(memory: Any) -> Shown:
    """What a memory declares by a property `shown`; nothing without it."""
    return getattr(memory, "shown", Shown())
