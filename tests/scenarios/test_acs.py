from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from egomap.scenarios.acs import Script, assemble, fixed
from egomap.scenarios.scripts import goal_scripts


def test_bytes_worked_out_by_hand() -> None:
    script = Script(
        3,
        "closed",
        [
            ("push_local", 0),
            ("jump_if", "end"),
            ("push", -1),
            ("assign_global", 2),
            ("label", "end"),
        ],
        arguments=1,
    )
    expected = (
        b"ACSE"
        + (44).to_bytes(4, "little")  # the chunks begin after nine words of code
        + struct.pack("<9i", 28, 0, 53, 40, 3, -1, 181, 2, 1)
        + b"SPTR"
        + (12).to_bytes(4, "little")
        + bytes([3, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0])
    )
    assert assemble([script]) == expected


def test_second_script_and_types() -> None:
    lump = assemble([Script(1, "open", []), Script(2, "enter", [("jump", "x"), ("label", "x")])])
    # Two scripts: one word, then three; the jump goes to the second one's end, byte 8 + 4 + 8.
    assert lump[8:24] == struct.pack("<4i", 1, 52, 20, 1)
    assert lump[32:] == struct.pack("<hHIIhHII", 1, 1, 8, 0, 2, 4, 12, 0)


def test_fixed_point() -> None:
    assert [fixed(value) for value in (1.0, 0.5, -0.25)] == [65536, 32768, -16384]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([("fly",)], "unknown instruction 'fly'"),
        ([("push",)], "push takes 1 operands, got 0"),
        ([("jump", "nowhere")], "no label 'nowhere'"),
    ],
)
def test_mistakes_are_named(code: list[tuple[str | int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=f"script 9: {message}"):
        assemble([Script(9, "closed", code)])


def test_goal_scripts_hold_the_rewards_and_the_order() -> None:
    lump = goal_scripts((0.5, 1.0), wrong_reward=-0.25, hurts=True, hides_last=False)
    end = struct.unpack_from("<i", lump, 4)[0]
    code = struct.unpack(f"<{end // 4 - 2}i", lump[8:end])
    pairs = set(pairwise(code))
    assert {(3, 32768), (3, 65536), (3, -16384)} <= pairs
    calm = goal_scripts((1.0,), wrong_reward=None, hurts=False, hides_last=False)
    assert struct.pack("<2i", 3, -16384) not in calm
    assert struct.pack("<2i", 6, 119) in lump and struct.pack("<2i", 6, 119) not in calm
