"""Checkpoints and run folders that agree with themselves and are wrong all the same: refused with a reason."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from egomap.cli import main
from egomap.config import AgentConfig, TrainConfig
from egomap.presets import FAST_LEARNER
from egomap.scenarios.dataset import ScenarioSet
from egomap.training.checkpoint import Tensors, checkpoints, load_checkpoint, save_checkpoint
from egomap.training.command import train
from egomap.training.counters import Counters
from egomap.training.run import load_agent

pytestmark = pytest.mark.slow

Change = Callable[[Tensors, dict[str, Any]], object]


@pytest.fixture(scope="module")
def trained(mazes: ScenarioSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with half of its budget left."""
    config = TrainConfig(
        agent=AgentConfig(kind="gru", hidden_size=16),
        scenario=mazes.config,
        scenarios=str(mazes.folder),
        learner=dataclasses.replace(FAST_LEARNER, num_envs=4, rollout_steps=8, minibatches=2),
        budget=32,
        evaluate_every=0,
    )
    run = tmp_path_factory.mktemp("forged") / "run"
    train(config, run)
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace('"budget": 32', '"budget": 64'))
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def forge(run: Path, change: Change) -> None:
    """Change the checkpoint, and let its digest be that of what it now holds."""
    (path,) = checkpoints(run / "checkpoints")
    tensors, data = load_checkpoint(path)
    tensors, data = {name: tensor.clone() for name, tensor in tensors.items()}, copy.deepcopy(data)
    change(tensors, data)
    save_checkpoint(path, tensors, data)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The sentence with which a command refuses, which names the folder."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("egomap: ") and found.err.count("\n") == 1, found.err
    return found.err.removeprefix("egomap: ").rstrip("\n")


def counter(name: str, value: object) -> Change:
    return lambda tensors, data: data["counters"].__setitem__(name, value)


def without(name: str) -> Change:
    return lambda tensors, data: tensors.pop(name)


def with_tensor(name: str, tensor: torch.Tensor) -> Change:
    return lambda tensors, data: tensors.__setitem__(name, tensor)


def setting(group: str, name: str, value: object) -> Change:
    return lambda tensors, data: data["config"][group].__setitem__(name, value)


def whatever(tensors: Tensors, data: dict[str, Any]) -> None:
    """Nothing is changed."""


def nan_weights(tensors: Tensors, data: dict[str, Any]) -> None:
    tensors["agent.heads.policy.bias"][0] = torch.nan


FOR_ALL: list[tuple[Change, str]] = [
    (lambda tensors, data: data["counters"].pop("decisions"), "its counters lack or do not know decisions."),
    (counter("decisions", "32"), "its counter decisions is '32', not a number."),
    (counter("decisions", -1), "its counter decisions is -1, not a number."),
    (counter("update", 10**400), "its counter update is 1000"),
    (counter("recent", [[1.0, True]]), "its latest episodes are not returns, successes and decisions."),
    (counter("best_return", "high"), "its best return is 'high', not a number."),
    (lambda tensors, data: data.pop("counters"), "its counters are None, not a table."),
    (lambda tensors, data: data.pop("config"), "the config is not a table of settings."),
    (setting("env", "frame_skip", 8), "was trained with other settings than config.json has: env.frame_skip"),
    (setting("learner", "clip", 0.3), "has: learner.clip was 0.3."),
    (lambda tensors, data: data.update(extent=99.0), "has: extent was 99.0."),
    (lambda tensors, data: data.update(extent="wide"), "has: extent was 'wide'."),
    (lambda tensors, data: data.update(extent={}), "has: extent was {}."),
    (lambda tensors, data: data.update(extent={"a": 1}), "has: extent was {'a': 1}."),
    (nan_weights, "holds weights that are no numbers (NaN or infinite): heads.policy.bias."),
    (without("agent.heads.policy.bias"), "holds the weights of another agent"),
    (with_tensor("agent.heads.policy.bias", torch.zeros(7)), "holds the weights of another agent"),
    (with_tensor("agent.heads.policy.bias", torch.zeros(5).half()), "holds the weights of another agent"),
]
FOR_TRAINING: list[tuple[Change, str]] = [
    (without("random"), "holds no 'random' of 1 ranks to go on from."),
    (without("positions"), "holds no 'positions' of 0 ranks to go on from."),
    (with_tensor("random", torch.zeros(1, 5, dtype=torch.uint8)), "holds no 'random' of 1 ranks"),
    (with_tensor("shuffle", torch.zeros(1, 5056)), "holds no 'shuffle' of 1 ranks"),
    (with_tensor("scale", torch.zeros(3)), "holds no 'scale' of 1 ranks"),
    (with_tensor("scale", torch.full((2,), torch.nan, dtype=torch.float64)), "a scale that no training has"),
    (with_tensor("positions", torch.tensor([-1])), "holds positions or a scale that no training has."),
    (without("optimizer.0.exp_avg"), "holds a part of an optimiser's state only."),
    (with_tensor("optimizer.0.exp_avg", torch.zeros(3)), "optimizer.0.exp_avg does not fit."),
    (with_tensor("optimizer.99.exp_avg", torch.zeros(3)), "optimizer.99.exp_avg does not fit."),
    (with_tensor("optimizer.x", torch.zeros(3)), "optimizer.x does not fit."),
]


