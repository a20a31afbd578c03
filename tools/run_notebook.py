"""Execute the notebook and keep its outputs: after a change to it, or to what it shows.

Usage: python tools/run_notebook.py [NAME=VALUE ...]

Each NAME=VALUE replaces a setting of the notebook's cell of settings for this execution, e.g. DECISIONS=8192.
The outputs must be small: a notebook above a megabyte is refused.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PROJECT = Path(__file__).resolve().parent.parent
NOTEBOOK = PROJECT / "notebooks" / "egomap.ipynb"
LARGEST = 1_000_000
"""Bytes of the notebook with its outputs."""
TRANSIENT = re.compile(re.escape(tempfile.gettempdir()) + r"/egomap-(\w+)")


def with_settings(notebook: Any, settings: dict[str, str]) -> Any:
    """The notebook with other values in its cell of settings."""
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    for name, value in settings.items():
        cell.source, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", cell.source, flags=re.MULTILINE)
        if found != 1:
            raise ValueError(f"the notebook has no setting {name}.")
    return notebook


def execute(notebook: Any, *, seconds: int = 1800) -> Any:
    """Execute every cell in a kernel of this interpreter; an error in a cell is raised."""
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    )
    return client.execute()


def without_name(text: str) -> str:
    """The text with the temporary folder's random name crossed out, as long as it was: boxes are drawn around it."""
    return TRANSIENT.sub(lambda found: f"/tmp/egomap-{'x' * len(found[1])}", text)


def tidy(notebook: Any) -> Any:
    """Without times, the folder of this execution and the version of this interpreter: these change every time."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if "text" in output:
                output.text = without_name(output.text)
            for kind, text in output.get("data", {}).items():
                if isinstance(text, str) and kind.startswith("text/"):
                    output.data[kind] = without_name(text)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> int:
    try:
        settings = dict(word.split("=", 1) for word in sys.argv[1:])
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        sources = [cell.source for cell in notebook.cells]
        tidy(execute(with_settings(notebook, settings)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for cell, source in zip(notebook.cells, sources, strict=True):
        cell.source = source
    text = nbformat.writes(notebook) + "\n"
    if len(text) > LARGEST:
        print(f"the notebook would have {len(text):,} bytes; at most {LARGEST:,} are kept.", file=sys.stderr)
        return 1
    NOTEBOOK.write_text(text)
    print(f"{NOTEBOOK.relative_to(PROJECT)}: {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
