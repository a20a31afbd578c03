"""A process of its own that measures the peak memory of one unroll; started by `bench.memory.measure_peak`.

Input: kind of agent, steps, environments and threads as arguments. Output: one line of JSON.
A fresh process, for a peak is never forgotten: after another batch there would be nothing left to see.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import torch

from egomap.bench.memory import learn_by_unroll, make_agent, synthetic_batch
from egomap.training.allocator import keep_memory

BATCHES = 5
"""By then the allocator has found its lay-out: the first batches fit less well into the holes of the heap."""


def highest_mb() -> float:
    """The most that this process ever had resident, in megabytes of 2^20 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def resident_mb() -> float:
    """What it has resident now; where the system does not report it (only Linux does), the most so far."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return highest_mb()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def main() -> None:
    """Measure and print."""
    kind, steps, num_envs, threads = sys.argv[1], *(int(value) for value in sys.argv[2:5])
    torch.set_num_threads(threads)
    agent = make_agent(kind)
    # Load libraries and kernels, none of which is the batch's.
    learn_by_unroll(agent, synthetic_batch(2, 2), agent.initial_state(2))
    batch, state = synthetic_batch(steps, num_envs), agent.initial_state(num_envs)
    before = resident_mb()
    keep_memory()  # only now: what was freed until here must not hide a part of the batch
    for _ in range(BATCHES):
        learn_by_unroll(agent, batch, state)
    print(json.dumps({"peak_mb": highest_mb() - before, "resident_before_mb": before}))


if __name__ == "__main__":
    main()
