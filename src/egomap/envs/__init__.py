"""Gymnasium environments over real Doom engines; importing this registers the ids `EgoMap/...-v0`. No torch."""

from egomap.envs.doom import DoomEnv, observation_space
from egomap.envs.registration import IDS, register_all
from egomap.envs.rendering import RENDER_MODES, RenderMode
from egomap.envs.vector import DoomVectorEnv, Target, observation_arrays
from egomap.envs.worlds import World, Worlds, find_worlds
from egomap.worlds.episodes import EachLayout, Episode, ShuffledEpisodes

__all__ = [
    "IDS",
    "RENDER_MODES",
    "DoomEnv",
    "DoomVectorEnv",
    "EachLayout",
    "Episode",
    "RenderMode",
    "ShuffledEpisodes",
    "Target",
    "World",
    "Worlds",
    "find_worlds",
    "observation_arrays",
    "observation_space",
]

register_all()
