"""README.md: its programs run, and its moving picture is small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from .blocks import DOCS, run_block

README = DOCS.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


def programs() -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(found) == 2
    return found


@pytest.mark.slow
def test_a_released_agent_plays(tmp_path: Path) -> None:
    assert run_block("python", programs()[0] + "print(type(reward).__name__)", tmp_path) == "float\n"


def test_the_memory_alone(tmp_path: Path) -> None:
    program = programs()[1]
    told = re.search(r"^output, .*# \((\d+), (\d+)\)", program, re.MULTILINE)
    assert told is not None
    assert run_block("python", program + "print(*output.shape)", tmp_path) == f"{told[1]} {told[2]}\n"


def test_the_moving_picture_moves_and_is_small() -> None:
    (name,) = re.findall(r"\]\((docs/images/\S+\.webp)\)", TEXT)
    path = DOCS.parent / name
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as picture:
        assert picture.n_frames > 50
