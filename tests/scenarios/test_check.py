from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import vizdoom
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egomap.scenarios import ScenarioSet
from egomap.scenarios.check import Start, inspect_wad, read_cfg, require_map
from egomap.scenarios.tasks import player_start
from egomap.scenarios.udmf_reader import parse_textmap
from egomap.scenarios.wad import Lump, write_wad

ROOM = """
namespace = "zdoom"; // a comment
/* another { one } */
thing { X = -1.5; y = 2e1; type = 1; angle = 90; comment = "br{ace \\" quote"; }
vertex { x = -64; y = -64; } vertex { x = -64; y = 64; } vertex { x = 64; y = 0x40; }
linedef // 0
{ v1 = 0; v2 = 1; sidefront = 0; blocking = true; }
linedef { v1 = 1; v2 = 2; sidefront = 0; sideback = -1; } linedef { v1 = 2; v2 = 0; sidefront = 0; }
sidedef { sector = 0; }
sector { texturefloor = "FLAT1_1"; user_unknown = +3; }
strange { field = word; }
"""


def udmf_wad(folder: Path, text: str, *, tail: str = "ENDMAP") -> Path:
    path = folder / "test.wad"
    path.write_bytes(write_wad([Lump("MAP01", b""), Lump("TEXTMAP", text.encode()), Lump(tail, b"")]))
    return path


def binary_wad(folder: Path, *, hexen: bool = False, kind: int = 1, vertex: int = 3) -> Path:
    if hexen:
        things = struct.pack("<hhhhhhh6B", 0, 5, 6, 0, 180, kind, 7, *[0] * 6)
        line = struct.pack("<HHH6BHH", 0, vertex, 1, *[0] * 6, 0, 0xFFFF)
    else:
        things = struct.pack("<5h", 5, 6, 180, kind, 7)
        line = struct.pack("<7H", 0, vertex, 1, 0, 0, 0, 0xFFFF)
    vertices = struct.pack("<8h", -100, -50, -100, 60, 70, 60, 70, -50)
    names = ["SEGS", "SSECTORS", "NODES", "SECTORS", "REJECT", "BLOCKMAP", *(["BEHAVIOR"] if hexen else [])]
    lumps = [Lump("E1M1", b""), Lump("THINGS", things), Lump("LINEDEFS", line), Lump("SIDEDEFS", bytes(30))]
    lumps += [Lump("VERTEXES", vertices), *(Lump(name, b"") for name in names)]
    path = folder / "binary.wad"
    path.write_bytes(write_wad(lumps))
    return path


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_our_own_maps(small_set: Callable[[str], ScenarioSet], task: str) -> None:
    made = small_set(task)
    maps = inspect_wad(made.wad("train"))
    assert list(maps) == [made.map_name(i) for i in range(len(made.layouts["train"]))]
    half = made.config.extent / 2
    for layout, info in zip(made.layouts["train"], maps.values(), strict=True):
        assert info.format == "udmf" and info.bounds == (-half, -half, half, half) and info.center == (0, 0)
        assert info.starts == (Start(*player_start(layout), 0),)


def test_room_as_other_tools_write_it(tmp_path: Path) -> None:
    info = require_map(udmf_wad(tmp_path, ROOM), "map01")
    assert info.bounds == (-64, -64, 64, 64)
    assert info.starts == (Start(-1.5, 20.0, 90),)


@pytest.mark.parametrize("hexen", [False, True])
def test_binary_maps(tmp_path: Path, hexen: bool) -> None:
    info = inspect_wad(binary_wad(tmp_path, hexen=hexen))["E1M1"]
    assert info.format == ("hexen" if hexen else "doom")
    assert info.bounds == (-100, -50, 70, 60) and info.starts == (Start(5, 6, 180),)
    with pytest.raises(ValueError, match="no start for player 1"):
        inspect_wad(binary_wad(tmp_path, hexen=hexen, kind=2))
    with pytest.raises(ValueError, match="vertex or side that does not exist"):
        inspect_wad(binary_wad(tmp_path, hexen=hexen, vertex=4))


