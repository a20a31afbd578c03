"""Our mazes drawn by MiniWorld: the same layouts, rules and motions as in Doom, other pictures.

What comes in: the settings of a run. What goes out: its worlds, what an agent must know of them, environments in
worker processes. Nothing is drawn here, and MiniWorld is not imported: workers do that (`egomap.simulators.drawing`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from egomap.config import EnvSettings, TrainConfig, require
from egomap.envs.rendering import render_mode
from egomap.envs.source import DoomSource
from egomap.envs.worlds import World, Worlds
from egomap.worlds.api import WorldSpec
from egomap.worlds.episodes import ShuffledEpisodes
from egomap.worlds.seeds import Startable
from egomap.worlds.vector import GymVectorEnv
from egomap.worlds.worker import workers_of

NAME = "egomap.simulators.maze:Maze"


@dataclass(frozen=True)
class Staged(Startable):
    """Worlds with a layout, and how MiniWorld shows them."""

    worlds: Worlds
    settings: EnvSettings

    def __len__(self) -> int:
        return len(self.worlds)

    def __getitem__(self, index: int) -> World:  # type: ignore[override]
        return self.worlds[index]

    def options(self, index: int) -> dict[str, Any]:
        """The entries of `egomap.simulators.maze.Staging`."""
        return {
            "layout": self.worlds[index].layout,
            "camera": render_mode(self.settings.rendering).observation_camera,
            "frame_skip": self.settings.frame_skip,
        }

    def endless(self, seed: int, position: int) -> ShuffledEpisodes:
        """All layouts equally often, in random order."""
        return ShuffledEpisodes(len(self.worlds), seed, position)


class MiniWorldSource:
    """Mazes drawn by MiniWorld."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._doom = DoomSource(config)

    @staticmethod
    def require_installed() -> None:
        """Raise a ValueError if MiniWorld is not there."""
        require(
            find_spec("miniworld") is not None, "MiniWorld is not installed: pip install 'egomap[miniworld]'."
        )

    def examine(self) -> WorldSpec:
        """Look at all stages of a curriculum and at the held-out split, and whether MiniWorld is there."""
        self.require_installed()
        return self.recall(self._doom.examine().extent, None)

    def recall(self, extent: float, told: object) -> WorldSpec:
        """As Doom shows them: its camera, actions and arenas, and depth as far as Doom knows that of walls."""
        reach = render_mode(self._config.env.rendering).unknown_depth
        return replace(self._doom.recall(extent, told), name=NAME, depth_range=reach)

    def worlds(self, split: str, *, size: int | None = None) -> Worlds:
        """The worlds of a run: the same sets of layouts as in Doom."""
        return self._doom.worlds(split, size=size)

    def open(
        self,
        spec: WorldSpec,
        worlds: Worlds,
        num_envs: int,
        *,
        episodes_per_layout: int | None = None,
        noise: float | None = None,
    ) -> GymVectorEnv:
        """Workers that play `worlds`."""
        settings = self._config.env
        unknown = next((world for world in worlds if world.layout is None), None)
        require(
            unknown is None,
            f"MiniWorld draws layouts, and {unknown and unknown.id} comes without one; leave out --world.",
        )
        return GymVectorEnv(
            spec,
            num_envs,
            worlds=Staged(worlds, settings),
            episodes_per_layout=episodes_per_layout,
            noise=settings.ego_motion_noise if noise is None else noise,
            workers=workers_of(settings),
        )
