"""A run that is killed again and again goes on each time, and leaves no engine behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from small_runs import SMALL, train

from egomap.scenarios.dataset import ScenarioSet
from egomap.training.metrics import read_metrics
from envs.helpers import eventually, processes_of
from warm import Warm

DECISIONS = 32
"""Of one update."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_again_and_again(mazes: ScenarioSet, tmp_path: Path) -> None:
    """SIGKILL at random moments; each time the run goes on, and at the end every update is there once."""
    run, own = tmp_path / "run", tmp_path / "mazes"
    shutil.copytree(mazes.folder, own)
    many = f"--budget={10_000 * DECISIONS}"
    flags = (f"--scenarios={own}", many, *SMALL, f"--run={run}")
    moments = random.Random(0)
    for kill in range(10):
        begun = (run / "config.json").exists()
        process = Warm("train", *((f"--run={run}", "--resume") if begun else flags))
        had = len(read_metrics(run / "metrics.csv"))
        # Let it get somewhere, and die at another moment each time.
        while process.poll() is None and len(read_metrics(run / "metrics.csv")) <= had + kill % 4:
            time.sleep(0.02)
        time.sleep(moments.uniform(0.0, 0.2))
        assert process.poll() is None, "it ended before it could be killed"
        assert len(processes_of(own)) >= 4, "its engines have the mazes in their command lines"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert eventually(lambda: not processes_of(own), 10), "an engine outlived its trainer"
    # What is left of the budget would test nothing by its length: a few updates, to the end.
    updates = len(read_metrics(run / "metrics.csv")) + 3
    config = (run / "config.json").read_text()
    (run / "config.json").write_text(
        config.replace(f'"budget": {10_000 * DECISIONS}', f'"budget": {updates * DECISIONS}')
    )
    done = train(f"--run={run}", "--resume")
    assert done.returncode == 0, done.stderr
    rows = read_metrics(run / "metrics.csv")
    assert [int(row["update"]) for row in rows] == list(range(1, updates + 1))
    assert int(rows[-1]["decisions"]) == updates * DECISIONS
