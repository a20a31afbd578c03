"""The worlds that can be played: maps of a generated set, or of any ViZDoom files.

What comes in: a scenario set and a split, or one or many `.cfg` files. What goes out: `Worlds`, maps each with its
files, an identity, the centre of its arena and, where known, its layout. Files are checked here, before any engine
sees them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egomap.config import require
from egomap.scenarios.cfg import read_cfg
from egomap.scenarios.check import inspect_wad, map_names, require_map
from egomap.scenarios.dataset import ScenarioSet
from egomap.scenarios.layout import Layout

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class World:
    """One map to play on."""

    cfg: Path
    wad: Path
    map_name: str
    id: str
    """The layout's hash, or the name of the file (and map) that it came from."""
    center: tuple[float, float]
    """The arena's centre in the engine's coordinates; poses are relative to it."""
    extent: float
    """The longer side of the arena in map units."""
    layout: Layout | None = None


@dataclass(frozen=True)
class Worlds(Sequence[World]):
    """Maps to play on, in order."""

    worlds: tuple[World, ...]

    def __len__(self) -> int:
        return len(self.worlds)

    def __getitem__(self, index: int) -> World:  # type: ignore[override]
        return self.worlds[index]

    @property
    def extent(self) -> float:
        """The longest side of all arenas: a map that covers it covers every layout."""
        return max(world.extent for world in self.worlds)

    def first(self, count: int | None) -> Worlds:
        """The first so many of them; all with None."""
        return self if count is None else Worlds(self.worlds[:count])


def worlds_of_set(scenarios: ScenarioSet, split: str) -> Worlds:
    """The worlds of one split of a generated set."""
    layouts = scenarios.layouts.get(split, ())
    require(
        len(layouts) > 0,
        f"the set in {scenarios.folder} has no layouts in split {split!r}; it has "
        f"{', '.join(f'{name} ({len(found)})' for name, found in scenarios.layouts.items())}.",
    )
    cfg, wad = scenarios.cfg(split), scenarios.wad(split)
    return Worlds(
        tuple(
            World(
                cfg,
                wad,
                scenarios.map_name(i),
                layout.hash,
                (0.0, 0.0),
                float(layout.size * layout.cell),
                layout,
            )
            for i, layout in enumerate(layouts)
        )
    )


def worlds_of_files(config: PathLike | Sequence[PathLike]) -> Worlds:
    """The worlds of any ViZDoom `.cfg`, of several, or of a glob pattern.

    One file: every map of its WAD, the configured one first. Several: the configured map of each. An engine that goes
    from one file to another restarts (0.3 s): maps cannot be merged into one WAD, because a script may name its
    own map by number, and would then do nothing without a word.
    """
    paths = _expand(config)
    apart = len({path.parent for path in paths}) > 1
    worlds: list[World] = []
    for path in paths:
        title = f"{path.parent.name}/{path.stem}" if apart else path.stem
        worlds += _worlds_of(path, title, all_maps=len(paths) == 1)
    return Worlds(tuple(worlds))


def _expand(config: PathLike | Sequence[PathLike]) -> list[Path]:
    parts = [config] if isinstance(config, (str, os.PathLike)) else list(config)
    paths: list[Path] = []
    for part in parts:
        text = os.fspath(part)
        found = sorted(glob.glob(text)) if glob.has_magic(text) else [text]
        require(bool(found), f"no file matches {text!r}.")
        paths.extend(Path(name) for name in found)
    require(bool(paths), "no .cfg file was given.")
    return paths


def _worlds_of(path: Path, title: str, *, all_maps: bool) -> list[World]:
    """The map that a `.cfg` plays and, if asked for, the others of its WAD after it."""
    cfg = read_cfg(path)
    configured = cfg.map
    if "doommap" not in cfg.settings:  # the engine's own choice, if there is such a map
        names = map_names(cfg.wad)
        configured = cfg.map if cfg.map in names else names[0]
    first = require_map(cfg.wad, configured).name
    maps = inspect_wad(cfg.wad) if all_maps else {first: require_map(cfg.wad, first)}
    worlds = []
    for name in (first, *(name for name in maps if name != first)):
        left, bottom, right, top = maps[name].bounds
        extent = max(right - left, top - bottom)
        worlds.append(World(path, cfg.wad, name, f"{title}:{name}", maps[name].center, extent))
    return worlds
