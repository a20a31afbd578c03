"""The guard: a small process that outlives a killed parent, and ends what the parent can no longer end.

Run as `python -I -S _guard_process.py FOLDER`, standard library only, so that it starts fast and stays small.
It holds the read end of a pipe whose write end only the parent has. While the parent lives, it kills engines
that are past their deadline (a stopped engine blocks its caller without limit). When the pipe closes, however
the parent died, it kills every engine, removes their shared memory and the folder, and ends.

FOLDER/deadlines holds one float64 (CLOCK_MONOTONIC seconds, 0 = none) per engine number; FOLDER/N/engine holds
one line that the launcher of engine N wrote: its own pid, the engine's pid, the instance id.
"""

import contextlib
import mmap
import os
import select
import shutil
import signal
import struct
import sys
import time

POLL_SECONDS = 0.25
END_SECONDS = 2.0
SHARED_MEMORY = ("ViZDoomSM", "ViZDoomMQCtr", "ViZDoomMQDoom")


def read_record(folder: str) -> tuple[int, int, str] | None:
    """The launcher's pid, the engine's pid and the instance id; None while there is no whole record."""
    try:
        with open(os.path.join(folder, "engine"), encoding="utf-8") as file:
            launcher, engine, instance = file.read().split()
        return int(launcher), int(engine), instance
    except (OSError, ValueError):
        return None


def kill_engine(pid: int, instance: str) -> None:
    """SIGKILL, if the process still is that engine (a pid may have been given to another process)."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if instance.encode() not in file.read():
                return
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def remove_shared_memory(instance: str) -> None:
    """Unlink what ViZDoom made under /dev/shm for this instance."""
    for name in SHARED_MEMORY:
        with contextlib.suppress(OSError):
            os.unlink(f"/dev/shm/{name}{instance}")


def kill_overdue(folder: str, deadlines: mmap.mmap) -> None:
    """Kill each engine whose deadline has passed; its caller wakes with an exception."""
    now = time.monotonic()
    for number, (deadline,) in enumerate(struct.iter_unpack("d", deadlines[:])):
        if 0.0 < deadline < now:
            record = read_record(os.path.join(folder, str(number)))
            if record:
                kill_engine(record[1], record[2])


def end_berth(folder: str) -> bool:
    """Kill what runs in one engine's folder and remove its shared memory; whether there was anything.

    The launcher goes first, for it would start a killed engine anew while none is ready.
    """
    record = read_record(folder)
    if record is None:
        return False
    kill_engine(record[0], record[2])
    record = read_record(folder) or record
    kill_engine(record[1], record[2])
    remove_shared_memory(record[2])
    return True


def end_all(folder: str) -> None:
    """End every engine of this folder, those too that are only just being started, and remove it."""
    give_up = time.monotonic() + END_SECONDS
    while True:
        berths = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
        found = [end_berth(path) for path in berths]
        if not berths or time.monotonic() > give_up:
            break
        if all(found):  # once more, for a launcher may have written anew in its last moment
            give_up = 0.0
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Watch until the parent is gone."""
    folder = sys.argv[1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is for the parent; its end is what ends us
    with open(os.path.join(folder, "deadlines"), "rb") as file:
        deadlines = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    while not select.select([0], [], [], POLL_SECONDS)[0]:
        kill_overdue(folder, deadlines)
    end_all(folder)


if __name__ == "__main__":
    main()
