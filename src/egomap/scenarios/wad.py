"""WAD files, the engine's archives: a header, the lumps' bytes, a directory.

What comes in: bytes of a file, or named lumps. What goes out: the other. What lumps mean is not known here.
The engine itself reads a broken WAD without a word and plays another map, so every offset is checked before
use.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from egomap.util.reading import MEGABYTE, read_bytes, require_plain

KINDS = (b"PWAD", b"IWAD")
HEADER = struct.Struct("<4sii")
ENTRY = struct.Struct("<ii8s")
LARGEST = 1024 * MEGABYTE
"""Bytes; the largest set that can be generated has 700 MB for each split."""
MOST_LUMPS = 100_000
MOST_SHARED = 4
"""Tools that make WADs smaller let equal lumps share their bytes, but not the whole file again and again."""


class Lump(NamedTuple):
    """One named piece of a WAD."""

    name: str
    data: bytes


def write_wad(lumps: Iterable[Lump]) -> bytes:
    """The bytes of a PWAD that holds `lumps` in this order.

    Raises:
        ValueError: A name that is empty, longer than eight characters or not plain ASCII.
    """
    body = bytearray()
    directory = bytearray()
    count = 0
    for name, data in lumps:
        if not (name.isascii() and name.isprintable() and 1 <= len(name) <= 8):
            raise ValueError(f"a lump name has 1 to 8 ASCII characters; got {name!r}.")
        directory += ENTRY.pack(HEADER.size + len(body), len(data), name.encode("ascii"))
        body += data
        count += 1
    return HEADER.pack(b"PWAD", count, HEADER.size + len(body)) + bytes(body) + bytes(directory)


def parse_wad(data: bytes, source: str) -> list[Lump]:
    """The lumps of a WAD given as bytes; `source` names the file in messages.

    Raises:
        ValueError: The bytes are not a WAD, or its directory points outside of them.
    """
    if len(data) < HEADER.size:
        raise ValueError(f"{source} is not a WAD: it has only {len(data)} bytes.")
    kind, count, offset = HEADER.unpack_from(data)
    if kind not in KINDS:
        raise ValueError(f"{source} is not a WAD: it begins with {kind!r}, not PWAD or IWAD.")
    if count > MOST_LUMPS:
        raise ValueError(f"{source} is broken: it says that it has {count} lumps; {MOST_LUMPS} are the most.")
    if count < 0 or offset < HEADER.size or offset + count * ENTRY.size > len(data):
        raise ValueError(
            f"{source} is truncated or broken: its directory of {count} lumps at byte {offset} "
            f"does not fit in {len(data)} bytes."
        )
    lumps = []
    total = 0
    for index in range(count):
        start, size, raw = ENTRY.unpack_from(data, offset + index * ENTRY.size)
        try:
            name = raw.split(b"\0", 1)[0].decode("ascii").upper()
        except UnicodeDecodeError:
            raise ValueError(f"{source} is broken: lump {index} has the name {raw!r}.") from None
        # Markers (size 0) may carry any offset in files from other tools.
        if size < 0 or (size > 0 and (start < 0 or start + size > len(data))):
            raise ValueError(f"{source} is truncated or broken: lump {name!r} lies outside the file.")
        total += size
        if total > MOST_SHARED * len(data):
            raise ValueError(f"{source} is broken: its lumps have more bytes than it has itself.")
        lumps.append(Lump(name, data[start : start + size] if size else b""))
    return lumps


def read_wad(path: Path) -> list[Lump]:
    """The lumps of the WAD at `path`; see `parse_wad`.

    Raises:
        ValueError: The file cannot be read or is not a sound WAD.
    """
    try:
        require_plain(path, LARGEST)
        with open(path, "rb") as file:
            begin = file.read(HEADER.size)
        # What is no WAD is not read as a whole: it may be anything.
        data = read_bytes(path, LARGEST) if begin[:4] in KINDS else begin
    except OSError as error:
        raise ValueError(f"cannot read the WAD {path}: {error.strerror}.") from error
    return parse_wad(data, str(path))
