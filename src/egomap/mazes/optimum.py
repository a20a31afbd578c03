"""What the planner does in each layout: the measure for everybody's path efficiency, played once and kept.

What comes in: worlds. What goes out: for each layout the planner's decisions and return, or None where it found no
way or where the files come without a layout. They are kept in the cache folder, one file for each list of layouts,
under a name that depends on the planner's own source: another planner plays anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from egomap.agents import planner as planner_agent
from egomap.agents.scripted import scripted_agent
from egomap.config import FRAME_SKIP
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds
from egomap.evaluation.runner import ScriptedPlayer, play
from egomap.evaluation.scores import Optimum
from egomap.scenarios import planner as shortest_ways
from egomap.scenarios.dataset import cache_folder
from egomap.util.digest import canonical, sha256
from egomap.util.files import write_whole
from egomap.util.reading import read_json
from egomap.ways import body as player_body

ATTEMPTS = 3
"""Episodes, with other headings at the start, until a layout counts as one that the planner cannot solve."""
ENGINES = 16

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Opens a progress bar with a title; what it gives is called with (done, in all)."""


def optima(worlds: Worlds, bar: Bar, *, frame_skip: int = FRAME_SKIP) -> dict[str, Optimum | None]:
    """The planner's optimum of every world, by its id; played where it is not known yet.

    Args:
        worlds: With or without layouts.
        bar: Opened if something has to be played.
        frame_skip: Tics of one decision.
    """
    if all(world.layout is None for world in worlds):
        return {world.id: None for world in worlds}
    ids = [world.id for world in worlds]
    folder = cache_folder() / "planner" / f"{_planner_digest()}-skip{frame_skip}"
    path = folder / f"{sha256(canonical(ids))[:24]}.json"
    try:
        return _from_json(read_json(path), ids)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):  # not there, or damaged
        pass
    found: dict[str, Optimum | None] = dict.fromkeys(ids)
    with bar("optimum ") as progress:
        for attempt in range(ATTEMPTS):
            if None in found.values():
                # All of them again, for the heading at the start depends on the place in the list.
                played = _play(worlds, attempt, frame_skip, progress)
                found = {name: found[name] or played[name] for name in ids}
    folder.mkdir(parents=True, exist_ok=True)
    data = {name: None if best is None else best._asdict() for name, best in found.items()}
    write_whole(path, json.dumps(data, indent=1) + "\n")
    return found


def _play(
    worlds: Worlds, seed: int, frame_skip: int, progress: Callable[[int, int], None]
) -> dict[str, Optimum | None]:
    env = DoomVectorEnv(
        min(ENGINES, len(worlds)), worlds=worlds, frame_skip=frame_skip, episodes_per_layout=1, copy=False
    )
    try:
        player = ScriptedPlayer(scripted_agent("planner", frame_skip=frame_skip), env)
        episodes = play(env, player, seed=seed, progress=progress)
    finally:
        env.close()
    return {e.layout_id: Optimum(float(e.decisions), e.total_reward) if e.success else None for e in episodes}


def _from_json(data: dict[str, Any], ids: list[str]) -> dict[str, Optimum | None]:
    return {
        name: None
        if (best := data[name]) is None
        else Optimum(*(float(best[key]) for key in Optimum._fields))
        for name in ids
    }


def _planner_digest() -> str:
    sources = [
        Path(str(module.__file__)).read_bytes() for module in (planner_agent, player_body, shortest_ways)
    ]
    return sha256(b"".join(sources))[:12]
