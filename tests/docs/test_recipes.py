"""The recipes of CONTRIBUTING.md, followed to the letter: each one file, then commands with the real engine."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import torch

from egomap.config import AgentConfig, LearnerSettings
from egomap.training.metrics import read_metrics
from egomap.training.run import load_agent
from warm import egomap

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def follow(recipe: str, folder: Path) -> None:
    """Write the file of a recipe, and run its commands."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {recipe}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```bash\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (folder / code.splitlines()[0].removeprefix("# ")).write_text(code, encoding="utf-8")
    environment = os.environ | {"EGOMAP_CACHE": str(folder / "cache")}
    for line in commands.splitlines():
        words = shlex.split(line)
        assert words[:3] == ["python", "-m", "egomap"]
        done = egomap(*words[3:], cwd=folder, env=environment)
        assert done.returncode == 0, done.stderr


def test_add_a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("Add a memory", tmp_path)
    assert len(read_metrics(tmp_path / "with-fading" / "metrics.csv")) == 3
    (answer,) = json.loads((tmp_path / "scores.json").read_text())["evaluations"]
    assert answer["agent"] == "fading:Fading" and [each["lesion"] for each in answer["lesions"]] == [
        "average"
    ]
    assert "<html" in (tmp_path / "episode.html").read_text()
    monkeypatch.syspath_prepend(str(tmp_path))
    agent, config, _ = load_agent(tmp_path / "with-fading")
    assert config.agent == AgentConfig(
        **{**vars(config.agent), "kind": "fading:Fading", "settings": ("keep=0.8",)}
    )
    assert agent.memory.keep == 0.8  # type: ignore[attr-defined]
    inputs = {
        "rgb": torch.zeros(5, 2, 3, 64, 112, dtype=torch.uint8),
        "depth": torch.full((5, 2, 64, 112), 100.0),
        "pose": torch.zeros(5, 2, 3),
        "ego_motion": torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0)),
    }
    start = torch.tensor([[True, False], [False, True], *[[False, False]] * 3])
    state = tuple(torch.rand_like(each) for each in agent.initial_state(2))
    whole = agent.unroll(inputs, state, start)
    for t in range(5):
        step = agent.step({name: each[t] for name, each in inputs.items()}, state, start[t])
        torch.testing.assert_close(step.logits, whole.logits[t])
        state = step.state


def test_add_a_loss(tmp_path: Path) -> None:
    follow("Add a loss", tmp_path)
    rows = read_metrics(tmp_path / "small-outputs" / "metrics.csv")
    assert len(rows) == 3 and all(float(row["output_square"]) > 0 for row in rows)


def test_add_an_auxiliary_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("Add an auxiliary task", tmp_path)
    rows = read_metrics(tmp_path / "with-heading" / "metrics.csv")
    assert len(rows) == 3 and all(0 < float(row["auxiliary_loss"]) < 10 for row in rows)
    assert all(float(row["gradient_auxiliary"]) > 0 for row in rows)
    monkeypatch.syspath_prepend(str(tmp_path))
    agent, config, checkpoint = load_agent(tmp_path / "with-heading")
    assert config.learner.addresses == ("heading:Heading",) != LearnerSettings().addresses
    assert agent.auxiliary is not None and agent.auxiliary.out_features == 2
    assert {"agent.auxiliary.weight", "agent.auxiliary.bias"} <= set(checkpoint.tensors)


def test_add_a_bonus(tmp_path: Path) -> None:
    follow("Add a bonus", tmp_path)
    rows = read_metrics(tmp_path / "moving-on" / "metrics.csv")
    assert len(rows) == 3
    for row in rows:
        assert float(row["moving_bonus"]) == pytest.approx(0.001 * float(row["moving"]), rel=1e-3)
    assert any(float(row["moving"]) > 0 for row in rows)
