"""Files to write: nothing is written over without a yes, and all is checked before anything is played."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from egomap.config import require


def check_outputs(paths: Iterable[Path | None], *, overwrite: bool) -> None:
    """Raise a ValueError unless each of the files can be written; ask about one that exists, where a person is."""
    given = [path for path in paths if path is not None]
    require(len(set(given)) == len(given), "two outputs have the same name.")
    for path in given:
        require(not path.is_dir(), f"{path} is a folder; give a file.")
        parent = path.resolve().parent
        require(parent.is_dir(), f"{path} cannot be written: {path.parent} is not a folder.")
        if path.exists() and not overwrite:
            require(_says_yes(path), f"{path} exists already; give another name, or --overwrite.")


def require_ending(path: Path | None, *endings: str) -> None:
    """Raise a ValueError unless the file's name ends so."""
    wanted = " or ".join(endings)
    require(
        path is None or path.suffix.lower() in endings,
        f"{path} must end in {wanted}: the ending selects the kind of file.",
    )


def _says_yes(path: Path) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{path} exists already. Write over it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
