"""notebooks/egomap.ipynb: every cell runs in a real kernel, and what is kept of an execution is whole and small."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

from .blocks import DOCS

TOOL = runpy.run_path(str(DOCS.parent / "tools" / "run_notebook.py"))
PATH: Path = TOOL["NOTEBOOK"]


def read() -> Any:
    return nbformat.read(PATH, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tagged(notebook: Any, tag: str) -> Any:
    (found,) = [cell for cell in notebook.cells if tag in cell.metadata.get("tags", ())]
    return found


@pytest.mark.slow(seconds=90)
@pytest.mark.timeout(900)
def test_every_cell_runs(tmp_path: Path) -> None:
    settings = {"DECISIONS": "4096", "EPISODES": "2", "FOLDER": f"Path({str(tmp_path)!r})"}
    done = TOOL["execute"](TOOL["with_settings"](read(), settings))
    assert [cell.execution_count for cell in code_cells(done)] == list(range(1, len(code_cells(done)) + 1))
    # Progress is one display that is drawn over, not a line for each update, and never a warning's colour.
    (panel,) = tagged(done, "training").outputs
    assert panel.output_type == "display_data"
    assert "4,096 decisions = 16,384 frames" in panel.data["text/html"]
    assert "Interrupting the kernel stops and saves" in panel.data["text/plain"]
    streams = {output.name for cell in code_cells(done) for output in cell.outputs if "name" in output}
    assert streams == {"stdout"}
    assert (tmp_path / "episode.html").stat().st_size > 100_000


def test_the_outputs_are_kept_and_small() -> None:
    text, notebook = PATH.read_text(), read()
    assert len(text) < TOOL["LARGEST"]
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output.output_type for cell in cells for output in cell.outputs]
    assert "error" not in kinds
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs) >= 5
    assert str(Path.home()) not in text and str(PATH.parents[1]) not in text
    assert nbformat.validate(notebook) is None


def test_a_setting_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no setting DECISION"):
        TOOL["with_settings"](read(), {"DECISION": "1"})
