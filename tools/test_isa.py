"""Run the numeric core of the tests as other processors would: older instruction sets, one thread and two.

Usage: python tools/test_isa.py [options of pytest]

Rounding differs from one instruction set to another, and with the number of threads. `make test` runs every test
with this processor's best set and all of its cores; here follow the tests that compare floats and are not slow: what
trains, compiles or waits for engines says little about rounding. What this processor does not have is left out and
said.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

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
"""Name: the flag of a processor that has it, threads, and the variables that ask for it."""


def processor_flags() -> set[str]:
    """What this processor can do; empty where /proc does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.split(":", 1)[1].split()}


def run_core(threads: int, variables: dict[str, str], options: list[str]) -> int:
    """pytest's exit code for the numeric core with these threads and variables."""
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads)), **variables}
    # One process for each core: none of these tests waits. Each may take over what another has not begun.
    processes = ["-n", str(min(len(os.sched_getaffinity(0)), 4)), "--dist", "worksteal"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *processes,
        *options,
    ]
    command += [f"--deselect=tests/{test}" for test in LEFT_OUT]
    command += [f"tests/{folder}" for folder in CORE]
    return subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode


def main() -> int:
    """Run all sets; return 1 if any of them failed."""
    flags, failed = processor_flags(), []
    for name, (flag, threads, variables) in SETS.items():
        if flag not in flags:
            print(f"{name}: this processor does not have it; left out.", flush=True)
            continue
        began = time.monotonic()
        print(f"{name}, {threads} thread{'s' * (threads > 1)}:", flush=True)
        if run_core(threads, variables, sys.argv[1:]) != 0:
            failed.append(name)
        print(f"{name}: {time.monotonic() - began:.0f} s.", flush=True)
    print(f"Failed under {', '.join(failed)}." if failed else "The numeric core passed everywhere.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
