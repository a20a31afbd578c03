"""docs/paper.md: every file, function and test that it names exists, and the places it calls choices say "Choice"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .blocks import DOCS

PROJECT = DOCS.parent
PAGE = DOCS / "paper.md"


def cells() -> Iterator[str]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield from line.strip("|").split("|")


def named() -> list[tuple[str, str]]:
    """(file, name in it) of every cell; a file alone has the name ""."""
    found = []
    for cell in cells():
        file = ""
        for word in re.findall(r"`([^`]+)`", cell):
            if word.endswith(".py"):
                file = word
                found.append((file, ""))
            elif file:
                found.append((file, word))
    return found


def source(file: str) -> Path:
    """A file of the package or of the tests, by its relative path."""
    return PROJECT / ("tests" if Path(file).name.startswith("test_") else "src/egomap") / file


@pytest.mark.parametrize(("file", "name"), named())
def test_what_is_named_is_there(file: str, name: str) -> None:
    path = source(file)
    assert path.exists(), f"{PAGE.name} names {file}, which has moved or gone"
    text = path.read_text(encoding="utf-8")
    for part in name.split(".") if name else ():
        assert re.search(rf"^\s*(def {part}\(|class {part}\b|{part}\s*[:=])", text, re.MULTILINE), (
            f"{PAGE.name} names {name} in {file}, which has no {part}"
        )


def test_the_page_is_read() -> None:
    assert len(named()) > 100
    assert sum(name.startswith("test_") for _, name in named()) > 20


def test_every_equation_is_there() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Equations\n", 1)[1].split("\n## ", 1)[0]
    numbers = {
        number
        for row in re.findall(r"^\| (\d[^|]*)\|", table, re.MULTILINE)
        for number in re.findall(r"\d", row)
    }
    assert numbers == set("1234567")
