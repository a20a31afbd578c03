"""docs/troubleshooting.md: every message that it explains is one that the package can say."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from .blocks import DOCS

PAGE = DOCS / "troubleshooting.md"


def messages() -> list[str]:
    """What stands between back-ticks in the first column, without heads."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            found += re.findall(r"`([^`]+)`", line.split(" | ")[0])
    return found


@cache
def said() -> tuple[str, ...]:
    """Every text in the sources; what is computed within one is "…"."""
    texts = []
    for path in sorted((DOCS.parent / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                texts.append("".join(map(str, parts)))
    return tuple(texts)


@pytest.mark.parametrize("message", [text for text in messages() if text not in ("FAIL …", "egomap doctor")])
def test_the_package_can_say_it(message: str) -> None:
    # A placeholder stands for whatever is computed there, with what the page leaves out beside it.
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
    assert any(pattern.search(text) for text in said()), f"no text of the package is like: {message}"


def test_there_are_many() -> None:
    assert len(messages()) > 40
