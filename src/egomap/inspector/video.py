"""Episodes as a video: H.264 in MP4, which plays in every browser, or an animated WebP, for a page of text.

Input: recordings and the colours of their maps. Output: a file, written whole or not at all. For MP4,
pictures are piped to ffmpeg: the system's, or the one of the package imageio-ffmpeg (extra `video`). WebP needs
nothing but PIL, and is smaller: half as wide and high, colours rounded.

Convention: places in the map are (right, ahead) of the agent, 1 at the map's edge.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from egomap.config import require
from egomap.inspector.components import Basis, colours
from egomap.inspector.events import events, goals_reached
from egomap.inspector.frame import HEIGHT, WIDTH, Moment, paint
from egomap.inspector.recording import GuidesTrack, Recording
from egomap.scenarios.tasks import FAMILIES

if TYPE_CHECKING:
    from PIL.Image import Image

TICS_PER_SECOND = 35
ENDINGS = (".mp4", ".webp")
WEBP_SIZE, WEBP_QUALITY = (WIDTH // 2, HEIGHT // 2), 70
HOLD = 8
"""How many times an episode's last picture is shown, so that its end can be seen."""


def find_ffmpeg() -> str:
    """The ffmpeg to use.

    Raises:
        ValueError: There is none.
    """
    found = shutil.which("ffmpeg")
    if found:
        return found
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        raise ValueError(
            "a video needs ffmpeg, and there is none: install it, or pip install 'egomap[video]'."
        ) from None


def moments(recording: Recording, basis: Basis | None) -> Iterator[Moment]:
    """Every decision of a recording, ready to be painted."""
    marks, reached, returns = events(recording), goals_reached(recording), recording.reward.cumsum()
    mind, track, guides = recording.mind, recording.map, recording.guides
    rings = goals_in_map(recording)
    finite = recording.depth[np.isfinite(recording.depth)]
    task = "" if recording.layout is None else f"{FAMILIES[recording.layout.task].title}, "
    title = f"{task}layout {recording.layout_index}"
    driver = f" · driven by {recording.driver}" if recording.driver else ""
    shown = None if track is None or basis is None else colours(basis, track.features, track.known)
    for t in range(len(recording)):
        yield Moment(
            title=title,
            subtitle=f"{recording.agent}{driver}",
            rgb=recording.rgb[t],
            depth=recording.depth[t],
            farthest=float(finite.max()) if len(finite) else 1.0,
            way=recording.true_pose[: t + 1],
            layout=recording.layout,
            arena=recording.arena,
            reached=reached[t],
            reward=float(returns[t]),
            action=int(recording.action[t]),
            probabilities=None if mind is None else mind.probabilities[t],
            value=None if mind is None else float(mind.value[t]),
            beta=None if track is None or track.beta is None else float(track.beta[t]),
            colours=None if shown is None else shown[t],
            known=None if track is None else track.known[t],
            attention=None if track is None or track.attention is None else track.attention[t],
            position=None if track is None or track.position is None else track.position[t],
            pointing=None if guides is None or guides.pointing is None else guides.pointing[t],
            followed=None if guides is None else f"{guides.names[guides.whom[t]]}, {share_of(guides, t):.0%}",
            rings=None if rings is None else rings[t],
            planes=None if recording.planes is None else recording.planes.at(t),
            decision=t,
            decisions=len(recording),
            events=marks,
        )


def share_of(guides: GuidesTrack, t: int) -> float:
    """The probability of the selection."""
    return float(guides.shares[t, guides.whom[t]])


def goals_in_map(recording: Recording) -> np.ndarray | None:
    """(T, goals, 2): where each goal is in the egocentric map; None without such a map or without a layout."""
    track, layout = recording.map, recording.layout
    if track is None or track.frame != "ego" or layout is None:
        return None
    x, y, phi = (recording.true_pose[:, axis, None] for axis in range(3))
    goal_x, goal_y = np.array([layout.center(goal) for goal in layout.goals], np.float64).T
    dx, dy = goal_x - x, goal_y - y
    right, ahead = dx * np.sin(phi) - dy * np.cos(phi), dx * np.cos(phi) + dy * np.sin(phi)
    return np.stack((right, ahead), -1) * (2 / track.extent)


def write_video(
    path: Path,
    recordings: Sequence[Recording],
    basis: Basis | None,
    *,
    speed: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the episodes, one after the other, as one video: .mp4 or .webp, by the path's ending.

    Raises:
        ValueError: An .mp4 is asked for, and there is no ffmpeg, or it cannot write H.264.
    """
    require(0.05 <= speed <= 50, f"speed must be 0.05 to 50; got {speed}.")
    rate = Fraction(TICS_PER_SECOND, recordings[0].frame_skip) * Fraction(speed).limit_denominator(100)
    pictures = _pictures(recordings, basis, progress)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    try:
        if path.suffix.lower() == ".webp":
            _write_webp(scratch, pictures, rate)
        else:
            reason = _write_mp4(scratch, pictures, rate)
            require(not reason, f"ffmpeg could not write {path}: {reason}.")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _pictures(
    recordings: Sequence[Recording], basis: Basis | None, progress: Callable[[int, int], None] | None
) -> Iterator[Image]:
    """All pictures in their order, the last of each episode several times."""
    total, done = sum(map(len, recordings)), 0
    for recording in recordings:
        for moment in moments(recording, basis):
            picture = paint(moment)
            yield picture
            done += 1
            if progress is not None:
                progress(done, total)
        yield from [picture] * HOLD


def _write_webp(path: Path, pictures: Iterator[Image], rate: Fraction) -> None:
    from PIL.Image import Resampling

    small = (picture.resize(WEBP_SIZE, Resampling.LANCZOS) for picture in pictures)
    first = next(small)
    pause = round(1000 / rate)  # milliseconds
    first.save(
        path, save_all=True, append_images=small, duration=pause, loop=0, quality=WEBP_QUALITY, method=4
    )


def _write_mp4(path: Path, pictures: Iterator[Image], rate: Fraction) -> str:
    """Why ffmpeg could not write it; empty where it could."""
    command = [
        find_ffmpeg(), "-loglevel", "error", "-y",
        "-f", "rawvideo", "-pixel_format", "rgb24", "-video_size", f"{WIDTH}x{HEIGHT}", "-framerate", str(rate),
        "-i", "-", "-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p",
        "-movflags", "+faststart", "-threads", "2", str(path),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    try:
        try:
            for picture in pictures:
                process.stdin.write(picture.tobytes())
        except BrokenPipeError:
            pass  # ffmpeg has ended; its stderr has the reason
        _, told = process.communicate()
        if process.returncode == 0:
            return ""
        return (told.decode(errors="replace").strip().splitlines() or ["it gave no reason"])[-1]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
