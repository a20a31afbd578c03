"""The doctor: a sound machine passes, each fault is told in one sentence, and the other checks still run."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import vizdoom as vzd

from egomap.bench.machine import expected_speeds, features
from egomap.config import Camera
from egomap.envs import doctor
from egomap.envs.doctor import Check, checks, expected_depth
from egomap.envs.rendering import DEFAULT_RENDER_MODE, RENDER_MODES
from egomap.scenarios.layout import Cell, Layout, Wall

from .helpers import eventually, processes_of, run_python

NAMES = [
    *("python", "vizdoom", "gymnasium", "numpy", "opencv-python-headless", "torch"),
    *("engine", "depth", "actions", "shared memory", "cores", "cache"),
]
SIMULATORS = ["miniworld", "memory maze"]
MACHINE = ["cpu", "instructions", "threads", "numba", "ffmpeg", "browser", "screen", "speed"]
OPTIONAL = {*SIMULATORS, "numba", "ffmpeg", "browser", "screen"}


def left_behind(folder: Path) -> list[str]:
    """Everything in `folder` but what torch itself makes in the temporary folder when it is loaded."""
    names = [path.relative_to(folder).parts[0] for path in folder.rglob("*")]
    return sorted({name for name in names if not name.startswith("torchinductor_")})


def failures(found: list[Check]) -> dict[str, str]:
    """The failed checks by name, after a look at what all reports have in common."""
    assert [check.name for check in found] == NAMES
    assert all(check.detail and "\n" not in check.detail for check in found)
    return {check.name: check.detail for check in found if not check.ok}


def test_all_is_well_here() -> None:
    assert failures(checks()) == {}


@pytest.mark.parametrize("broken", ["missing", "not a program", "ends at once"])
def test_broken_engine(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tmp_path / "engine"
    if broken != "missing":
        engine.write_text("#!/bin/sh\nexit 3\n" if broken == "ends at once" else "no program")
        engine.chmod(0o755)
    monkeypatch.setattr(vzd, "exe_path", str(engine))
    failed = failures(checks())
    assert list(failed) == ["engine", "depth", "actions"]
    assert failed["engine"].startswith("The Doom engine cannot start: ")
    assert failed["engine"].endswith(".")
    assert failed["depth"] == failed["actions"] == "not tried, for there is no engine."


def test_other_depth_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = RENDER_MODES[DEFAULT_RENDER_MODE]
    monkeypatch.setitem(RENDER_MODES, DEFAULT_RENDER_MODE, dataclasses.replace(mode, depth_offset=12.0))
    failed = failures(checks())
    assert list(failed) == ["depth"]
    assert "over the bars of 2 and 6" in failed["depth"]


def test_other_actions_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egomap.envs.engine.PRESSED", ([0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]))
    failed = failures(checks())
    assert failed == {
        "actions": "1 decisions of left turn by -7.03 degrees and walk 0.00 units; expected 7.03 and 0.00."
    }


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EGOMAP_CACHE", str(tmp_path / "file" / "cache"))
    failed = failures(checks())
    assert list(failed) == ["cache"]
    assert failed["cache"].endswith(
        "cannot be written to (Not a directory); set EGOMAP_CACHE to a folder that can."
    )


def test_missing_package_and_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", (*doctor.PACKAGES[:-1], "no-such-package-at-all"))
    monkeypatch.setattr(doctor, "SHARED_MEMORY_PER_ENGINE", 2**60)
    failed = {check.name: check.detail for check in checks() if not check.ok}
    assert list(failed) == ["no-such-package-at-all", "shared memory"]
    assert failed["no-such-package-at-all"] == "not installed; run `pip install no-such-package-at-all`."
    assert "room for 0 engines; 48 are wanted" in failed["shared memory"]


def command(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "egomap", "doctor"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_command_leaves_nothing_behind(tmp_path: Path) -> None:
    run = command(tmp_path, TMPDIR=str(tmp_path), EGOMAP_CACHE=str(tmp_path / "cache"))
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert [line[6:].split(":")[0] for line in lines[:-1]] == [*NAMES, *SIMULATORS, *MACHINE]
    marks = {line[6:].split(":")[0]: line[:6] for line in lines[:-1]}
    assert {mark for name, mark in marks.items() if name not in OPTIONAL} == {"ok    "}
    assert {marks[name] for name in OPTIONAL} <= {"ok    ", "none  "}, "what is optional fails nothing"
    assert re.search(r"speed: expect \d[\d,]* to \d[\d,]* decisions/s of EgoMap", run.stdout)
    assert lines[-1] == "Everything works."
    assert eventually(lambda: not processes_of(tmp_path), 3.0)
    assert eventually(lambda: left_behind(tmp_path) == ["cache"], 3.0)


def test_command_fails_with_the_checks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = command(tmp_path, EGOMAP_CACHE=str(tmp_path / "file" / "cache"))
    assert run.returncode == 2
    assert re.search(r"^FAIL  cache: ", run.stdout, re.MULTILINE)
    assert run.stdout.splitlines()[-2] == "none  speed: not measured, for a check has failed."
    assert run.stdout.splitlines()[-1] == f"1 of {len(NAMES) + len(SIMULATORS) + len(MACHINE)} checks failed."
    assert "Traceback" not in run.stderr


def test_no_torch(tmp_path: Path) -> None:
    code = "import sys; from egomap.envs.doctor import checks; checks(); print('torch' in sys.modules)"
    assert run_python(code, cwd=tmp_path).stdout == "False\n"


X86 = "processor : 0\nmodel name : Some CPU @ 2 GHz\nflags : fpu avx2 avx512_bf16\n\nmodel name : another\n"
ARM = "processor : 0\nBogoMIPS : 50.00\nFeatures : fp asimd bf16\n"


def test_features_of_the_processor() -> None:
    assert features(X86) == ("Some CPU @ 2 GHz", {"fpu", "avx2", "avx512_bf16"})
    assert features(ARM) == ("", {"fp", "asimd", "bf16"})
    assert features("") == ("", set())


def test_expected_speeds_hold_what_was_measured() -> None:
    assert expected_speeds([1000.0, 1264.0]) == (750, 1600)  # 750 and 1580, to two digits
    assert expected_speeds([96.0]) == (72, 120)


CAMERA = Camera(width=4, height=2, fx=2.0, fy=2.0, cx=2.0, cy=1.0)
"""Its rays go 0.75 and 0.25 to the left, and as much to the right, for each unit ahead."""


def test_expected_depth_of_an_empty_room() -> None:
    room = Layout("labyrinth", 3, 128, (), Cell(0, 0), (Cell(1, 1),))
    east = expected_depth(room, np.array([0.0, 0.0, 0.0]), CAMERA)
    np.testing.assert_allclose(east, 192.0)  # depth is the way ahead, not the ray's length
    # 100 to the north: the leftmost ray meets the northern wall after 92 / 0.75 units ahead.
    aside = expected_depth(room, np.array([0.0, 100.0, 0.0]), CAMERA)
    np.testing.assert_allclose(aside, [92 / 0.75, 192.0, 192.0, 192.0])
    north = expected_depth(room, np.array([50.0, 0.0, math.pi / 2]), CAMERA)
    np.testing.assert_allclose(north, [192.0, 192.0, 192.0, 142 / 0.75], rtol=1e-6)


def test_expected_depth_of_an_inner_wall() -> None:
    wall = Wall(Cell(1, 1), Cell(2, 1))  # upright at x = 64, 16 thick, from y = -64 to 64
    room = Layout("labyrinth", 3, 128, (wall,), Cell(0, 0), (Cell(1, 1),))
    east = expected_depth(room, np.array([0.0, 30.0, 0.0]), CAMERA)
    # Its western face is at 56; the leftmost ray passes 72 to the north of it there.
    np.testing.assert_allclose(east, [192.0, 56.0, 56.0, 56.0])
