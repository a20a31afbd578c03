"""One HTML file that shows a recorded episode and needs nothing else: no network, no server, no other file.

Input: a recording and the colours of its map. Output: the text of the page. `page.html`, `page.css`
and `page.js` beside this file are put together here with the data. All text of the recording reaches the page as
JSON and is set as text there, never as markup; a content security policy forbids everything but the page's own
script, style and pictures, so that the page could not load anything even if it tried.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

import numpy as np

from egomap import __version__
from egomap.inspector.components import Basis, colours
from egomap.inspector.events import events, goals_reached
from egomap.inspector.pictures import STRIP, fitting_strips, packed
from egomap.inspector.recording import ACTIONS, GuidesTrack, MapTrack, PlanesTrack, Recording
from egomap.inspector.surroundings import GOAL_RADIUS, SAMPLES, WALL_SHARE, standing
from egomap.scenarios.planner import wall_boxes
from egomap.scenarios.tasks import FAMILIES, goal_looks, player_start
from egomap.scenarios.udmf import WALL_THICKNESS

MOST_BYTES = 5_900_000
"""Of a page of one full episode; pictures give way where they must."""
LEAST_FOR_PICTURES = 1_500_000


def page(recording: Recording, basis: Basis | None, *, most_bytes: int = MOST_BYTES) -> str:
    """The page; `basis` gives the colours of the map, if there is one."""
    arrays = _arrays(recording, basis)
    blobs = {name: packed(array) for name, array in arrays.items()}
    left = max(most_bytes - sum(len(text) for _, text in blobs.values()), LEAST_FOR_PICTURES)
    rgb, quality = fitting_strips(recording.rgb, left - 200_000)
    data = {
        **_facts(recording),
        "map": _map_facts(recording.map, basis),
        "planes": _plane_facts(recording.planes),
        "guides": _guide_facts(recording.guides),
        "arrays": {name: about for name, (about, _) in blobs.items()},
        "strip": STRIP,
        "lossless": quality is None,
    }
    parts = {name: text for name, (_, text) in blobs.items()} | {"rgb": "\n".join(rgb)}
    style, script, body = (_asset(name) for name in ("page.css", "page.js", "page.html"))
    policy = (
        "default-src 'none'; img-src data:; "
        f"style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"{data['title']}, layout {recording.layout_index} – {recording.agent or 'egomap'}"
    stored = "\n".join(
        f'<script type="text/plain" id="part-{name}">{text}</script>' for name, text in parts.items()
    )
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="egomap {html.escape(__version__)}">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            body.strip(),
            f'<script type="application/json" id="data">{embedded(data)}</script>',
            stored,
            f"<script>{script}</script>",
            "</html>",
            "",
        )
    )


def embedded(data: Any) -> str:
    """JSON that cannot end the script element it stands in, nor begin a comment there."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(recording: Recording) -> dict[str, Any]:
    """The texts of the page, and the small numbers of each decision."""
    layout, mind = recording.layout, recording.mind
    family = None if layout is None else FAMILIES[layout.task]
    return {
        "title": "Doom map" if family is None else family.title,
        "rule": "" if family is None else family.rule,
        "agent": recording.agent,
        "driver": recording.driver,
        "layout": recording.layout_index,
        "layout_id": recording.layout_id,
        "split": recording.split,
        "seed": recording.seed,
        "outcome": recording.outcome,
        "settings": recording.settings,
        "decisions": len(recording),
        "seconds": recording.frame_skip / 35,
        "actions": list(ACTIONS),
        "events": [event._asdict() for event in events(recording)],
        "arena": recording.arena,
        "border": WALL_THICKNESS,
        "walls": [] if layout is None else wall_boxes(layout, 0.0).tolist(),
        "start": None if layout is None else list(player_start(layout)),
        "goals": []
        if layout is None
        else [
            {"name": look.name, "colour": look.colour, "place": list(layout.center(cell))}
            for look, cell in zip(goal_looks(layout), layout.goals, strict=True)
        ],
        "goal_radius": GOAL_RADIUS,
        "samples": SAMPLES,
        "wall_share": WALL_SHARE,
        "known_layout": layout is not None,
        "pose": _rounded(recording.true_pose, 4),
        "believed": None
        if np.allclose(recording.pose, recording.true_pose, atol=1e-3)
        else _rounded(recording.pose, 4),
        "action": recording.action.tolist(),
        "reward": _rounded(recording.reward, 6),
        "return": _rounded(recording.reward.cumsum(), 6),
        "probabilities": None if mind is None else _rounded(mind.probabilities, 5),
        "favourite": None if mind is None else mind.probabilities.argmax(-1).tolist(),
        "lesions": [{"name": track.lesion, "by": dict(track.by)} for track in recording.lesions],
        "value": None if mind is None else _rounded(mind.value, 5),
        "colours": {"depth": _colour_table("cividis_r"), "attention": _colour_table("inferno")},
    }


