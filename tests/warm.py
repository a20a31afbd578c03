"""`egomap`, or a program, in a process of its own that need not load torch: it is forked from one that has.

What comes in: a command's arguments, as after `python -m egomap`, or the text of a program. What goes out: a `Warm`,
which can be waited for, sent signals and killed like a `subprocess.Popen`. Only the packages of others are loaded
already; egomap's own modules are imported anew by every process. Importing torch and torch._dynamo takes about two
seconds of processor time, which each process of pytest spends once, and not each command. That commands start from
nothing is tested in tests/test_cli.py, tests/training/test_command.py, tests/envs/test_doctor.py and
tests/training/test_distributed.py, and by tools/check_wheel.py.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch._dynamo",
    "torch.distributed",
    "numba",
    "gymnasium",
    "vizdoom",
    "matplotlib.figure",
    "tyro",
)
LONGEST = 1 << 17
"""Bytes of a request."""


def serve(requests: socket.socket) -> None:
    """Load the packages, then fork a command for each request until nobody is left to ask."""
    del sys.path[0]  # the folder of this file
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which then closes the socket
    for name in PACKAGES:
        importlib.import_module(name)
    while True:
        data, streams, _, _ = socket.recv_fds(requests, LONGEST, 2)
        if not data:
            return
        asked = json.loads(data)
        if "wait" in asked:
            pid, status = os.waitpid(asked["wait"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                requests.close()
                become(asked, streams)
        for stream in streams:
            os.close(stream)
        requests.send(json.dumps(answer).encode())


def become(asked: dict[str, Any], streams: list[int]) -> None:
    """In the forked process: be what is asked for, to the end of the interpreter."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path.insert(0, asked["folder"])
    if asked["program"] is not None:
        sys.argv = ["-c"]
        exec(compile(asked["program"], "<program>", "exec"), {"__name__": "__main__"})
        sys.exit()
    sys.argv = ["egomap", *asked["arguments"]]
    from egomap.cli import main

    sys.exit(main(asked["arguments"]))


@functools.cache
def _server() -> socket.socket:
    """The socket to this process's own server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # first, so that the server ends
    return ours


def _ask(question: dict[str, Any], *streams: int) -> Any:
    server = _server()
    socket.send_fds(server, [json.dumps(question).encode()], streams)
    answer = server.recv(LONGEST)
    assert answer, "the server of commands has ended"
    return json.loads(answer)


class Warm:
    """A command or a program in a process and a session of its own; `communicate` gives what it has printed."""

    def __init__(
        self,
        *arguments: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        program: str | None = None,
    ) -> None:
        self._printed = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        asked = {
            "program": program,
            "arguments": [str(argument) for argument in arguments],
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        self.pid: int = _ask(asked, *(file.fileno() for file in self._printed))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or minus the signal that killed it; None while it runs."""
        if self.returncode is None:
            self.returncode = _ask({"wait": self.pid})
        return self.returncode

    def wait(self, timeout: float = 300) -> int:
        """The exit code, once it has ended; a subprocess.TimeoutExpired if it does not."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("egomap", timeout)
            time.sleep(0.02)
        return code

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """What it printed on stdout and on stderr, once it has ended."""
        self.wait(timeout)
        for file in self._printed:
            file.seek(0)
        out, err = (file.read() for file in self._printed)
        return out, err

    def send_signal(self, number: int) -> None:
        """To the process, if it has not been seen to end."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL; it is then waited for."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def egomap(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `egomap ARGUMENTS` to its end."""
    return _completed(Warm(*arguments, cwd=cwd, env=env), list(map(str, arguments)))


def python(
    program: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return _completed(Warm(program=program, cwd=cwd, env=env), ["-c", program])


def _completed(process: Warm, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        out, err = process.communicate()
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
