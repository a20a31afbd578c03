"""Every block of docs/scenarios.md works as it stands, one after the other in one folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from egomap.commands.generate import generate
from egomap.config import TASKS, ScenarioConfig
from egomap.scenarios.tasks import FAMILIES

from .blocks import DOCS, blocks, run_block


@pytest.mark.slow
def test_blocks_run(tmp_path: Path) -> None:
    printed = [run_block(language, code, tmp_path) for language, code in blocks("scenarios.md")]
    assert len(printed) == 5
    made, manifest, played, python, environment = printed
    assert "24 train, 12 test layouts of find-return" in made
    assert manifest.startswith("MAP01 starts in cell [")
    assert len(re.findall(r"decisions, \d goals, (?:timed out|solved|failed), return", played)) == 2
    assert python.startswith("train.wad MAP01 Cell(")
    assert environment.startswith("(3, 64, 112) ")
    expected = {"_vizdoom", "cache", "engine.ini", "items", "mazes"}
    assert {path.name for path in tmp_path.iterdir()} - expected == set(), "a program left something behind"


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of the page, without its head."""
    text = (DOCS / "scenarios.md").read_text().split(f"## {heading}\n", 1)[1]
    rows = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_options_are_those_of_the_command() -> None:
    documented = {row[0].strip("`").lstrip("-").replace("-", "_"): row[2] for row in table("Options")}
    names = list(generate.__annotations__)
    assert list(documented)[1:] == [name for name in names if name not in ("task", "return")]
    plain, ordered = ScenarioConfig.default("labyrinth"), ScenarioConfig.default("ordered-items")
    for name in ("size", "cell"):
        assert documented[name] == f"{getattr(plain, name)}; `ordered-items` {getattr(ordered, name)}"
    for name in ("items", "wall_probability", "train", "test", "seed"):
        assert documented[name] == str(getattr(plain, name))


def test_tasks_are_those_of_the_table() -> None:
    rows = table("Tasks")
    assert [row[0].strip("`") for row in rows] == list(TASKS)
    for task, row in zip(TASKS, rows, strict=True):
        rewards = FAMILIES[task].rewards(4 if task == "ordered-items" else len(FAMILIES[task].looks))
        paid = {float(number) for number in re.findall(r"\+(\d\.\d)", row[2])}
        assert paid == set(rewards)
    assert f"{FAMILIES['ordered-items'].wrong_reward}" in rows[2][2]


@pytest.mark.parametrize("picture", ["find-return.png"])
def test_pictures_are_there_and_small(picture: str) -> None:
    assert f"(images/{picture})" in (DOCS / "scenarios.md").read_text()
    assert (DOCS / "images" / picture).stat().st_size < 150_000
