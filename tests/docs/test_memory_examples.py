"""The programs of docs/memory.md work as they stand, and its tables say what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from egomap.config import MapSettings

from .blocks import DOCS, blocks, run_block

PAGE = DOCS / "memory.md"


def programs() -> list[str]:
    found = [code for language, code in blocks("memory.md") if language == "python"]
    assert len(found) == 2
    return found


Places = dict[str, tuple[float, float]]


def places(printed: str) -> Places:
    """Metres right and ahead of each wall, as the first program prints them."""
    found = re.findall(r"^(\w+) wall: (\S+) m right, (\S+) m ahead$", printed, re.MULTILINE)
    assert len(found) == len(printed.splitlines()), printed
    return {wall: (float(right), float(ahead)) for wall, right, ahead in found}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """What the first program finds, with more digits than it prints."""
    program = programs()[0]
    assert len(program.splitlines()) < 30 and program.count(":.1f") == 2
    return places(run_block("python", program.replace(":.1f", ":.6f"), tmp_path_factory.mktemp("room")))


def test_the_room_is_read_back(measured: Places) -> None:
    # From (0.8, -0.4), facing north, in a room of 5.5 m: a wall is found in its cell of 40 cm.
    assert list(measured) == ["east", "north", "west", "south"]
    for wall, axis, place in (("east", 0, 1.95), ("north", 1, 3.15), ("west", 0, -3.55), ("south", 1, -2.35)):
        assert abs(measured[wall][axis] - place) <= 0.2


def test_the_room_is_as_the_page_says(measured: Places) -> None:
    (text,) = [code for language, code in blocks("memory.md") if language == "text"]
    told = places(text)
    assert list(told) == list(measured)
    for wall, found in measured.items():
        for ours, theirs in zip(found, told[wall], strict=True):
            # One decimal is shown. No figure may lie near an edge of that rounding, where the last bit decides.
            assert abs(ours - theirs) <= 0.04, f"{wall}: {ours} is shown as {theirs}"


@pytest.mark.slow
def test_the_ppo_loop_learns_from_what_it_did(tmp_path: Path) -> None:
    """Before the first step of the optimiser, the replayed sequences give the very policy that acted."""
    line = "            optimiser.zero_grad()\n"
    program = programs()[1]
    assert program.count(line) == 1
    watched = program.replace(line, f"            print('ratio', (ratio - 1).abs().max().item())\n{line}")
    printed = run_block("python", watched, tmp_path)
    ratios = [float(number) for number in re.findall(r"^ratio (\S+)$", printed, re.MULTILINE)]
    assert len(ratios) == 8
    assert ratios[0] < 1e-4 and ratios[-1] > 10 * ratios[0]  # first as it was, then changed by learning
    assert len(re.findall(r"update \d: reward -?\d\.\d+ per environment, loss -?\d+\.\d+", printed)) == 2


def test_settings_are_those_of_the_code() -> None:
    text = PAGE.read_text().split("## Settings\n", 1)[1].split("\n**", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.MULTILINE)
    assert rows == [(field.name, str(field.default)) for field in dataclasses.fields(MapSettings)]


def test_the_picture_is_small() -> None:
    assert "(images/smear.png)" in PAGE.read_text()
    assert (DOCS / "images" / "smear.png").stat().st_size < 150_000
