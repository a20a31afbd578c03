"""The Gymnasium ids of this package: one row each."""

from __future__ import annotations

from typing import Any

import gymnasium

IDS: dict[str, dict[str, Any]] = {
    "EgoMap/Labyrinth-v0": {"task": "labyrinth"},
    "EgoMap/FindReturn-v0": {"task": "find-return"},
    "EgoMap/OrderedItems-v0": {"task": "ordered-items"},
    "EgoMap/Doom-v0": {},
}


def register_all() -> None:
    """Register every id that is not registered yet."""
    for name, options in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="egomap.envs.doom:DoomEnv",
                vector_entry_point="egomap.envs.vector:DoomVectorEnv",
                kwargs=options,
                order_enforce=False,  # the environment says itself what was called too early
            )
