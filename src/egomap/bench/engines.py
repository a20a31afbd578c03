"""Speed and memory of the engines: the vector environment against engines stepped bare by threads.

What comes in: how many engines, how long. What goes out: decisions a second, their ratio, megabytes. "Bare" is the
ceiling: plain ViZDoom objects with the same settings and mazes, shared out among as many threads as the vector
environment has. Each thread calls `make_action` and nothing else, nobody waits for anybody, and at an episode's end
the next map is loaded as ViZDoom's users do it. The two sides take turns and a ratio is the median over rounds of two
neighbours, so that a machine that grows slower in the middle slows both. `AT_LEAST` and `AT_MOST` hold the bars.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from egomap.config import FRAME_SKIP, NUM_ACTIONS, EnvSettings, ScenarioConfig, require
from egomap.envs.engine import PRESSED, Engine
from egomap.envs.episodes import episode_seed
from egomap.envs.pool import ThreadPool, default_threads
from egomap.envs.rendering import render_mode
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds, worlds_of_set
from egomap.scenarios import dataset

AT_LEAST = {"engines.vector_over_bare": 0.90}
AT_MOST = {"engines.resident_mb_per_engine": 40.0}

LAYOUTS = 32


def measure_engines(
    *,
    num_envs: int = 16,
    decisions: int = 150,
    rounds: int = 9,
    threads: int | None = None,
    rendering: str = EnvSettings.rendering,
    size: int = 9,
) -> dict[str, float]:
    """Decisions a second of bare engines and of the vector environment, and what an engine holds in memory.

    Args:
        num_envs: Engines.
        decisions: Decisions of each engine in a round.
        rounds: Rounds of each side, after one that warms up.
        threads: Threads that step the engines, on both sides.
        rendering: Rendering mode.
        size: Cells along each side of the mazes (labyrinth).

    Returns:
        By name: engines.bare_decisions_per_second, engines.vector_decisions_per_second, engines.vector_over_bare,
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
    return {
        "engines.bare_decisions_per_second": statistics.median(theirs for theirs, _ in rates),
        "engines.vector_decisions_per_second": statistics.median(ours for _, ours in rates),
        "engines.vector_over_bare": statistics.median(ours / theirs for theirs, ours in rates),
        "engines.resident_mb_per_engine": resident,
        "engines.threads": float(threads),
    }


class BareEngines:
    """Engines with nothing around them."""

    def __init__(self, worlds: Worlds, num_envs: int, threads: int, rendering: str) -> None:
        self._worlds, self._threads = worlds, threads
        self._engines: list[Engine] = []
        self._episodes = [0] * num_envs
        mode, pool = render_mode(rendering), ThreadPool(threads)

        def start(index: int) -> None:
            self._engines.append(Engine(worlds[0].cfg, worlds[0].wad, mode))

        try:
            pool.run(start, range(num_envs))
            pool.run(self._begin, range(num_envs))
        except BaseException:
            self.close()
            raise
        finally:
            pool.close()

    def step(self, actions: np.ndarray) -> None:
        """`actions` (T, N): T decisions of every engine."""
        columns = actions.T.tolist()

        def run(first: int) -> None:
            mine = range(first, len(self._engines), self._threads)
            for decision in range(len(actions)):
                for index in mine:
                    game = self._engines[index].game
                    game.make_action(PRESSED[columns[index][decision]], FRAME_SKIP)
                    if game.is_episode_finished():
                        self._begin(index)

        threads = [threading.Thread(target=run, args=(first,)) for first in range(self._threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def resident_mb(self) -> float:
        """Megabytes (RSS) of an engine's process and its launcher, on average."""
        pids = [pid for engine in self._engines for pid in (engine.pid, engine.launcher_pid)]
        return sum(resident_mb(pid) for pid in pids if pid is not None) / len(self._engines)

    def close(self) -> None:
        """End them."""
        for engine in self._engines:
            engine.close()

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


def _turn(bare: BareEngines, vector: DoomVectorEnv, decisions: int, seed: int) -> tuple[float, float]:
    """Decisions a second of both sides, one after the other, with the same actions."""
    actions = np.random.default_rng(seed).integers(NUM_ACTIONS, size=(decisions, vector.num_envs))
    begin = time.perf_counter()
    bare.step(actions)
    middle = time.perf_counter()
    for row in actions:
        vector.step(row)
    end = time.perf_counter()
    return actions.size / (middle - begin), actions.size / (end - middle)
