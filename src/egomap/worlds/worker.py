"""Processes that step environments: for simulators whose graphics belong to one thread, and to use several cores.

What comes in: a spec, rows, orders. What goes out: what `egomap.worlds.host` gives, by shared memory and pipes. No
worker outlives the process that started it, however that ends: each watches it.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any, TypeVar

from egomap.config import EnvSettings
from egomap.worlds.api import WorldSpec
from egomap.worlds.gym import examine
from egomap.worlds.host import Host, Order, RawArrays, Report, Start

PATIENCE = 5.0
"""Seconds that a worker has to close its environments."""
MOST_DEATHS = 3
"""How often in a row a worker may die without having answered once."""

_Result = TypeVar("_Result")


class WorkerDied(RuntimeError):
    """A worker is gone without a word."""


def context() -> Any:
    """How processes are started: never by a fork of this one, which has threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["egomap.worlds.worker"])
    return found


def examine_apart(settings: EnvSettings) -> WorldSpec:
    """`examine` in a process of its own, so that none of the simulator stays in this one."""
    found = _Process(_examine, settings)
    try:
        spec = found.answer()
    except WorkerDied as error:
        raise ValueError(f"{settings.id} ended its process when it was tried.") from error
    finally:
        found.close()
    assert isinstance(spec, WorldSpec)
    return spec


def workers_of(settings: EnvSettings) -> int:
    """How many processes step the environments; by default one for each core."""
    if settings.workers is not None:
        return settings.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcess:
    """A crew without workers: the environments are in this process, for light ones."""

    restarts = 0

    def __init__(self, spec: WorldSpec, num_envs: int) -> None:
        self.arrays = RawArrays.over(bytearray(RawArrays.size(spec, num_envs)), spec, num_envs)
        self._host = Host(spec, self.arrays, range(num_envs))
        self._orders: Sequence[Order] = ()

    def reset(self, starts: Sequence[tuple[int, Start]]) -> None:
        """Begin an episode in each of these rows."""
        self._host.reset(starts)

    def send(self, orders: Sequence[Order]) -> None:
        """Take orders; `receive` must follow."""
        self._orders = orders

    def receive(self) -> dict[int, Report]:
        """What the orders led to, by row."""
        orders, self._orders = self._orders, ()
        return dict(zip((order.row for order in orders), self._host.step(orders), strict=True))

    def close(self) -> None:
        """End the environments."""
        self._host.close()


class Crew:
    """Workers that share out N environments; each has a slice of the rows.

    A worker that dies is replaced, and what was played in it is told as interrupted; who dies again and again, or
    raises an error, ends it all.
    """

    def __init__(self, spec: WorldSpec, num_envs: int, workers: int) -> None:
        self._spec, self._num_envs, self.restarts = spec, num_envs, 0
        self._memory = context().RawArray(ctypes.c_byte, RawArrays.size(spec, num_envs))
        self.arrays = RawArrays.over(self._memory, spec, num_envs)
        self._rows = [list(range(num_envs))[i::workers] for i in range(workers)]
        self._deaths = [0] * workers
        self._orders: list[list[Order]] = [[] for _ in range(workers)]
        self._workers: list[_Process] = []
        try:
            self._workers += [self._hire(i) for i in range(workers)]
            for worker in self._workers:
                self._answer_of(worker)
        except BaseException:
            self.close()
            raise

    def reset(self, starts: Sequence[tuple[int, Start]]) -> None:
        """Begin an episode in each of these rows."""
        parts = [[pair for pair in starts if pair[0] in rows] for rows in self._rows]
        asked = [i for i, part in enumerate(parts) if part]
        for i in asked:
            self._workers[i].ask("reset", parts[i])
        for i in asked:
            try:
                self._workers[i].answer()
            except WorkerDied:
                self._replace(i)
                self.reset(parts[i])

    def send(self, orders: Sequence[Order]) -> None:
        """Give orders and return at once; `receive` must follow."""
        by_row = {order.row: order for order in orders}
        self._orders = [[by_row[row] for row in rows if row in by_row] for rows in self._rows]
        for worker, part in zip(self._workers, self._orders, strict=True):
            if part:
                worker.ask("step", part)

    def receive(self) -> dict[int, Report]:
        """What the orders led to, by row."""
        found: dict[int, Report] = {}
        for i, orders in enumerate(self._orders):
            if not orders:
                continue
            try:
                reports = self._workers[i].answer()
                self._deaths[i] = 0
            except WorkerDied:
                self._replace(i)
                reports = [Report(0.0, False, True, interrupted=True) for _ in orders]
            found.update(zip((order.row for order in orders), reports, strict=True))
        return found

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.close()
        self._workers = []

    def _hire(self, index: int) -> _Process:
        return _Process(_serve, self._spec, self._memory, self._num_envs, self._rows[index])

    def _replace(self, index: int) -> None:
        """A new worker in the place of one that died."""
        self._workers[index].close()
        self._deaths[index] += 1
        self.restarts += 1
        if self._deaths[index] >= MOST_DEATHS:
            raise ValueError(f"{self._spec.name} ended its process {MOST_DEATHS} times in a row.")
        self._workers[index] = self._hire(index)
        self._answer_of(self._workers[index])

    def _answer_of(self, worker: _Process) -> Any:
        try:
            return worker.answer()
        except WorkerDied as error:
            raise ValueError(f"{self._spec.name} ended its process when it was made.") from error


class _Process:
    """A process that runs a function with a pipe to this one."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        own = context()
        self._pipe, theirs = own.Pipe()
        self._process = own.Process(target=_run, args=(theirs, function, *arguments), daemon=True)
        with _importable_main():
            self._process.start()
        theirs.close()

    def ask(self, *message: Any) -> None:
        """Send a request; `answer` tells if nobody has heard it."""
        with contextlib.suppress(OSError):
            self._pipe.send(message)

    def answer(self) -> Any:
        """The answer.

        Raises:
            WorkerDied: There is none.
            ValueError: The process says why there is none.
        """
        try:
            good, told = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerDied from error
        if not good:
            raise ValueError(told)
        return told

    def dismiss(self) -> None:
        """Ask it to end."""
        self.ask("close")

    def close(self) -> None:
        """Wait for its end, and make one if it does not come."""
        self._pipe.close()
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextlib.contextmanager
def _importable_main():  # type: ignore[no-untyped-def]
    """Keep children from running this program's main module: they need none of it, and it may be a shell."""
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {
        name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__
    }
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


def _run(pipe: connection.Connection, function: Callable[..., None], *arguments: Any) -> None:
    """The worker's main function."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it
    os.environ.setdefault("LP_NUM_THREADS", "0")  # software rendering: the workers share the cores already
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function(pipe, *arguments)
    except (EOFError, BrokenPipeError):  # nobody is there any more
        pass
    except Exception as error:
        told = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        with contextlib.suppress(OSError):
            pipe.send((False, told))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _examine(pipe: connection.Connection, settings: EnvSettings) -> None:
    pipe.send((True, examine(settings)))


def _serve(
    pipe: connection.Connection, spec: WorldSpec, memory: Any, num_envs: int, rows: Sequence[int]
) -> None:
    host = Host(spec, RawArrays.over(memory, spec, num_envs), rows)
    try:
        pipe.send((True, None))
        while True:
            request, *given = pipe.recv()
            if request == "close":
                return
            if request == "reset":
                host.reset(*given)
                pipe.send((True, None))
            else:
                pipe.send((True, host.step(*given)))
    finally:
        host.close()
