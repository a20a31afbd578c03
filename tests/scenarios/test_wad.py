from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import omg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egomap.scenarios import ScenarioSet
from egomap.scenarios.wad import Lump, parse_wad, read_wad, write_wad

names = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", min_size=1, max_size=8)


@given(st.lists(st.builds(Lump, names, st.binary(max_size=50)), max_size=8))
def test_round_trip(lumps: list[Lump]) -> None:
    assert parse_wad(write_wad(lumps), "test") == lumps


def test_bytes_by_hand() -> None:
    assert write_wad([Lump("MAP01", b""), Lump("A", b"xyz")]) == (
        b"PWAD" + struct.pack("<ii", 2, 15) + b"xyz"
        + struct.pack("<ii8s", 12, 0, b"MAP01") + struct.pack("<ii8s", 12, 3, b"A")
    )  # fmt: skip


def test_another_reader_agrees(small_set: Callable[[str], ScenarioSet]) -> None:
    path = small_set("find-return").wad("train")
    ours = read_wad(path)
    theirs = omg.WAD(str(path))
    assert list(theirs.udmfmaps) == ["MAP01", "MAP02", "MAP03", "MAP04"]
    for index, name in enumerate(theirs.udmfmaps):
        lumps = ours[4 * index : 4 * index + 4]
        assert [lump.name for lump in lumps] == [name, "TEXTMAP", "BEHAVIOR", "ENDMAP"]
        for lump in lumps[1:3]:
            assert theirs.udmfmaps[name][lump.name].data == lump.data


@pytest.mark.parametrize("name", ["", "NINECHARS", "ÄÖ", "A\n"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ValueError, match="lump name"):
        write_wad([Lump(name, b"")])


GOOD = write_wad([Lump("MAP01", b""), Lump("TEXTMAP", b"x" * 100)])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "only 0 bytes"),
        (b"PK\3\4" + GOOD[4:], "not a WAD"),
        (GOOD[:-1], "truncated"),
        (GOOD[:60], "truncated"),
        (b"PWAD" + struct.pack("<ii", -1, 12), "broken"),
        (b"PWAD" + struct.pack("<ii", 1, 12) + struct.pack("<ii8s", 0, 99, b"A"), "outside the file"),
        (b"PWAD" + struct.pack("<ii", 1, 12) + struct.pack("<ii8s", 0, -5, b"A"), "outside the file"),
        (b"PWAD" + struct.pack("<ii", 1, 12) + struct.pack("<ii8s", 0, 0, b"\xff\xfe"), "name"),
    ],
)
def test_broken_wads(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "broken.wad"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        read_wad(path)
    assert "broken.wad" in str(caught.value)


def test_missing_wad(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the WAD .*none\.wad"):
        read_wad(tmp_path / "none.wad")
