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
from typing import Any

from egomap.config import ScenarioConfig, Task, require
from egomap.scenarios.cfg import read_cfg
from egomap.scenarios.check import inspect_wad, map_names, require_map
from egomap.scenarios.dataset import ScenarioSet, default_set, load
from egomap.scenarios.export import MANIFEST
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


def find_worlds(
    *,
    task: Task | None = None,
    size: int | None = None,
    items: int | None = None,
    split: str = "train",
    scenarios: PathLike | ScenarioSet | None = None,
    config: PathLike | Sequence[PathLike] | None = None,
) -> Worlds:
    """The worlds that the options name.

    Args:
        task: the family; with no `scenarios` the default set of that family is generated once and cached.
        size: cells per side of the default set (labyrinth, find-return: 9; ordered-items: 5).
        items: items of the default ordered-items set.
        split: "train" or "test".
        scenarios: a generated set or its folder, instead of the default one.
        config: any ViZDoom `.cfg` (or several, or a glob pattern), instead of a generated set.
    """
    if config is not None:
        require(
            scenarios is None and size is None and items is None,
            "`config` goes with no other scenario option.",
        )
        return worlds_of_files(config)
    if scenarios is None:
        require(task is not None, "give `config`, the .cfg file to play.")
        assert task is not None
        chosen = ScenarioConfig.default(task, size=size, items=items).validate()
        return worlds_of_set(default_set(chosen), split)
    require(
        size is None and items is None,
        "`size` and `items` belong to the default set; `scenarios` has its own.",
    )
    found = scenarios if isinstance(scenarios, ScenarioSet) else load(Path(scenarios))
    require(
        task is None or found.config.task == task,
        f"the set in {found.folder} is of task {found.config.task}; this environment is {task}.",
    )
    return worlds_of_set(found, split)


def worlds_at(places: str | Sequence[str], *, task: Task | None = None, split: str = "train") -> Worlds:
    """The worlds in a folder of `egomap generate`, in a folder of `.cfg` files, or in such files.

    Args:
        places: One folder, or files and glob patterns.
        task: The family that a generated set must be of.
        split: Of a generated set; `.cfg` files have none, and are the same worlds in every split.
    """
    named = [places] if isinstance(places, str) else list(places)
    if len(named) == 1 and Path(named[0]).is_dir():
        folder = Path(named[0])
        files = [] if (folder / MANIFEST).exists() else sorted(folder.glob("*.cfg"))
        if not files:
            return find_worlds(task=task, scenarios=folder, split=split)
        return find_worlds(config=files)
    return find_worlds(config=named)


def is_set(place: str) -> bool:
    """Whether scenarios are to be a set of `egomap generate`, and not anybody's `.cfg` files."""
    folder = Path(place)
    return (folder / MANIFEST).exists() or (
        folder.suffix != ".cfg" and not glob.has_magic(place) and not any(folder.glob("*.cfg"))
    )


def named_worlds(
    task: Task | None,
    size: int | None,
    items: int | None,
    scenarios: Sequence[str],
    split: str,
    *,
    trained: Sequence[ScenarioConfig] = (),
) -> Worlds:
    """The worlds that the scenario options of a command name: --scenario, --size, --items, --scenarios, --split.

    Args:
        task: The family; None: as the agents were trained, or labyrinth where there are none.
        size: Cells along each side; None: as they were trained, if the family is theirs, or the family's own.
        items: The same for the items of ordered-items.
        scenarios: Places as `worlds_at` takes them, instead of a default set.
        split: "train" or "test".
        trained: What the agents that play were trained for.
    """
    if scenarios:
        require(
            size is None and items is None,
            "--size and --items belong to --scenario; --scenarios has its own.",
        )
        return worlds_at(scenarios, task=task, split=split)
    if trained and task is None:
        task = _common(trained, "task")
        items = _common(trained, "items") if items is None and task == "ordered-items" else items
        size = _common(trained, "size") if size is None else size
    return find_worlds(task=task or "labyrinth", size=size, items=items, split=split)


def _common(trained: Sequence[ScenarioConfig], name: str) -> Any:
    """What agents were all trained with; a ValueError if they differ."""
    values = {getattr(each, name) for each in trained}
    option = "scenario" if name == "task" else name
    require(
        len(values) == 1,
        f"these runs were trained on different mazes ({name} {', '.join(map(str, sorted(values)))}); say which "
        f"by --{option}.",
    )
    return values.pop()
