"""One engine: what it shows, how it starts, and how it says that it cannot."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vizdoom as vzd

from egomap.config import Task
from egomap.envs import RENDER_MODES
from egomap.envs.engine import Engine, EngineCannotStart, EngineDied
from egomap.envs.frames import Frame, shared_frame
from egomap.envs.guard import guard
from egomap.scenarios.dataset import ScenarioSet

from .helpers import alive, random_actions, run_python

pytestmark = pytest.mark.slow

Open = Callable[..., Engine]
Sets = dict[Task, ScenarioSet]


@pytest.fixture
def engine(sets: Sets) -> Iterator[Open]:
    """engine(...): an engine on the small labyrinths, closed after the test."""
    made: list[Engine] = []

    def make(mode: str = "160x120-wide", **options: Any) -> Engine:
        scenarios = sets["labyrinth"]
        made.append(
            Engine(
                scenarios.cfg("train"),
                scenarios.wad("train"),
                RENDER_MODES[mode],
                **options,
            )
        )
        return made[-1]

    yield make
    for opened in made:
        opened.close()


def script(folder: Path, text: str) -> str:
    """A program in place of the engine."""
    path = folder / "a program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# -------------------------------------------------------------------------------------------------- what it shows


@pytest.mark.parametrize("mode", sorted(RENDER_MODES))
def test_shared_memory_always_shows_what_vizdoom_would_copy(mode: str, engine: Open) -> None:
    sharing, copying = engine(mode), engine(mode, share=False)
    for map_name, seed in (("MAP01", 1), ("MAP07", 2), ("MAP01", 1)):
        for each in (sharing, copying):
            each.load(map_name, seed)
        for action in random_actions(seed, 25):
            for ours, theirs in zip(sharing.frame(), copying.frame(), strict=True):
                assert ours.dtype == theirs.dtype and not ours.flags.writeable
                np.testing.assert_array_equal(ours, theirs)
            assert sharing.act(action) == copying.act(action)
            if sharing.finished:
                break
    assert sharing.frame().screen is sharing.frame().screen, "the same memory every time"
    assert copying.frame().screen is not copying.frame().screen


def test_what_is_not_in_shared_memory_once_is_not_taken_from_there(engine: Open) -> None:
    opened = engine()
    instance = opened._berth.instance if opened._berth else ""
    assert instance
    now = Frame(*(part.copy() for part in opened.frame()))
    assert shared_frame(instance, now) is not None
    assert shared_frame("nosuchname", now) is None
    assert shared_frame(instance, now._replace(depth=now.depth + 1)) is None
    assert shared_frame(instance, now._replace(place=np.zeros(4))) is None, "zeros lie everywhere"


# ------------------------------------------------------------------------------------------------------ how it starts


def test_engines_can_be_started_by_many_threads_while_children_are_forked(engine: Open) -> None:
    """A child that is forked while a program is being written holds it open, and a busy program cannot be run."""
    stop = threading.Event()

    def fork() -> None:
        while not stop.is_set():
            child = os.fork()
            if child == 0:
                time.sleep(0.05)
                os._exit(0)
            os.waitpid(child, 0)

    forkers = [threading.Thread(target=fork) for _ in range(3)]
    starters = [threading.Thread(target=engine) for _ in range(6)]
    for thread in (*forkers, *starters):
        thread.start()
    for thread in starters:
        thread.join()
    stop.set()
    for thread in forkers:
        thread.join()


def test_an_engine_that_dies_as_soon_as_it_is_ready_is_started_anew(engine: Open, tmp_path: Path) -> None:
    """Whoever kills engines does not ask how old they are."""
    program = script(
        tmp_path,
        f"""echo start >>"{tmp_path}/starts"
if [ "$(wc -l <"{tmp_path}/starts")" -le 2 ]; then
  "{vzd.exe_path}" "$@" & engine=$!
  while [ ! -e ready ]; do :; done
  kill -9 $engine; exit 1
