"""Training on the real engine: it runs, resumes bit for bit, refuses what it must."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from small_runs import SMALL

from egomap.cli import main
from egomap.config import AgentConfig, EnvSettings, LearnerSettings, MapSettings, TrainConfig
from egomap.presets import FAST_LEARNER, PRESETS
from egomap.scenarios.dataset import ScenarioSet
from egomap.training import command
from egomap.training import counters as counters_module
from egomap.training import trainer as trainer_module
from egomap.training.checkpoint import checkpoints, load_checkpoint
from egomap.training.command import train
from egomap.training.metrics import COLUMNS, read_metrics
from egomap.training.run import load_agent, open_run, worlds_of

LEARNER = dataclasses.replace(FAST_LEARNER, num_envs=4, rollout_steps=8, minibatches=2)
DECISIONS = 32
"""Of one update."""


@pytest.fixture
def config(mazes: ScenarioSet) -> TrainConfig:
    return TrainConfig(
        agent=AgentConfig(map=MapSettings(map_size=16)),
        scenario=mazes.config,
        scenarios=str(mazes.folder),
        env=EnvSettings(frame_skip=20),  # the episode that a training ends with is over sooner
        learner=LEARNER,
        budget=4 * DECISIONS,
        evaluate_every=0,
        checkpoint_every=2 * DECISIONS,
        reset_every_update=True,
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(checkpoints(run / "checkpoints")[0]).tensors


@pytest.mark.slow
def test_a_run_from_begin_to_end(config: TrainConfig, tmp_path: Path) -> None:
    counters = train(config, tmp_path / "run")
    assert (counters.update, counters.decisions) == (4, 128)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert [row["decisions"] for row in rows] == ["32", "64", "96", "128"]
    assert rows[-1]["test_return"] != ""
    assert len(list((tmp_path / "run" / "evaluation").glob("*.json"))) == 1
    agent, found, _ = load_agent(tmp_path / "run")
    best, _, _ = load_agent(tmp_path / "run", which="best")
    assert found == config
    for mine, theirs in zip(agent.parameters(), best.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["egomap", "gru", "none", "frame-stack"])
def test_a_resumed_run_equals_an_unbroken_one(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    config = dataclasses.replace(config, agent=dataclasses.replace(config.agent, kind=kind))
    train(config, tmp_path / "whole")

    # The same budget, so that the learning rate is the same; stopped half-way as by Ctrl-C.
    class Stopped(trainer_module.Trainer):
        def _tell(self, row: dict[str, float]) -> None:
            if row["update"] == 2:
                self.stop()

    monkeypatch.setattr(command, "Trainer", Stopped)
    half = train(config, tmp_path / "halves")
    monkeypatch.undo()
    assert half.update == 2
    train(None, tmp_path / "halves", resume=True)
    whole, halves = weights(tmp_path / "whole"), weights(tmp_path / "halves")
    assert set(whole) == set(halves)
    for name, tensor in whole.items():
        assert torch.equal(tensor, halves[name]), name
    steady = ("update", "decisions", "mean_return", "entropy", "policy_loss", "gradient_norm", "test_return")
    rows = [read_metrics(tmp_path / run / "metrics.csv") for run in ("whole", "halves")]
    assert [[row[name] for name in steady] for row in rows[0]] == [
        [row[name] for name in steady] for row in rows[1]
    ]


@pytest.mark.slow
def test_the_log_tells_of_the_memory_and_a_run_without_these_columns_resumes(
    config: TrainConfig, tmp_path: Path
) -> None:
    learner = dataclasses.replace(LEARNER, coverage_bonus=0.1)
    config = dataclasses.replace(config, learner=learner)
    train(dataclasses.replace(config, budget=2 * DECISIONS), tmp_path / "run")
    path = tmp_path / "run" / "metrics.csv"
    parts = {f"gradient_{name}" for name in ("perception", "global_read", "query", "core", "heads")}
    told = {"memory_beta", "memory_attention_entropy", "memory_read_saturation", "coverage", *parts}
    first = read_metrics(path)[0]
    assert all(float(first[name]) >= 0 for name in told)
    whole = sum(float(first[name]) for name in parts)
    assert float(first["gradient_norm"]) <= whole + 1e-6
    # As an earlier version left it: the file has the fixed columns alone, and the run goes on.
    lines = [line.split(",")[: len(COLUMNS)] for line in path.read_text().splitlines()]
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**saved, "budget": 3 * DECISIONS}))
    train(None, tmp_path / "run", resume=True)
    rows = read_metrics(path)
    assert [row["memory_beta"] == "" for row in rows] == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_a_run_with_a_teacher_resumes_and_logs(config: TrainConfig, tmp_path: Path, algorithm: str) -> None:
    """The weight and the share fall by the budget; when both are 0 the teacher is asked no more."""
    learner = dataclasses.replace(LEARNER, imitation_weight=0.6, imitation_decay=0.75, teacher_share=0.5)
    if algorithm == "a2c":
        learner = dataclasses.replace(learner, algorithm="a2c", epochs=1, minibatches=1)
    config = dataclasses.replace(config, learner=learner, imitate="explorer")
    path = tmp_path / "run"

    class Stopped(trainer_module.Trainer):
        def _tell(self, row: dict[str, float]) -> None:
            if row["update"] == 2:
                self.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "Trainer", Stopped)
        train(config, path)
    train(None, path, resume=True)
    rows = read_metrics(path / "metrics.csv")
    assert [float(row["imitation_weight"]) for row in rows] == pytest.approx([0.6, 0.4, 0.2, 0.0], abs=1e-6)
    assert [float(row["teacher_share"]) for row in rows] == [0.5, 0.25, 0.0, 0.0]
    assert all(0 <= float(row["imitation_agreement"]) <= 1 for row in rows[:3])
    assert all(float(row["imitation_loss"]) > 0 for row in rows[:3])
    assert rows[3]["imitation_loss"] == rows[3]["imitation_agreement"] == ""


@pytest.mark.slow
def test_a_learner_comes_to_agree_with_its_teacher(config: TrainConfig, tmp_path: Path) -> None:
    """On the smallest mazes, where the teacher drives, within a few updates."""
    learner = dataclasses.replace(
        FAST_LEARNER,
        num_envs=8,
        rollout_steps=64,
        imitation_weight=2.0,
        imitation_decay=0.0,
        teacher_share=1.0,
        learning_rate_decay="none",
    )
    agent = dataclasses.replace(config.agent, kind="gru")
    config = dataclasses.replace(
        config, agent=agent, learner=learner, budget=12 * 512, reset_every_update=False, imitate="explorer"
    )
    train(config, tmp_path / "run")
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    losses, agreement = ([float(row[f"imitation_{name}"]) for row in rows] for name in ("loss", "agreement"))
    assert sum(losses[-3:]) / 3 < 0.85 * losses[0]
    assert sum(agreement[-3:]) / 3 > agreement[0] + 0.1


@pytest.mark.slow
def test_no_mean_of_the_first_successes(config: TrainConfig, tmp_path: Path) -> None:
    """Successes end before time-outs do: a mean of the first episodes to end would be far too good."""
    learner = dataclasses.replace(LEARNER, num_envs=8)
    config = dataclasses.replace(
        config, env=EnvSettings(frame_skip=35), learner=learner, budget=10 * 8 * 8, reset_every_update=False
    )
    counters = train(config, tmp_path / "run")
    rows = [
        (int(row["episodes"]), row["mean_return"]) for row in read_metrics(tmp_path / "run" / "metrics.csv")
    ]
    assert any(0 < episodes < 8 for episodes, _ in rows)
    assert all((mean == "") == (episodes < 8) for episodes, mean in rows)
    assert float(rows[-1][1]) == pytest.approx(sum(e[0] for e in counters.recent) / rows[-1][0], rel=1e-4)


@pytest.mark.slow
def test_what_cannot_be_begun_or_resumed(config: TrainConfig, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no run"):
        train(None, tmp_path / "nothing", resume=True)
    train(dataclasses.replace(config, budget=DECISIONS), tmp_path / "run")
    with pytest.raises(ValueError, match="already holds a run"):
        train(config, tmp_path / "run")
    with pytest.raises(ValueError, match="another config"):
        train(config, tmp_path / "run", resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match="other files"):
        train(config, tmp_path / "other")
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        open_run(tmp_path / "run")


@pytest.mark.slow
def test_a_run_that_is_done_stays_done(config: TrainConfig, tmp_path: Path) -> None:
    train(dataclasses.replace(config, budget=DECISIONS), tmp_path / "run")
    before = weights(tmp_path / "run")
    assert train(None, tmp_path / "run", resume=True).update == 1
    after = weights(tmp_path / "run")
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_a_curriculum_climbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig(
        agent=AgentConfig(kind="gru"),
        scenario=dataclasses.replace(TrainConfig().scenario, size=4, train=2, test=1),
        learner=LEARNER,
        budget=12 * DECISIONS,
        evaluate_every=0,
        curriculum=(3, 4),
        curriculum_bar=-1.0,
    )
    # Decisions of a second each end episodes soon; two of them are enough here to be told from none.
    config = dataclasses.replace(config, env=EnvSettings(frame_skip=35))
    monkeypatch.setattr(trainer_module, "WINDOW", 2)
    monkeypatch.setattr(counters_module, "WINDOW", 2)
    counters = train(config, tmp_path / "run")
    assert counters.stage == 1
    sizes = [row["maze_size"] for row in read_metrics(tmp_path / "run" / "metrics.csv")]
    assert sizes[0] == "3"
    assert sizes[-1] == "4"
    assert train(None, tmp_path / "run", resume=True).stage == 1


@pytest.mark.slow
def test_a_curriculum_resumed_at_its_climb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is stopped right after it has climbed goes on as if it had not been."""
    config = TrainConfig(
        agent=AgentConfig(kind="gru"),
        scenario=dataclasses.replace(TrainConfig().scenario, size=4, train=2, test=1),
        env=EnvSettings(frame_skip=35),
        learner=LEARNER,
        budget=12 * DECISIONS,
        evaluate_every=0,
        curriculum=(3, 4),
        curriculum_bar=-1.0,
        reset_every_update=True,
    )
    # A time-out is 60 such decisions; new episodes at each update leave only those that are solved sooner.
    config = dataclasses.replace(config, learner=dataclasses.replace(LEARNER, rollout_steps=64))
    config = dataclasses.replace(config, budget=6 * 4 * 64)
    monkeypatch.setattr(trainer_module, "WINDOW", 2)
    monkeypatch.setattr(counters_module, "WINDOW", 2)
    assert train(config, tmp_path / "whole").stage == 1

    class Stopped(trainer_module.Trainer):
        def _climb(self) -> bool:
            climbed = super()._climb()
            if climbed:
                self.stop()
            return climbed

    monkeypatch.setattr(command, "Trainer", Stopped)
    half = train(config, tmp_path / "halves")
    monkeypatch.setattr(command, "Trainer", trainer_module.Trainer)
    assert half.stage == 1 and half.decisions < config.budget
    train(None, tmp_path / "halves", resume=True)
    whole, halves = weights(tmp_path / "whole"), weights(tmp_path / "halves")
    assert all(torch.equal(tensor, halves[name]) for name, tensor in whole.items())


