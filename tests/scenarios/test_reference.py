from __future__ import annotations

import json
from pathlib import Path

import pytest

from egomap.scenarios.layout import Cell, Wall
from egomap.scenarios.reference import read_reference

# A 3 x 3 arena of 100-unit cells whose south-west corner is at (-200, 0).
SQUARE = {"exterior": [[-200.0, 0.0], [-200.0, 300.0], [100.0, 300.0], [100.0, 0.0]]}
WALLS = {"walls": [[-100.0, 100.0, -100.0, 200.0], [0.0, 100.0, 100.0, 100.0]]}


def write(folder: Path, data: object) -> Path:
    path = folder / "side.json"
    path.write_text(json.dumps(data))
    return path


def test_start_and_end(tmp_path: Path) -> None:
    path = write(tmp_path, SQUARE | WALLS | {"start": [-150.0, 50.0], "end": [50.0, 250.0]})
    layout, x, y = read_reference(path, "labyrinth")
    assert (x, y) == (-50.0, 150.0)
    assert (layout.size, layout.cell, layout.start, layout.goals) == (3, 100, Cell(0, 0), (Cell(2, 2),))
    assert layout.walls == (Wall(Cell(0, 1), Cell(1, 1)), Wall(Cell(2, 0), Cell(2, 1)))
    cx, cy = layout.center(layout.goals[0])
    assert (cx + x, cy + y) == (50.0, 250.0)
    assert read_reference(path, "find-return").layout.goals == (Cell(2, 2), Cell(0, 0))


def test_items(tmp_path: Path) -> None:
    items = [[-150.0, 250.0, "g"], [50.0, 50.0, "r"]]
    path = write(tmp_path, SQUARE | WALLS | {"spawn": [-50.0, 150.0], "items": items})
    layout = read_reference(path, "ordered-items").layout
    assert (layout.start, layout.goals) == (Cell(1, 1), (Cell(0, 2), Cell(2, 0)))


@pytest.mark.parametrize("data", [{}, [], 3, SQUARE | WALLS, SQUARE | {"walls": [[0, 0, 0, 0]]}])
def test_other_json_is_refused(tmp_path: Path, data: object) -> None:
    with pytest.raises(ValueError, match=r"side\.json does not describe a labyrinth map"):
        read_reference(write(tmp_path, data), "labyrinth")


def test_what_is_not_json_is_refused(tmp_path: Path) -> None:
    for text in ("", "[" * 100_000, "walls"):
        (tmp_path / "side.json").write_text(text)
        with pytest.raises(ValueError, match=r"side\.json does not describe a labyrinth map"):
            read_reference(tmp_path / "side.json", "labyrinth")
