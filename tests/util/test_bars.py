"""Where tables and progress go; the display in a notebook is tested with the notebook (tests/docs)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("columns", "whole"), [(None, True), ("60", False)])
def test_a_table_in_a_pipe_is_not_folded_unless_columns_says_so(columns: str | None, whole: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if columns is not None:
        environment["COLUMNS"] = columns
    command = [sys.executable, "-m", "egomap", "agents"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert any("find-return-9/egomap+" in line and " to 0." in line for line in lines) == whole
    assert max(map(len, lines)) <= (160 if whole else 60)


def test_progress_in_a_pipe_draws_nothing_over(capfd: pytest.CaptureFixture[str]) -> None:
    from egomap.util.bars import progress_bar

    with progress_bar("mazes") as advance:
        for done in range(5):
            advance(done + 1, 5)
    out, err = capfd.readouterr()
    assert out == ""
    assert "5/5" in err and "\x1b" not in err