fi
exec "{vzd.exe_path}" "$@" """,
    )
    opened = engine(executable=program)  # mostly they die in here
    for _ in range(3):
        try:
            opened.load("MAP02", 1)
            break
        except EngineDied:
            opened.restart()
    opened.act(0)
    assert (tmp_path / "starts").read_text().count("start") == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "echo libSDL2.so: cannot open shared object file >&2; exit 127",
            "libSDL2.so: cannot open shared object file",
        ),
        ("exit 3", "exit code 3"),
        ("echo first; echo last; exit 1", "last"),
    ],
)
def test_an_engine_that_cannot_start_says_why(text: str, sentence: str, engine: Open, tmp_path: Path) -> None:
    with pytest.raises(EngineCannotStart) as caught:
        engine(executable=script(tmp_path, text))
    assert str(caught.value) == (
        f"The Doom engine cannot start: {sentence}. Run `egomap doctor` to find out why."
    )
    assert isinstance(caught.value, ValueError)
    engine().load("MAP01", 1)  # others can


@pytest.mark.parametrize("path", ["/nonexistent/vizdoom", "/dev/null"])
def test_a_missing_engine_says_so(path: str, engine: Open) -> None:
    with pytest.raises(
        EngineCannotStart, match=r"The Doom engine cannot start: .*(not found|[Pp]ermission denied)"
    ):
        engine(executable=path)


def test_python_ends_well_after_an_engine_could_not_start(sets: Sets, tmp_path: Path) -> None:
    code = """
import builtins, sys, time, vizdoom
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1.0)  # Python takes its time to end, and a thread waits inside ViZDoom
builtins.slow = Slow()
vizdoom.exe_path = "/bin/false"
from egomap.envs import DoomEnv, DoomVectorEnv
for make in (lambda: DoomEnv(config=sys.argv[1]).reset(), lambda: DoomVectorEnv(2, config=sys.argv[1])):
    try:
        make()
    except ValueError as error:
        print(error)
"""
    found = run_python(code, str(sets["labyrinth"].cfg("train")), cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    sentence = "The Doom engine cannot start: exit code 1. Run `egomap doctor` to find out why."
    assert found.stdout.splitlines() == [sentence, sentence]
    assert list(tmp_path.iterdir()) == []


def test_a_ctrl_c_does_not_reach_an_engine_that_is_only_just_being_started(
    sets: Sets, tmp_path: Path
) -> None:
    code = """
import os, signal, sys, threading
os.setsid()
signal.signal(signal.SIGINT, lambda *_: None)
from egomap.envs import DoomVectorEnv
over = threading.Event()
def interrupt():
    while not over.wait(0.0005):
        os.killpg(0, signal.SIGINT)  # as a terminal does: to the whole group
threading.Thread(target=interrupt, daemon=True).start()
for _ in range(3):
    env = DoomVectorEnv(8, config=sys.argv[1])
    print(env.engine_restarts)
    env.close()
over.set()
"""
    found = run_python(code, str(sets["labyrinth"].cfg("train")), cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split() == ["0", "0", "0"]


def test_a_wad_that_was_deleted_meanwhile_is_named(sets: Sets, tmp_path: Path) -> None:
    for name in ("train.wad", "train.cfg"):
        (tmp_path / name).write_bytes((sets["labyrinth"].folder / name).read_bytes())
    opened = Engine(tmp_path / "train.cfg", tmp_path / "train.wad", RENDER_MODES["160x120-wide"])
    try:
        (tmp_path / "train.wad").unlink()
        with pytest.raises(EngineCannotStart, match=r"train\.wad"):
            opened.restart()
    finally:
        opened.close()


def test_temporary_folders_may_have_blanks_and_quotes_in_their_names(sets: Sets, tmp_path: Path) -> None:
    folder = tmp_path / "a 'temporary' folder"
    folder.mkdir()
    code = """
import sys
from egomap.envs import DoomEnv
from egomap.envs.guard import guard
env = DoomEnv(config=sys.argv[1])
env.reset(seed=0)
env.step(0)
print(guard().folder)
"""
    config = str(sets["labyrinth"].cfg("train"))
    found = run_python(code, config, cwd=tmp_path, TMPDIR=str(folder))
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith(str(folder))
    assert list(folder.iterdir()) == []


# ------------------------------------------------------------------------------------------------------ how it ends


def test_a_closed_engine_is_dead_and_its_place_is_free_again(engine: Open) -> None:
    opened = engine()
    folder, pid = opened._berth.folder if opened._berth else Path(), opened.pid
    assert pid is not None and alive(pid) and folder.exists() and not opened.busy
    opened.close()
    opened.close()
    assert not alive(pid) and not folder.exists() and opened.pid is None
    for call in (lambda: opened.act(0), lambda: opened.load("MAP01", 1)):
        with pytest.raises(EngineDied, match="closed"):
            call()
    again = engine()
    assert again._berth is not None and again._berth.folder == folder


def test_engines_run_in_private_folders(engine: Open) -> None:
    first, second = engine(), engine()
    folders = {os.readlink(f"/proc/{each.pid}/cwd") for each in (first, second)}
    assert len(folders) == 2
    assert all(Path(folder).parent == guard().folder for folder in folders)
    assert stat.S_IMODE(guard().folder.stat().st_mode) == 0o700
