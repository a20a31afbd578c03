"""docs/evaluation.md: its examples run, and its tables name what the code has."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from egomap.evaluation.runner import EpisodeResult
from egomap.evaluation.scores import layout_scores, summarise
from egomap.experiments.command import Curves
from egomap.mazes.legs import Leg

from .blocks import DOCS, blocks, run_block

PAGE = DOCS / "evaluation.md"


def first_column(heading: str) -> list[str]:
    """The code words in the first column of the table below a heading, without its head."""
    text = PAGE.read_text().split(f" {heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    rows = table[0].splitlines()[2:]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])]


@pytest.mark.slow
def test_blocks_run(tmp_path: Path) -> None:
    runnable = [(language, code) for language, code in blocks("evaluation.md") if language != "text"]
    assert [language for language, _ in runnable] == ["bash", "python", "python", "python"]
    scored, printed, legs, worth = [run_block(language, code, tmp_path) for language, code in runnable]
    assert "8 of 8" in scored  # the planner
    assert re.fullmatch(r"0\.\d{3} ± 0\.\d{3}, 0\.\d{3} to 0\.\d{3}, IQM 0\.\d{3}\n", printed)
    assert re.fullmatch(r"(\d \[\('exit', \d+, \d+\)\]\n){4}", legs)
    assert re.fullmatch(r"[+-]\d\.\d{3}, [+-]\d\.\d{3} to [+-]\d\.\d{3}\n", worth)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert set(first_column("The JSON")) - {"layouts", "summary"} <= {*scores, *scores["evaluations"][0]} | {
        *scores["evaluations"][0]["layouts"][0]
    }


def test_figures_are_those_of_the_summary() -> None:
    leg = Leg("exit", 0, 10, True, 8, True, 0.0, 3, 300.0, 200.0)
    episode = EpisodeResult(0, "maze", 0, 1.0, True, 10, False, (leg,))
    found = summarise([layout_scores([episode])])
    assert set(first_column("The figures")) == set(found) - {"runs", "layouts", "episodes"}
    of_legs = {*leg.to_json(), *found["legs"][0]} - {
        "leg",
        "goal",
        "began",
        "interval_95",
        "detour",
        "seen_before",
    }
    assert set(first_column("Legs")) == of_legs


def test_options_are_those_of_the_commands() -> None:
    text = PAGE.read_text().split("## Reproduce the paper's tables", 1)[1]
    documented = re.findall(r"`--([a-z-]+)`", " ".join(re.findall(r"^\| (`--.*?) \|", text, re.MULTILINE)))
    assert sorted(documented) == sorted(field.name.replace("_", "-") for field in dataclasses.fields(Curves))
