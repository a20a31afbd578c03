"""Files that agree with themselves and are wrong all the same, and files that do not end: refused, and quickly."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from egomap.scenarios import load
from egomap.scenarios.cfg import read_cfg
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.scenarios.planner import plan, solvable
from egomap.scenarios.reference import read_reference
from egomap.scenarios.udmf_reader import LARGEST, parse_textmap
from egomap.scenarios.wad import Lump, parse_wad, read_wad, write_wad
from egomap.util.digest import canonical, sha256


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of a set, and make it agree with itself again: its files, its hashes, its digest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["digest"]
    change(manifest)
    for entry in (*manifest["layouts"]["train"], *manifest["layouts"]["test"]):
        entry["hash"] = sha256(canonical(entry["layout"]))
    for name in manifest["files"]:
        manifest["files"][name] = sha256((folder / name).read_bytes())
    manifest["digest"] = sha256(canonical(manifest))
    path.write_text(json.dumps(manifest))


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError) as caught:
        load(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    return str(caught.value)


def test_what_is_not_forged_is_loaded(set_copy: Path) -> None:
    before = load(set_copy)
    forge(set_copy, lambda manifest: None)
    assert load(set_copy) == before


def test_an_empty_wad_with_the_right_digest(set_copy: Path) -> None:
    (set_copy / "test.wad").write_bytes(write_wad([]))
    forge(set_copy, lambda manifest: None)
    assert refusal(set_copy).endswith("test.wad is not the file that the layouts of its set give.")


def test_fewer_maps_than_layouts(set_copy: Path) -> None:
    lumps = read_wad(set_copy / "train.wad")
    (set_copy / "train.wad").write_bytes(write_wad(lumps[: len(lumps) // 3]))
    forge(set_copy, lambda manifest: None)
    assert refusal(set_copy).endswith("train.wad is not the file that the layouts of its set give.")


def test_another_map_than_the_layout(set_copy: Path) -> None:
    lumps = read_wad(set_copy / "train.wad")
    (set_copy / "train.wad").write_bytes(
        write_wad([Lump(n, d.replace(b"x=64.0", b"x=65.0")) for n, d in lumps])
    )
    forge(set_copy, lambda manifest: None)
    assert "train.wad is not the file" in refusal(set_copy)


def set_of(manifest: dict[str, Any], **settings: object) -> None:
    manifest["config"].update(settings)


def first(manifest: dict[str, Any], **values: object) -> None:
    manifest["layouts"]["test"][0]["layout"].update(values)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda m: set_of(m, size=5),
            "is of labyrinth with 4 x 4 cells of 128 map units, but the set is of ",
        ),
        (lambda m: set_of(m, cell=160), "but the set is of labyrinth with 4 x 4 cells of 160 map units."),
        (lambda m: set_of(m, task="find-return"), "but the set is of find-return"),
        (lambda m: first(m, goals=[[0, 0], [1, 1]]), "a layout has 2 goals; those of this set have 1."),
        (lambda m: first(m, start=[1, 1], goals=[[1, 1]]), "has its start and goals in other places"),
        (lambda m: first(m, size=3000), "a layout has at most 21 x 21 cells; got size 3000."),
        (lambda m: first(m, size=10**9, start=[10**9 - 1, 0]), "a layout has at most 21 x 21 cells"),
        (lambda m: first(m, cell=10**30), "a side of at most 512 map units"),
        (
            lambda m: m["layouts"].update(train=m["layouts"]["train"][:1] * 3),
            "its layout 1 has another map or another hash than its own.",
        ),
        (lambda m: m["layouts"]["test"][0].update(map="MAP07"), "its layout 0 has another map"),
        (
            lambda m: m["layouts"]["test"][1].update(layout=m["layouts"]["test"][0]["layout"]),
            "a layout is there twice.",
        ),
        (lambda m: set_of(m, train=5), "not what its own settings say."),
        (lambda m: set_of(m, wall_probability=10**400), "wall-probability must be"),
        (
            lambda m: first(
                m,
                start=[0, 0],
                goals=[[3, 3]],
                walls=[[0, 0, 0, 1], [0, 0, 1, 0]],
            ),
            "cannot be solved.",
        ),
    ],
)
def test_layouts_that_are_not_of_their_set(
    set_copy: Path, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    forge(set_copy, change)
    assert told in refusal(set_copy)


def test_pillars_that_nobody_can_reach() -> None:
    """In narrow cells the player's place depends on the way to the red pillar, so there must be one."""
    walls = (Wall(Cell(0, 0), Cell(0, 1)), Wall(Cell(0, 0), Cell(1, 0)))
    assert not solvable(Layout("find-return", 3, 96, walls, Cell(0, 0), (Cell(2, 2), Cell(0, 0))))
    for goals in ((Cell(2, 2), Cell(0, 0)), (Cell(0, 0), Cell(0, 0))):
        layout = Layout("find-return", 3, 96, walls, Cell(0, 0), goals)
        with pytest.raises(ValueError, match="cannot be reached"):
            plan(layout)


