"""Any Gymnasium environment as a source of worlds.

What comes in: the settings of a run (`EnvSettings.id` and what goes with it). What goes out: what an agent must know
of it, fresh seeds to play, vector environments.
"""

from __future__ import annotations

from typing import Any

from egomap.config import TrainConfig, require
from egomap.worlds.api import WorldSpec
from egomap.worlds.gym import examine
from egomap.worlds.seeds import SeededWorlds
from egomap.worlds.vector import GymVectorEnv
from egomap.worlds.worker import examine_apart, workers_of


class GymSource:
    """Somebody's environment, by name."""

    def __init__(self, config: TrainConfig) -> None:
        self._settings = config.env

    def examine(self) -> WorldSpec:
        """Make the environment, read what it tells, and look at it in some random decisions."""
        return examine_apart(self._settings) if workers_of(self._settings) else examine(self._settings)

    def recall(self, extent: float, told: Any) -> WorldSpec:
        """The spec that the run's folder has."""
        require(told is not None, f"it does not describe the world of {self._settings.id}")
        spec = WorldSpec.from_json(told)
        require(
            (spec.name, spec.extent) == (self._settings.id, extent),
            "it describes the world of another environment",
        )
        return spec

    def worlds(self, split: str, *, size: int | None = None) -> SeededWorlds:
        """Fresh seeds; as many as are held out, in every split."""
        return SeededWorlds(self._settings.id, self._settings.held_out)

    def open(
        self,
        spec: WorldSpec,
        worlds: SeededWorlds,
        num_envs: int,
        *,
        episodes_per_layout: int | None = None,
        noise: float | None = None,
    ) -> GymVectorEnv:
        """Workers that play it."""
        return GymVectorEnv(
            spec,
            num_envs,
            worlds=worlds,
            episodes_per_layout=episodes_per_layout,
            noise=self._settings.ego_motion_noise if noise is None else noise,
            workers=workers_of(self._settings),
        )
