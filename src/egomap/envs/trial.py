"""Somebody else's maps, first tried in a process of their own.

What comes in: scenario files that look right (`egomap.scenarios.check`). What goes out: nothing, or a ValueError that
names the map. When the engine refuses a map with which it is started, ViZDoom takes the whole Python process with it;
here that is a process that nobody needs. What has been tried is remembered in the cache, by content.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from egomap.scenarios.dataset import cache_folder

SECONDS = 120.0

_CHILD = """
import sys
from pathlib import Path
from egomap.envs.engine import Engine
from egomap.envs.rendering import RENDER_MODES
cfg, wad, *maps = sys.argv[1:]
print(maps[0], flush=True)
engine = Engine(Path(cfg), Path(wad), RENDER_MODES["160x120-wide"], first_map=maps[0])
for name in maps:
    print(name, flush=True)
    engine.load(name, 0)
    engine.act(0)
engine.close()
"""


def require_playable(cfg: Path, wad: Path, maps: Sequence[str]) -> None:
    """Load each of `maps` of `wad` in an engine once.

    Raises:
        ValueError: The engine cannot start at all, or does not survive one of the maps.
    """
    marker = cache_folder() / "tried" / _key(cfg, wad, maps)
    if marker.exists():
        return
    command = [sys.executable, "-c", _CHILD, str(cfg.resolve()), str(wad.resolve()), *maps]
    try:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        reached = (error.stdout or b"").decode(errors="replace").split()
        raise ValueError(f"{wad}: the Doom engine gets stuck with map {_last(reached, maps)}.") from None
    if child.returncode != 0:
        said = child.stderr.strip().rpartition("\n")[2]
        if "EngineCannotStart" in said:
            raise ValueError(f"{wad}: {said.partition(': ')[2]}")
        raise ValueError(f"{wad}: the Doom engine does not survive map {_last(child.stdout.split(), maps)}.")
    with contextlib.suppress(OSError):  # where nothing can be remembered it is tried every time
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def _last(reached: list[str], maps: Sequence[str]) -> str:
    return reached[-1] if reached else maps[0]


def _key(cfg: Path, wad: Path, maps: Sequence[str]) -> str:
    parts = (
        metadata.version("vizdoom").encode(),
        cfg.read_bytes(),
        wad.read_bytes(),
        " ".join(maps).encode(),
    )
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
