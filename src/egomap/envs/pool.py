"""A few threads that run one function over many indices, again and again, with as little ado as possible.

The standard executor makes a future and takes several locks per task; at thousands of decisions a second that is
felt. Here each thread is woken once a round and takes the next index until none is left; the caller is woken once,
by the thread that ends last. Threads may be bound to cores, and what they start with them: an engine and the thread
that waits for it take turns, and on one core they find each other's pictures in its cache and wake each other
without a signal to another core.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from egomap.util.cores import usable_cores

THREADS_PER_CORE = 4
MIN_BOUND_PER_CORE = 2


def default_threads(num_envs: int) -> int:
    """Engines mostly wait for their processes, so some more threads than cores keep all cores busy."""
    return max(1, min(num_envs, THREADS_PER_CORE * len(usable_cores())))


def cores_to_bind(threads: int) -> list[int]:
    """The cores to bind so many threads to; none where a core would get few: there the system balances better.

    Turned by the process's number, so that the engines left over in several processes do not meet on one core.
    """
    cores = usable_cores()
    if not hasattr(os, "sched_setaffinity") or threads < MIN_BOUND_PER_CORE * len(cores):
        return []
    first = os.getpid() % len(cores)
    return cores[first:] + cores[:first]


class ThreadPool:
    """`start` hands out the indices, `wait` returns when all are done and raises what a thread raised.

    A `wait` that is interrupted (Ctrl-C) loses nothing: call it again. Between rounds the pool holds on to nothing.

    Args:
        threads: how many.
        cores: where they run, in turn; each index then belongs to one core, and so does a process that was started
            there. Without cores, any thread takes any index.
    """

    def __init__(self, threads: int, cores: Sequence[int] = ()) -> None:
        self._function: Callable[[int], None] | None = None
        self._cores = list(cores)
        assert threads >= len(self._cores)
        self._shares: list[Iterator[int]] = []
        self._errors: list[BaseException] = []
        self._closing = False
        self._lock = threading.Lock()
        self._working = 0
        self._finished: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._gates = [threading.Lock() for _ in range(threads)]
        for gate in self._gates:
            gate.acquire()
        self._threads = [
            threading.Thread(target=self._work, args=(gate, i), daemon=True, name=f"egomap-engines-{i}")
            for i, gate in enumerate(self._gates)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._threads)

    def start(self, function: Callable[[int], None], indices: Iterable[int]) -> None:
        """Have `function` called with each index, in any order, by any thread. `wait` must follow."""
        assert not self._working and self._threads
        everything, shares = tuple(indices), max(1, len(self._cores))
        self._function = function
        self._shares = [iter([i for i in everything if i % shares == share]) for share in range(shares)]
        self._working = len(self._gates)
        for gate in self._gates:
            gate.release()

    def wait(self) -> None:
        """Wait for all that was started; raise the first error after all have ended."""
        errors = self.drain()
        if errors:
            raise errors[0]

    def drain(self) -> list[BaseException]:
        """Wait for all that was started; return the errors."""
        while self._working:
            with contextlib.suppress(queue.Empty):
                # Only one is woken; when two wait (a `close` in another thread), the other finds out by itself.
                self._finished.get(timeout=0.1)
        self._function = None
        errors, self._errors = self._errors, []
        return errors

    def run(self, function: Callable[[int], None], indices: Iterable[int]) -> None:
        """`start` and `wait`."""
        self.start(function, indices)
        self.wait()

    def close(self) -> None:
        """End the threads, when what they are at is done. May be called twice."""
        self.drain()
        self._closing = True
        for gate in self._gates:
            gate.release()
        for thread in self._threads:
            thread.join()
        self._threads, self._gates = [], []

    def _work(self, gate: threading.Lock, number: int) -> None:
        share = 0
        if self._cores:
            share = number % len(self._cores)
            with contextlib.suppress(
                OSError
            ):  # the system may have taken the core away; then it runs anywhere
                os.sched_setaffinity(0, {self._cores[share]})
        while True:
            gate.acquire()
            if self._closing:
                return
            self._take_part(share)
            with self._lock:
                self._working -= 1
                last = self._working == 0
            if last:
                self._finished.put(None)

    def _take_part(self, share: int) -> None:
        function = self._function
        assert function is not None
        for index in self._shares[share]:  # one iterator for all threads of a share: each index comes once
            try:
                function(index)
            except BaseException as error:
                self._errors.append(error)
