"""An exported agent: a folder with its weights alone, its settings and its card, and nothing of where it was trained.

What comes in: weights, settings and a card as plain data and as Markdown. What goes out: a folder of four files,
written whole or not at all, or what such a folder holds. No optimiser, no random states, no path of a machine: what
is no part of the agent is not in it. What the card says is `egomap.sharing.card`'s.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from egomap.config import TrainConfig, as_float, require
from egomap.training.checkpoint import Checkpoint, Tensors, load_checkpoint, save_checkpoint
from egomap.training.run import WORLD, require_own
from egomap.training.sources import source_of
from egomap.util.files import flush_folder, read_versioned, write_whole
from egomap.util.reading import read_json
from egomap.worlds.api import WorldSpec

FORMAT = "egomap agent 1"
WEIGHTS, CONFIG, CARD, README = "model.safetensors", "config.json", "card.json", "README.md"
FILES = (WEIGHTS, CONFIG, CARD, README)
CARD_SHAPE: dict[str, Any] = {
    "name": str,
    "agent": {"kind": str, "parameters": int},
    "training": {"decisions": int, "checkpoint": str},
    "licence": str,
}
"""What is needed of a card to load its agent; see `egomap.util.reading.require_like`."""


class Exported(NamedTuple):
    """What a folder holds."""

    weights: Checkpoint
    config: TrainConfig
    extent: float
    """Side of the arenas that the agent was made for, in map units."""
    spec: WorldSpec
    """What it must know of its world."""
    card: dict[str, Any]


def is_exported(folder: Path) -> bool:
    """Whether `folder` looks like an exported agent (and not like a run)."""
    return (folder / WEIGHTS).is_file()


def settings_of(config: TrainConfig, extent: float, spec: WorldSpec) -> dict[str, Any]:
    """The settings as they are exported: what names a place on this machine is left out.

    Mazes are made from `config.scenario` again, with the same bytes, wherever they are needed.
    """
    world = {WORLD: spec.to_json()} if config.env.id else {}
    elsewhere = {"scenarios": None, "files": Path(config.files).name, "device": "auto"}
    return {"extent": extent, **world, **config.to_json(), **elsewhere}


def require_no_paths(data: Any, where: str) -> None:
    """Raise a ValueError if a text in plain data is an absolute path, which would tell of this machine."""
    for name, text in _texts(data, where):
        absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
        require(not absolute, f"{name} is an absolute path, which cannot be exported: {text!r:.80}.")


def require_free(folder: Path, *, overwrite: bool) -> None:
    """Raise a ValueError unless an export may be written to `folder`."""
    require(not folder.exists() or folder.is_dir(), f"{folder} is a file; give a folder.")
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not there:
        return
    others = sorted(there - set(FILES))
    require(
        not others and WEIGHTS in there,
        f"{folder} holds other files ({', '.join(others[:3]) or 'not a whole agent'}); give a new or empty folder.",
    )
    require(overwrite, f"{folder} holds an exported agent already; give another folder, or --overwrite.")


def write_exported(
    folder: Path,
    tensors: Tensors,
    settings: dict[str, Any],
    card: dict[str, Any],
    readme: str,
    *,
    overwrite: bool = False,
) -> None:
    """Write an exported agent.

    Args:
        folder: Where to; new, empty, or with `overwrite` another export.
        tensors: The weights by name, `agent.<name>`.
        settings: From `settings_of`.
        card: Of the shape `CARD_SHAPE`, and more.
        readme: The card for people.
        overwrite: Replace an exported agent.

    Raises:
        ValueError: The folder is not free, or a setting or the card tells a path.
    """
    require_free(folder, overwrite=overwrite)
    require_no_paths(settings, "config")
    require_no_paths(card, "card")
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch, old = (target.with_name(f".{target.name}.{os.getpid()}.{end}") for end in ("tmp", "old"))
    try:
        scratch.mkdir()
        save_checkpoint(scratch / WEIGHTS, tensors, settings, format=FORMAT)
        write_whole(scratch / CONFIG, json.dumps(settings, indent=1) + "\n")
        write_whole(scratch / CARD, json.dumps({"format": FORMAT, **card}, indent=1, allow_nan=False) + "\n")
        write_whole(scratch / README, readme)
        _move_into_place(scratch, target, aside=old)
        flush_folder(target.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def read_exported(folder: Path) -> Exported:
    """The agent in an exported folder.

    Raises:
        ValueError: A file is missing, damaged, changed, or of another version; the sentence says which.
    """
    weights = _weights(folder)
    told = folder / CONFIG
    try:
        data = read_json(told)
        require(data == weights.data, "it was changed after the export")
        extent, world = as_float(data.pop("extent")), data.pop(WORLD, None)
        require(0 < extent < math.inf, f"extent must be a positive length; got {extent}")
        config = TrainConfig.from_json(data)
        require_own(config, folder)
        spec = source_of(config).recall(extent, world)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{told} is damaged: {str(error).rstrip('.')}.") from error
    card = read_versioned(folder / CARD, FORMAT, "an agent's card", CARD_SHAPE)
    require(card["training"]["decisions"] >= 0, f"{folder / CARD} is damaged: its decisions are below 0.")
    return Exported(weights, config, extent, spec, card)


def _move_into_place(made: Path, target: Path, *, aside: Path) -> None:
    """Put a whole folder where nothing, an empty folder or an older export is; that goes only when all is well."""
    replaced = is_exported(target)
    if replaced:  # a folder that holds something cannot be replaced in one step
        os.rename(target, aside)
    try:
        os.rename(made, target)
    except OSError:
        if replaced:
            os.rename(aside, target)
        raise
    if replaced:
        shutil.rmtree(aside, ignore_errors=True)


def _weights(folder: Path) -> Checkpoint:
    return load_checkpoint(folder / WEIGHTS, format=FORMAT, what="exported agent")


def _texts(data: Any, where: str) -> Iterator[tuple[str, str]]:
    """Every text in plain data, with the name of where it stands."""
    if isinstance(data, str):
        yield where, data
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _texts(value, f"{where}.{name}")
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value, where)
