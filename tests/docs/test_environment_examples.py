"""Every block of docs/environments.md works as it stands, and its tables name what the code has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from egomap.envs import IDS, RENDER_MODES, DoomEnv, DoomVectorEnv, observation_space
from egomap.scenarios.dataset import ScenarioSet

from .blocks import DOCS, blocks, run_block


@pytest.mark.slow
def test_blocks_run(tmp_path: Path) -> None:
    programs = [
        one for one in blocks("environments.md") if one[0] != "text"
    ]  # text: further simulators, long runs
    printed = [run_block(language, code, tmp_path) for language, code in programs]
    first, walls, rollout, evaluation = printed
    assert first.startswith("rgb uint8 (3, 64, 112)\ndepth float32 (64, 112)\n")
    assert re.search(r"^\d+ decisions, \d+ frames, return -?\d", first, re.MULTILINE)
    assert walls == "walls inside the arena: True\n"
    assert rollout == "SAME_STEP (9, 4, 3, 64, 112)\n"
    assert evaluation == "[0, 0, 1, 1, 2, 2]\n"
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "tiny"}


def names(heading: str) -> list[str]:
    """What the first column of the table below a heading has between back-ticks."""
    text = (DOCS / "environments.md").read_text().split(f"## {heading}\n", 1)[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_tables_are_those_of_the_code(sets: dict[str, ScenarioSet]) -> None:
    assert names("Ids") == list(IDS)
    assert names("Options") == [name for name in inspect.signature(DoomEnv).parameters if name != "task"]
    assert sorted(names("Observation and actions")) == sorted(observation_space().spaces)
    assert names("Camera and depth") == list(RENDER_MODES)
    more = inspect.signature(DoomVectorEnv).parameters.keys() - inspect.signature(DoomEnv).parameters.keys()
    assert set(names("Vector environment")) == more - {"num_envs"}
    env = DoomEnv(task="labyrinth", scenarios=sets["labyrinth"])
    try:
        assert names("Info") == list(env.reset(seed=0)[1])
    finally:
        env.close()
