"""Reading of untrusted files: plain files only, no more bytes than a valid file can have, and never half of one.

What comes in: a path and a limit. What goes out: its bytes, its text or its JSON, or a ValueError of one sentence
that names the file; an OSError where it cannot be opened. A device would fill the memory and a pipe would wait for
ever, so both are refused before a byte is read.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MEGABYTE = 2**20
SMALL = 64 * MEGABYTE
"""Of settings, logs and scores; far beyond the largest that we write."""


def require_plain(path: Path, most: int) -> None:
    """Raise a ValueError unless `path` is an ordinary file of at most `most` bytes; an OSError if it is not there."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path} is not an ordinary file but a folder, a device or a pipe; give a file.")
    if found.st_size > most:
        raise ValueError(
            f"{path} has {found.st_size:,} bytes, and no such file has more than {most:,}; it is something else."
        )


def read_bytes(path: Path, most: int = SMALL) -> bytes:
    """The bytes of a file."""
    require_plain(path, most)
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:  # the files of /proc do not tell their size
        raise ValueError(f"{path} does not end within {most:,} bytes; it is something else.")
    return data


def read_text(path: Path, most: int = SMALL) -> str:
    """The text of a file in UTF-8, with plain line ends."""
    try:
        text = read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged or not text: byte {error.start} is not UTF-8.") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, most: int = SMALL) -> Any:
    """What a JSON file holds."""
    text = read_text(path, most)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or not JSON: {error}.") from error


def require_like(data: Any, like: Any, where: str) -> None:
    """Raise a ValueError unless plain data have a shape.

    Args:
        data: What a JSON file holds.
        like: A type, whose value it must be (a number is finite and below 10^18; a float may be written as a whole
            number); `[like]` for a list with one entry or more, `[like, like]` for a pair; a table of some of its
            entries; a frozenset of words, one of which it must be; `(like, None)` if it may be null.
        where: What the sentence calls it.
    """
    if isinstance(like, tuple):
        if data is not None:
            require_like(data, like[0], where)
    elif isinstance(like, dict):
        _require(isinstance(data, dict), f"{where} is not a table")
        for name, each in like.items():
            _require(name in data, f"{where} has no {name!r}")
            require_like(data[name], each, f"{where}.{name}")
    elif isinstance(like, list):
        _require(isinstance(data, list) and bool(data), f"{where} is not a list, or empty")
        _require(len(like) in (1, len(data)), f"{where} has {len(data)} entries, not {len(like)}")
        for each in data:
            require_like(each, like[0], where)
    elif isinstance(like, frozenset):
        _require(isinstance(data, str) and data in like, f"{where} is {data!r:.40}, which is not known")
    else:
        fits = type(data) in ((int, float) if like is float else (like,))
        _require(fits, f"{where} is {data!r:.40} instead of a {like.__name__}")
        # What is larger is no figure of ours, and overflows when it is counted with.
        _require(isinstance(data, str) or abs(data) < 1e18, f"{where} is {data!r:.40}, which is no figure")


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within this, an OSError that does not say which file it is about says `path`: a full disk, for one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
