"""N engines stepped by threads, as one `gymnasium.vector.VectorEnv`.

Each engine is a process of its own and ViZDoom lets go of Python's lock while it steps, so threads are enough:
nothing is pickled and nothing copied twice. Observations are written in place, into arrays of this environment
or of the caller (`write_to`). Autoreset is SAME_STEP: the observation that comes with an episode's end is the
first of the next one; the last of the old one is in `infos["final_obs"]`.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Sequence
from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from egomap.config import (
    NUM_ACTIONS,
    OBSERVATION_HEIGHT,
    OBSERVATION_WIDTH,
    Camera,
    EnvSettings,
    Task,
    require,
)
from egomap.envs.accounts import Accounts
from egomap.envs.doom import doom_spec, observation_space
from egomap.envs.guard import MAX_ENGINES
from egomap.envs.pool import ThreadPool, cores_to_bind, default_threads
from egomap.envs.rendering import render_mode as rendering_of
from egomap.envs.simulator import Simulator
from egomap.envs.worlds import PathLike, Worlds, find_worlds
from egomap.scenarios import dataset
from egomap.worlds.api import Arrays, Target, WorldSpec, observation_arrays
from egomap.worlds.episodes import EachLayout, Episode, EpisodeStream, ShuffledEpisodes

_EPISODE_ATTEMPTS = 5
"""How often an episode that must be played is begun, if its engine dies in it."""


class DoomVectorEnv(VectorEnv[Arrays, np.ndarray, np.ndarray]):
    """Many mazes at once. The scenario options are those of `DoomEnv`.

    Args:
        num_envs: engines.
        episodes_per_layout: None draws layouts in seeded random order without end, all equally often. A number k
            plays each layout exactly k times, for evaluation: an environment for which no episode is left stays
            idle (`idle[i]`), and `exhausted` is True when all are. An episode whose engine died is reported as
            truncated and `interrupted`, and played again.
        threads: how many threads step the engines.
        bind: bind threads and engines to cores where there are many for each core; turn it off where other programs
            keep some of the cores busy.
        worlds: what `find_worlds` gave, instead of any scenario option.
        copy: whether `step` returns copies (as Gymnasium does by default) or the arrays that it writes into.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        task: Task | None = None,
        size: int | None = None,
        items: int | None = None,
        split: str = "train",
        scenarios: PathLike | dataset.ScenarioSet | None = None,
        config: PathLike | Sequence[PathLike] | None = None,
        rendering: str = EnvSettings.rendering,
        frame_skip: int = EnvSettings.frame_skip,
        ego_motion_noise: float = EnvSettings.ego_motion_noise,
        watchdog: float = EnvSettings.watchdog,
        worlds: Worlds | None = None,
        episodes_per_layout: int | None = None,
        threads: int | None = None,
        bind: bool = True,
        copy: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self._pool: ThreadPool | None = None
        # OpenCV would share out each of our small pictures among threads of its own, which then fight with ours.
        cv2.setNumThreads(1)
        _require_count("num_envs", num_envs, MAX_ENGINES)
        _require_count("episodes_per_layout", episodes_per_layout)
        _require_count("threads", threads)
        require(render_mode is None, "the vector environment draws nothing: render_mode must be None.")
        self.num_envs = num_envs
        self.settings = EnvSettings(rendering, frame_skip, ego_motion_noise, watchdog).validate()
        self._mode = rendering_of(rendering)
        self.worlds = worlds or find_worlds(
            task=task, size=size, items=items, split=split, scenarios=scenarios, config=config
        )
        self.single_observation_space = observation_space()
        self.single_action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episodes_per_layout = episodes_per_layout
        self._copy = copy
        self.idle = np.zeros(num_envs, bool)
        self._rewards = np.zeros(num_envs, np.float64)
        self._terminated = np.zeros(num_envs, bool)
        self._attempts = np.zeros(num_envs, np.int64)
        self._truncated = np.zeros(num_envs, bool)
        self._finals: list[tuple[Arrays, dict[str, Any]] | None] = [None] * num_envs
        self._next: list[Episode | None] = [None] * num_envs
        self._stream: EpisodeStream | None = None
        self._actions: list[int] = []
        self._playing: list[int] = []
        self._simulators: list[Simulator | None] = [None] * num_envs
        self._accounts = Accounts(num_envs, ego_motion_noise)
        self._places = np.zeros((num_envs, 4))
        self._target = Target.of(observation_arrays(num_envs))
        self._shown = self._target.arrays
        self._begun = self._stepping = False
        self._pid = os.getpid()
        self._start(min(threads or default_threads(num_envs), num_envs), bind=bind)

    def _start(self, threads: int, *, bind: bool) -> None:
        """Start all engines, or none."""
        self._pool = ThreadPool(threads, cores_to_bind(threads) if bind else ())
        _living.add(self)
        try:
            self._pool.run(self._open, range(self.num_envs))
        except BaseException:
            self.close()
            raise

    @property
    def camera(self) -> Camera:
        """Intrinsics of the observation's picture."""
        return self._mode.observation_camera

    @property
    def world_spec(self) -> WorldSpec:
        """What an agent must know to be built for these worlds."""
        return doom_spec(self.settings, self.extent)

    @property
    def extent(self) -> float:
        """Side in map units of a square around the origin that holds every arena."""
        return self.worlds.extent

    @property
    def engine_restarts(self) -> int:
        """How often an engine was replaced, over all engines."""
        return sum(simulator.engine.restarts for simulator in self._simulators if simulator)

    @property
    def engine_pids(self) -> list[int]:
        """The engines' processes."""
        pids = (simulator.engine.pid for simulator in self._simulators if simulator)
        return [pid for pid in pids if pid is not None]

    @property
    def exhausted(self) -> bool:
        """Every episode has been played to its end (only with `episodes_per_layout`)."""
        return bool(self.idle.all())

    @property
    def episodes_in_all(self) -> int:
        """How many episodes there are to play (only with `episodes_per_layout`)."""
        require(self._episodes_per_layout is not None, "without episodes_per_layout episodes never end.")
        return len(self.worlds) * (self._episodes_per_layout or 0)

    @property
    def episodes_begun(self) -> int:
        """How many episodes of the stream have begun; `reset(options={"position": p})` continues from there."""
        queued = sum(episode is not None for episode in self._next)
        return self._stream.position - queued if self._stream else 0

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode in every environment.

        Args:
            seed: an integer seeds the sequence of episodes (layouts and their seeds) again. None continues it; the
                first time, it is seeded by chance.
            options: `position`: begin the stream there (with a seed); `layout`: N layouts to begin with.
        """
        pool = self._usable_pool()
        pool.drain()  # of a step that was not waited for
        self._stepping = self._begun = False
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise ValueError(f"seed must be an integer or None; got {seed!r}.")
        options = options or {}
        require(seed is not None or "position" not in options, "options['position'] goes with a seed.")
        if seed is not None or self._stream is None:
            super().reset(seed=None if seed is None else _non_negative("seed", seed))
            chosen = int(self.np_random.integers(2**31)) if seed is None else int(seed)
            position = _non_negative("options['position']", options.get("position", 0))
            self._stream = self._new_stream(chosen, position)
            self._next = [None] * self.num_envs
        self._draw()
        if "layout" in options:
            self._next = self._with_layouts(options["layout"])
        self.idle[:] = False
        self._rewards[:] = 0.0
        pool.run(self._begin, range(self.num_envs))
        self._draw()
        self._playing = np.flatnonzero(~self.idle).tolist()
        self._begun = True
        return self._result(), self._infos()

    def step(self, actions: np.ndarray) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One decision in every environment."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions and return at once; `step_wait` must follow."""
        pool = self._usable_pool()
        require(self._begun, "no episode was begun: call reset() first.")
        require(not self._stepping, "the engines are stepping already: call step_wait() first.")
        actions = np.asarray(actions)
        whole = actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
        self._actions = actions.tolist() if whole else [-1]
        if min(self._actions) < 0 or max(self._actions) >= NUM_ACTIONS:
            raise ValueError(
                f"actions must be {self.num_envs} integers from 0 to {NUM_ACTIONS - 1}; got {actions!r}."
            )
        self._stepping = True
        self._terminated[:] = self._truncated[:] = False
        pool.start(self._advance, self._playing)

    def step_wait(self) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Wait for the engines; the same result as `step`. If it is interrupted (Ctrl-C), it can be called again."""
        pool = self._usable_pool()
        require(self._stepping, "step_wait without step_async.")
        errors = pool.drain()
        self._stepping = False
        if errors:
            self._begun = (
                False  # some environments have gone on and some have not: only reset() makes them one
            )
            raise errors[0]
        ended = self._terminated | self._truncated
        self._settle(ended)
        self._draw()
        rewards, terminated, truncated = self._rewards, self._terminated, self._truncated
        if self._copy:
            rewards, terminated, truncated = rewards.copy(), terminated.copy(), truncated.copy()
        return self._result(), rewards, terminated, truncated, self._infos(ended)

    def write_to(self, target: Target) -> None:
        """Let the following resets and steps write there; a learner hands over row t + 1 of its rollout."""
        require(not self._stepping, "the engines are stepping: call step_wait() first.")
        target.require_for(self.num_envs, OBSERVATION_HEIGHT, OBSERVATION_WIDTH)
        self._target = target

    def info(self, index: int) -> dict[str, Any]:
        """The account of the running episode of one environment."""
        return self._simulator(index).info()

    def episode(self, index: int) -> Episode:
        """The running episode of one environment."""
        return self._simulator(index).episode

    def true_pose(self, index: int) -> np.ndarray:
        """Where the player of one environment really is, (x, y, phi), whatever noise the observation has."""
        return self._accounts.odometry.true_pose[index].copy()

    def close_extras(self, **_: Any) -> None:
        """End all engines."""
        pool, self._pool = self._pool, None
        if pool is None or self._pid != os.getpid():
            return  # the threads did not come along through a fork, and the engines are the parent's
        pool.drain()
        pool.run(self._close_one, range(self.num_envs))
        pool.close()

    def __del__(self) -> None:
        self.close()

    def _usable_pool(self) -> ThreadPool:
        if self._pool is None:
            raise ValueError("this environment is closed.")
        require(
            self._pid == os.getpid(), "these engines belong to the parent process; make an environment here."
        )
        return self._pool

    def _open(self, index: int) -> None:
        self._simulators[index] = Simulator(self.worlds, self.settings, self._accounts, index)

    def _close_one(self, index: int) -> None:
        simulator = self._simulators[index]
        if simulator is not None:
            simulator.close()
            self._simulators[index] = None

    def _simulator(self, index: int) -> Simulator:
        simulator = self._simulators[index]
        if simulator is None:
            raise ValueError("this environment is closed.")
        return simulator

    def _draw(self) -> None:
        """A next episode for each environment that has none: in order, so that seed and actions fix them all."""
        assert self._stream is not None
        for index, episode in enumerate(self._next):
            if episode is None:
                self._next[index] = self._stream.next()

    def _begin(self, index: int) -> None:
        episode, self._next[index] = self._next[index], None
        self._attempts[index] = 1
        if episode is None:
            self.idle[index] = True
        else:
            self._simulator(index).reset(episode, self._target.rows[index])

    def _advance(self, index: int) -> None:
        """A decision of one environment but for its account; runs in a thread and touches row `index` only."""
        simulator, row = self._simulator(index), self._target.rows[index]
        if simulator.act(self._actions[index], row):
            return
        self._rewards[index], self._terminated[index], self._truncated[index] = simulator.conclude()
        last = {name: array[index].copy(order="K") for name, array in self._shown.items()}
        self._finals[index] = (last, simulator.info())
        again = simulator.interrupted and self._episodes_per_layout is not None
        if again:
            self._play_again(simulator, index)
        else:
            self._begin(index)

    def _play_again(self, simulator: Simulator, index: int) -> None:
        """The episode whose engine died, from its start, for every one of them counts."""
        world = self.worlds[simulator.episode.layout]
        if self._attempts[index] >= _EPISODE_ATTEMPTS:
            raise ValueError(
                f"The Doom engine cannot play {world.map_name} of {world.wad}: it died in the same episode "
                f"{_EPISODE_ATTEMPTS} times."
            )
        self._attempts[index] += 1
        simulator.reset(simulator.episode, self._target.rows[index])

    def _settle(self, ended: np.ndarray) -> None:
        """The second half of all decisions, in one go: in many threads that share Python's lock it takes longer."""
        over = ended.tolist()
        running = [index for index in self._playing if not over[index]]
        for index in running:
            simulator = self._simulator(index)
            self._rewards[index] = simulator.reward
            self._places[index] = simulator.engine.frame().place
        rows: slice | list[int] = slice(None) if len(running) == self.num_envs else running
        self._accounts.count(rows, self._rewards[rows])
        arrays = self._target.arrays
        arrays["ego_motion"][rows] = self._accounts.move(rows, self._places[rows])
        arrays["pose"][rows] = self._accounts.odometry.pose[rows]
        arrays["reward"][rows] = self._rewards[rows]
        if self.idle.any():
            self._rewards[self.idle & ~ended] = 0.0
            if arrays is not self._shown:
                for name, array in arrays.items():
                    array[self.idle] = self._shown[name][self.idle]
            self._playing = np.flatnonzero(~self.idle).tolist()

    def _new_stream(self, seed: int, position: int) -> EpisodeStream:
        if self._episodes_per_layout is None:
            return ShuffledEpisodes(len(self.worlds), seed, position)
        return EachLayout(len(self.worlds), self._episodes_per_layout, seed, position)

    def _with_layouts(self, layouts: Sequence[int]) -> list[Episode | None]:
        chosen = np.asarray(layouts)
        fits = chosen.shape == (self.num_envs,) and chosen.dtype.kind in "iu"
        require(
            fits and bool((chosen >= 0).all() and (chosen < len(self.worlds)).all()),
            f"options['layout'] must be {self.num_envs} numbers from 0 to {len(self.worlds) - 1}; got {layouts!r}.",
        )
        return [
            episode._replace(layout=layout) if episode else None
            for layout, episode in zip(chosen.tolist(), self._next, strict=True)
        ]

    def _result(self) -> Arrays:
        self._shown = self._target.arrays
        return (
            {name: array.copy(order="K") for name, array in self._shown.items()}
            if self._copy
            else self._shown
        )

    def _infos(self, ended: np.ndarray | None = None) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        if ended is None:
            for index in range(self.num_envs):
                if not self.idle[index]:
                    infos = self._add_info(infos, self._simulator(index).info(), index)
            return infos
        for index in np.flatnonzero(ended).tolist():
            final = self._finals[index]
            assert final is not None
            infos = self._add_info(infos, {"final_obs": final[0], "final_info": final[1]}, index)
        return infos


def _require_count(name: str, value: int | None, most: int | None = None) -> None:
    """A whole number of at least 1, or None."""
    whole = value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))
    require(
        whole and (value is None or (value >= 1 and (most is None or value <= most))),
        f"{name} must be a whole number from 1{'' if most is None else f' to {most}'}; got {value!r}.",
    )


def _non_negative(name: str, value: Any) -> int:
    require(
        isinstance(value, (int, np.integer)) and int(value) >= 0,
        f"{name} must be a whole number of at least 0; got {value!r}.",
    )
    return int(value)


_living: weakref.WeakSet[DoomVectorEnv] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """End the threads while Python is whole: one that wakes up inside ViZDoom after that would crash."""
    for env in list(_living):
        env.close()
