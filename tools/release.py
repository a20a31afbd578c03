"""Put a run's agent among those that come with the package: python tools/release.py RUN NAME [first|last|best]

NAME is what people will call it, such as find-return-9/egomap+. Evaluate the run before, with lesions: the card tells
what its folder holds. An agent of that name is replaced. Without arguments the index is made again.
"""

from __future__ import annotations

import sys

from egomap.config import require
from egomap.sharing.export import export
from egomap.sharing.index import write_index
from egomap.training.names import RELEASED, released

MOST = 12_000_000
"""Bytes of all of them: the package must stay small."""


def main(arguments: list[str]) -> None:
    """Export, and write the index."""
    if arguments:
        run, name, *which = arguments
        require(
            name.count("/") == 1, f"the name must be TASK/AGENT, such as find-return-9/egomap+; got {name}."
        )
        export(run, RELEASED / name, which=(which or ["last"])[0], name=name, overwrite=True)
    write_index(RELEASED)
    size = sum(entry["bytes"] for entry in released())
    require(size <= MOST, f"the released agents have {size:,} bytes; at most {MOST:,} fit into the package.")
    for entry in released():
        print(f"{entry['name']}: {entry['agent']}, {entry['mean_return']}, {entry['bytes']:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
