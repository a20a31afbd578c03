"""Speed and memory of a training batch: each memory's unroll, forward and backward, against the others.

Input: the size of a batch (paper: 128 steps of 16 environments). Output: seconds, ratios and
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
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from egomap.agents import Agent, build_agent, log_prob
from egomap.compute import torch_threads
from egomap.config import NUM_ACTIONS, OBSERVATION_HEIGHT, OBSERVATION_WIDTH, AgentConfig, AgentKind, Camera
from egomap.geometry import compose
from egomap.kinds import file_name
from egomap.memory import MemoryInputs, MemoryState, native, reset_state
from egomap.training.allocator import keep_memory

AT_LEAST = {"memory.steps_over_unroll": 5.0}
AT_MOST = {"memory.egomap_over_gru": 1.9, "memory.egomap_peak_mb": 1536.0}

EXTENT = 9 * 128.0
CAMERA = Camera.from_fov(OBSERVATION_WIDTH, OBSERVATION_HEIGHT, horizontal=1.86, vertical=1.29)

Variants = dict[str, Callable[[], None]]


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


def used_state(agent: Agent, batch: Batch) -> MemoryState:
    """The memory after the batch, in the middle of its episodes, as most rollouts find it."""
    state = agent.initial_state(batch.action.shape[1])
    with torch.no_grad():
        return agent.unroll(batch.observations, state, batch.episode_start).state


def _learn(agent: Agent, batch: Batch, logits: Tensor, value: Tensor) -> None:
    agent.zero_grad(set_to_none=True)
    (value.square().mean() - log_prob(logits, batch.action).mean()).backward()


def learn_by_unroll(agent: Agent, batch: Batch, state: MemoryState) -> None:
    """Forward and backward over the whole batch at once."""
    output = agent.unroll(batch.observations, state, batch.episode_start)
    _learn(agent, batch, output.logits, output.value)


def learn_by_steps(agent: Agent, batch: Batch, state: MemoryState) -> None:
    """The same by a loop of `step`, with back-propagation through it: what a plain implementation does."""
    logits, values = [], []
    for t, start in enumerate(batch.episode_start):
        step = agent.step({key: value[t] for key, value in batch.observations.items()}, state, start)
        state = step.state
        logits.append(step.logits)
        values.append(step.value)
    _learn(agent, batch, torch.stack(logits), torch.stack(values))


class _MemoryAlone:
    """The memory of an agent without its perception and heads: the features are given, and want a gradient."""

    def __init__(self, agent: Agent, batch: Batch, state: MemoryState):
        seen = batch.observations
        with torch.no_grad():
            features = agent.perception(seen["rgb"], seen["depth"])
        self.inputs = MemoryInputs(features.requires_grad_(), seen["depth"], seen["pose"], seen["ego_motion"])
        self.memory, self.state, self.start = agent.memory, state, batch.episode_start
        self.grad = torch.ones(*batch.action.shape, agent.memory.output_size)

    def by_unroll(self) -> None:
        """Forward and backward over the whole batch at once."""
        self._back(self.memory.unroll(self.inputs, self.state, self.start)[0])

    def by_steps(self) -> None:
        """The same by a loop of `step`."""
        state, outputs = self.state, []
        for t, start in enumerate(self.start):
            if bool(start.any()):
                state = reset_state(self.memory, state, start)
            output, state = self.memory.step(self.inputs.at(t), state)
            outputs.append(output)
        self._back(torch.stack(outputs))

    def _back(self, output: Tensor) -> None:
        self.inputs.features.grad = None
        output.backward(self.grad)


def measure_memory(
    *,
    steps: int = 128,
    num_envs: int = 16,
    threads: int = 2,
    repeats: int = 5,
    others: Sequence[AgentKind] = (),
) -> dict[str, float]:
    """Seconds of a batch, ratios between its variants, and the peak memory of EgoMap's.

    Args:
        steps: T, steps of a rollout.
        num_envs: N, environments.
        threads: Threads of torch.
        repeats: Rounds of the measurement, after one that warms up.
        others: Further memories to measure; each gets NAME_seconds and NAME_over_gru.

    Returns:
        By name, each with `memory.` before it. Seconds of a batch: gru_seconds, egomap_seconds,
        egomap_torch_seconds (plain torch instead of the native kernels), neural_map_seconds, and
        egomap_steps_seconds (a loop of `step` of the whole agent). Of the memory without perception and
        heads: unroll_seconds and steps_seconds. Ratios: egomap_over_gru, neural_map_over_gru,
        torch_over_kernels (about 1 where numba is not installed), egomap_steps_over_unroll, and
        steps_over_unroll of the memory alone. Memory: egomap_peak_mb.
    """
    keep_memory()
    with torch_threads(threads):
        times = take_turns(_variants(synthetic_batch(steps, num_envs), others), repeats)

    def ratio(over: str, under: str) -> float:
        return statistics.median(a / b for a, b in zip(times[over], times[under], strict=True))

    found = {f"{name}_seconds": statistics.median(values) for name, values in times.items()}
    found |= {
        "egomap_over_gru": ratio("egomap", "gru"),
        "neural_map_over_gru": ratio("neural_map", "gru"),
        "torch_over_kernels": ratio("egomap_torch", "egomap"),
        "egomap_steps_over_unroll": ratio("egomap_steps", "egomap"),
        "steps_over_unroll": ratio("steps", "unroll"),
        "egomap_peak_mb": measure_peak("egomap", steps=steps, num_envs=num_envs, threads=threads),
    }
    found |= {f"{name}_over_gru": ratio(name, "gru") for name in map(figure_name, others)}
    return {f"memory.{name}": value for name, value in found.items()}


def figure_name(kind: AgentKind) -> str:
    """How a memory is called in the names of figures."""
    return file_name(kind).replace("-", "_")


def _learning(kind: AgentKind, batch: Batch) -> Callable[[], None]:
    agent = make_agent(kind)
    fresh = agent.initial_state(batch.action.shape[1])
    return lambda: learn_by_unroll(agent, batch, fresh)


def _variants(batch: Batch, others: Sequence[AgentKind]) -> Variants:
    """What is measured, in the order of the turns: sides of a ratio are neighbours."""
    egomap = make_agent("egomap")
    used = used_state(egomap, batch)
    alone = _MemoryAlone(egomap, batch, used)

    def plain_torch() -> None:
        with native.use_kernels("torch"):
            learn_by_unroll(egomap, batch, used)

    return {
        **{figure_name(kind): _learning(kind, batch) for kind in (*others, "neural-map", "gru")},
        "egomap": lambda: learn_by_unroll(egomap, batch, used),
        "egomap_torch": plain_torch,
        "egomap_steps": lambda: learn_by_steps(egomap, batch, used),
        "steps": alone.by_steps,
        "unroll": alone.by_unroll,
    }


def take_turns(variants: Variants, repeats: int) -> dict[str, list[float]]:
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
    """Megabytes (2^20) that one unroll, forward and backward, adds to a fresh process that holds its inputs."""
    command = [sys.executable, "-m", "egomap.bench.peak", kind, str(steps), str(num_envs), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the peak memory of {kind} could not be measured: {done.stderr.strip()[-500:]}")
    return float(json.loads(done.stdout)["peak_mb"])
