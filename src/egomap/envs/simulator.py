"""One player in one engine: episodes in, observations out. Shared by the single and the vector environment.

What comes in: a layout and a seed per episode, an action per decision, and the arrays to write into. What goes
out: the observation, written in place; the reward and how the episode ended. A dead engine is replaced here: its
episode ends truncated and the next one begins on a new engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np

from egomap.config import OBSERVATION_HEIGHT, OBSERVATION_WIDTH, EnvSettings
from egomap.envs.accounts import Accounts
from egomap.envs.engine import Engine, EngineDied
from egomap.envs.rendering import RenderMode, render_mode
from egomap.envs.worlds import World, Worlds
from egomap.scenarios.scripts import RUNNING, SOLVED
from egomap.worlds.api import ObservationRow
from egomap.worlds.episodes import Episode

_SIZE = (OBSERVATION_WIDTH, OBSERVATION_HEIGHT)
_LOAD_ATTEMPTS = 3


def blank_observation() -> tuple[dict[str, np.ndarray], ObservationRow]:
    """Fresh arrays for one observation, by name as the environments give them, and as the row to write into."""
    row = ObservationRow(
        np.empty((OBSERVATION_HEIGHT, OBSERVATION_WIDTH, 3), np.uint8),
        np.empty((OBSERVATION_HEIGHT, OBSERVATION_WIDTH), np.float32),
        np.empty(3, np.float32),
        np.empty(3, np.float32),
        np.zeros((), np.float32),
    )
    return {**row._asdict(), "rgb": row.rgb.transpose(2, 0, 1)}, row


class Outcome(NamedTuple):
    """What one decision led to."""

    reward: float
    terminated: bool
    truncated: bool


class Simulator:
    """An engine with a player in it.

    Args:
        worlds: what can be played.
        settings: how it is shown and stepped.
        accounts: where the running episode is accounted for, and in which row; by default, accounts of its own.
        row: see `accounts`.
        keep_screen: keep the engine's own picture in `screen`.
    """

    def __init__(
        self,
        worlds: Worlds,
        settings: EnvSettings,
        accounts: Accounts | None = None,
        row: int = 0,
        *,
        keep_screen: bool = False,
    ) -> None:
        self.worlds = worlds
        self.settings = settings.validate()
        self.mode: RenderMode = render_mode(settings.rendering)
        self.engine = Engine(
            worlds[0].cfg,
            worlds[0].wad,
            self.mode,
            watchdog=settings.watchdog,
            frame_skip=settings.frame_skip,
        )
        self.accounts = accounts if accounts is not None else Accounts(1, settings.ego_motion_noise)
        self._row = row
        self.screen = np.zeros((self.mode.height, self.mode.width, 3), np.uint8)
        self._keep_screen = keep_screen
        self._levels = np.zeros((OBSERVATION_HEIGHT, OBSERVATION_WIDTH), np.uint8)
        self._depth_table = self.mode.depth_table()
        # Area averaging costs as much as half a decision of the engine; below a factor of two the picture is
        # almost the same without it (1.7 instead of 1.3 of 255 from the paper's 320x180, frames differ by 9).
        area = self.mode.width > 2 * OBSERVATION_WIDTH
        self._filter = cv2.INTER_AREA if area else cv2.INTER_LINEAR
        self.episode = Episode(0, 0)
        self.reward = 0.0
        """What the last decision paid."""
        self.success = False
        self.interrupted = False

    def reset(self, episode: Episode, observation: ObservationRow) -> None:
        """Begin an episode and write its first observation."""
        self.episode = episode
        self.success = self.interrupted = False
        world = self.worlds[episode.layout]
        self._load(world, episode.seed)
        living = self.settings.frame_skip * self.engine.living_reward
        self.accounts.begin(self._row, self.engine.frame().place, world.center, living, episode.seed)
        observation.pose[:] = self.accounts.odometry.pose[self._row]
        observation.ego_motion[:] = 0.0
        observation.reward[...] = 0.0
        self._write_pictures(observation)

    def step(self, action: int, observation: ObservationRow) -> Outcome:
        """One decision. At the end of an episode the engine shows nothing, and nothing is written."""
        if not self.act(action, observation):
            return self.conclude()
        rows = [self._row]
        self.accounts.count(rows, np.array([self.reward]))
        observation.ego_motion[:] = self.accounts.move(rows, self.engine.frame().place[None])[0]
        observation.pose[:] = self.accounts.odometry.pose[self._row]
        observation.reward[...] = self.reward
        return Outcome(self.reward, terminated=False, truncated=False)

    def act(self, action: int, observation: ObservationRow) -> bool:
        """First half of a decision: hold the action, write the pictures; True if the episode continues.

        The second half is to account for it and to write where the player is: for one environment `step` does it, for
        many it is done in one go. Threads run this half, which hardly needs Python's lock.
        """
        try:
            self.reward = self.engine.act(action)
        except EngineDied:
            self.interrupted = True
            self.reward = 0.0
            self.engine.restart()
            return False
        if self.engine.finished:
            return False
        self._write_pictures(observation)
        return True

    def conclude(self) -> Outcome:
        """The second half of an episode's last decision."""
        self.accounts.count([self._row], np.array([self.reward]))
        if self.interrupted:
            return Outcome(self.reward, terminated=False, truncated=True)
        terminated, self.success = self._ending()
        return Outcome(self.reward, terminated=terminated, truncated=not terminated)

    def info(self) -> dict[str, Any]:
        """The account of the running episode, under the names that are documented in docs/environments.md."""
        decisions = int(self.accounts.decisions[self._row])
        return {
            "decisions": decisions,
            "frames": decisions * self.settings.frame_skip,
            "return": float(self.accounts.total_reward[self._row]),
            "success": self.success,
            "layout": self.episode.layout,
            "layout_id": self.worlds[self.episode.layout].id,
            "repeat": self.episode.repeat,
            "interrupted": self.interrupted,
            "engine_restarts": self.engine.restarts,
            "true_pose": self.accounts.odometry.true_pose[self._row].astype(np.float32),
        }

    def close(self) -> None:
        """End the engine."""
        self.engine.close()

    def _load(self, world: World, seed: int) -> None:
        if self.engine.files != (world.cfg, world.wad):
            self.engine.switch(world.cfg, world.wad)
        reason = "it is over at once"
        for _ in range(_LOAD_ATTEMPTS):
            try:
                self.engine.load(world.map_name, seed)
                if not self.engine.finished:
                    return
            except EngineDied as error:
                reason = " ".join(str(error).split()).rstrip(".")
            self.engine.restart()
        raise ValueError(f"The Doom engine cannot play {world.map_name} of {world.wad}: {reason}.")

    def _ending(self) -> tuple[bool, bool]:
        """Whether the episode came to an end of its own (no time-out), and whether it was solved."""
        if self.worlds[self.episode.layout].layout is not None:  # the scripts of our maps say so
            status = self.engine.status
            return status != RUNNING, status == SOLVED
        # A foreign map may give rewards at any time: a reward at the time-out proves nothing.
        terminated = not self.engine.timed_out
        paid = bool(self.accounts.last_event[self._row] > 0.0)
        return terminated, terminated and paid and not self.engine.player_dead

    def _write_pictures(self, observation: ObservationRow) -> None:
        screen, depth, _ = self.engine.frame()
        if self._keep_screen:
            self.screen = screen.copy()
        cv2.resize(screen, _SIZE, observation.rgb, 0, 0, self._filter)
        cv2.resize(depth, _SIZE, self._levels, 0, 0, cv2.INTER_NEAREST_EXACT)
        cv2.LUT(self._levels, self._depth_table, observation.depth)
