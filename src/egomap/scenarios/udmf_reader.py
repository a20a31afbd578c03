"""A reader for UDMF text, the TEXTMAP lump of a map.

What comes in: the lump's bytes. What goes out: its blocks by kind, each a dictionary of fields. It takes what
editors write (comments, any case and spacing, unknown blocks and fields) and refuses what is not UDMF: the
engine crashes on such text. What the fields mean is for `check` to judge.
"""

from __future__ import annotations

import re

Block = dict[str, object]

TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+))
    | (?P<word>[A-Za-z_]\w*)
    | (?P<mark>[{}=;])
    """,
    re.VERBOSE | re.DOTALL,
)

LONGEST_INTEGER = 18
"""Characters; what is longer is no coordinate, and Python would answer it with other errors."""
LARGEST = 8 * 2**20
"""Bytes of a map's text; the largest that we write has 0.2 million."""


def parse_textmap(data: bytes, where: str) -> dict[str, list[Block]]:
    """The blocks of a TEXTMAP by kind ("thing", "vertex", ...); `where` names the map in messages.

    Raises:
        ValueError: The text is not well-formed UDMF, or lacks vertices, lines, sides or a sector.
    """
    if len(data) > LARGEST:
        raise _malformed(where, f"it has {len(data):,} bytes, more than {LARGEST:,}")
    # Texture names may hold any byte; structure is ASCII.
    tokens = _tokens(data.decode("latin-1"), where)
    blocks: dict[str, list[Block]] = {}
    settings: Block = {}
    place = 0
    while place < len(tokens):
        kind, word = tokens[place]
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if kind != "word" or following not in ("=", "{"):
            raise _malformed(where, f"expected a block or a setting, got {word!r:.80}")
        if following == "{":
            block, place = _block(tokens, place + 2, word, where)
            blocks.setdefault(word.lower(), []).append(block)
        else:
            place = _field(tokens, place, settings, where)
    if not isinstance(settings.get("namespace"), str):
        raise _malformed(where, "it names no namespace")
    for kind in ("vertex", "linedef", "sidedef", "sector"):
        if kind not in blocks:
            raise _malformed(where, f"it has no {kind}")
    return blocks


def _tokens(text: str, where: str) -> list[tuple[str, str]]:
    tokens = []
    place = 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if not match:
            line = text.count("\n", 0, place) + 1
            raise _malformed(where, f"line {line} has {text[place : place + 12]!r}")
        place = match.end()
        if match.lastgroup != "space":
            tokens.append((str(match.lastgroup), match[0]))
    return tokens


def _block(tokens: list[tuple[str, str]], place: int, kind: str, where: str) -> tuple[Block, int]:
    """Read a block's fields from behind its brace; returns them and the place behind the closing brace."""
    block: Block = {}
    while place < len(tokens) and tokens[place][1] != "}":
        place = _field(tokens, place, block, where)
    if place >= len(tokens):
        raise _malformed(where, f"a {kind} is not closed")
    return block, place + 1


def _field(tokens: list[tuple[str, str]], place: int, into: Block, where: str) -> int:
    """Read `name = value;` at `place` into a block; returns the place behind it."""
    if place + 4 > len(tokens):
        raise _malformed(where, "it ends within a field")
    (name_kind, name), (_, equals), (kind, text), (_, end) = tokens[place : place + 4]
    if name_kind != "word" or equals != "=" or end != ";" or kind == "mark":
        raise _malformed(where, f"near {f'{name} {equals} {text} {end}'!r:.80}")
    if kind == "number" and not _has_fraction(text) and len(text) > LONGEST_INTEGER:
        raise _malformed(where, f"the number {text[:12]}... is too long")
    into[name.lower()] = _value(kind, text)
    return place + 4


def _value(kind: str, text: str) -> object:
    if kind == "string":
        return text[1:-1]
    if kind == "word":
        return {"true": True, "false": False}.get(text.lower(), text)
    if _has_fraction(text):
        return float(text)
    return int(text, 16) if "x" in text.lower() else int(text)


def _has_fraction(text: str) -> bool:
    return "x" not in text.lower() and any(mark in text for mark in ".eE")


def _malformed(where: str, what: str) -> ValueError:
    return ValueError(f"the TEXTMAP of {where} is malformed: {what}.")
