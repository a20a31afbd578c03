"""Prove what a stranger's machine would see: `make train` in a fresh clone, then the wheel without the checkout.

Usage: python tools/check_wheel.py

Everything happens in a temporary folder that is removed at the end. A clone in an empty folder sets itself up by
`make train`, in a form of two updates. Its environment builds a wheel; a second, new environment gets nothing but
that wheel and its requirements, and there, outside of any checkout, `doctor`, `generate`, `train`, `evaluate` and
`inspect` must work. What is run is printed; the exit code is 0 if all of it works, 1 at the first step that does not.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from setup_env import PROJECT, install_torch, ready_environment

SHORT = "--size 3 --budget 4096 --evaluate-every 0"
"""The main job in two updates, on mazes that an untrained agent leaves soon."""
FEW_MAZES = ("labyrinth", "--size", "3", "--train", "4", "--test", "4", "--out", "mazes")
FEW_UPDATES = ("--budget", "64", "--learner.num-envs", "4", "--learner.rollout-steps", "8")


class StepFailed(Exception):
    """A step did not do what it should; its output has been printed."""


def step(what: str, *command: str | Path, folder: Path, environment: dict[str, str]) -> str:
    """Run a command, tell how long it took, and return what it printed; on failure show that and raise."""
    parts = [str(part) for part in command]
    print(f"{what}: {shlex.join(parts)}", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        parts,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout)
        raise StepFailed(f"{what} ended with exit code {done.returncode}.")
    print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return done.stdout


def require(condition: bool, message: str) -> None:
    if not condition:
        raise StepFailed(message)


def outer_environment(folder: Path) -> dict[str, str]:
    """This process's variables without those of a make or a Python around it; scenario sets go to the folder."""
    hidden = ("MAKE", "MFLAGS", "PYTHON", "VIRTUAL_ENV", "EGOMAP_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "EGOMAP_CACHE": str(folder / "cache")}


def check_clone(folder: Path, environment: dict[str, str]) -> Path:
    """Clone the project and run `make train` there; the clone."""
    clone = folder / "clone"
    step("clone", "git", "clone", "-q", PROJECT, clone, folder=folder, environment=environment)
    command = ("make", f"PYTHON={sys.executable}", "train", f"TRAIN_FLAGS={SHORT}")
    said = step("make train", *command, folder=clone, environment=environment)
    require("The curve: " in said, f"make train did not score its agent:\n{said}")
    untidy = step("what is left", "git", "status", "--porcelain", folder=clone, environment=environment)
    require(not untidy, f"make train left files that git does not ignore:\n{untidy}")
    return clone


def install_wheel(clone: Path, folder: Path, environment: dict[str, str]) -> Path:
    """Build a wheel of the clone and install it into a new environment; that environment's programs."""
    pip = ("-m", "pip", "--disable-pip-version-check")
    build = (
        clone / ".venv" / "bin" / "python",
        *pip,
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        folder / "dist",
        clone,
    )
    step("wheel", *build, folder=folder, environment=environment)
    (wheel,) = (folder / "dist").iterdir()
    python = ready_environment(folder / "other")
    install_torch(python)
    step("install", python, *pip, "install", "-q", wheel, folder=folder, environment=environment)
    return python.parent


def check_wheel(programs: Path, folder: Path, environment: dict[str, str]) -> None:
    """The commands work from the wheel alone."""
    outside = folder / "outside"
    outside.mkdir()

    def run(what: str, *command: str | Path) -> str:
        return step(what, *command, folder=outside, environment=environment)

    place = run("package", programs / "python", "-c", "import egomap; print(egomap.__file__)").strip()
    require(Path(place).is_relative_to(programs.parent), f"this is not the wheel's package: {place}")
    egomap = programs / "egomap"
    require(
        "Everything works." in run("doctor", egomap, "doctor"), "doctor did not find everything in order."
    )
    run("generate", egomap, "generate", *FEW_MAZES)
    run("train", egomap, "train", "--scenarios", "mazes", *FEW_UPDATES, "--run", "run")
    require((outside / "run" / "metrics.csv").exists(), "train wrote no metrics.csv.")
    run("evaluate", egomap, "evaluate", "run", "--out", "scores.json")
    require((outside / "scores.json").exists(), "evaluate wrote no scores.")
    files = ("--out", "episode.html", "--figure", "memory.png")
    run("inspect", egomap, "inspect", "run", "--driver", "planner", *files)
    for name in ("episode.html", "memory.png"):
        require((outside / name).stat().st_size > 10_000, f"inspect wrote no {name}.")


def main() -> int:
    """Run everything; the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="egomap-fresh-") as name:
        folder = Path(name)
        environment = outer_environment(folder)
        try:
            clone = check_clone(folder, environment)
            check_wheel(install_wheel(clone, folder, environment), folder, environment)
        except StepFailed as error:
            print(f"A fresh machine would fail: {error}")
            return 1
    print(f"A fresh clone and the wheel work ({time.monotonic() - began:.0f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
