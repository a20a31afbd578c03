"""Recordings on disk: one compressed file for every 64 decisions of all environments, and a manifest.

Input: the chunks of a recording, one after the other. Output: a folder that is there whole or not at
all, and `Walks`, which reads it back. Views of these mazes compress to a third, without loss: depth is kept as an
index into the 255 depths that the rendering can show. Files are `.npz` (zip and npy, no pickle); the same walks give
the same bytes, and a file that does not match the manifest is refused.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from egomap.config import require
from egomap.envs.rendering import render_mode
from egomap.offline.labels import ARRAYS
from egomap.offline.options import SEQUENCE, WalkSettings
from egomap.scenarios.dataset import cache_folder
from egomap.util.digest import canonical, sha256
from egomap.util.files import flush_folder, read_versioned, write_whole
from egomap.util.reading import naming, require_plain

FORMAT = "egomap walks 2"
"""Counts up when the form changes, or when the Explorer walks otherwise."""
MANIFEST = "manifest.json"
COMPRESSION = 1
"""Of zlib; higher levels take longer and save nothing here."""
HEADER = 4096
"""Bytes that the header of an array may have."""

Chunk = dict[str, np.ndarray]


def depths(rendering: str) -> np.ndarray:
    """(K,) float32: every depth that a rendering can show, in order; an index into it fits a byte."""
    return np.unique(render_mode(rendering).depth_table())


def folder_of(settings: WalkSettings, worlds: list[str]) -> Path:
    """Where the walks of these settings through these worlds (ids) are kept."""
    key = sha256(canonical({"format": FORMAT, "settings": settings.to_json(), "worlds": worlds}))[:12]
    name = f"{settings.scenario.task}-{settings.scenario.size}-{settings.split}-{key}"
    return cache_folder() / "walks" / name


def empty_chunk(num_envs: int) -> Chunk:
    """Zeroed arrays (64, N, ...) for one chunk."""
    return {
        name: np.zeros((SEQUENCE, num_envs, *column.shape), column.dtype) for name, column in ARRAYS.items()
    }


class Writer:
    """Writes a recording beside its place and moves it there when it is whole.

    Compression is done by a thread of its own while the engines step.
    """

    def __init__(self, folder: Path, settings: WalkSettings) -> None:
        self._folder, self._settings = folder, settings
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        self._pool = ThreadPoolExecutor(1, "egomap-walks")
        self._writing: Future[None] | None = None
        self._files: dict[str, str] = {}

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._pool.shutdown(cancel_futures=True)
            shutil.rmtree(self._made, ignore_errors=True)

    def add(self, chunk: Chunk) -> None:
        """The next 64 decisions; the arrays belong to the writer from now on."""
        self._wait()
        self._writing = self._pool.submit(self._write, _name(len(self._files)), chunk)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, name: str, chunk: Chunk) -> None:
        path = self._made / name
        with (
            naming(path),
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as file,
        ):
            for key, array in chunk.items():
                with file.open(f"{key}.npy", "w") as member:  # dated 1980: the same walks give the same bytes
                    np.lib.format.write_array(member, array, allow_pickle=False)
        self._files[name] = _digest(path)

    def _finish(self) -> None:
        self._wait()
        manifest = {"format": FORMAT, "settings": self._settings.to_json(), "files": self._files}
        write_whole(self._made / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        self._made.chmod(0o755)
        try:
            self._made.rename(self._folder)
        except OSError:
            if not (self._folder / MANIFEST).exists():  # otherwise another process was faster
                raise
        flush_folder(self._folder.parent)


class Walks:
    """A recording, read chunk by chunk.

    Args:
        folder: Written by `Writer`.
        settings: That it must have been recorded with.

    Raises:
        ValueError: It is damaged, or of other settings.
    """

    def __init__(self, folder: Path, settings: WalkSettings) -> None:
        self.folder, self.settings = folder, settings
        self._depths = depths(settings.env.rendering)
        try:
            self._check()
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            sentence = str(error).rstrip(".")
            raise ValueError(f"{sentence}. Delete {folder} and it will be recorded again.") from error

    def __len__(self) -> int:
        return self.settings.sequences

    @property
    def num_envs(self) -> int:
        """N."""
        return self.settings.num_envs

    def column(self, name: str) -> np.ndarray:
        """One array of the whole recording, (T, N, ...)."""
        return np.concatenate([self._read(index, (name,))[name] for index in range(len(self))])

    def chunk(self, index: int) -> Chunk:
        """64 decisions: the arrays (64, N, ...), depth in map units, rgb laid out with its channels last."""
        chunk = self._read(index, tuple(ARRAYS))
        chunk["depth"] = self._depths.take(chunk["depth"])
        chunk["rgb"] = np.moveaxis(np.ascontiguousarray(np.moveaxis(chunk["rgb"], 2, -1)), -1, 2)
        return chunk

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order; each is read while the one before is worked on."""
        with ThreadPoolExecutor(1, "egomap-walks") as pool:
            following = pool.submit(self.chunk, 0)
            for index in range(len(self)):
                now = following.result()
                if index + 1 < len(self):
                    following = pool.submit(self.chunk, index + 1)
                yield now

    def _read(self, index: int, names: tuple[str, ...]) -> Chunk:
        found: Chunk = {}
        path = self.folder / _name(index)
        with naming(path), zipfile.ZipFile(path) as file:
            for name in names:
                with file.open(f"{name}.npy") as member:
                    found[name] = np.lib.format.read_array(member, allow_pickle=False)
        return found

    def _check(self) -> None:
        manifest = read_versioned(self.folder / MANIFEST, FORMAT, "a recording of walks", {"files": {}})
        asked: dict[str, Any] = json.loads(json.dumps(self.settings.to_json()))
        require(manifest.get("settings") == asked, f"{self.folder} holds walks of other settings")
        names = [_name(index) for index in range(len(self))]
        require(
            list(manifest["files"]) == names, f"{self.folder / MANIFEST} does not list the files of its walks"
        )
        largest = sum(self._size(name) for name in ARRAYS)
        for name, digest in manifest["files"].items():
            path = self.folder / name
            require_plain(path, largest)
            require(
                _digest(path) == digest, f"{path} is truncated or changed: its SHA-256 is not the manifest's"
            )
            with zipfile.ZipFile(path) as file:
                sizes = {entry.filename: entry.file_size for entry in file.infolist()}
            fits = set(sizes) == {f"{key}.npy" for key in ARRAYS} and all(
                sizes[f"{key}.npy"] <= self._size(key) for key in ARRAYS
            )
            require(fits, f"{path} does not hold the arrays of a recording")

    def _size(self, name: str) -> int:
        """Bytes that an array of a chunk has at most."""
        column = ARRAYS[name]
        return (
            HEADER + SEQUENCE * self.num_envs * int(np.prod(column.shape)) * np.dtype(column.dtype).itemsize
        )


def _name(index: int) -> str:
    return f"{index:05}.npz"


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
