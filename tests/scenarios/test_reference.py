from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from egomap.config import Task
from egomap.scenarios.check import read_cfg, require_map
from egomap.scenarios.layout import Cell, Wall
from egomap.scenarios.planner import plan, solvable
from egomap.scenarios.reference import read_reference
from egomap.scenarios.tasks import FAMILIES, player_start

from .player import IDLE, begin, opened, pose, tour, walk

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


AUTHORS = Path(os.environ.get("EGOMAP_REFERENCE_SCENARIOS", "nowhere"))
SETS: dict[str, Task] = {
    "labyrinth-9": "labyrinth",
    "find_return-5": "find-return",
    "find_return-9": "find-return",
    "kitem-4": "ordered-items",
    "kitem-6": "ordered-items",
}


@pytest.mark.skipif(not AUTHORS.is_dir(), reason="the authors' files are not here")
class TestAuthorsFiles:
    @pytest.mark.parametrize("name", list(SETS))
    def test_they_pass_our_checks_and_can_be_solved(self, name: str) -> None:
        files = sorted((AUTHORS / name).glob("*.cfg"))
        assert files
        for path in files:
            cfg = read_cfg(path)
            info = require_map(cfg.wad, cfg.map)
            layout, x, y = read_reference(path.with_suffix(".json"), SETS[name])
            assert info.format == "udmf" and info.center == (x, y)
            assert info.bounds[2] - info.bounds[0] == layout.size * layout.cell
            assert solvable(layout)
            assert len(plan(layout)) == len(layout.goals)

    @pytest.mark.parametrize("name", ["labyrinth-9", "find_return-5", "kitem-4"])
    def test_they_pay_what_ours_pay(self, name: str, tmp_path: Path) -> None:
        path = sorted((AUTHORS / name).glob("*.cfg"))[1]
        layout, offset_x, offset_y = read_reference(path.with_suffix(".json"), SETS[name])
        with opened(path, tmp_path) as game:
            begin(game, "MAP01")
            x, y, _ = pose(game)
            assert (x - offset_x, y - offset_y) == player_start(layout)
            paid = []
            for leg in tour(layout, range(len(layout.goals))):
                paid += walk(game, [(x + offset_x, y + offset_y) for x, y in leg])
            assert tuple(paid) == FAMILIES[layout.task].rewards(len(layout.goals))
            game.make_action(IDLE, 1)
            assert game.is_episode_finished()
