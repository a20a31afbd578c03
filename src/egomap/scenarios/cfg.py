"""A reader for ViZDoom's .cfg files, as far as opening a foreign scenario needs it.

What comes in: the path of a .cfg. What goes out: the WAD, the map, the buttons and all settings as text, or a
ValueError of one sentence. ViZDoom itself skips lines that it does not understand with a warning, so that a
misspelt setting is silently lost; here it is an error. Values are not interpreted beyond this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from egomap.util.reading import read_text

LARGEST = 2**17
"""Bytes of a .cfg; the longest that we know have 3000."""

# ViZDoom takes keys in any case, with or without underscores; this is the bare form of all that it knows.
KEYS = frozenset(
    """
    doomscenariopath doomgamepath doommap doomskill doomconfigpath vizdoompath gameargs mode ticrate
    seed availablebuttons availablegamevariables episodetimeout episodestarttime
    livingreward deathpenalty deathreward mapexitreward killreward secretreward itemreward fragreward
    hitreward hittakenreward hittakenpenalty damagemadereward damagetakenreward damagetakenpenalty
    healthreward armorreward screenresolution screenformat depthbufferenabled labelsbufferenabled
    automapbufferenabled automapmode automaprotate automaprendertextures automaprenderobjectsassprites
    objectsinfoenabled sectorsinfoenabled audiobufferenabled audiobuffersize audiosamplingrate
    notificationsbufferenabled notificationsbuffersize windowvisible consoleenabled soundenabled renderhud
    renderminimalhud renderweapon rendercrosshair renderdecals renderparticles rendereffectssprites
    rendermessages rendercorpses renderscreenflashes renderallframes
    """.split()  # noqa: SIM905 - sixty lines with one word each read worse
)

ASSIGNMENT = re.compile(r"\s*(\w+)\s*(\+?=)\s*(\{[^{}]*\}|[^\n{}]*)\s*")


@dataclass(frozen=True)
class ScenarioFile:
    """What a .cfg says about its scenario."""

    path: Path
    wad: Path
    """The scenario's WAD; it exists."""
    map: str
    """The map to play, in capitals; ViZDoom plays MAP01 unless told otherwise."""
    buttons: tuple[str, ...]
    settings: dict[str, str] = field(hash=False)
    """Every setting as written, by its bare key (no capitals, no underscores)."""


def read_cfg(path: Path) -> ScenarioFile:
    """Read the .cfg at `path`.

    Raises:
        ValueError: It cannot be read, has a line or key that ViZDoom does not know, or its WAD is not there.
    """
    path = Path(path)
    try:
        text = read_text(path, LARGEST)
    except OSError as error:
        raise ValueError(f"cannot read the scenario file {path}: {error.strerror}.") from error
    settings = _settings(text, path)
    named = settings.get("doomscenariopath", "").strip("\"'")
    if not named:
        raise ValueError(f"{path} names no doom_scenario_path.")
    wad = path.parent / named
    if not wad.is_file():
        raise ValueError(f"{path} names the WAD {named}, but {wad} does not exist.")
    return ScenarioFile(
        path=path,
        wad=wad,
        map=settings.get("doommap", "MAP01").strip("\"'").upper(),
        buttons=tuple(settings.get("availablebuttons", "").strip("{} \n").upper().split()),
        settings=settings,
    )


def _settings(text: str, path: Path) -> dict[str, str]:
    text = re.sub(r"#[^\n]*", "", text)
    settings: dict[str, str] = {}
    place = 0
    while text[place:].strip():
        match = ASSIGNMENT.match(text, place)
        if not match:
            line = text[place:].strip().split("\n", 1)[0][:60]
            raise ValueError(f"{path} is not a ViZDoom .cfg: cannot understand {line!r}.")
        key = match[1].lower().replace("_", "")
        if key not in KEYS:
            raise ValueError(f"{path} sets {match[1]!r:.80}, which ViZDoom does not know.")
        value = " ".join(match[3].split())
        if match[2] == "+=" and key in settings:
            # Lists grow: the braces between the old and the new values go.
            value = re.sub(r" ?\} \{ ?", " ", f"{settings[key]} {value}")
        settings[key] = value
        place = match.end()
    return settings
