"""Speed and memory of the engines: the vector environment against engines stepped bare by threads.

Input: how many engines, how long. Output: decisions a second, their ratios, megabytes. "Bare" is the
ceiling: plain ViZDoom objects with the same settings and mazes, shared out among as many threads as the vector
environment has. Each thread calls `make_action` and `get_state`, and at an episode's end loads the next map as
ViZDoom's users do. As in any vector environment all engines make one decision, then all the next, for the next
action is chosen from what all have shown. "Unwatched" is the same without that: each thread runs on by itself, calls
`make_action` alone and looks at nothing, which no learner could do; it shows what waiting and looking cost.

The sides take turns and a ratio is the median over rounds of neighbours, so that a machine that grows slower in the
middle slows all. `AT_LEAST` and `AT_MOST` hold the bars.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from egomap.config import FRAME_SKIP, NUM_ACTIONS, EnvSettings, ScenarioConfig, require
from egomap.envs.engine import PRESSED, Engine
from egomap.envs.pool import ThreadPool, default_threads
from egomap.envs.rendering import render_mode
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.scenarios import dataset
from egomap.worlds.episodes import episode_seed

AT_LEAST = {"engines.vector_over_bare": 0.90}
AT_MOST = {"engines.resident_mb_per_engine": 40.0}

LAYOUTS = 32


def measure_engines(
    *,
    num_envs: int = 16,
    decisions: int = 60,
    rounds: int = 20,
    threads: int | None = None,
    rendering: str = EnvSettings.rendering,
    size: int = 9,
) -> dict[str, float]:
    """Decisions a second of engines alone and of the vector environment, and what an engine holds in memory.

    Args:
        num_envs: Engines.
        decisions: Decisions of each engine in a turn.
        rounds: Turns of each side, after one that warms up.
        threads: Threads that step the engines, on all sides.
        rendering: Rendering mode.
        size: Cells along each side of the mazes (labyrinth).

    Returns:
        By name: decisions a second of the three sides, engines.vector_over_bare, engines.vector_over_unwatched,
        engines.resident_mb_per_engine (RSS of the engine's process and its launcher, shared pages included) and
        engines.threads.
    """
    require(decisions >= 1 and rounds >= 1, "decisions and rounds must be at least 1.")
    threads = min(threads or default_threads(num_envs), num_envs)
    with tempfile.TemporaryDirectory(prefix="egomap-bench-") as folder:
        config = ScenarioConfig(task="labyrinth", size=size, train=LAYOUTS, test=0)
        worlds = worlds_of_set(dataset.generate(config, Path(folder) / "mazes"), "train")
        bare = BareEngines(worlds, num_envs, threads, rendering)
        try:
            vector = DoomVectorEnv(num_envs, worlds=worlds, threads=threads, rendering=rendering, copy=False)
            try:
                vector.reset(seed=0)
                rates = [_turn(bare, vector, decisions, seed) for seed in range(rounds + 1)][1:]
                resident = bare.resident_mb()
            finally:
                vector.close()
        finally:
            bare.close()
    unwatched_rates, bare_rates, vector_rates = zip(*rates, strict=True)
    return {
        "engines.unwatched_decisions_per_second": statistics.median(unwatched_rates),
        "engines.bare_decisions_per_second": statistics.median(bare_rates),
        "engines.vector_decisions_per_second": statistics.median(vector_rates),
        "engines.vector_over_bare": _median_ratio(vector_rates, bare_rates),
        "engines.vector_over_unwatched": _median_ratio(vector_rates, unwatched_rates),
        "engines.resident_mb_per_engine": resident,
        "engines.threads": float(threads),
    }


class BareEngines:
    """Engines with nothing around them."""

    def __init__(self, worlds: Worlds, num_envs: int, threads: int, rendering: str) -> None:
        self._worlds = worlds
        self._engines: list[Engine] = []
        self._episodes = [0] * num_envs
        self._pool = ThreadPool(threads)
        mode = render_mode(rendering)

        def start(index: int) -> None:
            self._engines.append(Engine(worlds[0].cfg, worlds[0].wad, mode))

        try:
            self._pool.run(start, range(num_envs))
            self._pool.run(self._begin, range(num_envs))
        except BaseException:
            self.close()
            raise

    def step(self, actions: np.ndarray) -> None:
        """`actions` (T, N): T decisions of every engine, one after the other, and what it shows after each."""
        for row in actions.tolist():

            def decide(index: int, row: list[int] = row) -> None:
                self._act(index, row[index])
                self._engines[index].game.get_state()

            self._pool.run(decide, range(len(self._engines)))

    def step_unwatched(self, actions: np.ndarray) -> None:
        """The same decisions, but no thread waits for another or looks at anything."""
        columns = actions.T.tolist()
        threads = len(self._pool)

        def run(first: int) -> None:
            for decision in range(len(actions)):
                for index in range(first, len(self._engines), threads):
                    self._act(index, columns[index][decision])

        self._pool.run(run, range(threads))

    def resident_mb(self) -> float:
        """Megabytes (RSS) of an engine's process and its launcher, on average."""
        pids = [pid for engine in self._engines for pid in (engine.pid, engine.launcher_pid)]
        return sum(resident_mb(pid) for pid in pids if pid is not None) / len(self._engines)

    def close(self) -> None:
        """End them."""
        self._pool.close()
        for engine in self._engines:
            engine.close()

    def _act(self, index: int, action: int) -> None:
        game = self._engines[index].game
        game.make_action(PRESSED[action], FRAME_SKIP)
        if game.is_episode_finished():
            self._begin(index)

    def _begin(self, index: int) -> None:
        """The next map, as ViZDoom's documentation has it."""
        game, played = self._engines[index].game, self._episodes[index]
        self._episodes[index] += 1
        game.set_doom_map(self._worlds[(index + 5 * played) % len(self._worlds)].map_name)
        game.set_seed(episode_seed(index, played))
        game.new_episode()


def resident_mb(pid: int) -> float:
    """Resident memory of a process in megabytes, the pages that it shares with others included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _turn(bare: BareEngines, vector: DoomVectorEnv, decisions: int, seed: int) -> tuple[float, float, float]:
    """Decisions a second: unwatched, bare, vector; one after the other, with the same actions."""
    actions = np.random.default_rng(seed).integers(NUM_ACTIONS, size=(decisions, vector.num_envs))

    def step_vector(actions: np.ndarray) -> None:
        for row in actions:
            vector.step(row)

    def rate(step: Callable[[np.ndarray], None]) -> float:
        begin = time.perf_counter()
        step(actions)
        return actions.size / (time.perf_counter() - begin)

    return rate(bare.step_unwatched), rate(bare.step), rate(step_vector)


def _median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
