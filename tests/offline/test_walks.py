"""Recorded walks: the labels by hand and by invariants, in the real engine; files that are reused, and refused."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egomap.agents.explorer.walker import Walker
from egomap.config import Camera, ScenarioConfig
from egomap.envs.vector import DoomVectorEnv
from egomap.mazes.explorer import ExplorerPlayer
from egomap.offline.labels import ARRAYS, direction, in_agent_frame
from egomap.offline.options import SEQUENCE, WalkSettings
from egomap.offline.record import record, walks, worlds_of_walks
from egomap.offline.store import MANIFEST, Chunk, Walks, Writer, depths
from egomap.scenarios.dataset import default_set
from egomap.ways import grid

SETTINGS = WalkSettings(
    ScenarioConfig.default("find-return", size=3), "train", 3, num_envs=4, burst=0.1, seed=1
)


@pytest.fixture(scope="module")
def walked() -> Walks:
    return walks(SETTINGS)


def everything(walked: Walks) -> Chunk:
    parts = [walked.chunk(index) for index in range(len(walked))]
    return {name: np.concatenate([part[name] for part in parts]) for name in ARRAYS}


def test_a_point_in_the_agents_frame() -> None:
    # At (1, 2) looking north: what is 3 units east is right, what is 5 units north is ahead.
    assert in_agent_frame((1.0, 2.0, math.pi / 2), (4.0, 7.0)) == pytest.approx((3.0, 5.0))
    assert direction((0.0, 0.0, 0.0), (0.0, -8.0)) == pytest.approx((1.0, 0.0))
    assert all(math.isnan(value) for value in direction((0.0, 0.0, 0.0), (0.5, 0.0)))
    assert all(math.isnan(value) for value in direction((0.0, 0.0, 0.0), None))


def test_the_point_along_a_way() -> None:
    """Over an open grid of 9 x 9 cells, from its corner: four diagonal steps, then straight on to the east."""
    room = np.full((9, 9), grid.ROOMY, np.uint8)
    _, parent, _ = grid.travel(room, 0, 0)
    target = 0 * 9 + 7
    assert grid.along(parent, 9, 0, target, 3.0) == 3
    assert grid.along(parent, 9, 0, target, 100.0) == target
    diagonal = 5 * 9 + 5
    assert grid.along(parent, 9, 0, diagonal, 3.0) == 2 * 9 + 2  # 2 steps of 1.41 cells fit into 3
    assert grid.along(parent, 9, diagonal, diagonal, 3.0) == diagonal


def test_deciding_is_not_doing() -> None:
    walker = Walker(Camera(112, 64, 42.0, 51.2, 56.0, 32.0), 640.0, 4)
    walker.see(np.full((64, 112), 200.0, np.float32), (0.0, 0.0, 0.0))
    assert walker.action_to((-100.0, 10.0)) == 0 and walker.turning == 0
    assert walker.steer((-100.0, 10.0)) == 0 and walker.turning == 1


def test_labels_are_those_of_the_poses(walked: Walks) -> None:
    rows = everything(walked)
    assert rows["rgb"].shape == (3 * SEQUENCE, 4, 3, 64, 112)
    start, pose = rows["episode_start"], rows["pose"].astype(np.float64)
    assert start[0].all() and start[1:].any(), "these mazes are small: episodes end within 192 decisions"
    ended = np.diff(rows["episode"], axis=0) != 0
    assert (start[1:] == ended).all(), "an episode's number changes exactly where one starts"
    assert (rows["ego_motion"][start] == 0).all()
    for env in range(4):
        home = pose[0, env]
        for t in range(len(pose)):
            home = pose[t, env] if start[t, env] else home
            east, north = home[:2] - pose[t, env, :2]
            cos, sin = np.cos(pose[t, env, 2]), np.sin(pose[t, env, 2])
            wanted = np.array([east * sin - north * cos, east * cos + north * sin]) / 600
            # Poses are float32, some hundred units and some radians: a few 1e-5 units of 600.
            assert rows["home"][t, env] == pytest.approx(wanted, abs=1e-6)


def test_directions_have_length_one_or_are_none(walked: Walks) -> None:
    rows = everything(walked)
    for name in ("way", "goal", "way_without_target", "way_without_intent"):
        length = np.linalg.norm(rows[name], axis=-1)
        known = np.isfinite(length)
        assert known.mean() > 0.1 and length[known] == pytest.approx(1.0, abs=1e-6)
    # The direction of a goal is there where it was seen (but for the few decisions on top of it), and nowhere else.
    known = np.isfinite(rows["goal"]).all(-1)
    assert not (known & ~rows["seen"]).any() and (rows["seen"] & ~known).mean() < 0.01
    # What was seen once stays seen until the next goal is wanted; each episode wants two.
    lost = rows["seen"][:-1] & ~rows["seen"][1:] & ~rows["episode_start"][1:]
    assert lost.sum() <= len(np.unique(rows["episode"]))


def test_actions_follow_the_way(walked: Walks) -> None:
    """Where the way turns off to one side by more than 60 degrees, the Explorer does not turn to the other."""
    rows = everything(walked)
    right, ahead = rows["way"][..., 0], rows["way"][..., 1]
    aside = (abs(right) > 0.87) & (ahead > -0.2)
    left_turns, right_turns = np.isin(rows["action"], (0, 3)), np.isin(rows["action"], (1, 4))
    assert aside.sum() > 20
    assert (left_turns & aside & (right > 0)).sum() <= 0.1 * aside.sum()
    assert (right_turns & aside & (right < 0)).sum() <= 0.1 * aside.sum()


def test_bursts_are_taken_but_not_taught(walked: Walks) -> None:
    rows = everything(walked)
    differ = (rows["taken"] != rows["action"]).mean()
    # Bursts of 6.5 actions on average begin at a tenth of the others: 0.39 of all, four fifths of them different.
    assert 0.15 < differ < 0.5
    calm = everything(walks(replace(SETTINGS, burst=0.0, sequences=1)))
    assert (calm["taken"] == calm["action"]).all()


def test_without_bursts_it_is_the_explorer() -> None:
    """The actions of the player that evaluations know, in the same episodes."""
    settings = replace(SETTINGS, burst=0.0, sequences=1)
    env = DoomVectorEnv(4, worlds=worlds_of_walks(settings.scenario, "train"))
    player, began, actions = ExplorerPlayer(4, env.camera), np.ones(4, bool), []
    try:
        observation, _ = env.reset(seed=settings.seed)
        for _ in range(SEQUENCE):
            for index in np.flatnonzero(began).tolist():
                episode = env.episode(index)
                player.begin(index, env.worlds[episode.layout], episode)
            actions.append(player.act(observation, np.ones(4, bool)))
            observation, rewards, terminated, truncated, _ = env.step(actions[-1])
            player.hear(rewards)
            began = terminated | truncated
    finally:
        env.close()
    assert (walks(settings).column("action") == np.array(actions)).all()


def test_depth_is_kept_without_loss() -> None:
    settings = replace(SETTINGS, sequences=1, num_envs=2)
    env = DoomVectorEnv(2, worlds=worlds_of_walks(settings.scenario, "train"))
    try:
        first, _ = env.reset(seed=settings.seed)
    finally:
        env.close()
    chunk = walks(settings).chunk(0)
    for name in ("rgb", "depth", "pose"):
        assert (chunk[name][0] == first[name]).all()
    assert len(depths(settings.env.rendering)) <= 256
    assert chunk["rgb"].strides == np.moveaxis(np.zeros((64, 2, 64, 112, 3), np.uint8), -1, 2).strides


def test_the_same_settings_give_the_same_walks(walked: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[Chunk] = []
    record(SETTINGS, worlds_of_walks(SETTINGS.scenario, "train"), again.append)
    for index, chunk in enumerate(again):
        kept = walked._read(index, tuple(ARRAYS))
        for name in ARRAYS:
            assert np.array_equal(kept[name], chunk[name], equal_nan=name not in ("seen", "episode_start"))
    before = {path: path.stat().st_mtime_ns for path in walked.folder.iterdir()}
    assert walks(SETTINGS).folder == walked.folder
    assert {path: path.stat().st_mtime_ns for path in walked.folder.iterdir()} == before, (
        "it was recorded again"
    )
    assert walks(replace(SETTINGS, seed=2, sequences=1)).folder != walked.folder


@pytest.mark.parametrize("size", [3, 5])
def test_the_third_split_is_disjoint(size: int) -> None:
    scenario = ScenarioConfig.default("find-return", size=size)
    known = {layout for layouts in default_set(scenario).layouts.values() for layout in layouts}
    fresh = [world.layout for world in worlds_of_walks(scenario, "held-out")]
    assert fresh and not known & set(fresh)


@pytest.fixture
def copy(walked: Walks, tmp_path: Path) -> Path:
    return Path(shutil.copytree(walked.folder, tmp_path / "walks"))


def truncate(folder: Path) -> None:
    path = folder / "00001.npz"
    path.write_bytes(path.read_bytes()[:1000])


def flip(folder: Path) -> None:
    data = bytearray((folder / "00002.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "00002.npz").write_bytes(bytes(data))


def forge(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["settings"]["seed"] = 5
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (truncate, "00001.npz is truncated or changed"),
        (flip, "00002.npz is truncated or changed"),
        (forge, "holds walks of other settings"),
        (lambda folder: (folder / "00000.npz").unlink(), "00000.npz"),
        (lambda folder: (folder / MANIFEST).write_text("{"), "manifest.json is not a recording of walks"),
        (lambda folder: (folder / MANIFEST).write_text('{"format": 1}'), "manifest.json is not a recording"),
    ],
)
def test_a_damaged_recording_is_refused(copy: Path, damage, told: str) -> None:
    assert len(Walks(copy, SETTINGS)) == 3
    damage(copy)
    with pytest.raises(ValueError, match=r"Delete .* and it will be recorded again") as caught:
        Walks(copy, SETTINGS)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_recording_that_fails_leaves_nothing(walked: Walks, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Writer(tmp_path / "walks", SETTINGS) as writer:
        writer.add(walked._read(0, tuple(ARRAYS)))
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
