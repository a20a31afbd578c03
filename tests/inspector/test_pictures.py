"""Figures, frames, videos and Rerun files: real files, opened again by other programs."""

from __future__ import annotations

import dataclasses
import io
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from egomap.inspector import frame
from egomap.inspector.components import Basis, colours, fit_basis, known_rows
from egomap.inspector.events import events
from egomap.inspector.figure import default_steps, figure, parse_steps, sheet
from egomap.inspector.frame import paint
from egomap.inspector.recording import Recording
from egomap.inspector.rerun_file import points_of, write_rrd
from egomap.inspector.video import HOLD, WEBP_SIZE, find_ffmpeg, goals_in_map, moments, write_video

from .browser import Watched, chromium, missing
from .conftest import Recorder


def basis_of(recording: Recording) -> Basis | None:
    return None if recording.map is None else fit_basis(known_rows([recording.map]))


@pytest.mark.parametrize("kind", ["egomap", "neural-map", "gru", "none", None])
def test_a_figure_of_every_agent(recorded: Recorder, kind: str | None) -> None:
    recording = recorded("labyrinth", kind, "planner")
    picture = Image.open(io.BytesIO(figure(recording, basis_of(recording), [0, 5, 9], "png")))
    assert picture.width > 1000
    assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 300


def test_figures_in_all_formats(recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    svg = figure(recording, basis_of(recording), [5, 9], "svg").decode()
    assert "t = 5" in svg and "t = 9" in svg and "attention" in svg, "letters stay letters"
    assert svg == figure(recording, basis_of(recording), [5, 9], "svg").decode(), "the same bytes each time"
    assert figure(recording, basis_of(recording), [5], "pdf").startswith(b"%PDF-")


def test_steps(recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    assert parse_steps("3, 1,3", recording) == [3, 1, 3]
    last = len(recording) - 1
    with pytest.raises(ValueError, match=f"decisions 0 to {last}; got {last + 1}, -1"):
        parse_steps(f"0,{last + 1},-1", recording)
    with pytest.raises(ValueError, match="steps must be decisions like"):
        parse_steps("one", recording)
    chosen = default_steps(recording)
    assert chosen == sorted(set(chosen)) and len(chosen) == 5 and chosen[0] >= 0 and chosen[-1] == last
    assert default_steps(recording, most=99) and {event.decision for event in events(recording)} <= set(
        default_steps(recording, most=99)
    )


def test_tiles_as_one_sheet() -> None:
    tiles = np.arange(4 * 2 * 2).reshape(4, 2, 2, 1)
    assert sheet(tiles)[..., 0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert sheet(tiles[:1])[..., 0].tolist() == [[0, 1], [2, 3]]


def test_a_frame_shows_the_pictures_of_its_decision(recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    track, basis = recording.map, basis_of(recording)
    assert track is not None and basis is not None
    shown = colours(basis, track.features, track.known)
    for t, moment in enumerate(moments(recording, basis)):
        if t not in (0, 11, len(recording) - 1):
            continue
        picture = np.asarray(paint(moment))
        left, top, width, height = frame.VIEW
        view = picture[top + 2 : top + height : 4, left + 2 : left + width : 4]
        assert np.array_equal(view, recording.rgb[t])
        left, top, width, _ = frame.MEMORY[0][0]
        cell = width / track.size
        for row, column in ((1, 2), (track.size - 2, 3)):
            got = picture[int(top + (row + 0.5) * cell), int(left + (column + 0.5) * cell)]
            known = track.known[t, 0, row, column]
            assert got.tolist() == (shown[t, 0, row, column].tolist() if known else list(frame.EMPTY))


@pytest.mark.parametrize("kind", ["neural-map", "gru", None])
def test_frames_of_other_agents(recorded: Recorder, kind: str | None) -> None:
    recording = recorded("labyrinth", kind, "planner")
    picture = paint(next(moments(recording, basis_of(recording))))
    assert picture.size == (frame.WIDTH, frame.HEIGHT)
    assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 200


@pytest.fixture(scope="module")
def video(recorded: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes in one video."""
    try:
        find_ffmpeg()
    except ValueError as error:
        pytest.skip(str(error))
    first, second = (recorded("find-return", "egomap", "planner", layout=k) for k in (0, 1))
    path = tmp_path_factory.mktemp("video") / "episodes.mp4"
    write_video(path, [first, second], basis_of(first), speed=4)
    return path


class TestVideo:
    def test_its_frames_are_the_episodes(self, video: Path, recorded: Recorder) -> None:
        raw = subprocess.run(
            [
                find_ffmpeg(),
                "-loglevel",
                "error",
                "-i",
                str(video),
                "-f",
                "rawvideo",
                "-pix_fmt",
                "rgb24",
                "-",
            ],
            capture_output=True,
            check=True,
        ).stdout
        pictures = np.frombuffer(raw, np.uint8).reshape(-1, frame.HEIGHT, frame.WIDTH, 3)
        first, second = (recorded("find-return", "egomap", "planner", layout=k) for k in (0, 1))
        assert len(pictures) == len(first) + len(second) + 2 * HOLD
        left, top, width, height = frame.VIEW
        views = pictures[:, top + 2 : top + height : 4, left + 2 : left + width : 4].astype(int)
        for place, wanted in ((4, first.rgb[4]), (len(first) + HOLD + 2, second.rgb[2])):
            off = np.abs(views[place] - wanted).mean()
            assert off < 6, "compressed, but the same picture"
        assert list(video.parent.iterdir()) == [video]

    @pytest.mark.skipif(missing() is not None, reason=str(missing()))
    def test_it_plays_in_a_browser(self, video: Path, tmp_path: Path) -> None:
        page = tmp_path / "video.html"
        page.write_text(f'<body><video src="{video.as_uri()}" muted></video></body>')
        with chromium() as browser:
            watched = Watched(browser.new_context())
            watched.page.goto(page.as_uri())
            found = watched.page.evaluate(
                "new Promise((done) => { const v = document.querySelector('video');"
                " v.onerror = () => done(['error', v.error.message]);"
                " v.onended = () => done([v.videoWidth, v.videoHeight, v.duration]); v.playbackRate = 8; v.play(); })"
            )
        if found[0] == "error" and "DEMUXER_ERROR_NO_SUPPORTED_STREAMS" in found[1]:
            pytest.skip("this Chromium was built without H.264")
        assert found[:2] == [frame.WIDTH, frame.HEIGHT] and found[2] > 0.5

    def test_what_ffmpeg_cannot_write_is_one_sentence(
        self, recorded: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = tmp_path / "bin" / "ffmpeg"
        broken.parent.mkdir()
        broken.write_text("#!/bin/sh\necho 'Unknown encoder libx264' >&2\nexit 1\n")
        broken.chmod(0o755)
        monkeypatch.setenv("PATH", str(broken.parent), prepend=":")
        recording = recorded("labyrinth", None, "planner")
        with pytest.raises(ValueError, match=r"could not write .*x\.mp4: Unknown encoder libx264"):
            write_video(tmp_path / "x.mp4", [recording], None)
        assert list(tmp_path.glob("*.mp4")) == [] and list(tmp_path.glob(".*")) == []


def test_points_stand_where_the_walls_are(recorded: Recorder) -> None:
    """Points at eye height are on walls or goals: never in the open, never far outside."""
    recording = recorded("labyrinth", None, "planner")
    assert recording.layout is not None
    from egomap.scenarios.planner import wall_boxes

    boxes, half = wall_boxes(recording.layout, 8.0), recording.arena / 2
    on_wall = []
    for t in range(0, len(recording), 4):
        depth = np.where(np.arange(64)[:, None] == 31, recording.depth[t], np.inf)
        points, known = points_of(depth, recording.camera, recording.true_pose[t])
        assert len(points) == known.sum() and not known[:31].any()
        x, y = points[:, :1], points[:, 1:2]
        inside = (x >= boxes[:, 0]) & (x <= boxes[:, 2]) & (y >= boxes[:, 1]) & (y <= boxes[:, 3])
        border = np.maximum(np.abs(x), np.abs(y))[:, 0] > half - 8
        goal = np.hypot(*(points[:, :2] - recording.layout.center(recording.layout.goals[0])).T) < 28
        on_wall.append(inside.any(1) | border | goal)
    assert np.concatenate(on_wall).mean() > 0.93


def test_a_point_straight_ahead() -> None:
    from egomap.config import Camera

    depth = np.full((4, 4), np.inf)
    depth[1, 2] = 100.0
    camera = Camera(4, 4, 2.0, 2.0, 2.5, 1.5)
    points, known = points_of(depth, camera, np.array([10.0, 20.0, math.pi / 2]))
    assert known.sum() == 1 and points == pytest.approx(np.array([[10, 120, 41]]))


@pytest.mark.parametrize("kind", ["egomap", None])
def test_rerun_file(recorded: Recorder, tmp_path: Path, kind: str | None) -> None:
    rerun = pytest.importorskip("rerun")
    recording = recorded("find-return", kind, "planner")
    recording = dataclasses.replace(recording, outcome="solved")
    path = tmp_path / "episode.rrd"
    write_rrd(path, recording, basis_of(recording))
    assert [entry.name for entry in tmp_path.iterdir()] == ["episode.rrd"]
    found = rerun.dataframe.load_recording(path) if hasattr(rerun, "dataframe") else None
    if found is None:
        pytest.skip("this version of rerun cannot read files back")
    paths = {str(column.entity_path) for column in found.schema().component_columns()}
    assert {"/agent/view", "/agent/depth", "/world/seen", "/world/way"} <= paths
    assert ("/memory/map" in paths) == (kind is not None)


def test_an_animated_picture_is_the_episode(recorded: Recorder, tmp_path: Path) -> None:
    recording = recorded("find-return", "egomap", "planner")
    path = tmp_path / "episode.webp"
    write_video(path, [recording], basis_of(recording), speed=2)
    with Image.open(path) as animation:
        assert animation.size == WEBP_SIZE
        for t in (4, len(recording) // 2):
            animation.seek(t)
            left, top, width, height = (side // 2 for side in frame.VIEW)
            view = np.asarray(animation.convert("RGB"))[top : top + height : 2, left : left + width : 2]
            off = np.abs(view.astype(int) - recording.rgb[t]).mean()
            assert off < 8, "compressed and smaller, but the same picture"
    assert list(tmp_path.iterdir()) == [path]


def test_goals_lie_in_the_map_where_the_agent_would_see_them(recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    rings = goals_in_map(recording)
    assert rings is not None and recording.layout is not None and recording.map is not None
    x, y, phi = recording.true_pose[5].tolist()
    for goal, (right, ahead) in zip(recording.layout.goals, rings[5] * recording.map.extent / 2, strict=True):
        goal_x, goal_y = recording.layout.center(goal)
        assert x + ahead * math.cos(phi) + right * math.sin(phi) == pytest.approx(goal_x, abs=1e-3)
        assert y + ahead * math.sin(phi) - right * math.cos(phi) == pytest.approx(goal_y, abs=1e-3)


def test_a_frame_of_an_agent_with_guides_shows_the_pointer(recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap+", "planner")
    moment = list(moments(recording, basis_of(recording)))[7]
    assert moment.pointing is not None and moment.followed is not None
    picture = np.asarray(paint(moment._replace(rings=None)))
    left, top, width, _ = frame.MEMORY[0][1]
    cell = width / len(moment.pointing)
    row, column = np.unravel_index(moment.pointing.argmax(), moment.pointing.shape)
    lit = picture[int(top + (row + 0.5) * cell), int(left + (column + 0.5) * cell)]
    assert lit.astype(int).sum() > 400  # the brightest colour of the scale
    with_rings = np.asarray(paint(moment))
    assert not np.array_equal(picture, with_rings)
