"""Our mazes as a Gymnasium environment that MiniWorld draws; found by name, so that workers can make it.

What comes in: an episode's seed and, in the options of `reset`, its layout and how it is shown. What goes out:
observations in map units. The rules are those of `egomap.simulators.game`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from egomap.config import FRAME_SKIP, NUM_ACTIONS, Camera, EnvSettings
from egomap.envs.rendering import render_mode
from egomap.scenarios.layout import Layout
from egomap.simulators.drawing import Drawing
from egomap.simulators.game import Game
from egomap.worlds.ego_motion import wrap


class Staging(NamedTuple):
    """What an episode is played in; `reset(options=staging._asdict())`."""

    layout: Layout
    camera: Camera = render_mode(EnvSettings.rendering).observation_camera
    frame_skip: int = FRAME_SKIP


class Maze(gymnasium.Env[dict[str, np.ndarray], np.int64]):
    """One player in one maze."""

    metadata = {"render_modes": []}  # noqa: RUF012
    action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)

    def __init__(self) -> None:
        self._drawing: Drawing | None = None
        self._camera: Camera | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode in the layout of the options, with a heading drawn by the seed."""
        super().reset(seed=seed)
        staging = Staging(**(options or {}))
        if self._drawing is None or staging.camera != self._camera:
            self.close()
            self._drawing, self._camera = Drawing(staging.camera), staging.camera
        self._drawing.enter(staging.layout)
        heading = wrap(float(self.np_random.uniform(0.0, math.tau)))
        self._game = Game(staging.layout, heading, staging.frame_skip)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """One decision."""
        turn = self._game.play(int(action))
        ended = turn.solved or turn.failed
        return self._observe(), turn.reward, ended, turn.timed_out, {"success": turn.solved}

    def close(self) -> None:
        """Let go of the pictures."""
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            drawing.close()

    def _observe(self) -> dict[str, np.ndarray]:
        body = self._game.body
        assert self._drawing is not None
        rgb, depth = self._drawing.look(body.x, body.y, body.heading, self._game.standing)
        return {"rgb": rgb, "depth": depth, "pose": np.array([body.x, body.y, wrap(body.heading)])}
