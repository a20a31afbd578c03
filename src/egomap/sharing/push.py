"""`egomap push`: an exported agent, to a hub.

Input: a run or an exported agent, and a repository's id. Output: the files of the export in that
repository, in one commit. The token is the hub library's matter: nothing here reads or stores one.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from egomap.config import require
from egomap.sharing.export import export
from egomap.training.exported import FILES, read_exported
from egomap.training.names import HUB, find_source, import_hub, reason

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def push(
    run: str | os.PathLike[str],
    repository: str,
    *,
    which: str = "last",
    licence: str = "MIT",
    private: bool = False,
) -> str:
    """Export an agent and upload the folder.

    Args:
        run: A run folder, an exported agent, or the name of a released one.
        repository: `OWNER/NAME`; made if it is not there.
        which: Of a run: its first, last or best checkpoint.
        licence: Of the weights, of a run.
        private: Whether a new repository is for its owner alone.

    Returns:
        The name by which it can be loaded.

    Raises:
        ValueError: There is no such agent, or the hub does not take it.
    """
    repository = repository.removeprefix(HUB)
    require(bool(_ID.fullmatch(repository)), f"the repository must be OWNER/NAME; got {repository!r:.80}.")
    source = find_source(run)
    hub = import_hub()
    with tempfile.TemporaryDirectory(prefix="egomap-push-") as scratch:
        folder = source.folder
        if source.is_run:
            folder = Path(scratch) / repository.rpartition("/")[2]
            export(run, folder, which=which, name=f"{HUB}{repository}", licence=licence)
        read_exported(folder)  # what is damaged is not given away
        try:
            api = hub.HfApi()
            api.create_repo(repository, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                allow_patterns=list(FILES),
                commit_message="Upload an agent of egomap",
            )
        except Exception as error:  # its transport has errors of its own, and has changed before
            raise ValueError(f"{repository} cannot be written to: {reason(error)}.") from error
    return f"{HUB}{repository}"
