"""The guard: a small process that outlives a killed parent, and ends what the parent can no longer end.

Run as `python -I -S _guard_process.py FOLDER`, standard library only, so that it starts fast and stays small.
It holds the read end of a pipe whose write end only the parent has. While the parent lives, it kills engines
that are past their deadline (a stopped engine blocks its caller without limit). When the pipe closes, however
the parent died, it kills every engine, removes their shared memory and the folder, and ends.

FOLDER/deadlines holds one float64 (CLOCK_MONOTONIC seconds, 0 = none) per engine number; FOLDER/N/engine holds
one line that the launcher of engine N wrote: its own pid, the engine's pid, the instance id.
"""

import contextlib
import ctypes
import mmap
import os
import platform
import select
import shutil
import signal
import struct
import sys
import time

POLL_SECONDS = 0.25
END_SECONDS = 2.0
SHARED_MEMORY = ("ViZDoomSM", "ViZDoomMQCtr", "ViZDoomMQDoom")
QUEUES = SHARED_MEMORY[1:]

# A message queue begins with boost's header, and that holds a pthread mutex shared between processes: the lock word,
# a count, the thread that holds it, the number of its users, and its kind.
MUTEX_OFFSET = 0x30
MUTEX = struct.Struct("5i")
SHARED_KIND = 128
FUTEX_CALL = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
FUTEX_WAKE = 1


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
    except ProcessLookupError:  # it ended between the opening and the reading
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
                free_locks(record[2])


def free_locks(instance: str) -> int:
    """Open the locks of this instance's message queues that a dead thread holds; return how many there were.

    An engine that is killed within a message leaves its queue locked, and ViZDoom would wait for the dead without
    limit. When the lock is opened it finds out that the engine is gone.
    """
    freed = 0
    for name in QUEUES:
        with contextlib.suppress(OSError, ValueError), open(f"/dev/shm/{name}{instance}", "r+b") as file:
            with mmap.mmap(file.fileno(), 0) as queue:
                lock, _, holder, _, kind = MUTEX.unpack_from(queue, MUTEX_OFFSET)
                if lock == 0 or holder == 0 or kind != SHARED_KIND or os.path.exists(f"/proc/{holder}"):
                    continue
                MUTEX.pack_into(queue, MUTEX_OFFSET, 0, 0, 0, 0, kind)
                freed += 1
                if FUTEX_CALL is not None:
                    word = ctypes.c_int.from_buffer(queue, MUTEX_OFFSET)
                    ctypes.CDLL(None).syscall(FUTEX_CALL, ctypes.byref(word), FUTEX_WAKE, 1, None, None, 0)
                    del word  # the map cannot be closed while something points into it
    return freed


def end_berth(folder: str) -> bool:
    """Kill what runs in one engine's folder and remove its shared memory; whether there was anything.

    The launcher goes first, because it would restart a killed engine while none is ready.
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
        if all(found):  # once more, because a launcher may have written again in its last moment
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
