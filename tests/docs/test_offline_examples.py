"""docs/offline.md: its example runs, and its tables name what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from egomap.offline.learn import TARGETS
from egomap.offline.report import COLUMNS

from .blocks import DOCS, blocks, run_block


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path) -> None:
    programs = [code for language, code in blocks("offline.md") if language == "python"]
    assert len(programs) == 1
    printed = run_block("python", programs[0], tmp_path)
    assert re.fullmatch(r"(way home: \d\.\d{3} ± \d\.\d{3} in 256 decisions\n){2}", printed)


def test_every_label_is_described() -> None:
    text = (DOCS / "offline.md").read_text().split("## What is learned", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(TARGETS) == set(COLUMNS)
