"""docs/extending.md, CONTRIBUTING's recipe "Add a simulator", followed to the letter: one file, then the commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from egomap.evaluation.answer import read_evaluation

from .blocks import DOCS, blocks, run_block

BLOCKS = blocks("extending.md")
SIMULATOR, COMMANDS, IN_PYTHON = BLOCKS
PAGE = (DOCS / "extending.md").read_text(encoding="utf-8")


def save_simulator(folder: Path) -> None:
    """The one file that the page asks for."""
    (name,) = re.findall(r"Save it as `(\S+)`", PAGE)
    assert len(SIMULATOR[1].splitlines()) < 60
    (folder / name).write_text(SIMULATOR[1])


def test_the_recipe_is_one_file() -> None:
    recipe = (DOCS.parent / "CONTRIBUTING.md").read_text().split("## Add a simulator\n")[1].split("\n## ")[0]
    assert "docs/extending.md" in recipe and "--env" in recipe
    assert not re.findall(r"`src/egomap/(?!training/sources|worlds/api|envs/source)\S+`", recipe)


def test_from_python(tmp_path: Path) -> None:
    save_simulator(tmp_path)
    assert run_block(*IN_PYTHON, tmp_path) == "7 80.0 (4, 3, 96, 96) True\n"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("agent", ["egomap", "gru"])
def test_an_agent_learns_there_and_random_does_not(tmp_path: Path, agent: str) -> None:
    save_simulator(tmp_path)
    language, code = COMMANDS
    if agent == "gru":  # as the page says below its commands
        assert "With `--agent gru`, 40,000 decisions solve more than nine of ten" in PAGE
        code = code.replace("--agent egomap --budget 60000", "--agent gru --budget 40000")
    printed = run_block(language, code, tmp_path)
    assert "runs/room" in printed and "random" in printed
    run = tmp_path / "runs" / "room"
    assert json.loads((run / "config.json").read_text())["world"]["unit"] == 80.0
    learned = read_evaluation(next(run.glob("evaluation/test-*.json")))["evaluations"][0]["summary"]
    assert learned["episodes"] == 64 and learned["success"] > 0.7 and learned["mean_return"] > 0.5
    low, high = learned["interval_95"]
    assert low < learned["mean_return"] < high
    alone = tmp_path / "random.json"
    run_block("bash", f"egomap evaluate runs/room --agents random --out {alone}", tmp_path)
    by_agent = {one["agent"]: one["summary"] for one in read_evaluation(alone)["evaluations"]}
    assert by_agent[agent] == learned
    assert by_agent["random"]["success"] < 0.3 and by_agent["random"]["mean_return"] < 0.1
