"""What the tests of `egomap train` share: flags of a small training, the command, the sentence of a refusal."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from egomap.training.checkpoint import checkpoints
from warm import egomap

SMALL = (
    "--agent=gru",
    "--learner.num-envs=4",
    "--learner.rollout-steps=8",
    "--learner.minibatches=2",
    "--evaluate-every=0",
    "--checkpoint-every=32",
)
"""32 decisions, and a checkpoint, in each update."""
Train = Callable[..., "subprocess.CompletedProcess[str]"]


def train(*flags: str) -> subprocess.CompletedProcess[str]:
    """`egomap train` in a process of its own."""
    return egomap("train", *flags)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a refused command."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("egomap: ")]
    return told.removeprefix("egomap: ")


def state(run: Path) -> dict[str, bytes]:
    """The checkpoints of a run."""
    return {path.name: path.read_bytes() for path in checkpoints(run / "checkpoints")}
