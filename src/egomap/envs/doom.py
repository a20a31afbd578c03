"""One Gymnasium environment over one engine: the four ids of this package are all this class.

What comes in: an action 0..4 (left, right, forward, forward+left, forward+right). What goes out: a dictionary
with rgb, depth, pose and ego_motion; reward; `terminated` (solved or failed) apart from `truncated` (time-out).
No torch. docs/environments.md describes every option and every entry of `info`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from egomap.config import (
    ACTIONS,
    NUM_ACTIONS,
    OBSERVATION_HEIGHT,
    OBSERVATION_WIDTH,
    Camera,
    EnvSettings,
    Task,
    require,
)
from egomap.envs.rendering import render_mode as rendering_of
from egomap.envs.simulator import Simulator, blank_observation
from egomap.envs.worlds import PathLike, World, find_worlds
from egomap.scenarios import dataset
from egomap.worlds.api import WorldSpec
from egomap.worlds.episodes import Episode, episode_seed

TICS_PER_SECOND = 35


def observation_space() -> gymnasium.spaces.Dict:
    """The space of one observation."""
    height, width = OBSERVATION_HEIGHT, OBSERVATION_WIDTH
    box = gymnasium.spaces.Box
    return gymnasium.spaces.Dict(
        {
            "rgb": box(0, 255, (3, height, width), np.uint8),
            "depth": box(0.0, np.inf, (height, width), np.float32),
            "pose": box(-np.inf, np.inf, (3,), np.float32),
            "ego_motion": box(-np.inf, np.inf, (3,), np.float32),
            "reward": box(-np.inf, np.inf, (), np.float32),
        }
    )


def doom_spec(settings: EnvSettings, extent: float) -> WorldSpec:
    """What an agent must know of our worlds: the camera of the rendering, the side of the arena, the actions."""
    return WorldSpec("doom", rendering_of(settings.rendering).observation_camera, extent, ACTIONS)


class DoomEnv(gymnasium.Env[dict[str, np.ndarray], np.int64]):
    """A maze seen through the player's eyes.

    `reset(seed=s, options={"layout": i})` fixes the episode completely. Without `layout` one is drawn.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": round(TICS_PER_SECOND / 4)}  # noqa: RUF012

    def __init__(
        self,
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
        render_mode: str | None = None,
    ) -> None:
        require(
            render_mode in (None, "rgb_array"),
            f"render_mode must be None or 'rgb_array'; got {render_mode!r}.",
        )
        self.settings = EnvSettings(rendering, frame_skip, ego_motion_noise, watchdog).validate()
        self._mode = rendering_of(rendering)
        self.worlds = find_worlds(
            task=task, size=size, items=items, split=split, scenarios=scenarios, config=config
        )
        self.render_mode = render_mode
        self.observation_space: gymnasium.spaces.Dict = observation_space()  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self._simulator: Simulator | None = None
        self._observation: dict[str, np.ndarray] = {}
        self._running = False

    @property
    def camera(self) -> Camera:
        """Intrinsics of the observation's picture."""
        return self._mode.observation_camera

    @property
    def extent(self) -> float:
        """Side in map units of a square around the origin that holds every arena."""
        return self.worlds.extent

    @property
    def world(self) -> World:
        """The world of the running episode, its layout included."""
        return self.worlds[self._running_simulator().episode.layout]

    @property
    def engine_pid(self) -> int | None:
        """The engine's process, once there is one."""
        return self._simulator.engine.pid if self._simulator else None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode; see the class."""
        super().reset(seed=seed)
        layout = (options or {}).get("layout")
        if layout is None:
            layout = self.np_random.integers(len(self.worlds))
        require(
            isinstance(layout, (int, np.integer)) and bool(0 <= layout < len(self.worlds)),
            f"layout must be 0 to {len(self.worlds) - 1}; got {layout!r}.",
        )
        # With a seed the episode depends on (seed, layout) alone; without, on the generator that a seed began.
        entropy = seed if seed is not None else int(self.np_random.integers(2**31))
        if self._simulator is None:
            keep = self.render_mode is not None
            self._simulator = Simulator(self.worlds, self.settings, keep_screen=keep)
        self._observation, row = blank_observation()
        self._simulator.reset(Episode(int(layout), episode_seed(entropy, int(layout))), row)
        self._running = True
        return self._observation, self._simulator.info()

    def step(
        self, action: int | np.integer
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """One decision. The observation at the end of an episode is the last one that was seen."""
        simulator = self._running_simulator()
        require(self._running, "the episode is over (or none was begun): call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 to {NUM_ACTIONS - 1}; got {action!r}.")
        observation, row = blank_observation()
        reward, terminated, truncated = simulator.step(int(action), row)
        if terminated or truncated:
            self._running = False
            observation = {name: value.copy(order="K") for name, value in self._observation.items()}
        self._observation = observation
        return observation, reward, terminated, truncated, simulator.info()

    def render(self) -> np.ndarray | None:
        """The engine's own picture (height, width, 3), before it is resized for the agent."""
        return self._running_simulator().screen.copy() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """End the engine."""
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None

    def _running_simulator(self) -> Simulator:
        if self._simulator is None:
            raise ValueError("no episode was begun: call reset() first.")
        return self._simulator