@pytest.mark.parametrize(
    "layout",
    [{"size": 3000}, {"size": 10**9}, {"cell": 10**30}, {"cell": 1e30}, {"size": 0}, {"walls": ((),) * 13}],
    ids=str,
)
def test_layouts_that_no_maze_is_like(layout: dict[str, Any]) -> None:
    values = {"size": 3, "cell": 128, "walls": (), **layout}
    with pytest.raises(ValueError, match=r"a layout.* at most "):
        Layout(task="labyrinth", start=Cell(0, 0), goals=(Cell(1, 1),), **values)


def test_a_side_car_with_a_million_cells(tmp_path: Path) -> None:
    square = [[0, 0], [1e9, 0], [1e9, 1e9], [0, 1e9]]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"exterior": square, "walls": [[0, 1, 1, 1]], "start": [0, 0], "end": [5, 5]}))
    with pytest.raises(ValueError, match="does not describe a labyrinth map"):
        read_reference(path, "labyrinth")
    square = [[0, 0], [10**400, 0]]
    path.write_text(json.dumps({"exterior": square, "walls": [[0, 1, 1, 1]], "start": [0, 0], "end": [5, 5]}))
    with pytest.raises(ValueError, match="does not describe a labyrinth map"):
        read_reference(path, "labyrinth")


@pytest.mark.parametrize("read", [read_cfg, read_wad, lambda path: read_reference(path, "labyrinth")])
def test_files_that_do_not_end(read: Callable[[Path], object], tmp_path: Path) -> None:
    """A device would fill the memory, and a pipe would wait for somebody to write."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(ValueError, match="is not an ordinary file"):
            read(path)


def test_large_files_of_something_else(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with open(large, "wb") as file:
        file.truncate(900 * 2**20)  # a hole: it takes no place on the disk
    with pytest.raises(ValueError, match="and no such file has more than"):
        read_cfg(large)
    with pytest.raises(ValueError, match=r"is not a WAD: it begins with"):
        read_wad(large)


def test_a_wad_that_grows_when_it_is_read() -> None:
    """Many lumps that are the whole file each would take a million times its size."""
    lumps = 1000
    directory = b"".join(struct.pack("<ii8s", 0, 16 * lumps, b"LUMP") for _ in range(lumps))
    with pytest.raises(ValueError, match="its lumps have more bytes than it has itself"):
        parse_wad(struct.pack("<4sii", b"PWAD", lumps, 12) + directory, "a.wad")
    with pytest.raises(ValueError, match="it says that it has 2000000 lumps"):
        parse_wad(struct.pack("<4sii", b"PWAD", 2_000_000, 12) + bytes(16), "a.wad")


def test_a_text_that_is_no_map() -> None:
    with pytest.raises(ValueError, match="bytes, more than"):
        parse_textmap(b" " * (LARGEST + 1), "map MAP01")
