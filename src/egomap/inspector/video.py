"""Episodes as a video: H.264 in MP4, which plays in every browser.

What comes in: recordings and the colours of their maps. What goes out: a file, written whole or not at all. Pictures
are piped to ffmpeg: the system's, or the one of the package imageio-ffmpeg (extra `video`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from egomap.config import require
from egomap.inspector.components import Basis, colours
from egomap.inspector.events import events, goals_reached
from egomap.inspector.frame import HEIGHT, WIDTH, Moment, paint
from egomap.inspector.recording import Recording
from egomap.scenarios.tasks import FAMILIES

TICS_PER_SECOND = 35
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
    mind, track = recording.mind, recording.map
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
            planes=None if recording.planes is None else recording.planes.at(t),
            decision=t,
            decisions=len(recording),
            events=marks,
        )


def write_video(
    path: Path,
    recordings: Sequence[Recording],
    basis: Basis | None,
    *,
    speed: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the episodes, one after the other, as one video.

    Raises:
        ValueError: There is no ffmpeg, or it cannot write H.264.
    """
    require(0.05 <= speed <= 50, f"speed must be 0.05 to 50; got {speed}.")
    rate = Fraction(TICS_PER_SECOND, recordings[0].frame_skip) * Fraction(speed).limit_denominator(100)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp.mp4")
    command = [
        find_ffmpeg(), "-loglevel", "error", "-y",
        "-f", "rawvideo", "-pixel_format", "rgb24", "-video_size", f"{WIDTH}x{HEIGHT}", "-framerate", str(rate),
        "-i", "-", "-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p",
        "-movflags", "+faststart", "-threads", "2", str(scratch),
    ]  # fmt: skip
    total, done = sum(map(len, recordings)), 0
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    try:
        try:
            for recording in recordings:
                picture = b""
                for moment in moments(recording, basis):
                    picture = paint(moment).tobytes()
                    process.stdin.write(picture)
                    done += 1
                    if progress is not None:
                        progress(done, total)
                process.stdin.write(picture * HOLD)
        except BrokenPipeError:
            pass  # ffmpeg has given up; it says why
        _, told = process.communicate()
        reason = told.decode(errors="replace").strip().splitlines()
        require(
            process.returncode == 0,
            f"ffmpeg could not write {path}: {reason[-1] if reason else 'it gave no reason'}.",
        )
        os.replace(scratch, path)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        scratch.unlink(missing_ok=True)
