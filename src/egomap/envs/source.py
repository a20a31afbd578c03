"""Doom as a source of worlds: what a run's settings say of our mazes and of anybody's ViZDoom files.

What comes in: the settings of a run. What goes out: its worlds, what an agent must know of them, environments.
"""

from __future__ import annotations

from dataclasses import replace

from egomap.config import TrainConfig, require
from egomap.envs.doom import doom_spec
from egomap.envs.guard import MAX_ENGINES
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds, find_worlds, worlds_at, worlds_of_set
from egomap.scenarios.dataset import default_set
from egomap.worlds.api import WorldSpec


class DoomSource:
    """Mazes on real Doom engines."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config

    def examine(self) -> WorldSpec:
        """Look at all stages of a curriculum, and at the held-out split, which would be missed hours later."""
        config = self._config
        envs = config.learner.num_envs
        require(envs <= MAX_ENGINES, f"num-envs must be at most {MAX_ENGINES}; got {envs}.")
        self.worlds("test")
        return doom_spec(config.env, max(worlds.extent for worlds in self.stages()))

    def recall(self, extent: float, told: object) -> WorldSpec:
        """The same, from the settings and the side of the arena."""
        return doom_spec(self._config.env, extent)

    def stages(self) -> list[Worlds]:
        """The training worlds of each stage of the curriculum; of the only one without."""
        return [self.worlds("train", size=size) for size in self._config.curriculum or (None,)]

    def worlds(self, split: str, *, size: int | None = None) -> Worlds:
        """The worlds of a run: of its curriculum's last stage, or of the stage with mazes of `size`."""
        config = self._config
        if config.files:
            return worlds_at(config.files, split=split)
        if config.scenarios is not None:
            return find_worlds(scenarios=config.scenarios, split=split)
        if size is None and config.curriculum:
            size = config.curriculum[-1]
        scenario = config.scenario if size is None else replace(config.scenario, size=size)
        return worlds_of_set(default_set(scenario), split)

    def open(
        self,
        spec: WorldSpec,
        worlds: Worlds,
        num_envs: int,
        *,
        episodes_per_layout: int | None = None,
        noise: float | None = None,
    ) -> DoomVectorEnv:
        """Engines that play `worlds`."""
        settings = self._config.env
        return DoomVectorEnv(
            num_envs,
            worlds=worlds,
            rendering=settings.rendering,
            frame_skip=settings.frame_skip,
            ego_motion_noise=settings.ego_motion_noise if noise is None else noise,
            watchdog=settings.watchdog,
            episodes_per_layout=episodes_per_layout,
            copy=False,
        )
