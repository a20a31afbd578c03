"""A few threads that run one function over many indices, again and again, with as little ado as possible.

The standard executor makes a future and takes several locks per task; at thousands of decisions a second that is
felt. Here an index goes through one C queue and comes back through another.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable

THREADS_PER_CORE = 4


def default_threads(num_envs: int) -> int:
    """Engines mostly wait for their processes, so some more threads than cores keep all cores busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(num_envs, THREADS_PER_CORE * cores))


class ThreadPool:
    """`start` hands out the indices, `wait` returns when all are done and raises what a thread raised."""

    def __init__(self, threads: int) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[int], None], int] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._pending = 0
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name=f"egomap-engines-{i}")
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._threads)

    def start(self, function: Callable[[int], None], indices: Iterable[int]) -> None:
        """Have `function` called with each index, in any order, by any thread."""
        for index in indices:
            self._pending += 1
            self._tasks.put((function, index))

    def wait(self) -> None:
        """Wait for all that was started; raise the first error after all have ended."""
        first: BaseException | None = None
        while self._pending:
            error = self._done.get()
            self._pending -= 1
            first = first or error
        if first is not None:
            raise first

    def run(self, function: Callable[[int], None], indices: Iterable[int]) -> None:
        """`start` and `wait`."""
        self.start(function, indices)
        self.wait()

    def close(self) -> None:
        """End the threads. May be called twice."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, index = task
            try:
                function(index)
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)
