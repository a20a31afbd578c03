"""Run the numeric core of the tests as other processors would: older instruction sets, one thread and two.

Usage: python tools/test_isa.py [options of pytest]

Rounding differs from one instruction set to another, and with the number of threads. `make test` runs every test
with this processor's best set and all of its cores; here follow, under each older set, the tests that compare floats
and are not slow: what trains, compiles or waits for engines says little about rounding. Sets that this processor does
not have are listed and left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO

PROJECT = Path(__file__).resolve().parent.parent
CORE = ("geometry", "memory", "agents", "rl", "evaluation", "analysis")
"""Folders of tests/ that compare floats; a new file in one of them is taken along."""
LEFT_OUT = (
    "agents/test_explorer.py::test_the_layout_is_hidden_from_it",
    "memory/test_bad_input.py",
    "memory/test_devices.py::test_no_tensor_is_left_on_another_device",
    "memory/test_real_frames.py",
)
"""Of those that are not slow: two with engines, and two that compare sentences and shapes."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# torch, oneDNN, MKL and numba choose their code separately.
SETS: dict[str, tuple[str, int, dict[str, str]]] = {
    "SSE4.1": (
        "sse4_1",
        1,
        {
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "MKL_CBWR": "COMPATIBLE",
            "NUMBA_CPU_NAME": "generic",
        },
    ),
    "AVX2": (
        "avx2",
        2,
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_CBWR": "AVX2",
            "NUMBA_CPU_NAME": "haswell",
        },
    ),
    "AVX-512": ("avx512f", 1, {"ATEN_CPU_CAPABILITY": "avx512"}),
}
"""Oldest first. Name: the flag of a processor that has it, threads, and the variables that ask for it."""


def processor_flags() -> set[str]:
    """What this processor can do; empty where /proc does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.split(":", 1)[1].split()}


def begin(threads: int, variables: dict[str, str], options: list[str], log: IO[str]) -> subprocess.Popen[str]:
    """Start pytest on the numeric core with these threads and variables."""
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads)), **variables}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *options]
    command += [f"--deselect=tests/{test}" for test in LEFT_OUT]
    command += [f"tests/{folder}" for folder in CORE]
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
    )


def chosen(flags: set[str]) -> list[str]:
    """The sets to run: those that this processor has, but for its best one, which `make test` runs with."""
    known = [name for name, (flag, _, _) in SETS.items() if flag in flags]
    for name in SETS:
        if name not in known:
            print(f"{name}: this processor does not have it.", flush=True)
    if known:
        print(f"{known[-1]}: what this processor does by itself, in make test.", flush=True)
    return known[:-1]


def main() -> int:
    """Run the sets side by side, one process each; return 1 if any of them failed."""
    began, failed = time.monotonic(), []
    with ExitStack() as stack:
        running = {}
        for name in chosen(processor_flags()):
            _, threads, variables = SETS[name]
            log = stack.enter_context(tempfile.TemporaryFile("w+"))
            running[name] = begin(threads, variables, sys.argv[1:], log), log
        for name, (process, log) in running.items():
            if process.wait() != 0:
                failed.append(name)
            log.seek(0)
            print(
                f"{name}, {SETS[name][1]} thread(s), {time.monotonic() - began:.0f} s:\n{log.read()}",
                flush=True,
            )
    print(f"Failed under {', '.join(failed)}." if failed else "The numeric core passed everywhere.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
