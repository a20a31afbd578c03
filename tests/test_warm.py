"""The tests' own way to start commands: what it forks is a process like any other."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import egomap
from envs.helpers import alive
from warm import Warm, python
from warm import egomap as run

pytestmark = pytest.mark.slow


def test_what_a_command_prints_and_its_exit_code(tmp_path: Path) -> None:
    said = run("--version", cwd=tmp_path)
    assert (said.returncode, said.stdout, said.stderr) == (0, f"egomap {egomap.__version__}\n", "")
    told = run("generate", "labyrinth", "--size", 2, cwd=tmp_path)
    assert (told.returncode, told.stdout) == (
        2,
        "",
    ) and told.stderr == "egomap: size must be 3 to 21 cells; got 2.\n"
    assert run("nonsense").returncode == 2


def test_folder_and_environment(tmp_path: Path) -> None:
    made = run(
        "generate", "labyrinth", "--size", 3, "--train", 1, "--test", 1, cwd=tmp_path, env={"COLUMNS": "40"}
    )
    assert made.returncode == 0 and (tmp_path / "labyrinth-3" / "manifest.json").exists(), made.stderr


def test_it_can_be_killed_and_stopped(tmp_path: Path) -> None:
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM)):
        process = Warm("generate", "labyrinth", "--size", 21, "--train", 9999, "--out", tmp_path / str(code))
        assert process.poll() is None and alive(process.pid) and process.pid != os.getpid()
        process.send_signal(number)
        assert process.wait() == code and not alive(process.pid)


def test_programs(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("WORD = 'there'")
    said = python("import own, sys; print(own.WORD, __name__, sys.argv); 1 / 0", cwd=tmp_path)
    assert said.returncode == 1 and said.stdout == "there __main__ ['-c']\n"
    assert said.stderr.endswith("ZeroDivisionError: division by zero\n")
    loaded = python("import sys; print(*sorted(name for name in sys.modules if name.startswith('egomap')))")
    assert loaded.stdout == "\n", "egomap's own modules are loaded by each process anew"
    assert python("import warm").returncode == 1, "the tests' folder is on no command's path"
