"""Files that are damaged, edited or forged, a few of them; `python tools/fuzz.py` tries many."""

from __future__ import annotations

import random
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "fuzz.py"
CASES = 200


def test_no_file_is_a_traceback_or_a_hang(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TOOL, "--cases", str(CASES), "--seed", "14", "--keep", tmp_path / "faults"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 traceback, 0 hang, 0 glutton" in done.stdout
    read, refused = (int(part.split()[0]) for part in done.stdout.rsplit(": ", 1)[1].split(", ")[:2])
    assert read + refused == CASES and read > CASES / 20 and refused > CASES / 2, done.stdout
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


def refuse(folder: Path) -> None:
    raise ValueError("it is damaged.")


def two_lines(folder: Path) -> None:
    raise ValueError("it is damaged:\nhere.")


def forget(folder: Path) -> None:
    raise KeyError("random")


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (refuse, "refused"),
        (two_lines, "traceback"),
        (forget, "traceback"),
        (lambda folder: time.sleep(9), "hang"),
    ],
)
def test_faults_are_seen(tool: dict[str, Any], read: Any, what: str, tmp_path: Path) -> None:
    tool["outcome"].__globals__["SECONDS"] = 1
    kind = tool["Kind"]("file", tmp_path, tool["forge_set"], read)
    assert tool["outcome"](kind, tmp_path)[0] == what


def test_the_same_seed_makes_the_same_files(tool: dict[str, Any]) -> None:
    data = bytes(range(256)) * 9
    spoilt = [tool["spoil"](data, random.Random(f"0 {number}")) for number in range(50)]
    assert spoilt == [tool["spoil"](data, random.Random(f"0 {number}")) for number in range(50)]
    assert len({*spoilt, data}) > 40