@pytest.mark.parametrize(("change", "told"), FOR_ALL, ids=[told[:40] for _, told in FOR_ALL])
def test_nobody_takes_it(run: Path, capsys: pytest.CaptureFixture[str], change: Change, told: str) -> None:
    forge(run, change)
    with pytest.raises(ValueError) as caught:
        load_agent(run)
    assert told in str(caught.value) and "step-000000000032" in str(caught.value)
    assert told in refused(capsys, "evaluate", str(run))
    assert told in refused(capsys, "train", "--run", str(run), "--resume")


@pytest.mark.parametrize(("change", "told"), FOR_TRAINING, ids=[told[:40] for _, told in FOR_TRAINING])
def test_no_training_goes_on(
    run: Path, capsys: pytest.CaptureFixture[str], change: Change, told: str
) -> None:
    forge(run, change)
    assert told in refused(capsys, "train", "--run", str(run), "--resume")
    load_agent(run)  # its weights are good


def test_random_states_that_torch_does_not_take(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("random", "shuffle"):
        forge(run, with_tensor(name, torch.full((1, 5056), 255, dtype=torch.uint8)))
        assert "holds random states that" in refused(capsys, "train", "--run", str(run), "--resume")


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [("env", "frame_skip", 8), ("agent", "hidden_size", 32), ("scenario", "cell", 256), ("", "extent", 5e4)],
)
def test_config_json_was_changed(
    run: Path, capsys: pytest.CaptureFixture[str], group: str, name: str, value: object
) -> None:
    path = run / "config.json"
    data = json.loads(path.read_text())
    (data[group] if group else data)[name] = value
    path.write_text(json.dumps(data))
    told = refused(capsys, "evaluate", str(run))
    assert f"was trained with other settings than config.json has: {group}{'.' * bool(group)}{name}" in told


def test_a_larger_budget_is_no_other_run(run: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace('"budget": 64', '"budget": 96'))
    assert load_agent(run)[1].budget == 96
    assert train(None, run, resume=True).decisions == 96


def test_a_checkpoint_of_the_first_release_does_not_tell_its_arena(run: Path) -> None:
    forge(run, lambda tensors, data: data.pop("extent"))
    load_agent(run)
    assert train(None, run, resume=True).decisions == 64


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is truncated or not JSON"),
        ("[" * 100_000, "is truncated or not JSON"),
        ("[]", "is damaged"),
        ('{"extent": NaN}', "extent must be a positive length; got nan."),
        ('{"extent": 1e999}', "extent must be a positive length; got inf."),
        ('{"extent": 640.0, "learner": {"rollout_steps": 1000000000000}}', "rollout-steps must be"),
        ('{"extent": 640.0, "seed": "%s"}' % ("9" * 5000), "the config.seed must be of type int; got '999"),
        ('{"extent": 640.0, "learner": 3}', "the config.learner is not a table of settings."),
        ("\udcff", "is damaged or not text: byte 0 is not UTF-8."),
    ],
)
def test_a_config_that_is_none(run: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    (run / "config.json").write_text(text, errors="surrogateescape")
    for command in (("evaluate", str(run)), ("train", "--run", str(run), "--resume")):
        sentence = refused(capsys, *command)
        assert told in sentence and str(run / "config.json") in sentence and len(sentence) < 1000


@pytest.mark.parametrize("name", ["config.json", "checkpoints/step-000000000032.safetensors"])
def test_files_that_do_not_end(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (run / name).unlink()
    (run / name).symlink_to("/dev/zero")
    assert "is not an ordinary file" in refused(capsys, "evaluate", str(run))
    (run / name).unlink()
    os.mkfifo(run / name)
    assert "is not an ordinary file" in refused(capsys, "evaluate", str(run))


def test_counters_come_back() -> None:
    counters = Counters(update=3, decisions=96, seconds=1.5, best_return=0.25)
    counters.recent.extend([(0.5, True, 12), (-0.2, False, 525)])
    assert Counters.from_json(json.loads(json.dumps(counters.to_json()))) == counters
    assert Counters.from_json(json.loads(json.dumps(Counters().to_json()))) == Counters()
