"""One player in one engine: episodes in, observations out. Shared by the single and the vector environment.

What comes in: a layout and a seed per episode, an action per decision, and the arrays to write into. What goes
out: the observation, written in place; the reward and how the episode ended. A dead engine is replaced here: its
episode ends truncated and the next one begins on a new engine.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cv2
import numpy as np

from egomap.config import OBSERVATION_HEIGHT, OBSERVATION_WIDTH, EnvSettings
from egomap.envs.ego_motion import EgoMotion, Odometry, Pose, wrap
from egomap.envs.engine import Engine, EngineDied
from egomap.envs.episodes import Episode
from egomap.envs.rendering import RenderMode, render_mode
from egomap.envs.worlds import Worlds
from egomap.scenarios.scripts import RUNNING, SOLVED

_SIZE = (OBSERVATION_WIDTH, OBSERVATION_HEIGHT)
_LOAD_ATTEMPTS = 5


class ObservationRow(NamedTuple):
    """Where one observation is written; views into the caller's arrays."""

    rgb: np.ndarray
    """(64, 112, 3) uint8."""
    depth: np.ndarray
    """(64, 112) float32."""
    pose: np.ndarray
    """(3,) float32."""
    ego_motion: np.ndarray
    """(3,) float32."""


class Outcome(NamedTuple):
    """What one decision led to."""

    reward: float
    terminated: bool
    truncated: bool