def _map_facts(track: MapTrack | None, basis: Basis | None) -> dict[str, Any] | None:
    if track is None or basis is None:
        return None
    return {
        "frame": track.frame,
        "extent": track.extent,
        "size": track.size,
        "tiles": list(track.tiles),
        "largest_norm": float(track.norms.max()),
        "peak": None if track.attention is None else _floats(track.attention.max((1, 2, 3))),
        "position": None if track.position is None else _rounded(track.position, 5),
        "beta": None if track.beta is None else _rounded(track.beta, 4),
        "explained": round(basis.explained, 4),
    }


def _plane_facts(track: PlanesTrack | None) -> dict[str, Any] | None:
    if track is None:
        return None
    return {"names": track.names, "signed": track.signed, "extent": track.extent, "size": track.size}


def _guide_facts(track: GuidesTrack | None) -> dict[str, Any] | None:
    if track is None:
        return None
    return {
        "names": track.names,
        "whom": track.whom.tolist(),
        "shares": _rounded(track.shares, 4),
        "ways": _rounded(track.ways, 3),
        "peak": None if track.pointing is None else _floats(track.pointing.max((1, 2))),
    }


def _arrays(recording: Recording, basis: Basis | None) -> dict[str, np.ndarray]:
    """What is too large for JSON."""
    levels, index = np.unique(recording.depth, return_inverse=True)
    if len(levels) > 256:  # a source of depth finer than the engine's
        finite = recording.depth[np.isfinite(recording.depth)]
        levels = np.append(np.linspace(finite.min(), finite.max(), 255), np.inf).astype(np.float32)
        index = np.abs(np.clip(recording.depth, None, 1e9)[..., None] - levels[:-1]).argmin(-1)
        index = np.where(np.isfinite(recording.depth), index, 255)
    arrays: dict[str, np.ndarray] = {
        "depth": index.reshape(recording.depth.shape).astype(np.uint8),
        "levels": np.where(np.isfinite(levels), levels, -1.0).astype(np.float32),
    }
    if recording.layout is not None:
        reached = goals_reached(recording)
        arrays["reached"] = reached.astype(np.uint8)
        arrays["standing"] = standing(recording.layout, reached).astype(np.uint8)
    mind, track, guides = recording.mind, recording.map, recording.guides
    if guides is not None and guides.pointing is not None:
        peak = guides.pointing.max((1, 2), keepdims=True)
        arrays["pointing"] = np.round(guides.pointing / peak * 65535).astype(np.uint16)
    if recording.planes is not None:
        arrays["planes"] = recording.planes.levels
    if mind is not None and recording.lesions:
        told, intact = recording.lesions, mind.probabilities
        arrays["lesioned"] = np.stack([each.probabilities for each in told])
        arrays["divergence"] = np.stack([each.divergence(intact) for each in told]).astype(np.float32)
        arrays["differs"] = np.stack([each.differs(intact) for each in told]).astype(np.uint8)
    if track is not None and basis is not None:
        arrays["map"] = colours(basis, track.features, track.known)
        arrays["known"] = track.known.astype(np.uint8)
        largest = max(float(track.norms.max()), 1e-9)
        arrays["norm"] = np.round(track.norms / largest * 255).astype(np.uint8)
        if track.attention is not None:
            peak = track.attention.max((1, 2, 3), keepdims=True)
            arrays["attention"] = np.round(track.attention / peak * 65535).astype(np.uint16)
    elif mind is not None and mind.hidden is not None:
        arrays["hidden"] = np.round(np.clip(mind.hidden, -1, 1) * 127).astype(np.int8)
    return arrays


def _rounded(array: np.ndarray, digits: int) -> list[Any]:
    return np.round(array.astype(np.float64), digits).tolist()


def _floats(array: np.ndarray) -> list[float]:
    """Enough digits for small shares."""
    return [float(f"{value:.6g}") for value in array.tolist()]


def _colour_table(name: str) -> str:
    """(256, 3) uint8 of one of matplotlib's colour maps, as base64."""
    from matplotlib import colormaps

    table = np.round(colormaps[name](np.arange(256))[:, :3] * 255).astype(np.uint8)
    return base64.b64encode(table.tobytes()).decode("ascii")


def _asset(name: str) -> str:
    return files("egomap.inspector").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
