"""The worlds that can be played: maps of a generated set, or of anybody's ViZDoom files.

What comes in: a scenario set and a split, or one or many `.cfg` files. What goes out: `Worlds`, a checked cfg and
WAD with its maps, each with an identity, the centre of its arena and, where known, its layout. Files are checked
here, before an engine sees them.
"""

from __future__ import annotations

import glob
import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egomap.config import require
from egomap.envs.trial import require_playable
from egomap.scenarios.cfg import read_cfg
from egomap.scenarios.check import MapInfo, inspect_wad, require_map
from egomap.scenarios.dataset import ScenarioSet, cache_folder
from egomap.scenarios.layout import Layout
from egomap.scenarios.wad import Lump, read_wad, write_wad

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class World:
    """One map to play on."""

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
    """The maps of one WAD, in order."""

    cfg: Path
    wad: Path
    worlds: tuple[World, ...]

    def __len__(self) -> int:
        return len(self.worlds)

    def __getitem__(self, index: int) -> World:  # type: ignore[override]
        return self.worlds[index]

    @property
    def extent(self) -> float:
        """The longest side of all arenas: a map that covers it covers every layout."""
        return max(world.extent for world in self.worlds)


def worlds_of_set(scenarios: ScenarioSet, split: str) -> Worlds:
    """The worlds of one split of a generated set."""
    layouts = scenarios.layouts.get(split, ())
    require(
        len(layouts) > 0,
        f"the set in {scenarios.folder} has no layouts in split {split!r}; it has "
        f"{', '.join(f'{name} ({len(found)})' for name, found in scenarios.layouts.items())}.",
    )
    worlds = tuple(
        World(scenarios.map_name(i), layout.hash, (0.0, 0.0), float(layout.size * layout.cell), layout)
        for i, layout in enumerate(layouts)
    )
    return Worlds(scenarios.cfg(split), scenarios.wad(split), worlds)


def worlds_of_files(config: PathLike | Sequence[PathLike]) -> Worlds:
    """The worlds of any ViZDoom `.cfg`, of several, or of a glob pattern.

    One file: every map of its WAD, the configured one first. Several: the configured map of each; they are put
    together in one WAD of ours, so that an engine changes between them in milliseconds.
    """
    paths = _expand(config)
    worlds = _merge(paths) if len(paths) > 1 else _single(paths[0])
    require_playable(worlds.cfg, worlds.wad, [world.map_name for world in worlds])
    return worlds


def _single(path: Path) -> Worlds:
    wad, first, maps = _open(path)
    names = [first, *(name for name in maps if name != first)]
    return Worlds(path, wad, tuple(_world(path, name, maps[name]) for name in names))


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


def _open(path: Path) -> tuple[Path, str, dict[str, MapInfo]]:
    """The WAD of a `.cfg`, the map that it plays, and all maps of the WAD."""
    cfg = read_cfg(path)
    maps = inspect_wad(cfg.wad)
    if "doommap" in cfg.settings:
        return cfg.wad, require_map(cfg.wad, cfg.map).name, maps
    return cfg.wad, cfg.map if cfg.map in maps else next(iter(maps)), maps


def _world(path: Path, map_name: str, info: MapInfo) -> World:
    left, bottom, right, top = info.bounds
    return World(map_name, f"{path.stem}:{info.name}", info.center, max(right - left, top - bottom))


def _require_equal_settings(paths: list[Path]) -> None:
    """One engine plays all the maps, so all must be played by the same rules."""
    settings = [read_cfg(path).settings for path in paths]
    for path, other in zip(paths, settings, strict=True):
        for key in sorted((settings[0].keys() | other.keys()) - {"doomscenariopath", "doommap"}):
            ours, theirs = settings[0].get(key, "nothing"), other.get(key, "nothing")
            require(
                ours == theirs,
                f"{paths[0]} sets {key} to {ours} and {path} to {theirs}; play them apart.",
            )


def _merge(paths: list[Path]) -> Worlds:
    _require_equal_settings(paths)
    lumps: list[Lump] = []
    worlds: list[World] = []
    for number, path in enumerate(paths, start=1):
        wad, original, maps = _open(path)
        require(maps[original].format == "udmf", f"{wad} is not a UDMF map; play such a file alone.")
        name = f"MAP{number:02d}"
        found = read_wad(wad)
        begin = next(i for i, lump in enumerate(found) if lump.name == original)
        end = next(i for i in range(begin, len(found)) if found[i].name == "ENDMAP")
        lumps += [Lump(name, b""), *found[begin + 1 : end + 1]]
        worlds.append(_world(path, name, maps[original]))
    data = write_wad(lumps)
    # Named by its content: two processes that merge the same files share one.
    target = cache_folder() / "merged" / f"{hashlib.sha256(data).hexdigest()[:32]}.wad"
    if not target.exists() or target.read_bytes() != data:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as scratch:
            scratch.write(data)
        os.replace(scratch.name, target)
    return Worlds(paths[0], target, tuple(worlds))
