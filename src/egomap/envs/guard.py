"""The parent's side of the guard: one private folder and one guard process per Python process.

What comes in: requests for a place where an engine can run. What goes out: a `Berth`, a numbered private
folder with the engine's launcher, whose deadline the guard watches. Nothing is written outside that folder.
"""

from __future__ import annotations

import atexit
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from egomap.config import require
from egomap.envs import _guard_process

MAX_ENGINES = 4096

# The launcher is the process that ViZDoom waits for. ViZDoom's own start-up crashes the whole Python process
# when its engine dies before it is ready, so the launcher restarts the engine then; and if the engine cannot
# start at all, the launcher writes `failed` and waits for its folder to go, so that the caller can say what is wrong.
# It is written once, and every berth has a link to it: a program that was written a moment ago may be "busy", held
# open by the child of a fork in another thread, and cannot be run until that child is gone.
# A Ctrl-C at the terminal is for the trainer alone: the engine inherits that it is ignored. (A session of its own
# would do that too, but Linux schedules sessions as groups, and the trainer's threads then wait behind the engines.)
_LAUNCHER = """#!/bin/sh
exec 2>/dev/null
trap '' INT HUP TERM
cd "$(dirname "$0")" || exit 1
instance=unknown
for word in "$@"; do
  [ "$previous" = "+viz_instance_id" ] && instance=$word
  previous=$word
done
read -r program <program
for attempt in 1 2 3 4; do
  "$program" "$@" >log 2>&1 &
  echo "$$ $! $instance" >engine.new && mv engine.new engine || kill -9 $!
  wait $!
  code=$?
  [ -e ready ] && exit $code
done
echo "$code" >failed
while [ -e program ]; do sleep 1; done
"""


class Berth:
    """A private folder for one engine, watched by the guard."""

    def __init__(self, number: int, folder: Path, deadlines: memoryview[float]) -> None:
        self.number = number
        self.folder = folder
        self.deadlines = deadlines

    def prepare(self, executable: str) -> Path:
        """Make the folder ready for a new engine; return the launcher's path."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "program").write_text(f"{executable}\n")
        launcher = self.folder / "launcher"
        launcher.symlink_to(self.folder.parent / "launcher")
        if not os.access(launcher, os.X_OK):
            raise ValueError(
                f"The Doom engine cannot start: no program may run in {self.folder.parent.parent}. "
                "Set TMPDIR to a folder where programs may run."
            )
        return launcher

    def set_deadline(self, seconds: float) -> None:
        """From now the guard kills the engine after `seconds`, unless the deadline is reset or cleared."""
        self.deadlines[self.number] = time.monotonic() + seconds

    def clear_deadline(self) -> None:
        """The engine is idle: it may rest as long as it likes."""
        self.deadlines[self.number] = 0.0

    @property
    def has_deadline(self) -> bool:
        """Whether a thread waits for the engine."""
        return self.deadlines[self.number] != 0.0

    def mark_ready(self) -> None:
        """The engine has started: from now its end is for the caller to see."""
        (self.folder / "ready").touch()

    def failure(self) -> str | None:
        """Why the engine could not start, or None if it has not given up."""
        if not (self.folder / "failed").exists():
            return None
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {(self.folder / 'failed').read_text().strip()}"

    @property
    def engine_pid(self) -> int | None:
        """The engine's process, or None before it was started."""
        record = _guard_process.read_record(str(self.folder))
        return record[1] if record else None

    @property
    def launcher_pid(self) -> int | None:
        """The launcher's process, or None before it was started."""
        record = _guard_process.read_record(str(self.folder))
        return record[0] if record else None

    @property
    def instance(self) -> str | None:
        """ViZDoom's name for the engine; its shared memory bears it."""
        record = _guard_process.read_record(str(self.folder))
        return record[2] if record else None

    def end(self) -> None:
        """Kill whatever is left of the engine, and remove its shared memory and its files."""
        self.clear_deadline()
        _guard_process.end_berth(str(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)


class Guard:
    """The guard process of this Python process, and the berths that it watches."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="egomap-"))
        path = self.folder / "deadlines"
        path.write_bytes(bytes(8 * MAX_ENGINES))
        with path.open("r+b") as file:
            self._deadlines = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
        launcher = self.folder / "launcher"
        launcher.write_text(_LAUNCHER)
        launcher.chmod(0o700)
        # Reentrant: while it is held, the garbage collector may end an engine that was dropped and release its berth.
        self._lock = threading.RLock()
        self._free = list(range(MAX_ENGINES - 1, -1, -1))
        self.abandoned = 0
        self._process = self._start_process()

    def _start_process(self) -> subprocess.Popen[bytes]:
        """The guard lives until the pipe closes: with this process, or in `close`.

        Its end is a plain number: a file object would be closed while Python ends, before the process is gone.
        """
        reading, self._pipe = os.pipe()
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", _guard_process.__file__, str(self.folder)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(reading)

    def berth(self) -> Berth:
        """A free berth; give it back with `release`."""
        with self._lock:
            require(
                bool(self._free),
                f"{MAX_ENGINES} engines are open in this process already; close some first.",
            )
            if self._process.poll() is not None:  # the guard was killed; no engine starts without one
                os.close(self._pipe)
                self._process = self._start_process()
            number = self._free.pop()
        return Berth(number, self.folder / str(number), self._deadlines)

    def keep(self, name: str, data: bytes) -> Path:
        """A file for all engines of this process, written on first use."""
        path = self.folder / name
        with self._lock:
            if not path.exists():
                path.write_bytes(data)
        return path

    def release(self, berth: Berth) -> None:
        """End what runs in the berth and give it back."""
        berth.end()
        with self._lock:
            self._free.append(berth.number)

    def abandon(self, berth: Berth) -> None:
        """Leave a berth whose engine never started to the guard, which ends it with this process.

        A thread still waits inside ViZDoom for its launcher, and the launcher's end would crash Python.
        """
        berth.clear_deadline()
        with self._lock:
            self.abandoned += 1

    def close(self) -> None:
        """End everything now and wait for it, so that nothing is left when the process ends.

        Unless a thread waits inside ViZDoom: woken while Python ends, it would crash. Then the guard does all this
        when the pipe closes with the process.
        """
        if self.abandoned or any(self._deadlines):
            return
        os.close(self._pipe)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def forget_in_child(self) -> None:
        """After a fork: close the child's copy of the pipe, or the guard would not see the parent die."""
        os.close(self._pipe)
        self._process.returncode = 0  # not our child: nothing to wait for


_guard: Guard | None = None
_guard_lock = threading.RLock()


def guard() -> Guard:
    """The guard of this process, started on first use (and again in a forked child)."""
    global _guard
    with _guard_lock:
        if _guard is None or _guard.pid != os.getpid():
            _guard = Guard()
        return _guard


def _after_fork() -> None:
    global _guard, _guard_lock
    _guard_lock = threading.RLock()
    if _guard is not None:
        _guard.forget_in_child()
        _guard = None


def _at_exit() -> None:
    if _guard is not None and _guard.pid == os.getpid():
        _guard.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
