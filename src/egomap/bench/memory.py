"""Speed and memory of a training batch: each memory's unroll, forward and backward, against the others.

What comes in: the size of a batch (paper: 128 steps of 16 environments). What goes out: seconds, ratios and
megabytes by name. Synthetic observations, no engine: only the learner's arithmetic is measured. The variants
take turns and a ratio is the median over the rounds of two neighbours, so that a machine that grows slower in
the middle slows both sides of it. `AT_LEAST` and `AT_MOST` hold the bars.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from egomap.agents import Agent, build_agent, log_prob
from egomap.config import NUM_ACTIONS, OBSERVATION_HEIGHT, OBSERVATION_WIDTH, AgentConfig, AgentKind, Camera
from egomap.geometry import compose
from egomap.memory import native
from egomap.training.allocator import keep_memory

AT_LEAST = {"egomap_steps_over_unroll": 5.0}
AT_MOST = {"egomap_over_gru": 1.9, "egomap_peak_mb": 1536.0}

EXTENT = 9 * 128.0
CAMERA = Camera.from_fov(OBSERVATION_WIDTH, OBSERVATION_HEIGHT, horizontal=1.86, vertical=1.29)


class Batch(NamedTuple):
    """Observations of T steps of N environments, where episodes start, and the actions taken."""

    observations: dict[str, Tensor]
    episode_start: Tensor
    action: Tensor


def synthetic_batch(steps: int, num_envs: int, *, seed: int = 0) -> Batch:
    """Random views and depths, poses of a walk through the arena, an episode start every 120 steps or so."""
    g = torch.Generator().manual_seed(seed)
    lead = (steps, num_envs)
    shape = (*lead, OBSERVATION_HEIGHT, OBSERVATION_WIDTH)
    depth = torch.rand(shape, generator=g) * 460 + 5
    motion = torch.randn(*lead, 3, generator=g) * torch.tensor([4.0, 12.0, 0.15])
    pose = [(torch.rand(num_envs, 3, generator=g) - 0.5) * torch.tensor([EXTENT / 2, EXTENT / 2, 6.0])]
    for motion_t in motion[1:]:
        pose.append(compose(pose[-1], motion_t))
    observations = {
        # Channels last in memory, as the vector environment gives it.
        "rgb": torch.randint(0, 256, (*shape, 3), dtype=torch.uint8, generator=g).movedim(-1, -3),
        "depth": torch.where(depth < 453, depth, math.inf),
        "pose": torch.stack(pose),
        "ego_motion": motion,
    }
    action = torch.randint(0, NUM_ACTIONS, lead, generator=g)
    return Batch(observations, torch.rand(lead, generator=g) < 1 / 120, action)


def make_agent(kind: AgentKind) -> Agent:
    """The paper's agent with a 9x9 maze's arena."""
    torch.manual_seed(0)
    return build_agent(AgentConfig(kind=kind), CAMERA, EXTENT)


def _learn(agent: Agent, batch: Batch, logits: Tensor, value: Tensor) -> None:
    agent.zero_grad(set_to_none=True)
    (value.square().mean() - log_prob(logits, batch.action).mean()).backward()


def learn_by_unroll(agent: Agent, batch: Batch) -> None:
    """Forward and backward over the whole batch at once."""
    state = agent.initial_state(batch.action.shape[1])
    output = agent.unroll(batch.observations, state, batch.episode_start)
    _learn(agent, batch, output.logits, output.value)


def learn_by_steps(agent: Agent, batch: Batch) -> None:
    """The same by a loop of `step`, with back-propagation through it: what a plain implementation does."""
    state, logits, values = agent.initial_state(batch.action.shape[1]), [], []
    for t, start in enumerate(batch.episode_start):
        step = agent.step({key: value[t] for key, value in batch.observations.items()}, state, start)
        state = step.state
        logits.append(step.logits)
        values.append(step.value)
    _learn(agent, batch, torch.stack(logits), torch.stack(values))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within the block torch computes with `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure_memory(
    *, steps: int = 128, num_envs: int = 16, threads: int = 2, repeats: int = 5
) -> dict[str, float]:
    """Seconds of a batch, ratios between its variants, and the peak memory of EgoMap's.

    Args:
        steps: T, steps of a rollout.
        num_envs: N, environments.
        threads: Threads of torch.
        repeats: Rounds of the measurement, after one that warms up.

    Returns:
        By name: `<variant>_s` for gru_unroll, neural_map_unroll, egomap_unroll, egomap_unroll_torch (plain
        torch), egomap_steps (the loop) and egomap_steps_torch; the ratios egomap_over_gru,
        neural_map_over_gru, egomap_steps_over_unroll, egomap_steps_over_unroll_torch and torch_over_kernels
        (1 or so where numba is not installed); egomap_peak_mb.
    """
    keep_memory()
    batch = synthetic_batch(steps, num_envs)
    gru, neural_map, egomap = (make_agent(kind) for kind in ("gru", "neural-map", "egomap"))

    def plain(learn: Callable[[Agent, Batch], None]) -> Callable[[], None]:
        def run() -> None:
            with native.use_kernels("torch"):
                learn(egomap, batch)

        return run

    variants: dict[str, Callable[[], None]] = {
        "gru_unroll": lambda: learn_by_unroll(gru, batch),
        "egomap_unroll": lambda: learn_by_unroll(egomap, batch),
        "egomap_steps": lambda: learn_by_steps(egomap, batch),
        "egomap_unroll_torch": plain(learn_by_unroll),
        "egomap_steps_torch": plain(learn_by_steps),
        "neural_map_unroll": lambda: learn_by_unroll(neural_map, batch),
    }
    with torch_threads(threads):
        times = take_turns(variants, repeats)

    def ratio(over: str, under: str) -> float:
        return statistics.median(a / b for a, b in zip(times[over], times[under], strict=True))

    found = {f"{name}_s": statistics.median(values) for name, values in times.items()}
    found |= {
        "egomap_over_gru": ratio("egomap_unroll", "gru_unroll"),
        "neural_map_over_gru": ratio("neural_map_unroll", "gru_unroll"),
        "egomap_steps_over_unroll": ratio("egomap_steps", "egomap_unroll"),
        "egomap_steps_over_unroll_torch": ratio("egomap_steps_torch", "egomap_unroll_torch"),
        "torch_over_kernels": ratio("egomap_unroll_torch", "egomap_unroll"),
        "egomap_peak_mb": measure_peak("egomap", steps=steps, num_envs=num_envs, threads=threads),
    }
    return found


def take_turns(variants: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each variant in each of `repeats` rounds; every round runs all of them once, in order."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run()
    for _ in range(repeats):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def measure_peak(kind: AgentKind, *, steps: int = 128, num_envs: int = 16, threads: int = 2) -> float:
    """Megabytes that one unroll, forward and backward, adds to a fresh process that holds its inputs."""
    command = [sys.executable, "-m", "egomap.bench.peak", kind, str(steps), str(num_envs), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the peak memory of {kind} could not be measured: {done.stderr.strip()[-500:]}")
    return float(json.loads(done.stdout)["peak_mb"])
