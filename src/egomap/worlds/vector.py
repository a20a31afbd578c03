"""N Gymnasium environments as one vector environment behind the seam (`VectorWorld`, `Playground`).

What comes in: a spec, and what is played. What goes out: observations in map units, written where the caller wants
them, with ego-motion derived from the poses where the environment gives none. Autoreset is SAME_STEP. The
environments are stepped by workers, or in this process.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from egomap.config import require, require_within
from egomap.worlds.api import Arrays, Step, Target, WorldSpec
from egomap.worlds.ego_motion import Odometry, Pose
from egomap.worlds.episodes import EachLayout, Episode, EpisodeStream
from egomap.worlds.host import Order, RawRow, Report, Start
from egomap.worlds.seeds import SeededWorlds, Startable
from egomap.worlds.worker import Crew, InProcess


class GymVectorEnv(VectorEnv[Arrays, np.ndarray, np.ndarray]):
    """Many copies of somebody's environment.

    Args:
        spec: What it is; `egomap.worlds.gym.examine` finds out.
        num_envs: N.
        worlds: What is played.
        episodes_per_layout: None plays without end, as the worlds say. A number k plays each of `worlds` exactly k
            times: an environment without an episode left stays idle (`idle[i]`); `exhausted` tells when all are.
        noise: Standard deviation of a factor on each ego-motion reading; the error accumulates in the pose.
        workers: Processes; 0: none but this one.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        spec: WorldSpec,
        num_envs: int = 1,
        *,
        worlds: Startable | None = None,
        episodes_per_layout: int | None = None,
        noise: float = 0.0,
        workers: int = 0,
    ) -> None:
        require_within("num-envs", num_envs, 1, 2**16)
        require(
            noise == 0 or not spec.measures_motion,
            f"{spec.name} measures its ego-motion itself; noise can be added only to what is derived from poses.",
        )
        self.world_spec, self.num_envs = spec, num_envs
        self.worlds: Startable = worlds or SeededWorlds(spec.name, 1)
        self.single_observation_space = _space(spec)
        self.single_action_space = gymnasium.spaces.Discrete(spec.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._repeats = episodes_per_layout
        self.idle = np.zeros(num_envs, bool)
        self._odometry = Odometry(noise, num_envs)
        self._target = Target.of(spec.arrays(num_envs))
        self._returns, self._decisions = np.zeros(num_envs), np.zeros(num_envs, np.int64)
        self._stream: EpisodeStream | None = None
        self._running: list[Episode | None] = [None] * num_envs
        self._next: list[Episode | None] = [None] * num_envs
        self._stepping = False
        self._crew: Crew | InProcess | None = (
            Crew(spec, num_envs, min(workers, num_envs)) if workers else InProcess(spec, num_envs)
        )
        _living.add(self)

    @property
    def engine_restarts(self) -> int:
        """How often a worker was replaced."""
        return 0 if self._crew is None else self._crew.restarts

    @property
    def exhausted(self) -> bool:
        """Every episode has been played to its end (only with `episodes_per_layout`)."""
        return bool(self.idle.all())

    @property
    def episodes_in_all(self) -> int:
        """How many episodes there are to play (only with `episodes_per_layout`)."""
        require(self._repeats is not None, "without episodes_per_layout episodes never end.")
        return len(self.worlds) * (self._repeats or 0)

    @property
    def episodes_begun(self) -> int:
        """How many episodes of the stream have begun; `reset(options={"position": p})` goes on from there."""
        queued = sum(episode is not None for episode in self._next)
        return self._stream.position - queued if self._stream else 0

    def episode(self, index: int) -> Episode:
        """The running episode of one environment."""
        episode = self._running[index]
        if episode is None:
            raise ValueError(f"no episode runs in environment {index}.")
        return episode

    def true_pose(self, index: int) -> np.ndarray:
        """Where one player really is, (x, y, phi), whatever noise the observation has."""
        return self._odometry.true_pose[index].copy()

    def write_to(self, target: Target) -> None:
        """Let the following resets and steps write there."""
        require(not self._stepping, "the environments are stepping: call step_wait() first.")
        target.require_for(self.num_envs, self.world_spec.camera.height, self.world_spec.camera.width)
        self._target = target

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode everywhere.

        Args:
            seed: Seeds the stream of episodes anew; None lets it go on (the first time, it is seeded by 0).
            options: `position`: where in the stream to begin.
        """
        crew = self._open_crew()
        if self._stepping:
            crew.receive()
            self._stepping = False
        if seed is not None or self._stream is None:
            require(
                seed is None or isinstance(seed, int | np.integer), f"seed must be an integer; got {seed!r}."
            )
            chosen, position = int(seed or 0), int((options or {}).get("position", 0))  # type: ignore[arg-type]
            self._stream = (
                self.worlds.endless(chosen, position)
                if self._repeats is None
                else EachLayout(len(self.worlds), self._repeats, chosen, position)
            )
            self._next = [None] * self.num_envs
        self._draw()
        self._running, self._next = self._next, [None] * self.num_envs
        self.idle[:] = [episode is None for episode in self._running]
        begun = np.flatnonzero(~self.idle).tolist()
        crew.reset([(row, self._start(self.episode(row))) for row in begun])
        self._draw()
        self._show(crew.arrays.now, begun)
        for row in begun:
            self._begin(row)
        return self._target.arrays, {}

    def step(self, actions: np.ndarray) -> Step:
        """One decision in every environment."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions and return at once; `step_wait` must follow."""
        crew, actions = self._open_crew(), np.asarray(actions)
        require(self._stream is not None, "no episode was begun: call reset() first.")
        require(not self._stepping, "the environments are stepping already: call step_wait() first.")
        fits = actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
        last = self.world_spec.num_actions - 1
        if not fits or actions.min() < 0 or actions.max() > last:
            raise ValueError(f"actions must be {self.num_envs} integers from 0 to {last}; got {actions!r}.")
        orders = [
            Order(row, action, None if (following := self._next[row]) is None else self._start(following))
            for row, action in enumerate(actions.tolist())
            if not self.idle[row]
        ]
        crew.send(orders)
        self._stepping = True

    def step_wait(self) -> Step:
        """Wait for the environments; the same result as `step`."""
        crew = self._open_crew()
        require(self._stepping, "step_wait without step_async.")
        reports = crew.receive()
        self._stepping = False
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        for row, report in reports.items():
            rewards[row], terminated[row], truncated[row] = report[:3]
        played = list(reports)
        self._returns[played] += rewards[played]
        self._decisions[played] += 1
        ended = [row for row in played if terminated[row] or truncated[row]]
        infos = self._ends({row: reports[row] for row in ended})
        self._settle(crew, [row for row in played if row not in ended], rewards)
        self._follow(crew, {row: reports[row] for row in ended})
        self._draw()
        return self._target.arrays, rewards, terminated, truncated, infos

    def close_extras(self, **_: Any) -> None:
        """End the environments and their processes."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()

    def _open_crew(self) -> Crew | InProcess:
        if self._crew is None:
            raise ValueError("this environment is closed.")
        return self._crew

    def _start(self, episode: Episode) -> Start:
        return Start(episode.seed, self.worlds.options(episode.layout))

    def _draw(self) -> None:
        """A next episode for each environment that has none: in order, so that seed and actions fix them all."""
        assert self._stream is not None
        for row, episode in enumerate(self._next):
            if episode is None:
                self._next[row] = self._stream.next()

    def _show(self, raw: RawRow, rows: list[int]) -> None:
        """Write the pictures of these rows."""
        arrays = self._target.arrays
        every: slice | list[int] = slice(None) if len(rows) == self.num_envs else rows
        np.moveaxis(arrays["rgb"], -3, -1)[every] = raw.rgb[every]
        arrays["depth"][every] = raw.depth[every]

    def _settle(self, crew: Crew | InProcess, rows: list[int], rewards: np.ndarray) -> None:
        """Show where those are whose episodes go on, and what they were paid."""
        arrays, raw = self._target.arrays, crew.arrays.now
        if rows:
            self._show(raw, rows)
            motion = self._odometry.update(rows, raw.pose[rows])
            arrays["ego_motion"][rows] = raw.ego_motion[rows] if self.world_spec.measures_motion else motion
            arrays["pose"][rows] = self._odometry.pose[rows]
            arrays["reward"][rows] = rewards[rows]

    def _follow(self, crew: Crew | InProcess, ended: dict[int, Report]) -> None:
        """Show the episodes that follow on those that have ended."""
        again = {row for row, report in ended.items() if report.interrupted}
        if again:
            for row in again:  # in a measurement every episode counts, so this one is played again
                if self._repeats is None:
                    self._running[row], self._next[row] = self._next[row], None
            crew.reset([(row, self._start(self.episode(row))) for row in sorted(again)])
        for row in ended:
            if row not in again:
                self._running[row], self._next[row] = self._next[row], None
                self.idle[row] = self._running[row] is None
        begun = [row for row in ended if not self.idle[row]]
        if begun:
            self._show(crew.arrays.now, begun)
        for row in begun:
            self._begin(row)

    def _begin(self, row: int) -> None:
        """Account for an episode that begins where the row's pose is."""
        crew, arrays = self._open_crew(), self._target.arrays
        self._odometry.reset(row, Pose(*crew.arrays.now.pose[row].tolist()), self.episode(row).seed)
        arrays["pose"][row] = self._odometry.pose[row]
        arrays["ego_motion"][row] = arrays["reward"][row] = 0.0
        self._returns[row] = self._decisions[row] = 0

    def _ends(self, ended: dict[int, Report]) -> dict[str, Any]:
        """What is told of the episodes that have ended; before the next ones take their rows."""
        infos: dict[str, Any] = {}
        last = self._open_crew().arrays.last
        success = np.full(self.num_envs, None, object)
        for row, report in ended.items():
            episode = self.episode(row)
            told = {
                "return": float(self._returns[row]),
                "decisions": int(self._decisions[row]),
                "layout": episode.layout,
                "layout_id": self.worlds[episode.layout].id,
                "repeat": episode.repeat,
                "interrupted": report.interrupted,
            }
            final = None if report.interrupted else self._last_observation(last, row, report.reward)
            infos = self._add_info(infos, {"final_obs": final, "final_info": told}, row)
            success[row] = report.success
        if ended:
            infos["final_info"]["success"] = success
        return infos

    def _last_observation(self, last: RawRow, row: int, reward: float) -> Arrays:
        motion = self._odometry.update([row], last.pose[[row]])[0]
        return {
            "rgb": last.rgb[row].transpose(2, 0, 1).copy(),
            "depth": last.depth[row].copy(),
            "pose": self._odometry.pose[row].astype(np.float32),
            "ego_motion": np.asarray(
                last.ego_motion[row] if self.world_spec.measures_motion else motion, np.float32
            ),
            "reward": np.array(reward, np.float32),
        }


def _space(spec: WorldSpec) -> gymnasium.spaces.Dict:
    """The space of one observation."""
    box, height, width = gymnasium.spaces.Box, spec.camera.height, spec.camera.width
    return gymnasium.spaces.Dict(
        {
            "rgb": box(0, 255, (3, height, width), np.uint8),
            "depth": box(0.0, np.inf, (height, width), np.float32),
            "pose": box(-np.inf, np.inf, (3,), np.float32),
            "ego_motion": box(-np.inf, np.inf, (3,), np.float32),
            "reward": box(-np.inf, np.inf, (), np.float32),
        }
    )


_living: weakref.WeakSet[GymVectorEnv] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """End the workers while Python is whole."""
    for env in list(_living):
        env.close()
