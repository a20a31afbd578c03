"""The set-up tool, the Makefile and the project's own files: what can be told without installing anything."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import egomap

PROJECT = Path(__file__).resolve().parent.parent
TOOL = PROJECT / "tools" / "setup_env.py"


def run(*command: object, folder: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    parts = [str(part) for part in command]
    # These tests may themselves run below a make, whose options are none of their business.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return subprocess.run(parts, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def make(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run("make", "--no-print-directory", *arguments)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that looks to make like a finished set-up."""
    folder = tmp_path / "venv"
    folder.mkdir()
    (folder / ".installed").touch()
    return folder


@pytest.mark.parametrize("arguments", [(), ("one", "two")])
def test_wrong_number_of_arguments(arguments: tuple[str, ...]) -> None:
    result = run(sys.executable, TOOL, *arguments)
    assert result.returncode == 2 and "Usage: python tools/setup_env.py VENV" in result.stdout


def test_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    for target, message in ((tmp_path, "holds other files"), (tmp_path / "letter.txt", "is a file")):
        result = run(sys.executable, TOOL, target)
        assert result.returncode == 2 and message in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_old_python_gets_a_sentence(tmp_path: Path) -> None:
    program = (
        "import runpy, sys\n"
        "sys.version_info, sys.version = (3, 8, 10), '3.8.10 (default)'\n"
        f"sys.argv = ['setup_env.py', {str(tmp_path / 'venv')!r}]\n"
        f"runpy.run_path({str(TOOL)!r}, run_name='__main__')\n"
    )
    result = run(sys.executable, "-c", program)
    assert result.returncode == 2 and "needs Python 3.11 or newer; this is 3.8.10" in result.stdout
    assert not (tmp_path / "venv").exists()
    # An old Python must be able to read the file as far as that sentence.
    tree = ast.parse(TOOL.read_text(), feature_version=(3, 7))
    imported = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    assert imported, "annotations such as `str | Path` are errors in older Pythons"


@pytest.mark.slow
def test_torch_that_is_there_is_kept() -> None:
    tool = runpy.run_path(str(TOOL))
    asked: list[tuple[object, ...]] = []

    def recorded(*command: object, quiet: bool = False) -> bool:
        asked.append(command)
        return succeeds(*command, quiet=quiet)

    succeeds = tool["install_torch"].__globals__["succeeds"]
    tool["install_torch"].__globals__["succeeds"] = recorded
    tool["install_torch"](Path(sys.executable))
    assert asked == [(Path(sys.executable), "-c", "import torch")]


@pytest.mark.slow
def test_environment_without_pip_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    tool = runpy.run_path(str(TOOL))
    venv.create(folder, with_pip=False)  # as an interrupted set-up leaves it
    (folder / "old").touch()
    python = tool["ready_environment"](folder)
    assert run(python, "-m", "pip", "--version").returncode == 0
    assert not (folder / "old").exists()
    (folder / "kept").touch()
    assert tool["ready_environment"](folder) == python
    assert (folder / "kept").exists(), "a sound environment is not touched"