class Simulator:
    """An engine with a player in it, and the account of the running episode."""

    def __init__(self, worlds: Worlds, settings: EnvSettings, *, keep_screen: bool = False) -> None:
        self.worlds = worlds
        self.settings = settings.validate()
        self.mode: RenderMode = render_mode(settings.rendering)
        self.engine = Engine(
            worlds.cfg,
            worlds.wad,
            self.mode,
            first_map=worlds[0].map_name,
            watchdog=settings.watchdog,
            frame_skip=settings.frame_skip,
        )
        self.odometry = Odometry(settings.ego_motion_noise)
        self.screen = np.zeros((self.mode.height, self.mode.width, 3), np.uint8)
        self._keep_screen = keep_screen
        self._levels = np.zeros((OBSERVATION_HEIGHT, OBSERVATION_WIDTH), np.uint8)
        self._depth_table = self.mode.depth_table()
        # Area averaging costs as much as half a decision of the engine; below a factor of two the picture is
        # almost the same without it (1.7 instead of 1.3 of 255 from the paper's 320x180, frames differ by 9).
        area = self.mode.width > 2 * OBSERVATION_WIDTH
        self._filter = cv2.INTER_AREA if area else cv2.INTER_LINEAR
        self.episode = Episode(0, 0)
        self._center = (0.0, 0.0)
        self.decisions = 0
        self.frames = 0
        self.total_reward = 0.0
        self.success = False
        self.interrupted = False
        self._reward = 0.0
        # What a decision pays without any event; the last one of an episode may have fewer tics.
        living = settings.frame_skip * self.engine.living_reward
        self._least_living, self._most_living = min(living, 0.0) - 1e-6, max(living, 0.0) + 1e-6
        self._last_event = 0.0
        self._decisions_since_event = 0

    def reset(self, episode: Episode, row: ObservationRow) -> None:
        """Begin an episode and write its first observation."""
        self.episode = episode
        self._center = self.worlds[episode.layout].center
        self.decisions = self.frames = 0
        self.total_reward, self.success, self.interrupted = 0.0, False, False
        self._last_event, self._decisions_since_event = 0.0, 0
        self._load(self.worlds[episode.layout].map_name, episode.seed)
        self.odometry.reset(self._pose(), episode.seed)
        self._write_place(EgoMotion(0.0, 0.0, 0.0), row)
        self._write_pictures(row)

    def step(self, action: int, row: ObservationRow) -> Outcome:
        """One decision. At the end of an episode the engine shows nothing, and nothing is written."""
        if self.act(action, row):
            return Outcome(self.settle(row), terminated=False, truncated=False)
        return self.conclude()

    def act(self, action: int, row: ObservationRow) -> bool:
        """The first half of a decision: hold the action and write the pictures. Whether the episode goes on.

        `settle` must follow if it does, `conclude` if not. Threads run this half, which hardly needs Python's lock.
        """
        try:
            self._reward = self.engine.act(action)
        except EngineDied:
            self.interrupted = True
            self._reward = 0.0
            self.engine.restart()
            return False
        if self.engine.finished:
            return False
        self._write_pictures(row)
        return True

    def settle(self, row: ObservationRow) -> float:
        """The second half of a decision after which the episode goes on: keep account, write where the player is."""
        self._count()
        self._write_place(self.odometry.update(self._pose()), row)
        return self._reward

    def conclude(self) -> Outcome:
        """The second half of an episode's last decision."""
        self._count()
        if self.interrupted:
            return Outcome(self._reward, terminated=False, truncated=True)
        terminated, self.success = self._ending()
        return Outcome(self._reward, terminated=terminated, truncated=not terminated)

    def info(self) -> dict[str, Any]:
        """The account of the running episode, under the names that are documented in docs/environments.md."""
        return {
            "decisions": self.decisions,
            "frames": self.frames,
            "return": self.total_reward,
            "success": self.success,
            "layout": self.episode.layout,
            "layout_id": self.worlds[self.episode.layout].id,
            "repeat": self.episode.repeat,
            "interrupted": self.interrupted,
            "engine_restarts": self.engine.restarts,
            "true_pose": np.asarray(self.odometry.true_pose, np.float32),
        }

    def close(self) -> None:
        """End the engine."""
        self.engine.close()

    def _load(self, map_name: str, seed: int) -> None:
        for _ in range(_LOAD_ATTEMPTS):
            try:
                self.engine.load(map_name, seed)
                if not self.engine.finished:
                    return
            except EngineDied:
                pass
            self.engine.restart()
        raise ValueError(
            f"The Doom engine died {_LOAD_ATTEMPTS} times in a row while it loaded {map_name} of {self.worlds.wad}."
        )

    def _ending(self) -> tuple[bool, bool]:
        """Whether the episode came to an end of its own (no time-out), and whether it was solved."""
        if self.worlds[self.episode.layout].layout is not None:  # the scripts of our maps say so
            status = self.engine.status
            return status != RUNNING, status == SOLVED
        # Anybody's map. The engine leaves it in the tic after the script that pays the last prize, so the end may
        # come with the next decision; an end at the last tic of the time is no time-out then.
        terminated = not self.engine.timed_out or self._decisions_since_event <= 1
        return terminated, terminated and self._last_event > 0.0 and not self.engine.player_dead

    def _pose(self) -> Pose:
        x, y, degrees = self.engine.place()
        center_x, center_y = self._center
        return Pose(x - center_x, y - center_y, wrap(math.radians(degrees)))

    def _count(self) -> None:
        reward = self._reward
        self.decisions += 1
        self.frames += self.settings.frame_skip
        self.total_reward += reward
        self._decisions_since_event += 1
        if not self._least_living <= reward <= self._most_living:
            self._last_event, self._decisions_since_event = reward, 0

    def _write_pictures(self, row: ObservationRow) -> None:
        screen, depth = self.engine.frame()
        if self._keep_screen:
            self.screen = screen.copy()
        cv2.resize(screen, _SIZE, row.rgb, 0, 0, self._filter)
        cv2.resize(depth, _SIZE, self._levels, 0, 0, cv2.INTER_NEAREST_EXACT)
        cv2.LUT(self._levels, self._depth_table, row.depth)

    def _write_place(self, motion: EgoMotion, row: ObservationRow) -> None:
        row.pose[:] = self.odometry.pose
        row.ego_motion[:] = motion
