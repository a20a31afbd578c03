"""A small assembler for ACS, the script language of the engine's maps.

What comes in: scripts as lists of readable instructions. What goes out: the bytes of a BEHAVIOR lump in the
plain "ACSE" container, where every opcode and operand is a little-endian 32-bit word. There is no compiler
here: no expressions, no variables by name, no strings. Numbers with a fraction are 16.16 fixed point, see
`fixed`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Instruction = tuple[str | int, ...]
"""A mnemonic and its operands, e.g. ("push", 3); ("label", "name") marks a place for jumps to "name"."""

SCRIPT_TYPES = {"closed": 0, "open": 1, "enter": 4}

# mnemonic: (opcode, operand words that follow it). The stack is shown as: before -> after.
OPCODES: dict[str, tuple[int, int]] = {
    "terminate": (1, 0),
    "push": (3, 1),  # -> value
    "special1": (4, 1),  # a -> ; operand: number of the action special
    "special2": (5, 1),  # a b ->
    "special3": (6, 1),  # a b c ->
    "ne": (20, 0),  # a b -> a != b
    "eq": (19, 0),  # a b -> a == b
    "lt": (21, 0),  # a b -> a < b
    "push_local": (28, 1),  # -> value; script arguments are locals 0, 1, ...
    "jump": (52, 1),
    "jump_if": (53, 1),  # condition ->
    "jump_unless": (79, 1),  # condition ->
    "drop": (54, 0),  # value ->
    "random": (57, 0),  # low high -> value, both ends included
    "clear_inventory": (142, 0),
    "set_thing_special": (180, 0),  # tid special a0 a1 a2 a3 a4 ->
    "assign_global": (181, 1),  # value ->
    "push_global": (182, 1),  # -> value
    "add_global": (183, 1),  # value ->
    "actor_x": (196, 0),  # tid -> x, fixed point
    "actor_y": (197, 0),  # tid -> y, fixed point
    "set_actor_angle": (276, 0),  # tid angle -> ; 1.0 is a full turn
    "set_actor_position": (283, 0),  # tid x y z fog -> success
}
JUMPS = frozenset({"jump", "jump_if", "jump_unless"})


@dataclass(frozen=True)
class Script:
    """One script of a map: its number, when it runs, how many arguments it takes, and its instructions."""

    number: int
    kind: Literal["closed", "open", "enter"]
    code: Sequence[Instruction]
    arguments: int = 0


def fixed(value: float) -> int:
    """`value` as 16.16 fixed point, the engine's way to write fractions."""
    return round(value * 65536)


def assemble(scripts: Sequence[Script]) -> bytes:
    """Assemble `scripts` into the bytes of a BEHAVIOR lump.

    Raises:
        ValueError: An unknown mnemonic, a wrong number of operands, or a jump to a label that is not there.
    """
    code = bytearray()
    pointers = bytearray()
    for script in scripts:
        start = 8 + len(code)
        kind = SCRIPT_TYPES[script.kind]
        pointers += struct.pack("<hHII", script.number, kind, start, script.arguments)
        code += _assemble_script(script, start)
    chunks = b"SPTR" + struct.pack("<i", len(pointers)) + pointers
    return b"ACSE" + struct.pack("<i", 8 + len(code)) + bytes(code) + chunks


def _assemble_script(script: Script, start: int) -> bytes:
    """The words of one script; jump targets count bytes from the beginning of the lump, hence `start`."""
    where = f"script {script.number}"
    labels: dict[str, int] = {}
    offset = start
    for name, *operands in script.code:
        if name == "label":
            labels[str(operands[0])] = offset
            continue
        if name not in OPCODES:
            raise ValueError(f"{where}: unknown instruction {name!r}.")
        expected = OPCODES[str(name)][1]
        if len(operands) != expected:
            raise ValueError(f"{where}: {name} takes {expected} operands, got {len(operands)}.")
        offset += 4 * (1 + expected)

    words: list[int] = []
    for name, *operands in script.code:
        if name == "label":
            continue
        words.append(OPCODES[str(name)][0])
        for operand in operands:
            if name in JUMPS:
                if operand not in labels:
                    raise ValueError(f"{where}: no label {operand!r} to jump to.")
                operand = labels[str(operand)]
            words.append(int(operand))
    # Running past the last word would execute the next script, so every script ends in terminate.
    words.append(OPCODES["terminate"][0])
    return struct.pack(f"<{len(words)}i", *words)
