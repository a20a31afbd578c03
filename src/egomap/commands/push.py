"""`egomap push`: an agent to a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro


def push(
    run: tyro.conf.Positional[Path],
    repository: tyro.conf.Positional[str],
    *,
    checkpoint: Literal["first", "last", "best"] = "last",
    licence: str = "MIT",
    private: bool = False,
) -> int:
    """Export an agent and upload it to the Hugging Face hub (extra `hub`); log in by `hf auth login` before.

    Example: egomap push runs/a my-name/my-agent

    Args:
        run: Run folder, exported agent, or name of a released one.
        repository: OWNER/NAME; made if it is not there.
        checkpoint: Which of a run's agents: the first that is still there, the last, or the best on held-out mazes.
        licence: Of a run's weights, as SPDX names it.
        private: Make a new repository for its owner alone.
    """
    from egomap.sharing.push import push as run_push

    name = run_push(run, repository, which=checkpoint, licence=licence, private=private)
    print(f"Load it: egomap inspect {name}, or in Python egomap.load_agent({name!r}).")
    return 0
