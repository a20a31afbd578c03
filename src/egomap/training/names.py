"""Where a trained agent lies, from what a person calls it: a folder, a released agent's name, or a hub's.

What comes in: a path or a name. What goes out: a `Source`, a folder that is there; or a ValueError of one sentence.
No torch, so that commands can tell a wrong name at once. Only a hub's name, `hub:OWNER/NAME`, asks the network:
a path that was mistyped never does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from egomap.config import require
from egomap.util.reading import read_json, require_like

RELEASED = Path(__file__).resolve().parents[1] / "released"
"""The folder of the agents that come with this package."""
INDEX = "index.json"
INDEX_FORMAT = "egomap released agents 1"
HUB = "hub:"
CONFIG = "config.json"
"""What every run folder has."""
WEIGHTS = "model.safetensors"
"""What an exported folder has and a run folder has not."""
_ENTRY = {
    "name": str,
    "agent": str,
    "task": str,
    "decisions": int,
    "mean_return": (float, None),
    "interval_95": ([float, float], None),
    "bytes": int,
}


class Source(NamedTuple):
    """Where an agent lies."""

    name: str
    """As the person said it."""
    folder: Path
    is_run: bool
    """A run folder, which results may be written to; otherwise an exported agent, which stays as it is."""

    @property
    def results(self) -> Path:
        """Where files about this agent go: a run's folder, or the folder in which the command was given."""
        return self.folder if self.is_run else Path()

    @property
    def stem(self) -> str:
        """A file's name that tells whose it is."""
        return self.name.removeprefix(HUB).strip("/").replace("@", "/").replace("/", "-")


def find_source(name: str | os.PathLike[str]) -> Source:
    """The folder that is meant by `name`.

    Args:
        name: A run folder, an exported agent, the name of a released one, or `hub:OWNER/NAME` (`@REVISION` may
            follow), which is downloaded.

    Raises:
        ValueError: There is no such agent.
    """
    told, path = os.fspath(name), Path(name)
    if (path / WEIGHTS).is_file():
        return Source(told, path, False)
    if path.exists():
        require_run_folder(path)
        return Source(told, path, True)
    if told in released_names():
        return Source(told, RELEASED / told, False)
    if told.startswith(HUB):
        return Source(told, download(told), False)
    raise ValueError(
        f"{told} holds no run, for there is no such folder; nor is it a released agent (`egomap agents` lists them). "
        f"An agent on a hub is {HUB}OWNER/NAME."
    )


def require_run_folder(folder: Path) -> None:
    """Raise a ValueError unless `folder` is a run's."""
    require((folder / CONFIG).exists(), f"{folder} holds no run: it has no config.json.")


def released() -> list[dict[str, Any]]:
    """What comes with this package: for each agent its name, kind, task, decisions, score and size."""
    data = read_json(RELEASED / INDEX)
    try:
        require_like(data, {"format": frozenset({INDEX_FORMAT})}, "it")
        agents: list[dict[str, Any]] = data["agents"]
        for entry in agents:
            require_like(entry, _ENTRY, "an entry")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{RELEASED / INDEX} is damaged: {error}; install egomap again.") from error
    return agents


def released_names() -> list[str]:
    """The names of the agents that come with this package."""
    return [entry["name"] for entry in released()]


def download(name: str) -> Path:
    """The folder of an agent on a hub, downloaded or from the hub library's cache.

    Args:
        name: `hub:OWNER/NAME` or `hub:OWNER/NAME@REVISION`.
    """
    repository, _, revision = name.removeprefix(HUB).partition("@")
    owner, _, own = repository.partition("/")
    require(bool(owner and own) and "/" not in own, f"{name} must be {HUB}OWNER/NAME.")
    hub = import_hub()
    try:
        found = hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=["*.safetensors", "*.json", "*.md"]
        )
    except Exception as error:  # its transport has errors of its own, and has changed before
        raise ValueError(f"{name} cannot be downloaded: {reason(error)}.") from error
    folder = Path(found)
    require((folder / WEIGHTS).is_file(), f"{name} is no agent of egomap: it has no {WEIGHTS}.")
    return folder


def reason(error: Exception) -> str:
    """The first line of what a hub's library says; it goes on for many."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(". ")


def import_hub() -> Any:
    """The package huggingface_hub (extra `hub`)."""
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError("a hub needs huggingface_hub: pip install 'egomap[hub]'.") from None
    return huggingface_hub
