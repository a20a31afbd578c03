"""Trainings that begin with another agent's weights, runs that get a larger budget, and `egomap.train`."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
import torch

import egomap
from egomap.cli import main
from egomap.commands.train_flags import TrainFlags
from egomap.config import TrainConfig
from egomap.presets import PRESETS
from egomap.training.checkpoint import checkpoints, load_checkpoint
from egomap.training.metrics import read_metrics
from egomap.training.run import open_run
from egomap.training.trainer import Progress

from .test_export import refused

pytestmark = pytest.mark.slow

STILL = 1e-12
"""A learning rate at which nothing is learned that could be seen."""


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Of the last checkpoint."""
    found = load_checkpoint(checkpoints(run / "checkpoints")[0]).tensors
    return {name: tensor for name, tensor in found.items() if name.startswith("agent.")}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.allclose(first[name], second[name], atol=1e-6) for name in first)


@pytest.fixture
def still(tiny_config: TrainConfig) -> TrainConfig:
    """Another seed, and weights that stay as they begin; two updates."""
    learner = dataclasses.replace(tiny_config.learner, learning_rate=STILL)
    return dataclasses.replace(tiny_config, seed=7, learner=learner, budget=64)


@pytest.mark.parametrize("source", ["run", "exported"])
def test_it_begins_with_the_weights(
    still: TrainConfig, source: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where, run = request.getfixturevalue(source), request.getfixturevalue("run")
    path = tmp_path / "tuned"
    seen: list[Progress] = []

    def stop_at_once(progress: Progress) -> bool:
        seen.append(progress)
        return False

    begun = egomap.train(still, path, init=where, callback=stop_at_once, quiet=True)
    assert (begun.decisions, begun.finished, begun.path, begun.best_return) == (32, False, path, None)
    assert [progress.decisions for progress in seen] == [32] and "policy_loss" in seen[0].row
    assert same(weights(path), weights(run))
    own = open_run(path)[1].init
    assert own is not None and own.startswith(f"{where.name} after 96 decisions (") and "/" not in own
    # Killed before its first checkpoint, it begins with them again, wherever the other run is by then.
    for checkpoint in (path / "checkpoints").iterdir():
        checkpoint.unlink()
    ended = egomap.train(None, path, resume=True, quiet=True)
    assert ended.finished and same(weights(path), weights(run))


def test_without_init_it_begins_elsewhere(still: TrainConfig, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "fresh"
    egomap.train(still, path, callback=lambda progress: False, quiet=True)
    assert not same(weights(path), weights(run)) and open_run(path)[1].init is None


def test_what_does_not_fit_is_refused(
    still: TrainConfig, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tuned"
    gru = dataclasses.replace(still, agent=dataclasses.replace(still.agent, kind="gru"))
    with pytest.raises(
        ValueError, match="is of kind egomap, and this run is to train gru: say --agent egomap"
    ):
        egomap.train(gru, path, init=run)
    narrow = dataclasses.replace(still, agent=dataclasses.replace(still.agent, hidden_size=64))
    with pytest.raises(ValueError, match=r"has other sizes than this run's agent: heads.* is \(5, \d+\)"):
        egomap.train(narrow, path, init=run)
    told = refused(capsys, "train", "--agent", "gru", "--init", run, "--run", path)
    assert told == f"{run} is of kind egomap, and this run is to train gru: say --agent egomap."
    told = refused(capsys, "train", "--init", run, "--map.alpha", "0.5", "--run", path)
    assert told == f"{run} keeps its settings when it is trained on: leave out what changes map."
    told = refused(capsys, "train", "--init", run, "--rendering", "320x180", "--run", path)
    assert told.endswith("leave out what changes rendering.")
    assert refused(capsys, "train", "--init", "nobody", "--run", path).startswith("nobody holds no run")
    assert not path.exists()


def test_the_command_takes_the_agent_s_settings(
    run: Path, tiny_config: TrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The preset's agent has a larger map and is told no rewards; the one that is tuned keeps its own."""
    flags = ("--learner.num-envs=2", "--learner.rollout-steps=16", "--learner.minibatches=2", "--noise=0.1")
    budget = ("--budget=32", "--evaluate-every=0", f"--scenarios={tiny_config.scenarios}")
    path = tmp_path / "tuned"
    assert main(["train", "--init", str(run), *flags, *budget, f"--run={path}"]) == 0
    config = open_run(path)[1]
    assert config.agent == tiny_config.agent
    assert (config.env.frame_skip, config.env.ego_motion_noise) == (20, 0.1)
    told = capsys.readouterr().out
    assert told == (
        f"The run: {path}, 32 of 32 decisions\n"
        f"Next: egomap evaluate {path}, or look into its memory: egomap inspect {path}\n"
    )


def test_a_finished_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says that it is finished; it can be extended; its folder tells that it was."""
    path = Path(shutil.copytree(run, tmp_path / "longer"))
    before = {entry.name: entry.read_bytes() for entry in (path / "checkpoints").iterdir()}
    assert main(["train", "--run", str(path), "--resume"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        f"{path} is finished: 96 of 96 decisions. To extend it: egomap train --run {path} --resume"
    )
    assert f"The run: {path}, 96 of 96 decisions" in told
    assert {entry.name: entry.read_bytes() for entry in (path / "checkpoints").iterdir()} == before
    told = refused(capsys, "train", "--run", path, "--resume", "--budget", "64")
    assert told == f"{path} has a budget of 96 decisions, and a run can only be extended; got 64."
    capsys.readouterr()
    for _ in range(2):  # the second time there is nothing left to do
        assert main(["train", "--run", str(path), "--resume", "--budget", "128"]) == 0
    told = capsys.readouterr().out
    assert "is now 128 decisions; it was 96, and 96 are spent" in told
    assert "the learning rate goes on at 0.0005, where it was 0" in told
    assert f"{path} is finished: 128 of 128" in told
    assert json.loads((path / "budgets.json").read_text())["extensions"] == [
        {"decisions": 96, "from": 96, "to": 128}
    ]
    rows = read_metrics(path / "metrics.csv")
    assert [row["decisions"] for row in rows] == ["32", "64", "96", "128"]
    assert float(rows[-1]["learning_rate"]) == pytest.approx(2e-3 * (1 - 96 / 128))
    assert egomap.load_agent(path).decisions == 128
    assert main(["export", str(path), str(tmp_path / "out")]) == 0
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["training"]["extensions"] == [{"decisions": 96, "from": 96, "to": 128}]
    assert "budget extended | 96 to 128" in (tmp_path / "out" / "README.md").read_text()


def test_a_budget_that_is_given_is_a_budget() -> None:
    """As many decisions as a preset has by itself are told from none."""
    assert math.isnan(TrainFlags.of(["--resume"]).budget)
    assert TrainFlags.of([]).budget == PRESETS["fast"].budget


def test_what_train_refuses(tiny_config: TrainConfig, run: Path, tmp_path: Path) -> None:
    for wrong, told in (
        ({}, "give a config, or resume=True"),
        ({"config": tiny_config, "resume": True}, "has its own config"),
        ({"config": tiny_config, "budget": 5}, "budget is for a run that is resumed"),
        ({"resume": True, "init": run}, "init is for a new run"),
    ):
        with pytest.raises(ValueError, match=told):
            egomap.train(run=tmp_path / "run", **wrong)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
