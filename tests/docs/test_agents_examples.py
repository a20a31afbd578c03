"""docs/agents.md: its programs run, on a run in a folder of the name that they use."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from egomap.config import AgentConfig, EnvSettings, ScenarioConfig, TrainConfig
from egomap.presets import FAST_LEARNER
from egomap.training.command import train

from .blocks import blocks, run_block

pytestmark = pytest.mark.slow


def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig(
        agent=AgentConfig(kind="gru"),
        scenario=ScenarioConfig(task="labyrinth", size=5, train=4, test=4),
        env=EnvSettings(frame_skip=20),
        learner=dataclasses.replace(FAST_LEARNER, num_envs=4, rollout_steps=8, minibatches=2),
        budget=32,
        evaluate_every=0,
    )
    train(config, tmp_path / "runs" / "a")
    play, batch, own, wandb = [code for language, code in blocks("agents.md") if language == "python"]
    assert run_block("python", play, tmp_path) == ""
    assert run_block("python", batch, tmp_path) == ""
    *logged, scores = run_block("python", own, tmp_path).splitlines()
    assert [line.split()[0] for line in logged] == ["2048", "4096"]
    assert -1.0 <= float(scores.strip("[]")) <= 1.0
    monkeypatch.setenv("WANDB_MODE", "offline")
    run_block("python", own.split("trained =")[0] + wandb, tmp_path)  # it continues the program before it
    assert len([*tmp_path.glob("wandb/offline-run-*/run-*.wandb")]) == 1
    assert (tmp_path / "runs" / "c" / "metrics.csv").exists()
