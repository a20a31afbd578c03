"""The code blocks of a page of the documentation, to be run as a reader would run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block of docs/`page`, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_block(language: str, code: str, folder: Path) -> str:
    """Run one block in `folder`; returns what it prints. `egomap ...` lines and Python programs are understood."""
    if language == "python":
        commands = [[sys.executable, "-c", code]]
    else:
        assert language == "bash"
        lines = [shlex.split(line, comments=True) for line in code.splitlines()]
        commands = [[sys.executable, "-m", *line] for line in lines if line]
        assert all(command[2] == "egomap" for command in commands)
    environment = os.environ | {"EGOMAP_CACHE": str(folder / "cache"), "COLUMNS": "120"}
    printed = ""
    for command in commands:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"{code}\n{run.stderr}"
        printed += run.stdout
    return printed
