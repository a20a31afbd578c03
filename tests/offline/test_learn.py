"""Learning from walks: figures by hand, states that are carried on, and a memory that learns what none cannot."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from egomap.agents.agent import OBSERVATION_KEYS, Agent, build_agent
from egomap.cli import main
from egomap.config import AgentConfig, AgentKind, MapSettings, ScenarioConfig
from egomap.envs.rendering import render_mode
from egomap.offline import report
from egomap.offline.learn import (
    TARGETS,
    Student,
    Training,
    constant,
    learn,
    measure,
    measured,
    other_opinion,
)
from egomap.offline.options import SEQUENCE, WalkSettings
from egomap.offline.record import walks
from egomap.offline.store import Walks

TRAIN = WalkSettings(ScenarioConfig.default("find-return", size=3), "train", 8, num_envs=4, seed=1)
HELD_OUT = replace(TRAIN, split="held-out", sequences=4)


@pytest.fixture(scope="module")
def recordings() -> tuple[Walks, Walks]:
    return walks(TRAIN), walks(HELD_OUT)


def agent(kind: AgentKind) -> Agent:
    torch.manual_seed(0)
    config = AgentConfig(kind=kind, map=MapSettings(map_size=12, use_ego_motion=True, normalise=True))
    return build_agent(config, render_mode(TRAIN.env.rendering).observation_camera, TRAIN.scenario.extent)


def test_measures_by_hand() -> None:
    outputs = {
        "action": torch.tensor([[[0.0, 3, 0, 0, 0]], [[9.0, 0, 0, 0, 0]]]),
        "way": torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]]]),
        "seen": torch.tensor([[[2.0]], [[-2.0]]]),
    }
    labels = {
        "action": torch.tensor([[1], [2]], dtype=torch.uint8),
        "way": torch.tensor([[[0.0, 1.0]], [[math.nan, math.nan]]]),
        "seen": torch.tensor([[True], [True]]),
    }
    found = measured(outputs, labels)
    assert found["action"].tolist() == [[1], [0]] and found["seen"].tolist() == [[1], [0]]
    assert found["way"][0, 0] == 1.0 and math.isnan(found["way"][1, 0])  # (1 + 1) / 2; no label


def test_the_error_is_over_episodes() -> None:
    """Two episodes of 2 and 1 decisions: deviations sum to -1 and 1, so the error is sqrt((1 + 1) * 2 / 1) / 3."""
    values = np.array([[0.0], [1.0], [2.0], [math.nan]])
    found = report.figure(values, np.array([[4], [4], [7], [7]]))
    assert found == pytest.approx((1.0, 2 / 3, 3))
    assert report.figure(values[:2], np.zeros((2, 1), int)) == (0.5, None, 2)
    assert report.figure(values[3:], np.zeros((1, 1), int)) is None


def test_the_constant_is_the_mean_of_the_training_walks(recordings: tuple[Walks, Walks]) -> None:
    train, held_out = recordings
    found = constant(train, held_out)
    home = train.column("home").reshape(-1, 2).mean(0)
    assert found["home"] == pytest.approx(
        ((held_out.column("home") - home) ** 2).mean(-1), rel=1e-4, abs=1e-6
    )
    commonest = np.bincount(train.column("action").ravel()).argmax()
    assert (found["action"] == (held_out.column("action") == commonest)).all()
    assert set(found) == set(TARGETS)


def test_the_teacher_agrees_with_itself(recordings: tuple[Walks, Walks]) -> None:
    held_out = recordings[1]
    for without in ("without_target", "without_intent"):
        found = other_opinion(held_out, without)
        agrees = held_out.column(f"action_{without}") == held_out.column("action")
        assert (found["action"] == agrees).all() and 0.5 < agrees.mean() <= 1
        assert (found["way"][agrees] <= 2 + 1e-5)[np.isfinite(found["way"][agrees])].all()


@pytest.mark.parametrize("kind", ["gru", "egomap"])
def test_states_are_carried_on_and_reset(recordings: tuple[Walks, Walks], kind: AgentKind) -> None:
    """Measuring in pieces of 64 equals one long unroll that is told where episodes start."""
    held_out = recordings[1]
    student = Student(agent(kind))
    found = measure(student, held_out)
    parts = [held_out.chunk(index) for index in range(len(held_out))]
    whole = {
        key: torch.from_numpy(np.concatenate([part[key] for part in parts]))
        for key in (*OBSERVATION_KEYS, "episode_start", *TARGETS)
    }
    assert len(whole["pose"]) == 4 * SEQUENCE
    with torch.no_grad():
        outputs, _ = student(
            {key: whole[key] for key in OBSERVATION_KEYS},
            student.memory.initial_state(4),
            whole["episode_start"],
        )
    for name, values in measured(outputs, whole).items():
        if name in ("way", "home", "goal"):  # the others jump where two logits are equal
            assert found[name] == pytest.approx(values, rel=1e-3, abs=1e-4, nan_ok=True)


def test_heads_of_the_agent_are_not_counted(recordings: tuple[Walks, Walks]) -> None:
    one = agent("none")
    student = Student(one)
    heads = 128 * (5 + 2 + 2 + 2 + 1) + 12
    parts = (one.perception, one.memory)
    assert sum(p.numel() for p in student.parameters()) == heads + sum(
        p.numel() for part in parts for p in part.parameters()
    )


@pytest.mark.slow
def test_egomap_learns_the_way_home_and_none_does_not() -> None:
    """Tested on the training walks themselves: what cannot be remembered cannot even be learned by heart quickly."""
    train = walks(replace(TRAIN, sequences=4))
    errors = {}
    for kind in ("none", "egomap"):
        learned = learn(agent(kind), train, train, Training(epochs=20, minibatches=1, learning_rate=2e-3))
        errors[kind] = float(np.nanmean(learned.measures["home"]))
    assert errors["egomap"] < 0.7 * errors["none"], errors


def test_the_same_seed_learns_the_same(recordings: tuple[Walks, Walks]) -> None:
    train, held_out = recordings
    found = []
    for _ in range(2):
        one = agent("gru")
        found.append(learn(one, train, held_out, Training(epochs=1, minibatches=2, threads=2)).measures)
    assert all(np.array_equal(found[0][name], found[1][name], equal_nan=True) for name in TARGETS)


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = [str(tmp_path / name) for name in ("found.json", "found.md")]
    flags = "--size 3 --decisions 300 --held-out 200 --num-envs 2 --minibatches 2 --epochs 1 --seeds 2"
    assert main(["offline", *flags.split(), "--agents", "none", "gru", "--out", *out]) == 0
    printed = capsys.readouterr().out
    data = json.loads(Path(out[0]).read_text())
    names = [line["name"] for line in data["lines"]]
    assert names == ["constant", "teacher, no target", "teacher, no intent", "none", "gru"]
    assert all(name in printed for name in names)
    gru = data["lines"][4]
    assert set(gru["figures"]) == set(TARGETS) and gru["figures"]["action"]["decisions"] == 256
    assert gru["figures"]["home"]["value"] == pytest.approx(np.mean(gru["over_seeds"]["home"]), rel=1e-5)
    assert len(set(gru["over_seeds"]["home"])) == 2 and gru["seconds"] > 0 and gru["parameters"] > 100_000
    table = Path(out[1]).read_text().splitlines()
    assert len(table) == 2 + len(names) and table[0].startswith(
        "| memory | action | way | home | goal | seen |"
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--decisions 0", "decisions must be 1 or more; got 0."),
        ("--decisions 100000000000", "decisions must be 1048576 or less; got 100000000000."),
        ("--size 2", "size must be 3 to 21 cells; got 2."),
        ("--num-envs 0", "num-envs must be 1 or more; got 0."),
        ("--epochs 0", "epochs must be 1 or more; got 0."),
        ("--minibatches 33", "minibatches must be 32 or less; got 33."),
        ("--burst 1.5", "burst must be between 0 and 1; got 1.5."),
        ("--learning-rate nan", "learning-rate must be above 0 and below 1; got nan."),
        ("--seed -1", "seed must be 0 to 2^63 - 1; got -1."),
        ("--agents gru gru", "each memory is named once by --agents."),
        ("--agent.kind gru", "the kinds are named by --agents; leave out --agent.kind."),
        ("--agent.map.extent 5", "the mazes say what the map must cover; leave out --agent.map.extent."),
        ("--agent.map.map-size 3", "map-size must be 12 or more; got 3."),
        ("--out nowhere/found.json", "nowhere/found.json cannot be written: nowhere is not a folder."),
        ("--out found.txt", "found.txt must end in .json or .md."),
    ],
)
def test_bad_input(
    flags: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["offline", *flags.split()]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err == f"egomap: {told}\n"
    assert not list(tmp_path.iterdir())


def test_a_damaged_recording_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "offline --size 3 --decisions 64 --held-out 64 --num-envs 1 --minibatches 1 --epochs 1 --seed 9"
    assert main(flags.split()) == 0
    folder = walks(WalkSettings(TRAIN.scenario, "train", 1, num_envs=1, seed=9)).folder
    (folder / "00000.npz").write_bytes(b"")
    capsys.readouterr()
    assert main(flags.split()) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("egomap: ") and told.endswith(f"Delete {folder} and it will be recorded again.")
