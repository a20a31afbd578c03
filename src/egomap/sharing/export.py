"""`egomap export`: a run's agent as a folder that can be given away.

Input: a run folder, and where to put it. Output: an exported agent (`egomap.training.exported`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from egomap.config import require
from egomap.sharing.card import Table, card_of
from egomap.sharing.markdown import markdown
from egomap.training.exported import require_free, settings_of, write_exported
from egomap.training.names import find_source
from egomap.training.trained import find_agent

_LICENCE = re.compile(r"[A-Za-z0-9.+-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/@:-]{0,99}")


def export(
    run: str | os.PathLike[str],
    out: Path,
    *,
    which: str = "last",
    name: str | None = None,
    licence: str = "MIT",
    overwrite: bool = False,
) -> Table:
    """Write the agent of a run to a folder of its own.

    Args:
        run: The run folder.
        out: The folder to write to.
        which: Its first, last or best checkpoint.
        name: What the card calls it (default: the folder's name).
        licence: An identifier of SPDX, such as MIT or CC-BY-4.0.
        overwrite: Replace an exported agent.

    Returns:
        The card.

    Raises:
        ValueError: There is no such run, it is damaged, or the folder is not free.
    """
    name = name if name is not None else out.resolve().name
    require(bool(_NAME.fullmatch(name)), f"name must be letters, digits and . _ + - / @ :; got {name!r:.80}.")
    require(bool(_LICENCE.fullmatch(licence)), f"licence must be a name such as MIT; got {licence!r:.80}.")
    require_free(out, overwrite=overwrite)
    source = find_source(run)
    require(source.is_run, f"{source.name} is an exported agent already; copy its folder.")
    found = find_agent(run, which=which)
    card = card_of(found, name, licence=licence)
    weights = {key: value for key, value in found.weights.tensors.items() if key.startswith("agent.")}
    settings = settings_of(found.config, found.extent, found.spec)
    write_exported(out, weights, settings, card, markdown(card), overwrite=overwrite)
    return card
