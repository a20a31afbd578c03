"""The memories that an agent can have, by name: one row each, with its label, its colour and its class.

What comes in: a name, or `package.module:Class` for a memory that somebody else wrote. What goes out: a row. Nothing
heavy is imported here, so that commands list their choices without torch; `egomap.memory.registry`
imports the class when a memory is built. To ship another memory: its file in `egomap/memory`, and a row in `KINDS`.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from egomap.util.named import is_address


class Kind(NamedTuple):
    """One kind of memory."""

    label: str
    """In tables and figures."""
    colour: str
    """In figures."""
    address: str
    """`package.module:Name` of its class, or of a function (config, fitting) that gives a memory."""
    has_settings: bool = True
    """Whether the class may have `Settings` of its own; False spares an import where they are looked for."""


_MEMORY = "egomap.memory"

KINDS: dict[str, Kind] = {
    "none": Kind("No memory", "#ced4da", f"{_MEMORY}.floors:NoMemory", False),
    "frame-stack": Kind("Frame stack", "#74b816", f"{_MEMORY}.floors:FrameStackMemory", False),
    "gru": Kind("GRU", "#868e96", f"{_MEMORY}.recurrent:RecurrentMemory", False),
    "lstm": Kind("LSTM", "#ae3ec9", f"{_MEMORY}.recurrent:RecurrentMemory", False),
    "lru": Kind("LRU", "#0ca678", f"{_MEMORY}.lru:LRUMemory", False),
    "ffm": Kind("FFM", "#f76707", f"{_MEMORY}.ffm:FFMMemory"),
    "gtrxl": Kind("GTrXL", "#7048e8", f"{_MEMORY}.gtrxl:GTrXLMemory"),
    "smt": Kind("SMT", "#1098ad", f"{_MEMORY}.smt:SMTMemory"),
    "dnc": Kind("DNC", "#c92a2a", f"{_MEMORY}.dnc:DNCMemory"),
    "neural-map": Kind("Neural Map", "#e67700", f"{_MEMORY}.neural_map:NeuralMapMemory", False),
    "proj-neural-map": Kind("ProjNeuralMap", "#ffa8a8", f"{_MEMORY}.proj_neural_map:proj_neural_map", False),
    "egomap": Kind("EgoMap", "#1864ab", f"{_MEMORY}.egomap:EgoMapMemory", False),
    "places": Kind("GRU and places", "#099268", f"{_MEMORY}.with_places:gru_and_places", False),
    "egomap-places": Kind("EgoMap and places", "#a61e4d", f"{_MEMORY}.with_places:egomap_and_places", False),
    "guided": Kind("GRU and guides", "#5f3dc4", f"{_MEMORY}.with_guides:gru_with_guides", False),
    "egomap+": Kind("EgoMap+", "#c2255c", f"{_MEMORY}.with_guides:egomap_with_guides", False),
}
"""Every kind that egomap ships, from the least memory to the most."""

CHOICES = "|".join((*KINDS, "MODULE:CLASS"))
"""For the help of commands."""
OTHERS = ("#f08c00", "#5f3dc4", "#2b8a3e", "#d6336c", "#0b7285", "#862e9c", "#a61e4d", "#364fc7")
"""Colours of memories that have no row; which one follows from the label."""


def require_kind(name: object) -> str:
    """The name; a ValueError unless it is that of a row or has the form of an address. Nothing is imported."""
    if isinstance(name, str) and (name in KINDS or is_address(name)):
        return name
    raise ValueError(
        f"kind must be one of {', '.join(KINDS)}, or package.module:Class of a memory of your own; got "
        f"{name!r:.80}."
    )


def kind_of(name: str) -> Kind:
    """The row of a memory; that of a class by its address is called like the class."""
    if require_kind(name) in KINDS:
        return KINDS[name]
    label = name.partition(":")[2]
    return Kind(label, colour_of(label), name)


def colour_of(label: str) -> str:
    """The colour of a label in figures: its row's, or one that depends on the label alone."""
    for kind in KINDS.values():
        if kind.label == label:
            return kind.colour
    return OTHERS[hashlib.sha256(label.encode()).digest()[0] % len(OTHERS)]


def file_name(name: str) -> str:
    """The name as a part of a file's or folder's name: an address without its colon."""
    return name.replace(":", ".")
