"""Signals that ask a command to end: Ctrl-C, SIGTERM, and SIGHUP, which a lost connection sends.

What comes in: what to do at the first of them. What goes out: nothing; afterwards the handlers are as before.
"""

from __future__ import annotations

import errno
import os
import signal
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_first_signal(stop: Callable[[], None], signals: Sequence[signal.Signals] = ALL) -> Iterator[None]:
    """Within this the first of the signals calls `stop`, and the second is not held back.

    Only SIGHUP is, from then on: a lost connection may send it twice, from the terminal and from the shell, and the
    second may come when all is done. One that is ignored already, as under nohup, stays ignored. Outside of the main
    thread, signals are handled elsewhere.
    """
    before: dict[signal.Signals, Any] = {}

    def ask(number: int, frame: FrameType | None) -> None:
        if signal.SIGHUP in before:
            before[signal.SIGHUP] = lambda number, frame: leave_terminal()
        for known, handler in before.items():
            signal.signal(known, handler)
        if number == signal.SIGHUP:
            leave_terminal()
        stop()

    try:
        for number in signals:
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, ask)
    except ValueError:  # not in the main thread
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_terminal() -> None:
    """If the terminal is gone, let what is printed from now on go nowhere: writing to it would be an error."""
    for stream in (1, 2):
        if _hung_up(stream):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)


def _hung_up(stream: int) -> bool:
    """Whether a file descriptor was a terminal; what was never one has another error."""
    try:
        termios.tcgetattr(stream)
        return False
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