def test_files_of_the_engine() -> None:
    folder = Path(vizdoom.scenarios_path)
    assert require_map(folder / "my_way_home.wad", "MAP01").format == "udmf"
    maps = inspect_wad(folder.parent / "freedoom2.wad")
    assert len(maps) == 32 and maps["MAP01"].format == "doom"
    assert read_cfg(folder / "my_way_home.cfg").wad == folder / "my_way_home.wad"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type = 1;", "type = 2;", "no start for player 1"),
        ("v2 = 2;", "v2 = 3;", "names vertex 3, which does not exist"),
        ("v1 = 0;", "", "names vertex -1"),
        ("sector = 0;", "sector = 1;", "names sector 1"),
        ("sidefront = 0; blocking", "sidefront = 7; blocking", "names sidedef 7"),
        ("sideback = -1;", "sideback = 9;", "names sidedef 9"),
        ("x = 64;", "x = east;", "x = 'east', which is not a number"),
        ("x = 64;", "x = 1e999;", "x = inf, which is not a number"),
        ("x = 64;", f"x = {'9' * 400};", "the number 9999"),
        ("x = 64;", f"x = {'9' * 5000};", "the number 9999"),
        ("x = 64;", f"x = 0x{'fe' * 200};", "the number 0xfe"),
        ("v2 = 2;", "v2 = 1.5;", "v2 = 1.5, which is not a whole number"),
        ("sidedef { sector = 0; }", "", "it has no sidedef"),
        ('namespace = "zdoom";', "", "names no namespace"),
        ("v2 = 1;", "v2 = 1", "malformed"),
        ("strange { field = word; }", "strange { field = word; ", "a strange is not closed"),
        ("strange { field = word; }", "strange { field = ", "ends within a field"),
        ("strange {", "$$ {", "line 11 has"),
        ("strange { field = word; }", "}", "expected a block or a setting, got '}'"),
    ],
)
def test_maps_that_would_crash_the_engine(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ROOM
    with pytest.raises(ValueError, match=message) as caught:
        inspect_wad(udmf_wad(tmp_path, ROOM.replace(old, new, 1)))
    assert "test.wad" in str(caught.value) and "MAP01" in str(caught.value)


def test_map_without_end_or_no_map(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no ENDMAP"):
        inspect_wad(udmf_wad(tmp_path, ROOM, tail="OTHER"))
    two = [Lump("MAP01", b""), Lump("TEXTMAP", ROOM.encode()), Lump("MAP02", b"")]
    two += [Lump("TEXTMAP", ROOM.encode()), Lump("ENDMAP", b"")]
    (tmp_path / "two.wad").write_bytes(write_wad(two))
    with pytest.raises(ValueError, match=r"map MAP01 of .*two\.wad has no ENDMAP"):
        inspect_wad(tmp_path / "two.wad")
    (tmp_path / "none.wad").write_bytes(write_wad([Lump("PLAYPAL", b"abc")]))
    with pytest.raises(ValueError, match=r"none\.wad holds no map"):
        inspect_wad(tmp_path / "none.wad")


def test_unknown_map_name(small_set: Callable[[str], ScenarioSet]) -> None:
    with pytest.raises(ValueError, match="has no map 'MAP77'; it has MAP01, MAP02, MAP03"):
        require_map(small_set("labyrinth").wad("train"), "MAP77")


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "random.wad"
    for content in (data, b"PWAD" + data):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"random\.wad"):
            inspect_wad(path)


@given(st.text(max_size=80), st.integers(0, len(ROOM)))
@settings(max_examples=80, deadline=None)
def test_reader_answers_any_text_with_blocks_or_a_value_error(noise: str, place: int) -> None:
    text = ROOM[:place] + noise + ROOM[place:]
    try:
        blocks = parse_textmap(text.encode(), "noise")
    except ValueError as error:
        assert "noise" in str(error)
    else:
        assert blocks["vertex"] and blocks["sector"]


def test_truncated_wad(small_set: Callable[[str], ScenarioSet], tmp_path: Path) -> None:
    data = small_set("labyrinth").wad("train").read_bytes()
    path = tmp_path / "half.wad"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"half\.wad is truncated"):
        inspect_wad(path)


def test_our_cfg(small_set: Callable[[str], ScenarioSet]) -> None:
    made = small_set("ordered-items")
    cfg = read_cfg(made.cfg("test"))
    assert cfg.wad == made.wad("test") and cfg.map == "MAP01"
    assert cfg.buttons == ("TURN_LEFT", "TURN_RIGHT", "MOVE_FORWARD", "MOVE_BACKWARD")
    assert cfg.settings["livingreward"] == "-0.0001" and cfg.settings["episodetimeout"] == "2100"


def cfg_file(folder: Path, text: str) -> Path:
    udmf_wad(folder, ROOM)
    path = folder / "some.cfg"
    path.write_text(text)
    return path


def test_cfg_as_other_people_write_it(tmp_path: Path) -> None:
    text = """# hi
Doom_Scenario_Path = test.wad # here
DoomMap = map07
available_buttons =
    {
    ATTACK # x
    USE
}
mode=PLAYER"""
    cfg = read_cfg(cfg_file(tmp_path, text))
    assert (cfg.wad.name, cfg.map, cfg.buttons) == ("test.wad", "MAP07", ("ATTACK", "USE"))


def test_cfg_that_adds_to_a_list(tmp_path: Path) -> None:
    text = "doom_scenario_path = test.wad\navailable_buttons = { USE }\navailable_buttons += { ATTACK }"
    cfg = read_cfg(cfg_file(tmp_path, text))
    assert cfg.buttons == ("USE", "ATTACK") and cfg.settings["availablebuttons"] == "{ USE ATTACK }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("doom_scenario_path = other.wad", r"names the WAD other\.wad, but .* does not exist"),
        ("doom_map = MAP01", "names no doom_scenario_path"),
        (
            "doom_scenario_path = test.wad\nliving_rewrad = 1",
            "sets 'living_rewrad', which ViZDoom does not know",
        ),
        ("doom_scenario_path = test.wad\nwhat is this", "cannot understand 'what is this'"),
        ("doom_scenario_path = test.wad\navailable_buttons = { USE", "cannot understand"),
    ],
)
def test_bad_cfg(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_cfg(cfg_file(tmp_path, text))
    assert "some.cfg" in str(caught.value)


def test_missing_and_binary_cfg(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the scenario file .*none\.cfg"):
        read_cfg(tmp_path / "none.cfg")
    (tmp_path / "binary.cfg").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text"):
        read_cfg(tmp_path / "binary.cfg")
