"""What the first release wrote is taken by today's commands: a run, its checkpoint, its scores, a set of mazes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from egomap.cli import main
from egomap.evaluation.answer import read_evaluation
from egomap.scenarios.dataset import generate, load
from egomap.training.checkpoint import load_checkpoint
from egomap.training.metrics import read_metrics
from egomap.training.run import load_agent

WRITTEN = Path(__file__).parent / "first_release"
MAZES = WRITTEN / "mazes"
CHECKPOINT = WRITTEN / "run" / "checkpoints" / "step-000000000096.safetensors"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WRITTEN / "run", tmp_path / "run"))


def test_the_checkpoint_is_the_agent(run: Path) -> None:
    agent, config, checkpoint = load_agent(run)
    assert checkpoint.tensors.keys() == load_checkpoint(CHECKPOINT).tensors.keys()
    assert config.agent.kind == "egomap" and config.agent.hidden_size == 8 and config.learner.terms == ()
    for name, weights in agent.state_dict().items():
        assert torch.equal(weights, checkpoint.tensors[f"agent.{name}"]), name


def test_the_set_is_what_the_same_settings_give_today(tmp_path: Path) -> None:
    old = load(MAZES)
    made = generate(old.config, tmp_path / "made")
    assert made.layouts == old.layouts
    for path in MAZES.iterdir():
        assert path.read_bytes() == (made.folder / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_the_run_resumes_and_is_scored_and_inspected(run: Path, tmp_path: Path) -> None:
    before = (run / "metrics.csv").read_text().splitlines()
    assert main(["train", f"--run={run}", "--resume"]) == 0
    rows = read_metrics(run / "metrics.csv")
    assert [row["decisions"] for row in rows] == ["32", "64", "96", "128"]
    assert (run / "metrics.csv").read_text().splitlines()[1:4] == [
        line + "," * (len(rows[0]) - len(line.split(","))) for line in before[1:4]
    ]
    out = tmp_path / "scores.json"
    asked = ("--scenarios", str(MAZES), "--episodes-per-layout=4")
    assert main(["evaluate", str(run), *asked, "--out", str(out)]) == 0
    (now,), (then,) = (read_evaluation(path)["evaluations"] for path in (out, WRITTEN / "scores.json"))
    assert now["scenarios"]["task"] == then["scenarios"]["task"] and now["trained_decisions"] == 128
    assert [len(layout["returns"]) for layout in now["layouts"]] == [4]
    assert now["layouts"][0]["optimum_decisions"] == then["layouts"][0]["optimum_decisions"]
    page = tmp_path / "episode.html"
    assert main(["inspect", str(run), "--scenarios", str(MAZES), "--out", str(page)]) == 0
    assert "<html" in page.read_text()


def test_its_scores_are_read(tmp_path: Path) -> None:
    answer = json.loads((WRITTEN / "scores.json").read_text())
    assert read_evaluation(WRITTEN / "scores.json") == answer
    (of_training,) = (WRITTEN / "run" / "evaluation").iterdir()
    assert json.loads(of_training.read_text())