def test_requirements_of_the_tool_are_those_of_the_package() -> None:
    tool = runpy.run_path(str(TOOL))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert tool["TORCH"] in project["dependencies"]
    extras = re.fullmatch(r"\.\[(.*)\]", tool["EXTRAS"])
    assert extras and set(extras[1].split(",")) <= set(project["optional-dependencies"])


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
class TestMake:
    def test_nothing_to_do_the_second_time(self, installed: Path) -> None:
        assert make("-q", "setup", f"VENV={installed}").returncode == 0
        (installed / ".installed").unlink()
        assert make("-q", "setup", f"VENV={installed}").returncode == 1

    def test_changed_requirements_are_installed(self, installed: Path) -> None:
        newest = max((PROJECT / name).stat().st_mtime for name in ("pyproject.toml", "tools/setup_env.py"))
        os.utime(installed / ".installed", (newest - 10, newest - 10))
        assert "setup_env.py" in make("-n", "setup", f"VENV={installed}").stdout

    @pytest.mark.parametrize(
        ("target", "command"),
        [
            ("train", "/bin/egomap "),
            ("test", "/bin/python -m pytest"),
            ("test-isa", "/bin/python tools/test_isa.py"),
            ("test-fast", "/bin/python -m pytest"),
            ("lint", "/bin/mypy"),
            ("bench", "/bin/egomap bench"),
            ("docs", "/bin/mkdocs build --strict"),
        ],
    )
    def test_targets_set_up_first_and_then_work(self, installed: Path, target: str, command: str) -> None:
        ready = make("-n", target, f"VENV={installed}").stdout
        assert command in ready and "setup_env.py" not in ready
        fresh = make("-n", target, f"VENV={installed / 'none'}").stdout
        assert fresh.index("setup_env.py") < fresh.index(command)

    def test_only_the_fast_target_leaves_tests_out(self, installed: Path) -> None:
        every, fast = (make("-n", target, f"VENV={installed}").stdout for target in ("test", "test-fast"))
        assert fast.replace(' -m "not slow"', "") == every != fast
        assert "--durations=10" in every


def test_ci_runs_lint_and_every_test() -> None:
    script = PROJECT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert run("bash", "-n", script).returncode == 0
    lines = script.read_text().splitlines()
    assert lines[1] == "set -euo pipefail", "a failing step must fail the run"
    assert [line for line in lines if line.startswith("make ")] == [
        "make lint",
        "make docs",
        "make test",
        "make test-isa",
        "make check-wheel",
    ]


def claimed_pythons() -> list[str]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    found = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert project["requires-python"] == f">={found[0]}"
    return found


def test_the_workflow_runs_what_ci_runs_on_every_claimed_python() -> None:
    workflow = (PROJECT / ".github" / "workflows" / "checks.yml").read_text()
    script = (PROJECT / ".ci" / "run").read_text()
    jobs = re.findall(r"- run: make (\S+) PYTHON=python$", workflow, re.MULTILINE)
    assert sorted(jobs) == sorted(re.findall(r"^make (\S+)$", script, re.MULTILINE))
    matrix = re.search(r"python: \[(.*?)\]", workflow)
    assert matrix and re.findall(r'"(.*?)"', matrix[1]) == claimed_pythons()
    alone = re.findall(r'python-version: "(.*?)"', workflow)
    assert len(alone) == len(jobs) - 1 and set(alone) == {claimed_pythons()[0]}


def test_the_image_has_the_requirements_of_the_package() -> None:
    image = (PROJECT / "Dockerfile").read_text()
    base = re.search(r"^FROM python:(3\.\d+)-slim$", image, re.MULTILINE)
    assert base and base[1] in claimed_pythons()
    tool = runpy.run_path(str(TOOL))
    assert f'pip install --index-url "$TORCH_INDEX" "{tool["TORCH"]}"' in image
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = re.search(r'pip install "/opt/egomap\[(.*?)\]"', image)
    assert extras and set(extras[1].split(",")) <= set(project["project"]["optional-dependencies"])
    # The build reads these files, and nothing else is copied into the image.
    copied = {name for line in re.findall(r"^COPY (.*) \S+$", image, re.MULTILINE) for name in line.split()}
    assert copied == {
        "pyproject.toml",
        "src",
        project["project"]["readme"],
        *project["project"]["license-files"],
    }


def test_the_numeric_core_is_where_it_is_said_to_be() -> None:
    """A renamed test would be taken along again without a word, and a renamed folder left out."""
    tool = runpy.run_path(str(PROJECT / "tools" / "test_isa.py"))
    assert all((PROJECT / "tests" / folder).is_dir() for folder in tool["CORE"])
    for path, _, name in (test.partition("::") for test in tool["LEFT_OUT"]):
        assert f"def {name}" in (PROJECT / "tests" / path).read_text()
    assert len(tool["SETS"]) == 3 and {threads for _, threads, _ in tool["SETS"].values()} == {1, 2}


def test_one_version() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    citation = re.search(r"^version: (.*)$", (PROJECT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation and citation[1] == project["version"] == egomap.__version__
