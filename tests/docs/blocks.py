"""The code blocks of a page of the documentation, to be run as a reader would run them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from warm import egomap, python

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block of docs/`page`, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_block(language: str, code: str, folder: Path) -> str:
    """Run one block in `folder`; returns what it prints. `egomap ...` lines and Python programs are understood."""
    environment = os.environ | {"EGOMAP_CACHE": str(folder / "cache"), "COLUMNS": "120"}
    if language == "python":
        done = [python(code, cwd=folder, env=environment)]
    else:
        assert language == "bash"
        lines = [words for line in code.splitlines() if (words := shlex.split(line, comments=True))]
        assert all(words[0] == "egomap" for words in lines)
        done = [egomap(*words[1:], cwd=folder, env=environment) for words in lines]
    for each in done:
        assert each.returncode == 0, f"{code}\n{each.stderr}"
    return "".join(each.stdout for each in done)
