"""The commands as people run them: real processes, exit codes, what they print and what they leave behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tyro

from egomap.commands.train_flags import TrainFlags, all_flags
from egomap.config import ScenarioConfig
from egomap.envs.rendering import RENDER_MODES
from egomap.presets import PRESETS
from egomap.scenarios.dataset import ScenarioSet, generate
from envs.helpers import eventually, processes_of

COMMANDS = (
    "doctor",
    "generate",
    "train",
    "evaluate",
    "bench",
    "reproduce",
    "inspect",
    "play",
    "probe",
    "offline",
    "agents",
    "export",
    "push",
)


def environment(folder: Path) -> dict[str, str]:
    """Whatever a command writes outside of its output goes to `folder`, so that it can be seen."""
    return {**os.environ, "EGOMAP_CACHE": str(folder / "cache"), "COLUMNS": "120", "TMPDIR": str(folder)}


def egomap(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `egomap ARGUMENTS` in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "egomap", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def left_behind(folder: Path) -> list[Path]:
    """Everything in `folder` but what torch itself makes in the temporary folder when it is loaded."""
    return sorted(path for path in folder.rglob("*") if not path.name.startswith("torchinductor_"))


def refused(folder: Path, *arguments: str) -> str:
    """The sentence with which a command refuses its input."""
    before = left_behind(folder)
    run = egomap(folder, *arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert left_behind(folder) == before, "a refused command wrote something"
    told = [line for line in run.stderr.splitlines() if line.startswith("egomap: ")]
    assert len(told) == 1, run.stderr
    assert run.stderr.endswith(f"{told[0]}\n")
    assert told[0].endswith(".")
    return told[0].removeprefix("egomap: ")


@pytest.fixture(scope="module")
def mazes(tmp_path_factory: pytest.TempPathFactory) -> ScenarioSet:
    """Two training and three held-out labyrinths of size 3."""
    config = ScenarioConfig(task="labyrinth", size=3, train=2, test=3, seed=1)
    return generate(config, tmp_path_factory.mktemp("sets") / "mazes")


MAZES = ("labyrinth", "--size", "3", "--train", "2", "--test", "3", "--seed", "1")


def test_generate(tmp_path: Path, mazes: ScenarioSet) -> None:
    run = egomap(tmp_path, "generate", *MAZES, "--out", "first")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(
        f"{tmp_path / 'first'}: 2 train, 3 test layouts of labyrinth, 3 x 3 cells.\n"
    )
    assert re.search(r"layouts .* 5/5 ", run.stderr)
    made = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    assert set(made) == {"layouts.png", "manifest.json", "test.cfg", "test.wad", "train.cfg", "train.wad"}
    # The same bytes as the set of another process, in another folder.
    assert made == {path.name: path.read_bytes() for path in mazes.folder.iterdir()}
    again = egomap(tmp_path, "generate", *MAZES, "--out", "first")
    assert again.returncode == 0
    assert again.stdout == run.stdout

    told = refused(tmp_path, "generate", *MAZES[:-1], "2", "--out", "first")
    assert told == f"{tmp_path / 'first'} holds another scenario set; give a new or empty folder."
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}


@pytest.mark.slow
def test_evaluate(tmp_path: Path, mazes: ScenarioSet) -> None:
    for name, engines in (("a.json", "2"), ("b.json", "3")):
        run = egomap(
            *(tmp_path, "evaluate", "--agents", "random", "planner", "--scenarios", str(mazes.folder)),
            *("--num-envs", engines, "--seed", "7", "--out", name),
        )
        assert run.returncode == 0, run.stderr
        assert re.search(r"planner .* 3/3 ", run.stderr)
        assert re.search(r"│ planner +│ 0\.9\d\d +│ .* │ 3 of 3 ", run.stdout)
    text = (tmp_path / "a.json").read_text()
    assert text == (tmp_path / "b.json").read_text(), "the same seed, other results"
    random, planner = json.loads(text, parse_constant=pytest.fail)["evaluations"]
    assert (random["agent"], planner["agent"]) == ("random", "planner")
    layouts = [layout.hash for layout in mazes.layouts["test"]]
    for scores in (random, planner):
        assert [entry["layout_id"] for entry in scores["layouts"]] == layouts
    assert planner["summary"]["success"] == 1.0
    assert planner["summary"]["mean_return"] > random["summary"]["mean_return"]


@pytest.mark.parametrize("name", PRESETS)
def test_flags_that_nobody_gave_are_the_preset(name: str) -> None:
    assert TrainFlags.of(["--preset", name]).config() == PRESETS[name]


@pytest.mark.parametrize("name", RENDER_MODES)
def test_an_unknown_depth_is_beyond_all_known_walls(name: str) -> None:
    mode = RENDER_MODES[name]
    config = replace(TrainFlags.of([]), rendering=name).config()
    assert config.agent.unknown_depth > mode.depth_table()[: mode.saturation].max()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["generate", "labyrinth", "--size", "2"], "size must be 3 to 21 cells; got 2."),
        (["generate", "ordered-items", "--items", "9"], "items must be 2 to 8; got 9."),
        (
            ["generate", "labyrinth", "--wall-probability", "1.5"],
            "wall-probability must be between 0 and 1; got 1.5.",
        ),
        (["train", "--preset", "huge"], "there is no preset 'huge'; there are "),
        (["train", "--preset", "quick", "--budget", "0"], "budget must be 1 decision or more; got 0."),
        (["train", "--run", "nothing", "--resume"], "nothing holds no run: it has no config.json."),
        (
            ["evaluate", "--out", "nowhere/a.json"],
            "nowhere/a.json cannot be written: nowhere is not a folder.",
        ),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_bad_values(arguments: list[str], told: str, tmp_path: Path) -> None:
    assert refused(tmp_path, *arguments).startswith(told)


def test_file_where_a_folder_is_expected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file; give a folder" in refused(tmp_path, "generate", "labyrinth", "--out", "file")


@pytest.mark.parametrize("run", ["file", "file/run"])
def test_run_folder_that_cannot_be_made(run: str, tmp_path: Path, mazes: ScenarioSet) -> None:
    (tmp_path / "file").touch()
    told = refused(tmp_path, "train", "--preset", "quick", "--scenarios", str(mazes.folder), "--run", run)
    assert told in ("file is a file; give a folder.", "file/run: Not a directory.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_run_folder_that_may_not_be_written(tmp_path: Path, mazes: ScenarioSet) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    options = ("--scenarios", str(mazes.folder), "--run", "closed/run")
    assert refused(tmp_path, "train", "--preset", "quick", *options) == "closed/run: Permission denied."


def cfg_of(folder: Path, wad: bytes, map_name: str = "MAP01") -> str:
    (folder / "a.wad").write_bytes(wad)
    (folder / "a.cfg").write_text(f"doom_scenario_path = a.wad\ndoom_map = {map_name}\n")
    return "a.cfg"


def test_missing_cfg(tmp_path: Path) -> None:
    told = refused(tmp_path, "evaluate", "--agents", "random", "--scenarios", "nothing.cfg")
    assert told == "cannot read the scenario file nothing.cfg: No such file or directory."


def test_broken_wads(tmp_path: Path, mazes: ScenarioSet) -> None:
    whole = mazes.wad("test").read_bytes()
    play = ("evaluate", "--agents", "random", "--scenarios")
    told = refused(tmp_path, *play, cfg_of(tmp_path, whole[: len(whole) // 2]))
    assert told.startswith("a.wad is truncated or broken: ")
    told = refused(tmp_path, *play, cfg_of(tmp_path, bytes(range(255, -1, -1)) * 12))
    assert told.startswith("a.wad is not a WAD: ")
    told = refused(tmp_path, *play, cfg_of(tmp_path, whole, "MAP77"))
    assert told == "a.wad has no map 'MAP77'; it has MAP01, MAP02, MAP03."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nonsense"], "Unrecognized options: nonsense"),
        (["evaluate", "--frobnicate"], "Unrecognized options: --frobnicate"),
        (["generate", "nonsense"], "invalid choice 'nonsense' for argument 'task'"),
    ],
)
def test_words_that_nobody_knows(arguments: list[str], told: str, tmp_path: Path) -> None:
    run = egomap(tmp_path, *arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert told in run.stderr
    assert "--help" in run.stderr
    assert "Traceback" not in run.stderr


def test_every_command_is_listed(tmp_path: Path) -> None:
    run = egomap(tmp_path, "--help")
    assert run.returncode == 0
    assert tuple(re.findall(r"• (\S+) ", run.stdout)) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, tmp_path: Path) -> None:
    run = egomap(tmp_path, command, "--help")
    assert run.returncode == 0, run.stderr
    assert f"Example: egomap {command}" in run.stdout


@pytest.fixture
def endless(tmp_path: Path, mazes: ScenarioSet) -> Iterator[subprocess.Popen[str]]:
    """An evaluation that would take hours."""
    command = [
        sys.executable,
        "-m",
        "egomap",
        "evaluate",
        "--agents",
        "random",
        "--scenarios",
        str(mazes.folder),
    ]
    process = subprocess.Popen(
        [*command, "--episodes-per-layout", "100000", "--num-envs", "3", "--out", "never.json"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.slow
def test_interrupt(endless: subprocess.Popen[str], tmp_path: Path) -> None:
    # Three engines, each with its launcher, and the guard; all name a folder below `tmp_path`.
    assert eventually(lambda: len(processes_of(tmp_path)) >= 7, 60)
    os.killpg(endless.pid, signal.SIGINT)  # as a terminal does: to the whole group, the engines included
    stdout, stderr = endless.communicate(timeout=60)
    assert endless.returncode == 130, stderr
    assert stdout == ""
    assert stderr.endswith("\nStopped.\n")
    assert "Traceback" not in stderr
    assert eventually(lambda: not processes_of(tmp_path), 3.0)
    assert eventually(lambda: not left_behind(tmp_path), 3.0)


def test_sizes_and_evaluations_have_flags() -> None:
    arguments = ["--hidden-size", "64", "--frame-skip", "8", "--evaluation-episodes", "2"]
    config = tyro.cli(all_flags(), args=arguments, default=TrainFlags.of(arguments)).config()
    assert (config.agent.hidden_size, config.env.frame_skip, config.evaluation_episodes) == (64, 8, 2)
    arguments = ["--env", "some:Env-v0", "--frame-skip", "8"]
    with pytest.raises(ValueError, match="--frame-skip of our mazes and --env do not go together"):
        tyro.cli(all_flags(), args=arguments, default=TrainFlags.of(arguments)).config()