def test_a_curriculum_is_looked_at_in_its_last_stage() -> None:
    scenario = dataclasses.replace(TrainConfig().scenario, size=9, train=2, test=1)
    config = TrainConfig(scenario=scenario, curriculum=(3, 4))
    assert {world.layout.size for world in worlds_of(config, "test") if world.layout} == {4}
    assert {world.layout.size for world in worlds_of(config, "test", size=3) if world.layout} == {3}


def test_configs_as_json(config: TrainConfig) -> None:
    for whole in (config, *PRESETS.values()):
        assert TrainConfig.from_json(whole.to_json()) == whole
    with pytest.raises(ValueError, match="does not know: surprise"):
        TrainConfig.from_json({**config.to_json(), "surprise": 1})
    with pytest.raises(ValueError, match="budget must be of type int"):
        TrainConfig.from_json({**config.to_json(), "budget": "much"})
    for wrong, told in (
        (LearnerSettings(algorithm="A2C"), "algorithm must be one of a2c, ppo; got 'A2C'"),  # type: ignore[arg-type]
        (LearnerSettings(optimizer="sgd"), "optimizer must be one of rmsprop, adam"),  # type: ignore[arg-type]
        (LearnerSettings(learning_rate_decay="cosine"), "learning-rate-decay must be one of none, linear"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=told):
            wrong.validate()
    for data in ({"scenarios": 5}, {"agent": {"map": {"write_gradient_steps": "3"}}}):
        with pytest.raises(ValueError, match="cannot be"):
            TrainConfig.from_json(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"budget": 0}, "budget"),
        ({"seed": -1}, "seed"),
        ({"curriculum": (2,)}, "size"),
        ({"learner": LearnerSettings(minibatches=3)}, "minibatches"),
        ({"learner": LearnerSettings(epochs=2)}, "a2c"),
        ({"learner": LearnerSettings(discount=1.5)}, "discount"),
        ({"learner": LearnerSettings(learning_rate=0.0)}, "learning-rate"),
        ({"checkpoint_every": 0}, "checkpoint-every"),
    ],
)
def test_settings_out_of_range(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        dataclasses.replace(TrainConfig(), **change).validate()  # type: ignore[arg-type]


@pytest.mark.slow
def test_files_of_somebody_else(mazes: ScenarioSet, tmp_path: Path) -> None:
    """A .cfg is trained on, resumed and evaluated; nothing is known of its mazes, and it is not said that it is."""
    cfg, run = mazes.cfg("test"), tmp_path / "run"
    flags = ("train", f"--scenarios={cfg}", *SMALL, f"--run={run}")
    assert main([*flags, "--budget=32"]) == 0
    assert main(["train", "--resume", f"--run={run}", "--budget=64"]) == 0
    assert len(read_metrics(run / "metrics.csv")) == 2
    assert open_run(run)[1].files == str(cfg.resolve()) and open_run(run)[1].place == cfg.stem
    assert main(["evaluate", str(run)]) == 0
    with pytest.raises(ValueError, match="neither a curriculum nor a set"):
        dataclasses.replace(open_run(run)[1], curriculum=(3, 5)).validate()
