"""A run that cannot go on says why in one sentence, with exit code 2, and leaves its last checkpoint whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_runs import SMALL, Train, refusal, state, train

from egomap.config import ScenarioConfig, Task
from egomap.scenarios.dataset import ScenarioSet, generate
from egomap.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from egomap.training.metrics import read_metrics
from egomap.util.files import folder_lock, write_whole

pytestmark = pytest.mark.slow

Begun = Callable[..., None]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "none", place], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("this user may not mount a disk")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path, *, left: int) -> None:
    """Leave so many bytes free."""
    with open(disk / "filler", "wb") as file:
        file.write(bytes(shutil.disk_usage(disk).free - left))


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_weights_that_explode(
    mazes: ScenarioSet, begun: Begun, train_here: Train, tmp_path: Path, algorithm: str
) -> None:
    """The last good checkpoint stays, and no run is saved that could not go on. A2C explodes between two updates."""
    run = tmp_path / "run"
    flags = ["--learner.algorithm=a2c", "--learner.epochs=1", "--learner.minibatches=1"] * (
        algorithm == "a2c"
    )
    begun(run, mazes, *flags)
    for path in (run / "config.json", *checkpoints(run / "checkpoints")):  # as if it had always had this rate
        if path.suffix == ".json":
            data = json.loads(path.read_text())
            data["learner"]["learning_rate"] = 1e25
            path.write_text(json.dumps(data))
        else:
            tensors, data = load_checkpoint(path)
            data["config"]["learner"]["learning_rate"] = 1e25
            save_checkpoint(path, tensors, data)
    before = state(run)
    assert len(before) == 2
    told = refusal(train_here(f"--run={run}", "--resume"))
    assert re.search("is not finite|are NaN or infinite|^the loss is ", told)
    assert told.endswith("Try a lower learning rate.")
    assert state(run) == before


def test_a_run_that_explodes_at_once_saves_nothing(
    mazes: ScenarioSet, train_here: Train, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    flags = (f"--scenarios={mazes.folder}", "--budget=3200", *SMALL, f"--run={run}")
    told = refusal(train_here(*flags, "--learner.learning-rate=1e25"))
    assert told.endswith("Try a lower learning rate.")
    assert not checkpoints(run / "checkpoints")


@pytest.mark.parametrize("left", [1_000_000, 8192])  # less than a checkpoint; a few rows of metrics
def test_a_full_disk(disk: Path, mazes: ScenarioSet, begun: Begun, train_here: Train, left: int) -> None:
    run = disk / "run"
    begun(run, mazes)
    before = state(run)
    fill(disk, left=left)
    told = refusal(train_here(f"--run={run}", "--resume"))
    assert told.startswith(f"{run}/") and told.endswith(": No space left on device."), told
    assert state(run) == before
    assert not [name for name in os.listdir(run / "checkpoints") if name.endswith(".tmp")]
    (disk / "filler").unlink()
    done = train_here(f"--run={run}", "--resume")
    assert done.returncode == 0, done.stderr
    assert [int(row["update"]) for row in read_metrics(run / "metrics.csv")] == list(range(1, 11))


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--rendering=12x7", "rendering"),
        ("--learner.num-envs=8000", "num-envs must be at most 4096; got 8000."),
        ("--scenarios={no_test}", "has no layouts in split 'test'"),
        ("--budget=inf", "budget must be a whole number; got inf."),
        ("--agent=egomap --map.channels=8", "by 8 map channels"),
        ("--map.extent=700", "the mazes say what the map must cover; leave out --map.extent."),
    ],
)
def test_what_would_fail_later_makes_no_run(
    mazes: ScenarioSet, train_here: Train, tmp_path: Path, flag: str, told: str
) -> None:
    """The folder is left free for the command that is right."""
    run, no_test = tmp_path / "run", tmp_path / "no test"
    generate(ScenarioConfig(task="labyrinth", size=3, train=2, test=0), no_test)
    flags = [f"--scenarios={mazes.folder}", "--budget=96", *SMALL, f"--run={run}"]
    assert told in refusal(train_here(*flags, *(each.format(no_test=no_test) for each in flag.split())))
    assert not run.exists()


def test_a_checkpoint_of_another_run(
    mazes: ScenarioSet, sets: dict[Task, ScenarioSet], begun: Begun, train_here: Train, tmp_path: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    begun(run, mazes)
    (own, *_), rows = checkpoints(run / "checkpoints"), (run / "metrics.csv").read_text()
    begun(other, sets["find-return"])
    for foreign in (checkpoints(other / "checkpoints")[0], run / "checkpoints" / "best.safetensors"):
        shutil.copy(foreign, run / "checkpoints" / "step-000000000128.safetensors")
        told = refusal(train_here(f"--run={run}", "--resume"))
        assert (
            f"is of another run, or none to go on from; move it away; the one before it is {own.name}."
            in told
        )
    assert own.exists() and (run / "metrics.csv").read_text() == rows


def test_one_at_a_time_in_a_folder(
    mazes: ScenarioSet, begun: Begun, train_here: Train, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    begun(run, mazes)
    before, rows = state(run), (run / "metrics.csv").read_text()
    with folder_lock(run, "somebody"):
        told = refusal(train(f"--run={run}", "--resume"))
        assert told == f"another `egomap train` is at work in {run}; wait for it to end."
        with pytest.raises(ValueError, match="he is at work"), folder_lock(run, "he", patience=0.1):
            pass
    assert state(run) == before and (run / "metrics.csv").read_text() == rows
    assert train_here(f"--run={run}", "--resume").returncode == 0


def test_a_lock_that_is_a_link(tmp_path: Path) -> None:
    """Somebody who may write to the folder must not have us empty a file of ours elsewhere."""
    run, letter = tmp_path / "run", tmp_path / "letter.txt"
    run.mkdir()
    letter.write_text("mine")
    (run / ".lock").symlink_to(letter)
    with pytest.raises(ValueError, match=r"\.lock is a link, which no lock of ours is; remove it"):
        with folder_lock(run, "he"):
            pass
    (run / ".lock").unlink()
    (run / f".scores.json.{os.getpid()}.tmp").symlink_to(letter)
    write_whole(run / "scores.json", "{}")
    assert letter.read_text() == "mine" and (run / "scores.json").read_text() == "{}"
    (run / ".lock").write_text("what is in a lock stays there")
    with folder_lock(run, "he"):
        assert (run / ".lock").read_text() == "what is in a lock stays there"


def test_settings_beside_resume(train_here: Train, tmp_path: Path) -> None:
    told = refusal(
        train_here(f"--run={tmp_path}", "--resume", "--budget=4e6", "--learner.learning-rate=1e-4")
    )
    assert told == "--resume keeps the run's own settings; leave out --learner."


def test_a_preset_beside_resume(train_here: Train, tmp_path: Path) -> None:
    told = refusal(train_here(f"--run={tmp_path}", "--resume", "--preset=paper"))
    assert told == "--resume keeps the run's own settings; leave out --preset."


def test_a_folder_of_another_config(
    mazes: ScenarioSet, begun: Begun, train_here: Train, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    begun(run, mazes)
    before = state(run)
    again = (f"--scenarios={mazes.folder}", "--budget=320", *SMALL, f"--run={run}")
    assert "holds a run" in refusal(train_here(*again))
    assert "another config" in refusal(train_here(*again, "--seed=5", "--auto-resume"))
    assert state(run) == before
