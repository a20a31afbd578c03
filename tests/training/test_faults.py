"""A run that cannot go on says why in one sentence, with exit code 2, and leaves its last checkpoint whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egomap.config import Task
from egomap.scenarios.dataset import ScenarioSet
from egomap.training.checkpoint import checkpoints, load_checkpoint
from egomap.training.metrics import read_metrics

SMALL = (
    "--agent=gru",
    "--learner.num-envs=4",
    "--learner.rollout-steps=8",
    "--learner.minibatches=2",
    "--evaluate-every=0",
    "--checkpoint-every=32",
)


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


def train(*flags: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "egomap", "train"]
    return subprocess.run([*program, *flags], capture_output=True, text=True, check=False)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a refused command."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("egomap: ")]
    return told.removeprefix("egomap: ")


def begin(run: Path, mazes: ScenarioSet) -> None:
    """A run that stands at three updates of ten."""
    done = train(f"--scenarios={mazes.folder}", "--budget=96", *SMALL, f"--run={run}")
    assert done.returncode == 0, done.stderr
    # As after Ctrl-C: a part of the budget is left.
    config = (run / "config.json").read_text()
    (run / "config.json").write_text(config.replace('"budget": 96', '"budget": 320'))


def state(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in checkpoints(run / "checkpoints")}


def test_weights_that_explode(sets: dict[Task, ScenarioSet], tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = (f"--scenarios={sets['labyrinth'].folder}", "--budget=3200", *SMALL, f"--run={run}")
    told = refusal(train(*flags, "--learner.learning-rate=1e25"))
    assert told.startswith("the loss is ") and told.endswith("Try a lower learning rate.")
    for path in checkpoints(run / "checkpoints"):
        load_checkpoint(path)  # whole


def test_a_full_disk(disk: Path, sets: dict[Task, ScenarioSet]) -> None:
    run = disk / "run"
    begin(run, sets["labyrinth"])
    before = state(run)
    fill(disk, left=1_000_000)  # less than a checkpoint
    told = refusal(train(f"--run={run}", "--resume"))
    assert told.endswith("No space left on device."), told
    assert state(run) == before
    assert not [name for name in os.listdir(run / "checkpoints") if name.endswith(".tmp")]
    (disk / "filler").unlink()
    done = train(f"--run={run}", "--resume")
    assert done.returncode == 0, done.stderr
    assert [int(row["update"]) for row in read_metrics(run / "metrics.csv")] == list(range(1, 11))


def test_a_folder_of_another_config(sets: dict[Task, ScenarioSet], tmp_path: Path) -> None:
    run = tmp_path / "run"
    begin(run, sets["labyrinth"])
    before = state(run)
    again = (f"--scenarios={sets['labyrinth'].folder}", "--budget=320", *SMALL, f"--run={run}")
    assert "holds a run" in refusal(train(*again))
    assert "another config" in refusal(train(*again, "--seed=5", "--auto-resume"))
    assert state(run) == before
