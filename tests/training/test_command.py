"""`egomap train` as a person sees it: its lines, Ctrl-C, and the end of the main job."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from egomap.presets import PAPER
from egomap.scenarios.dataset import ScenarioSet
from egomap.training.checkpoint import checkpoints
from egomap.training.command import _panel
from egomap.training.metrics import read_metrics
from egomap.training.trainer import Progress
from warm import Warm

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-m", "egomap", "train"]
SMALL = (
    "--agent=gru",
    "--learner.num-envs=4",
    "--learner.rollout-steps=8",
    "--learner.minibatches=2",
    "--evaluate-every=0",
)
WITH_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Starts a program as the first of its session, on the terminal that is its input."""


def wait_for_rows(run: Path, process: subprocess.Popen[str] | Warm, terminal: int | None = None) -> None:
    """Until it has made three updates; what it draws on a terminal is read away meanwhile."""
    deadline = time.monotonic() + 60
    while len(read_metrics(run / "metrics.csv")) < 3:
        assert process.poll() is None and time.monotonic() < deadline, "it does not train"
        time.sleep(0.05)
        if terminal is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(terminal, 65536)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_kind_stop(mazes: ScenarioSet, tmp_path: Path, number: signal.Signals) -> None:
    """It ends after its update, with a checkpoint of that very update, and goes on from there."""
    run = tmp_path / "run"
    flags = (f"--scenarios={mazes.folder}", "--budget=1e6", *SMALL, f"--run={run}")
    process = Warm("train", *flags)
    try:
        wait_for_rows(run, process)
        os.killpg(process.pid, number)  # as a terminal does: to the whole group, the engines included
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, told
    assert "Stopping after this update" in told and "Traceback" not in told
    last = int(read_metrics(run / "metrics.csv")[-1]["decisions"])
    assert checkpoints(run / "checkpoints")[0].name == f"step-{last:012d}.safetensors"


def test_a_lost_connection(mazes: ScenarioSet, tmp_path: Path) -> None:
    """The terminal goes away while its panel is drawn: that is a kind stop too, though nothing can be shown."""
    run = tmp_path / "run"
    flags = (f"--scenarios={mazes.folder}", "--budget=1e6", *SMALL, f"--run={run}")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_TERMINAL, *PROGRAM, *flags],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        text=True,
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        wait_for_rows(run, process, ours)
        os.close(ours)
        process.send_signal(signal.SIGHUP)  # the shell says it a second time
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
    last = int(read_metrics(run / "metrics.csv")[-1]["decisions"])
    assert checkpoints(run / "checkpoints")[0].name == f"step-{last:012d}.safetensors"


def test_the_lines_of_a_run_and_the_end_of_the_main_job(mazes: ScenarioSet, tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = (f"--scenarios={mazes.folder}", "--preset=quick", "--budget=96", *SMALL)
    done = subprocess.run(
        [*PROGRAM, *flags, f"--run={run}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stderr
    last = [line for line in done.stderr.splitlines() if "decisions" in line][-1]
    assert re.fullmatch(
        r"96 of 96 decisions, [\d,]+/s, .*, entropy \d\.\d\d, 0:00:00 left, held-out return -?\d\.\d{3}", last
    ), last
    for agent in ("random", "gru", "planner"):
        assert re.search(rf"{agent} .* \d+ of \d+", done.stdout), done.stdout
    curve = run / "curve.png"
    assert f"The run: {run}" in done.stdout and f"The curve: {curve}" in done.stdout
    assert "Next: egomap train" in done.stdout
    assert curve.read_bytes().startswith(b"\x89PNG")


def test_the_panel_shows_what_matters() -> None:
    row = {"update": 5, "decisions": 1000, "frames": 4000, "seconds": 75.0, "decisions_per_second": 900.0}
    row |= {"mean_return": 0.25, "success": 0.4, "entropy": 1.5, "explained_variance": 0.3}
    row |= {"gradient_norm": 0.7, "maze_size": 5, "engine_restarts": 2}
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(_panel(PAPER, Path("runs/a"), Progress(1000, 5000, row, 3725.0)))
    text = console.export_text()
    for part in (
        "1,000 decisions = 4,000 frames, 900 decisions/s",
        "return 0.250, success 40%",
        "engines restarted 2",
        "0:01:15 gone, 1:02:05 left",
        "runs/a",
    ):
        assert part in text, text
