"""Scenario sets: a training and a test split of one task as files that stand alone.

What comes in: a `ScenarioConfig`, or a folder. What goes out: a `ScenarioSet`, and a folder with one WAD and
one .cfg per split, a manifest and a picture. Everything is a function of the settings: same settings, same
bytes. A folder is written whole or not at all, and read only if every file is as the manifest says. No engine
is opened.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from egomap.config import ScenarioConfig
from egomap.scenarios import sheet
from egomap.scenarios.export import (
    FORMAT_VERSION,
    MANIFEST,
    PICTURE,
    SPLITS,
    build_manifest,
    expected_digests,
    map_name,
    read_layouts,
    read_manifest,
    split_files,
)
from egomap.scenarios.layout import Layout
from egomap.scenarios.maze import make_maze, stream
from egomap.scenarios.planner import solvable
from egomap.scenarios.tasks import FAMILIES
from egomap.scenarios.wad import LARGEST
from egomap.util.digest import canonical, sha256
from egomap.util.reading import naming, require_plain

# Draws without a new layout before a set is declared impossible. The worst measured is one acceptable layout in
# 750 draws (8 items in 3 x 3 narrow cells with every wall): giving up there by mistake has a chance of e^-53.
MAX_DRAWS = 40_000


@dataclass(frozen=True)
class ScenarioSet:
    """A generated set: where its files are and which layouts they hold."""

    folder: Path
    config: ScenarioConfig
    layouts: dict[str, tuple[Layout, ...]]
    """Split name ("train", "test") to its layouts; layout i of a split is map `map_name(i)` of its WAD."""

    def wad(self, split: str) -> Path:
        """The split's WAD file."""
        return self._file(split, "wad")

    def cfg(self, split: str) -> Path:
        """The split's ViZDoom configuration file."""
        return self._file(split, "cfg")

    def map_name(self, index: int) -> str:
        """The name of layout `index` (from 0) in its WAD: MAP01, ..., MAP99, MAP100, ..."""
        return map_name(index)

    def _file(self, split: str, suffix: str) -> Path:
        if not self.layouts.get(split):
            present = ", ".join(name for name in SPLITS if self.layouts.get(name))
            raise ValueError(f"{self.folder} has no {split!r} split; it has: {present}.")
        return self.folder / f"{split}.{suffix}"


def draw_layouts(
    config: ScenarioConfig, progress: Callable[[int, int], None] | None = None
) -> dict[str, tuple[Layout, ...]]:
    """Draw the layouts of both splits: all distinct, every goal reachable.

    The test split is drawn first, so that it stays the same when more training layouts are asked for.

    Raises:
        ValueError: So many distinct layouts could not be found.
    """
    goals = FAMILIES[config.task].goal_count(config)
    if goals + 1 > config.size**2:
        raise ValueError(f"{goals} goals and a start need more than {config.size} x {config.size} cells.")
    total = config.train + config.test
    seen: set[Layout] = set()
    layouts: dict[str, tuple[Layout, ...]] = {}
    for split, count in (("test", config.test), ("train", config.train)):
        found: list[Layout] = []
        draw = idle = 0
        while len(found) < count:
            layout = _draw(config, goals, split, draw)
            draw += 1
            if layout not in seen and solvable(layout):
                seen.add(layout)
                found.append(layout)
                idle = 0
                if progress:
                    progress(len(seen), total)
            else:
                idle += 1
                if idle >= MAX_DRAWS:
                    raise ValueError(
                        f"only {len(seen)} distinct solvable layouts were found for {config.task} of size "
                        f"{config.size}, but {total} were asked for; ask for fewer or for a larger size."
                    )
        layouts[split] = tuple(found)
    return {split: layouts[split] for split in SPLITS}


def generate(
    config: ScenarioConfig,
    out: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> ScenarioSet:
    """Make the set that `config` describes in the folder `out`.

    Args:
        config: Task, size, numbers of layouts, seed.
        out: A folder that does not exist yet or is empty, or one that holds this very set, which is then
            reused.
        progress: Called with (layouts made, layouts in all).

    Raises:
        ValueError: Settings out of range, too many layouts for the size, or a folder with something else in
            it.
    """
    config.validate()
    out = Path(out).resolve()
    if out.exists():
        _require_usable(out)
    layouts = draw_layouts(config, progress)
    files = split_files(config, layouts)
    manifest = build_manifest(config, layouts, files)
    if not _is_empty(out):
        _require_same(out, manifest)
        return load(out)

    # An empty folder of the user stays what it is: a shell may stand in it, or it may be another disk.
    inside = out.exists()
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out if inside else out.parent))
    try:
        # mkdtemp makes private folders; a set is as readable as any other file of the user.
        made.chmod(0o755)
        for name, data in {**files, MANIFEST: manifest}.items():
            _write(made / name, data)
        sheet.save_sheet(config, layouts, made / PICTURE)
        _sync(made / PICTURE)
        _sync(made)
        if inside:
            _move_files(made, out)
        else:
            _move_into_place(made, out, manifest)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return ScenarioSet(out, config, layouts)


