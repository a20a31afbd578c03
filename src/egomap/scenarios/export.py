"""The files of a scenario set as bytes: maps in a WAD, the ViZDoom .cfg, the manifest.

What comes in: settings and layouts. What goes out: bytes by file name, and the manifest read back and
checked. Nothing here writes to the disk; `dataset` does.
"""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egomap.config import ScenarioConfig
from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import solvable
from egomap.scenarios.tasks import (
    EPISODE_TICS,
    FAMILIES,
    LIVING_REWARD,
    behavior,
    require_fitting,
    things,
)
from egomap.scenarios.udmf import textmap
from egomap.scenarios.wad import Lump, write_wad
from egomap.util.digest import canonical, sha256
from egomap.util.reading import MEGABYTE, read_json

SPLITS = ("train", "test")
FORMAT_VERSION = 2
"""Counts up whenever the same settings would give other bytes."""
MANIFEST = "manifest.json"
PICTURE = "layouts.png"
LARGEST_MANIFEST = 256 * MEGABYTE
"""Bytes; that of the largest set that can be generated has 62 MB."""


CFG = """\
# {title}, {size} x {size} cells: {split} split, {count} layouts. Written by egomap.
# {rule}
# Layouts are maps {first} to {last}: set_doom_map, set_seed, then new_episode.
# USER1 counts the goals reached; USER2 is 0 while running or timed out, 1 solved, 2 failed.

doom_scenario_path = {wad}
doom_map = {first}
doom_skill = 5
mode = PLAYER

living_reward = {living_reward}
episode_start_time = 10
episode_timeout = {tics}

available_buttons = {{ TURN_LEFT TURN_RIGHT MOVE_FORWARD MOVE_BACKWARD }}
available_game_variables = {{ POSITION_X POSITION_Y ANGLE USER1 USER2 }}

screen_resolution = RES_320X180
screen_format = RGB24
depth_buffer_enabled = true
window_visible = false
sound_enabled = false
render_hud = false
render_weapon = false
render_crosshair = false
render_decals = false
render_particles = false
render_messages = false
"""


def map_name(index: int) -> str:
    """The name of map `index` (from 0)."""
    return f"MAP{index + 1:02d}"


def split_files(config: ScenarioConfig, layouts: dict[str, tuple[Layout, ...]]) -> dict[str, bytes]:
    """The WAD and .cfg of each split that has layouts."""
    family = FAMILIES[config.task]
    files: dict[str, bytes] = {}
    for split in SPLITS:
        if not layouts[split]:
            continue
        lumps: list[Lump] = []
        for index, layout in enumerate(layouts[split]):
            lumps.append(Lump(map_name(index), b""))
            lumps.append(Lump("TEXTMAP", textmap(layout, things(layout))))
            lumps.append(Lump("BEHAVIOR", behavior(layout)))
            lumps.append(Lump("ENDMAP", b""))
        files[f"{split}.wad"] = write_wad(lumps)
        text = CFG.format(
            title=family.title,
            rule=family.rule,
            size=config.size,
            split=split,
            count=len(layouts[split]),
            wad=f"{split}.wad",
            first=map_name(0),
            last=map_name(len(layouts[split]) - 1),
            living_reward=f"{LIVING_REWARD:.4f}",
            tics=EPISODE_TICS,
        )
        files[f"{split}.cfg"] = text.encode("ascii")
    return files


@functools.lru_cache(maxsize=8)
def expected_digests(
    config: ScenarioConfig, train: tuple[Layout, ...], test: tuple[Layout, ...]
) -> dict[str, str]:
    """SHA-256 of each file of a set with these layouts, by name; a training asks for the same set several times.

    Raises:
        ValueError: A layout does not go with the settings, is there twice or cannot be solved.
    """
    everything = (*train, *test)
    for layout in everything:
        require_fitting(layout, config)
        if not solvable(layout):
            raise ValueError(f"the layout {layout.hash[:12]} cannot be solved.")
    if len(set(everything)) != len(everything):
        raise ValueError("a layout is there twice.")
    files = split_files(config, {"train": train, "test": test})
    return {name: sha256(data) for name, data in files.items()}


def build_manifest(
    config: ScenarioConfig, layouts: dict[str, tuple[Layout, ...]], files: dict[str, bytes]
) -> bytes:
    """The manifest of a set: settings, layouts with their hashes, and the SHA-256 of each file."""
    content: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "config": asdict(config),
        "files": {name: sha256(data) for name, data in files.items()},
        "layouts": {
            split: [
                {"map": map_name(index), "hash": layout.hash, "layout": layout.to_json()}
                for index, layout in enumerate(layouts[split])
            ]
            for split in SPLITS
        },
    }
    # The picture is not listed: its bytes depend on the drawing library, and nothing is computed from it.
    content["digest"] = sha256(canonical(content))
    return canonical(content) + b"\n"


def read_layouts(entries: list[dict[str, Any]]) -> tuple[Layout, ...]:
    """The layouts of a split in a manifest; ValueError if one is not what its hash and its map's name say."""
    layouts = tuple(Layout.from_json(entry["layout"]) for entry in entries)
    for index, (entry, layout) in enumerate(zip(entries, layouts, strict=True)):
        if (entry["map"], entry["hash"]) != (map_name(index), layout.hash):
            raise ValueError(f"its layout {index} has another map or another hash than its own.")
    return layouts


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest in `folder`; ValueError if there is none, it is broken, changed or of another format."""
    path = folder / MANIFEST
    try:
        manifest = read_json(path, LARGEST_MANIFEST)
    except OSError as error:
        raise ValueError(
            f"{folder} holds no scenario set: cannot read {MANIFEST} ({error.strerror})."
        ) from error
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise ValueError(f"{path} is not the manifest of a scenario set.")
    if manifest["format"] != FORMAT_VERSION:
        raise ValueError(
            f"{path} is of format {manifest['format']!r:.80}; this version reads format {FORMAT_VERSION}. "
            "Generate the set again."
        )
    rest = {key: value for key, value in manifest.items() if key != "digest"}
    if manifest.get("digest") != sha256(canonical(rest)):
        raise ValueError(f"{path} has been changed: its content does not match its own digest.")
    return manifest
