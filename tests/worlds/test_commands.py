"""`egomap train --env` and what follows on it: a run that resumes bit for bit, evaluations, sentences of refusal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import rooms  # noqa: F401  (found by its name)

from egomap.cli import main
from egomap.config import TrainConfig
from egomap.training.checkpoint import checkpoints, load_checkpoint
from egomap.training.metrics import read_metrics
from egomap.training.run import load_agent, run_spec

SMALL = (
    "--env=rooms:Room",
    "--env-workers=0",
    "--env-held-out=3",
    "--learner.num-envs=4",
    "--learner.rollout-steps=8",
    "--learner.minibatches=2",
    "--evaluate-every=0",
    "--checkpoint-every=32",
    "--budget=96",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "gru"
    assert main(["train", *SMALL, "--agent=gru", "--reset-every-update", f"--run={folder}"]) == 0
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main([*arguments]) == 2
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("egomap: ")]
    return told.removeprefix("egomap: ")


def test_a_run_is_described_in_its_folder(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    assert config["env"]["id"] == config["world"]["name"] == "rooms:Room"
    spec = run_spec(run)
    assert spec.extent == config["extent"] == 640.0
    agent, settings, _ = load_agent(run)
    assert agent.heads.policy.out_features == 7
    assert agent.perception.unknown_depth == 640.0
    assert settings.place == "rooms-Room"
    rows = read_metrics(run / "metrics.csv")
    assert [row["frames"] for row in rows] == ["32", "64", "96"]
    assert rows[-1]["test_return"] and rows[-1]["maze_size"] == "0"


def test_a_resumed_run_equals_an_unbroken_one(run: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    last = checkpoints(broken / "checkpoints")[0]
    whole = load_checkpoint(last)
    last.unlink()
    assert main(["train", f"--run={broken}", "--resume"]) == 0
    again = load_checkpoint(last)
    assert whole.tensors.keys() == again.tensors.keys()
    assert all(bool((tensor == again.tensors[name]).all()) for name, tensor in whole.tensors.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["none", "frame-stack", "lstm", "neural-map", "egomap", "places", "egomap-places"]
)
def test_every_memory_trains_there(kind: str, tmp_path: Path) -> None:
    flags = [flag for flag in SMALL if not flag.startswith("--budget")]
    assert main(["train", *flags, "--budget=32", f"--agent={kind}", f"--run={tmp_path / 'run'}"]) == 0
    assert (
        main(
            ["evaluate", str(tmp_path / "run"), "--lesion=all"]
            if kind == "egomap"
            else ["evaluate", str(tmp_path / "run")]
        )
        == 0
    )


def test_an_evaluation_on_fresh_seeds(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for name in ("a", "b"):
        out = tmp_path / f"{name}.json"
        assert main(["evaluate", str(run), "--agents", "random", "--num-envs=2", "--out", str(out)]) == 0
        answers.append(out.read_bytes())
    assert answers[0] == answers[1]
    mine, random = json.loads(answers[0])["evaluations"]
    assert mine["scenarios"]["env"] == "rooms:Room" and mine["scenarios"] == random["scenarios"]
    assert [entry["layout_id"] for entry in mine["layouts"]] == [f"rooms:Room#{i}" for i in range(3)]
    assert mine["summary"]["share_of_optimum"] is None and 0 <= mine["summary"]["success"] <= 1
    other = tmp_path / "other.json"
    assert main(["evaluate", str(run), "--seed=7", "--out", str(other)]) == 0
    assert other.read_bytes() != answers[0]  # it says at least which seed it had


def test_what_does_not_fit_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"--run={tmp_path / 'new'}"
    for env in ("Room", "Five"):
        flags = (f"--env=rooms:{env}", "--env-workers=0", "--agent=guided", path)
        assert "choose an agent without guides" in refused(capsys, "train", *flags)
    told = refused(capsys, "train", "--env=rooms:NoCamera", "--env-workers=0", path)
    assert told.startswith(
        "rooms:NoCamera does not tell its camera: give the vertical opening angle by --env-fov"
    )
    assert not (tmp_path / "new").exists()
    assert "--size of our mazes and --env" in refused(capsys, "train", "--env=rooms:Room", "--size=5", path)
    assert "go with --env" in refused(capsys, "train", "--env-fov=80", path)
    assert "leave them out with --env" in refused(
        capsys, "train", "--env=rooms:Room", "--imitate=explorer", path
    )
    assert "score random beside a run" in refused(capsys, "train", "--env=rooms:Room", "--agent=random")
    assert "plays nothing else" in refused(capsys, "evaluate", str(run), "--scenario=labyrinth", "--size=3")
    for command in ("inspect", "play", "probe"):
        assert "the inspector shows our mazes" in refused(capsys, command, str(run))
    assert "needs the layout" in refused(capsys, "evaluate", str(run), "--agents=planner")


def test_a_damaged_description_is_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "run"
    shutil.copytree(run, damaged)
    config = json.loads((damaged / "config.json").read_text())
    for wrong in (None, 3, {**config["world"], "unit": "x"}, {**config["world"], "extent": 3.0}):
        (damaged / "config.json").write_text(json.dumps({**config, "world": wrong}))
        assert "is damaged: " in refused(capsys, "evaluate", str(damaged))


def test_a_run_folder_brings_no_environment_along(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever evaluates somebody's folder, even from within it, runs no file of it."""
    foreign = tmp_path / "run"
    shutil.copytree(run, foreign)
    config = (foreign / "config.json").read_text().replace("rooms:Room", "mine:Room")
    (foreign / "config.json").write_text(config)
    (foreign / "mine.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(foreign)
    assert "would be imported from that folder" in refused(capsys, "evaluate", str(foreign))


def test_settings_of_the_first_release_know_no_env() -> None:
    data = TrainConfig().to_json()
    for name in ("id", "fov", "extent", "unit", "depth_range", "held_out", "workers"):
        del data["env"][name]
    assert TrainConfig.from_json(data) == TrainConfig()
