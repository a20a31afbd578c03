"""An episode for Rerun (https://rerun.io): view, depth, unprojected points in 3D, map, path. Extra `rerun`.

Input: a recording and the colours of its map. Output: an .rrd file, written whole or not at all.

Convention: Rerun's space is the world in map units, x east, y north, z up; the eye is 41 units above the floor.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import ModuleType

import numpy as np

from egomap.config import Camera
from egomap.inspector.components import Basis, colours
from egomap.inspector.events import events
from egomap.inspector.figure import sheet
from egomap.inspector.recording import ACTIONS, Recording
from egomap.scenarios.planner import wall_boxes
from egomap.scenarios.tasks import goal_looks
from egomap.scenarios.udmf import CEILING_HEIGHT

EYE = 41.0


def find_rerun() -> ModuleType:
    """The package rerun; a ValueError explains how to install it if it is missing."""
    try:
        import rerun
    except ImportError:
        raise ValueError("an .rrd file needs the package rerun: pip install 'egomap[rerun]'.") from None
    return rerun


def points_of(depth: np.ndarray, camera: Camera, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """World points (K, 3) of the pixels of known depth (H, W), and which pixels these are (H, W) bool."""
    known = np.isfinite(depth)
    row, column = np.nonzero(known)
    ahead = depth[known].astype(np.float64)
    right = ahead * (column + 0.5 - camera.cx) / camera.fx
    down = ahead * (row + 0.5 - camera.cy) / camera.fy
    x, y, phi = (float(value) for value in pose)
    cos, sin = math.cos(phi), math.sin(phi)
    points = np.stack((x + right * sin + ahead * cos, y - right * cos + ahead * sin, EYE - down), 1)
    return points, known


def write_rrd(path: Path, recording: Recording, basis: Basis | None) -> None:
    """Write the recording."""
    rr = find_rerun()
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp.rrd")
    try:
        stream = rr.RecordingStream("egomap_inspector")
        stream.save(scratch)
        _log_world(rr, stream, recording)
        track = recording.map
        shown = None if track is None or basis is None else colours(basis, track.features, track.known)
        happened = {event.decision: event.name for event in events(recording)}
        returns = recording.reward.cumsum()
        for t in range(len(recording)):
            stream.set_time("decision", sequence=t)
            stream.log("agent/view", rr.Image(recording.rgb[t]))
            stream.log(
                "agent/depth", rr.DepthImage(np.where(np.isfinite(recording.depth[t]), recording.depth[t], 0))
            )
            points, known = points_of(recording.depth[t], recording.camera, recording.true_pose[t])
            stream.log("world/seen", rr.Points3D(points, colors=recording.rgb[t][known], radii=1.5))
            way = np.pad(recording.true_pose[: t + 1, :2], ((0, 0), (0, 1)), constant_values=4.0)
            stream.log("world/way", rr.LineStrips3D([way], colors=[[102, 217, 232]], radii=2.0))
            x, y, phi = (float(value) for value in recording.true_pose[t])
            heading = [[48 * math.cos(phi), 48 * math.sin(phi), 0.0]]
            arrow = rr.Arrows3D(vectors=heading, origins=[[x, y, EYE]], colors=[[255, 146, 43]], radii=5.0)
            stream.log("world/agent", arrow)
            stream.log("reward_so_far", rr.Scalars(float(returns[t])))
            if recording.mind is not None:
                stream.log("value", rr.Scalars(float(recording.mind.value[t])))
                for name, share in zip(ACTIONS, recording.mind.probabilities[t].tolist(), strict=True):
                    stream.log(f"policy/{name.replace(' ', '_')}", rr.Scalars(share))
            if track is not None and shown is not None:
                stream.log("memory/map", rr.Image(sheet(shown[t])))
                if track.attention is not None:
                    heat = sheet(track.attention[t][..., None])[..., 0]
                    stream.log("memory/attention", rr.Tensor(heat))
            if t in happened:
                stream.log("events", rr.TextLog(happened[t]))
        stream.flush()
        stream.disconnect()
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _log_world(rr: ModuleType, stream: object, recording: Recording) -> None:
    """What does not change: axes, walls, goals."""
    log = stream.log  # type: ignore[attr-defined]
    log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    layout = recording.layout
    if layout is None:
        return
    boxes = wall_boxes(layout, 0.0)
    if len(boxes):
        middles = np.stack(((boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2), 1)
        centres = np.pad(middles, ((0, 0), (0, 1)), constant_values=CEILING_HEIGHT / 2)
        halves = np.pad(
            (boxes[:, 2:] - boxes[:, :2]) / 2, ((0, 0), (0, 1)), constant_values=CEILING_HEIGHT / 2
        )
        log(
            "world/walls",
            rr.Boxes3D(centers=centres, half_sizes=halves, colors=[[138, 149, 161]]),
            static=True,
        )
    places = [[*layout.center(goal), 20.0] for goal in layout.goals]
    looks = goal_looks(layout)
    tints = [[int(look.colour[i : i + 2], 16) for i in (1, 3, 5)] for look in looks]
    names = [look.name for look in looks]
    log("world/goals", rr.Points3D(places, colors=tints, labels=names, radii=16.0), static=True)
