"""Speed of training: each agent and algorithm against the engines and the arithmetic that it cannot do without.

Input: how many rounds. Output: decisions a second of collecting, of learning and of both, for each
agent and algorithm; the share of the ceiling that is reached; what this machine's arithmetic can do. The ceiling of a
decision is the time of a bare engine's decision plus the agent's convolutions and matrix products at this machine's
measured speed, nothing else. Real engines, real mazes, the trainer's own parts. Agents take turns within a round
and ratios are medians over rounds. `AT_LEAST` and `AT_MOST` hold the bars.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from egomap.agents import Agent, build_agent
from egomap.bench.arithmetic import Speed, measure_speed, operations_of
from egomap.bench.engines import LAYOUTS, BareEngines
from egomap.bench.memory import figure_name
from egomap.config import NUM_ACTIONS, AgentConfig, AgentKind, EnvSettings, LearnerSettings, ScenarioConfig
from egomap.envs.pool import default_threads
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.presets import FAST, PAPER
from egomap.rl.collect import Collector
from egomap.rl.threads import GradientThreads
from egomap.rl.update import make_optimizer, update
from egomap.scenarios import dataset
from egomap.training.allocator import keep_memory

AT_LEAST = {"training.a2c.gru.of_ceiling": 0.55, "training.a2c.egomap.of_ceiling": 0.45}
AT_MOST = {"training.a2c.egomap_over_gru": 1.7}

KINDS: tuple[AgentKind, ...] = ("neural-map", "gru", "egomap")
LEARNERS = {"a2c": PAPER.learner, "ppo": FAST.learner}


class Turn(NamedTuple):
    """Seconds of a decision."""

    collect: float
    learn: float

    @property
    def whole(self) -> float:
        """Both."""
        return self.collect + self.learn


def measure_training(
    *,
    rounds: int = 4,
    size: int = 5,
    learners: dict[str, LearnerSettings] | None = None,
    others: Sequence[AgentKind] = (),
) -> dict[str, float]:
    """Decisions a second, shares of the ceiling, and EgoMap's time over the baseline's.

    Args:
        rounds: Turns of each agent, after one that warms up.
        size: Cells along each side of the mazes (labyrinth).
        learners: Algorithms by name; by default those of the presets `paper` and `fast`.
        others: Further memories to measure.

    Returns:
        By name. `arithmetic.*_gflops`: measured speed. For each algorithm and agent,
        `training.ALGORITHM.AGENT.`: rollout, update and whole `_decisions_per_second`, `ceiling_decisions_per_second`
        and `of_ceiling`. For each algorithm `training.ALGORITHM.egomap_over_gru`, time over time.
    """
    keep_memory()
    speed = measure_speed()
    found = {
        "arithmetic.convolution_gflops": speed.convolution / 1e9,
        "arithmetic.convolution_backward_gflops": speed.convolution_backward / 1e9,
        "arithmetic.matrix_gflops": speed.matrix / 1e9,
    }
    with tempfile.TemporaryDirectory(prefix="egomap-bench-") as folder:
        config = ScenarioConfig(task="labyrinth", size=size, train=LAYOUTS, test=0)
        worlds = worlds_of_set(dataset.generate(config, Path(folder) / "mazes"), "train")
        for name, learner in (learners or LEARNERS).items():
            found |= {
                f"training.{name}.{key}": value
                for key, value in _algorithm(worlds, learner, speed, rounds, (*others, *KINDS)).items()
            }
    return found


def measure_learning(
    worlds: Worlds, config: AgentConfig, learner: LearnerSettings, *, rounds: int = 3
) -> list[Turn]:
    """Train one agent for `rounds` updates, after one that warms up; the trainer's own parts and threads."""
    keep_memory()
    env = DoomVectorEnv(learner.num_envs, worlds=worlds, copy=False)
    threads = GradientThreads(torch.get_num_threads())
    try:
        torch.manual_seed(0)
        learning = _Learning(env, build_agent(config, env.camera, env.extent), learner, threads)
        return [learning.turn() for _ in range(rounds + 1)][1:]
    finally:
        env.close()
        threads.close()


def _algorithm(
    worlds: Worlds, learner: LearnerSettings, speed: Speed, rounds: int, kinds: Sequence[AgentKind]
) -> dict[str, float]:
    engine = _engine_seconds(worlds, learner, rounds)
    env = DoomVectorEnv(learner.num_envs, worlds=worlds, copy=False)
    threads = GradientThreads(torch.get_num_threads())
    try:
        torch.manual_seed(0)
        config = (PAPER if learner.algorithm == "a2c" else FAST).agent
        agents = {kind: build_agent(replace(config, kind=kind), env.camera, env.extent) for kind in kinds}
        learning = {kind: _Learning(env, agent, learner, threads) for kind, agent in agents.items()}
        turns: dict[AgentKind, list[Turn]] = {kind: [] for kind in kinds}
        for number in range(rounds + 1):
            for kind in kinds:
                turn = learning[kind].turn()
                if number:
                    turns[kind].append(turn)
    finally:
        env.close()
        threads.close()
    found: dict[str, float] = {"bare_decisions_per_second": 1 / engine}
    for kind, agent in agents.items():
        decide, learn = operations_of(agent)
        ceiling = engine + speed.seconds(decide) + learner.epochs * speed.seconds(learn)
        whole = statistics.median(turn.whole for turn in turns[kind])
        key = figure_name(kind)
        found |= {
            f"{key}.rollout_decisions_per_second": 1
            / statistics.median(turn.collect for turn in turns[kind]),
            f"{key}.update_decisions_per_second": 1 / statistics.median(turn.learn for turn in turns[kind]),
            f"{key}.whole_decisions_per_second": 1 / whole,
            f"{key}.ceiling_decisions_per_second": 1 / ceiling,
            f"{key}.of_ceiling": ceiling / whole,
        }
    found["egomap_over_gru"] = statistics.median(
        ours.whole / theirs.whole for ours, theirs in zip(turns["egomap"], turns["gru"], strict=True)
    )
    return found


class _Learning:
    """One agent that collects and learns; all of them use the same engines, one after the other."""

    def __init__(
        self, env: DoomVectorEnv, agent: Agent, learner: LearnerSettings, threads: GradientThreads
    ) -> None:
        self._env, self._agent, self._learner = env, agent, learner
        self._optimizer = make_optimizer(agent, learner)
        self._shuffle = torch.Generator().manual_seed(0)
        self._threads = threads

    def turn(self) -> Turn:
        """One update, from fresh episodes."""
        collector = Collector(self._env, self._agent, self._learner.rollout_steps)
        begin = time.perf_counter()
        collector.collect()
        middle = time.perf_counter()
        update(
            self._agent.unroll,
            collector.rollout,
            self._optimizer,
            self._learner,
            generator=self._shuffle,
            threads=self._threads,
        )
        decisions = self._learner.rollout_steps * self._learner.num_envs
        return Turn((middle - begin) / decisions, (time.perf_counter() - middle) / decisions)


def _engine_seconds(worlds: Worlds, learner: LearnerSettings, rounds: int) -> float:
    """Seconds of a bare engine's decision (`egomap.bench.engines`)."""
    count = learner.num_envs
    bare = BareEngines(worlds, count, default_threads(count), EnvSettings.rendering)
    try:
        times = []
        for seed in range(rounds + 1):
            actions = np.random.default_rng(seed).integers(NUM_ACTIONS, size=(learner.rollout_steps, count))
            begin = time.perf_counter()
            bare.step(actions)
            times.append((time.perf_counter() - begin) / actions.size)
    finally:
        bare.close()
    return statistics.median(times[1:])
