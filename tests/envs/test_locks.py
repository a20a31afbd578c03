"""An engine that dies within a message leaves its queue locked; the guard opens the lock, and the episode ends."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from egomap.config import Task
from egomap.envs import DoomVectorEnv
from egomap.envs import _guard_process as guard
from egomap.scenarios.dataset import ScenarioSet


def dead_thread() -> int:
    """The number of a process that is gone."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def lock(queue: Path, holder: int) -> None:
    """Lock a queue as `holder` would; 2 means that others may be waiting."""
    with open(queue, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        guard.MUTEX.pack_into(memory, guard.MUTEX_OFFSET, 2, 0, holder, 1, guard.SHARED_KIND)


def instance_of(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[words.index(b"+viz_instance_id") + 1].decode()


@pytest.mark.parametrize("name", guard.QUEUES)
def test_the_caller_comes_back(sets: dict[Task, ScenarioSet], name: str) -> None:
    env = DoomVectorEnv(1, scenarios=sets["labyrinth"], watchdog=1.0)
    try:
        env.reset(seed=0)
        engine = env.engine_pids[0]
        queue = Path(f"/dev/shm/{name}{instance_of(engine)}")
        os.kill(engine, signal.SIGSTOP)
        lock(queue, dead_thread())
        os.kill(engine, signal.SIGKILL)
        begin = time.monotonic()
        _, _, terminated, truncated, _ = env.step([2])
        assert truncated[0] and not terminated[0]
        assert time.monotonic() - begin < 60
        assert env.engine_restarts == 1
        env.step([2])
    finally:
        env.close()


def test_only_the_locks_of_the_dead_are_opened(sets: dict[Task, ScenarioSet]) -> None:
    env = DoomVectorEnv(1, scenarios=sets["labyrinth"])
    try:
        env.reset(seed=0)
        instance = instance_of(env.engine_pids[0])
        assert guard.free_locks(instance) == 0
        queue = Path(f"/dev/shm/{guard.QUEUES[1]}{instance}")
        before = queue.read_bytes()
        lock(queue, os.getpid())
        assert guard.free_locks(instance) == 0
        queue.write_bytes(before)
        lock(queue, dead_thread())
        assert guard.free_locks(instance) == 1
        assert guard.free_locks(instance) == 0
        assert guard.free_locks("nobody") == 0
    finally:
        env.close()
