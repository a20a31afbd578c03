"""Files that are written whole or not at all (to a temporary name, flushed, renamed), and read with suspicion.

And a lock for the folder that they are in.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from egomap.util.checks import require
from egomap.util.reading import naming, read_json, require_like


def write_whole(path: Path, data: bytes | str) -> None:
    """Put `data` at `path`; a kill or a full disk at any moment leaves what was there before."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with naming(path):
        scratch.unlink(missing_ok=True)  # an existing link is not followed
        try:
            with open(scratch, "xb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    flush_folder(path.parent)


def read_versioned(path: Path, version: str, what: str, like: dict[str, Any]) -> dict[str, Any]:
    """A JSON file of ours whose `format` is `version` and whose shape is `like` (see `require_like`).

    Raises:
        ValueError: It is something else; the sentence calls what it should be `what`.
    """
    try:
        data: dict[str, Any] = read_json(path)
        require(data["format"] == version, f"its format is {data['format']!r:.80}, not {version!r}")
        require_like(data, like, "it")
        return data
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not {what} of this version: {error}.") from error


@contextmanager
def folder_lock(folder: Path, who: str, *, patience: float = 0.0) -> Iterator[None]:
    """One at a time works in `folder`; the lock ends with the process, however that ends.

    Raises:
        ValueError: `who` is at work there, for longer than `patience` seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience
    with _open_lock(folder / ".lock") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                require(time.monotonic() < deadline, f"{who} is at work in {folder}; wait for it to end.")
                time.sleep(0.5)
            except OSError:  # this file system knows no locks
                break
        yield


def _open_lock(path: Path) -> BinaryIO:
    """The file that is locked; nothing is written to it, and a link is not followed."""
    try:
        return open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "rb")
    except OSError as error:
        require(error.errno != errno.ELOOP, f"{path} is a link, which no lock of ours is; remove it.")
        raise


def flush_folder(folder: Path) -> None:
    """Make a rename in `folder` last through a power cut, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
