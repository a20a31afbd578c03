"""A whole small campaign with real processes: killed, gone on with, refused where it must be."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from egomap.cli import main
from egomap.experiments import plan
from egomap.experiments.campaign import Running, after, launch
from egomap.experiments.command import Results
from egomap.training.run import begin_run
from egomap.util.cores import core_shares, usable_cores
from envs.helpers import eventually, processes_of

pytestmark = pytest.mark.slow

SMALL = ("--budget", "4096", "--seeds", "1", "--size", "3", "--train", "2", "--test", "2")
CAMPAIGN = (
    "reproduce",
    "results",
    *SMALL,
    "--tasks",
    "labyrinth",
    "--jobs",
    "1",
    "--agents",
    "random",
    "gru",
)


def arguments(folder: Path) -> list[str]:
    return [*CAMPAIGN, "--runs", str(folder / "runs"), "--out", str(folder / "out")]


def times(folder: Path, pattern: str) -> dict[str, int]:
    """When each file was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.glob(pattern)}


@pytest.mark.timeout(600)
def test_killed_and_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "egomap", *arguments(tmp_path)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # Random is scored and its table written; trainings are under way.
        under_way = lambda: (out / "results.md").exists() and any(runs.glob("*/metrics.csv"))  # noqa: E731
        assert eventually(lambda: under_way() or process.poll() is not None, 300)
        assert process.poll() is None
        # Nobody else may work there meanwhile.
        assert main(arguments(tmp_path)) == 2
        assert "another `egomap reproduce` is at work in" in capsys.readouterr().err
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert eventually(lambda: not processes_of(runs), 5), "children outlived the campaign"
    finished = times(runs, "**/final-*.json")
    assert len(finished) == 2
    (out / ".results.png.12345.tmp").write_bytes(b"half a pic")  # a kill may leave this, too

    assert main(arguments(tmp_path)) == 0
    table = capsys.readouterr().out
    assert finished.items() <= times(runs, "**/final-*.json").items(), "something was done twice"
    assert len(times(runs, "**/final-*.json")) == 4
    assert {path.name for path in out.glob("[!.]*")} == {
        f"results.{kind}" for kind in ("md", "csv", "json", "png", "svg")
    }
    found = json.loads((out / "results.json").read_text())
    assert [(row["agent"], row["ours"]["test"]["runs"]) for row in found["rows"]] == [
        ("Random", 1),
        ("GRU", 1),
    ]
    assert [len(row["curves"][0]) for row in found["rows"][1:]] == [1]
    assert "| labyrinth | 3 x 3 | GRU | 16 384 / 1.2 billion |" in table

    # Once more: nothing is run, and the files are the same.
    everything, text = times(runs, "*/**/*.*"), (out / "results.json").read_text()
    assert main(arguments(tmp_path)) == 0
    assert times(runs, "*/**/*.*") == everything and (out / "results.json").read_text() == text
    capsys.readouterr()
    assert main([*arguments(tmp_path), "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert plan.count("finished") == 2 and "0 s at most" in plan

    # With lesions: what was learned is scored once more, and nothing is learned.
    lesioned = [*arguments(tmp_path)[:-1], str(tmp_path / "lesioned"), "--lesions"]
    assert main([*lesioned, "hiden"]) == 2
    assert "has no part 'hiden' that can be lesioned; it has hidden, all." in capsys.readouterr().err
    assert main([*lesioned, "hidden", "all"]) == 0
    table = capsys.readouterr().out
    new = times(runs, "*/**/*.*").items() - everything.items()
    assert {Path(name).name for name, _ in new if not name.startswith("logs")} == {
        "final-test-2-k1-without-hidden-all.json"
    }
    found = json.loads((tmp_path / "lesioned" / "results.json").read_text())
    assert "lesions" not in found["rows"][0]
    assert [each["lesion"] for each in found["rows"][1]["lesions"]] == ["hidden", "all"]
    assert found["command"].endswith("--lesions hidden all --tasks labyrinth --agents random gru")
    assert "| labyrinth | 3 x 3 | GRU | hidden | zero |" in table

    # Other options do not replace the table, and other settings do not go on with a run.
    other = [*arguments(tmp_path), "--seeds", "2"]
    assert main(other) == 2
    assert "holds the output of `egomap reproduce results --budget 4096 --seeds 1" in capsys.readouterr().err
    config = next(runs.glob("fast-gru*/config.json"))
    config.write_text(config.read_text().replace('"checkpoint_every": 50000', '"checkpoint_every": 60000'))
    assert main(arguments(tmp_path)) == 2
    assert "holds a run with other settings" in capsys.readouterr().err


def test_a_table_without_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found before anything is run; if it is lost later, the others go on."""
    (tmp_path / "file").write_text("")
    (tmp_path / "out" / "results.png").mkdir(parents=True)
    for out in (tmp_path / "file" / "out", tmp_path / "out"):
        assert main([*CAMPAIGN, "--runs", str(tmp_path / "runs"), "--out", str(out)]) == 2
        assert str(out) in capsys.readouterr().err
    assert list((tmp_path / "runs").glob("[!.]*")) == []
    campaign = Results(tasks=("labyrinth",), agents=("gru",), runs=tmp_path / "runs")
    scale = campaign.scale()
    campaign.try_write(campaign.rows(scale), scale, tmp_path / "out")
    assert "The table could not be written and is tried again later" in capsys.readouterr().err


def test_settings_that_change_meanwhile_are_a_failure(tmp_path: Path) -> None:
    """Every step reads the presets anew: one that was edited while a campaign runs must not mix its rows."""
    (row,) = plan.results(plan.Scale(budget=4096, seeds=1, runs=tmp_path / "runs"), ("labyrinth",), ("gru",))
    (job,) = row.jobs
    assert job.config is not None
    other = dataclasses.replace(job.config, checkpoint_every=123)
    begin_run(job.folder, other, 640.0)
    process = subprocess.Popen(["true"])
    process.wait()
    failure, following = after(Running(job, plan.train_command(job), process, [0]))
    assert failure is not None and "holds a run with other settings" in failure.reason and not following


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGHUP, signal.SIGHUP]], ids=str)
def test_asked_to_stop(tmp_path: Path, signals: list[signal.Signals]) -> None:
    """As by Ctrl-C: the training ends after its update and leaves a checkpoint. A lost connection may tell twice."""
    runs = tmp_path / "runs"
    command = [*arguments(tmp_path), "--budget", "100000000", "--agents", "gru"]
    process = subprocess.Popen(
        [sys.executable, "-m", "egomap", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        begun = lambda: any(path.read_text().count("\n") > 1 for path in runs.glob("*/metrics.csv"))  # noqa: E731
        assert eventually(lambda: begun() or process.poll() is not None, 200)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)
        stdout, stderr = process.communicate(timeout=200)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and stdout == ""
    assert stderr.endswith("Stopped.\n") and "Traceback" not in stderr
    assert len(list(runs.glob("*/checkpoints/step-*.safetensors"))) == 1
    assert eventually(lambda: not processes_of(runs), 5)


def test_a_run_that_fails_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "runs" / "fast-gru-labyrinth-3-2-2-b4096-s0"
    job.mkdir(parents=True)
    (job / "letter.txt").write_text("mine")
    campaign = [
        "reproduce",
        "results",
        *SMALL,
        "--tasks",
        "labyrinth",
        "--agents",
        "gru",
        "random",
        "--jobs",
        "2",
    ]
    assert main([*campaign, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert f"Failed: {job.name}: exit code 2: {job} holds other files" in told
    assert "1 of 2 runs failed, the table is of the others; the same command tries again." in told
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert [row["ours"]["test"] is None for row in rows] == [True, False]


def test_every_process_has_its_share_of_the_cores(tmp_path: Path) -> None:
    cores = usable_cores()
    for count in range(1, len(cores) + 1):
        assert sorted(core for share in core_shares(count) for core in share) == cores, "each core once"
        lengths = [len(share) for share in core_shares(count)]
        assert max(lengths) - min(lengths) <= 1
    crowded = core_shares(2 * len(cores) + 1)
    assert len(crowded) == 2 * len(cores) + 1 and all(len(share) == 1 for share in crowded)

    with open(tmp_path / "log", "wb") as log:
        process = launch(["generate", "--help"], log, cores[-1:])
        bound = eventually(lambda: os.sched_getaffinity(process.pid) == set(cores[-1:]), 20)
        assert process.wait() == 0 and bound
    assert b"usage: egomap generate" in (tmp_path / "log").read_bytes()