def load(folder: str | os.PathLike[str]) -> ScenarioSet:
    """Read a set back after checking each of its files.

    Raises:
        ValueError: There is no set in `folder`, it is of another format version, or a file is missing or
            changed.
    """
    folder = Path(folder).resolve()
    manifest = read_manifest(folder)
    try:
        config = ScenarioConfig(**manifest["config"]).validate()
        layouts = {split: read_layouts(manifest["layouts"][split]) for split in SPLITS}
        counted = {split: len(layouts[split]) for split in SPLITS}
        files = dict(manifest["files"])
        if counted != {"train": config.train, "test": config.test}:
            raise ValueError(f"it lists {counted} layouts, not what its own settings say.")
        expected = expected_digests(config, layouts["train"], layouts["test"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{folder / MANIFEST} is not the manifest of a scenario set: {error}") from error
    if set(files) != set(expected):
        raise ValueError(f"{folder / MANIFEST} lists the files {sorted(files)}, expected {sorted(expected)}.")
    for name, digest in expected.items():
        if files[name] != digest:
            raise ValueError(f"{folder / name} is not the file that the layouts of its set give.")
        _require_digest(folder / name, digest)
    return ScenarioSet(folder, config, layouts)


def cache_folder() -> Path:
    """Where generated sets are kept: EGOMAP_CACHE, else XDG_CACHE_HOME/egomap, else ~/.cache/egomap."""
    if own := os.environ.get("EGOMAP_CACHE"):
        return Path(own).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "egomap"
    try:
        return Path.home() / ".cache" / "egomap"
    except RuntimeError:
        raise ValueError(
            "this user has no home folder: set EGOMAP_CACHE to a folder for scenarios."
        ) from None


def default_set(config: ScenarioConfig) -> ScenarioSet:
    """The set of `config`, generated into the cache folder the first time it is asked for.

    Several processes may ask at once: each makes its own copy, the first to finish puts it in place, the
    others use that one.
    """
    config.validate()
    key = sha256(canonical({"format": FORMAT_VERSION, "config": asdict(config)}))[:12]
    folder = cache_folder() / "scenarios" / f"{config.task}-{config.size}-{key}"
    if not _is_empty(folder):
        try:
            return load(folder)
        except ValueError as error:
            raise ValueError(f"{error} Delete {folder} and it will be made again.") from error
    return generate(config, folder)


def _draw(config: ScenarioConfig, goals: int, split: str, draw: int) -> Layout:
    rng = stream(
        "egomap layout", config.task, config.size, goals, config.wall_probability, config.seed, split, draw
    )
    walls = make_maze(rng, config.size, config.wall_probability)
    start, places = FAMILIES[config.task].place(rng, config.size, goals)
    return Layout(config.task, config.size, config.cell, walls, start, places)


def _is_empty(folder: Path) -> bool:
    """Whether there is nothing in it; a name that begins with a dot is what a kill left of a set being made."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())


def _require_usable(out: Path) -> None:
    """Fail early, before layouts are drawn, where `out` can certainly not be used."""
    if not out.is_dir():
        raise ValueError(f"{out} is a file; give a folder to write the scenario set to.")
    if not _is_empty(out) and not (out / MANIFEST).exists():
        raise ValueError(f"{out} holds other files; give a new or empty folder.")


def _require_digest(path: Path, digest: str) -> None:
    """Fail unless the file at `path` has this SHA-256."""
    try:
        require_plain(path, LARGEST)
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    if found != digest:
        raise ValueError(f"{path} is truncated or changed: its SHA-256 is not the manifest's.")


def _require_same(out: Path, manifest: bytes) -> None:
    try:
        same = (out / MANIFEST).read_bytes() == manifest
    except OSError:
        same = False
    if not same:
        raise ValueError(f"{out} holds another scenario set; give a new or empty folder.")


def _move_files(made: Path, out: Path) -> None:
    """Move what is in `made` into `out`; the manifest last, for without it there is no set."""
    for path in sorted(made.iterdir(), key=lambda path: path.name == MANIFEST):
        path.rename(out / path.name)
    _sync(out)


def _move_into_place(made: Path, out: Path, manifest: bytes) -> None:
    """Rename `made` to `out`; if another process was faster, accept its set if it is the same."""
    try:
        made.rename(out)
    except OSError:
        if not out.exists():
            raise
        _require_same(out, manifest)
        load(out)
        return
    _sync(out.parent)


def _write(path: Path, data: bytes) -> None:
    with naming(path):
        path.write_bytes(data)
        _sync(path)


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk, so that a power cut leaves no whole-looking folder of holes."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Some systems cannot open folders.
    try:
        os.fsync(handle)
    except OSError:
        # Some file systems cannot flush folders; a failed flush of a file shows up again when it is read
        # back.
        if not path.is_dir():
            raise
    finally:
        os.close(handle)
