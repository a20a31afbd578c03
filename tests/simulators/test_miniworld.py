"""Our mazes drawn by MiniWorld: geometry against the layout, seeds, autoreset, workers, training by the commands."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from egomap.cli import main
from egomap.config import EnvSettings, Task, TrainConfig
from egomap.envs.doctor import expected_depth
from egomap.envs.source import DoomSource
from egomap.envs.worlds import worlds_of_set
from egomap.inspector.record import Stage, driver_of
from egomap.scenarios.dataset import ScenarioSet
from egomap.simulators.miniworld import MiniWorldSource
from egomap.worlds.api import Arrays, Source
from egomap.worlds.vector import GymVectorEnv

pytestmark = [pytest.mark.slow(seconds=6), pytest.mark.usefixtures("miniworld")]

FORWARD, LEFT = 2, 0
SMALL = [
    *("--learner.num-envs", "4", "--learner.rollout-steps", "8", "--budget", "32", "--evaluate-every", "0"),
    *("--env-workers", "1"),
]


def opened(mazes: ScenarioSet, num_envs: int = 2, workers: int = 1, **options: object) -> GymVectorEnv:
    config = TrainConfig(scenarios=str(mazes.folder), env=EnvSettings(world="miniworld", workers=workers))
    source: Source = MiniWorldSource(config.validate())
    env = source.open(source.examine(), source.worlds("test"), num_envs, **options)  # type: ignore[arg-type]
    assert isinstance(env, GymVectorEnv)
    return env


@pytest.fixture
def env(sets: dict[Task, ScenarioSet]) -> Iterator[GymVectorEnv]:
    made = opened(sets["find-return"])
    yield made
    made.close()


def copied(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


def test_depth_lands_on_the_walls_of_the_layout(sets: dict[Task, ScenarioSet]) -> None:
    env = opened(sets["labyrinth"])
    camera, layouts = env.world_spec.camera, sets["labyrinth"].layouts["test"]
    draw, errors = np.random.default_rng(0), []
    try:
        observation, _ = env.reset(seed=0)
        for _ in range(40):
            for row in range(2):
                layout = layouts[env.episode(row).layout]
                seen = observation["depth"][row, camera.height // 2 - 1]
                error = np.abs(seen - expected_depth(layout, observation["pose"][row], camera))
                errors.append(error[np.isfinite(seen)])
            observation = env.step(draw.choice(5, 2, p=(0.15, 0.15, 0.3, 0.2, 0.2)))[0]
    finally:
        env.close()
    found = np.concatenate(errors)
    assert env.world_spec.depth_range is not None
    # 16 bits from 5 to 12,800 map units are half a unit at the end of the range; columns at edges differ by more.
    assert np.quantile(found, 0.5) < 0.6 and np.quantile(found, 0.9) < 3.0


def test_pictures_are_as_doom_shows_them(sets: dict[Task, ScenarioSet]) -> None:
    """The same place, the same heading: the same camera, and colours that an agent of one knows in the other."""
    mazes = sets["find-return"]
    config = TrainConfig(scenarios=str(mazes.folder))
    doom_source = DoomSource(config)
    doom = doom_source.open(doom_source.examine(), worlds_of_set(mazes, "test"), 4)
    env = opened(mazes, 4)
    try:
        theirs, ours = copied(doom.reset(seed=1)[0]), copied(env.reset(seed=1)[0])
        assert doom.world_spec.camera == env.world_spec.camera
        assert doom.world_spec.actions == env.world_spec.actions
        for name in ours:
            assert (ours[name].shape, ours[name].dtype) == (theirs[name].shape, theirs[name].dtype)
        for name in ("pose", "ego_motion"):
            np.testing.assert_allclose(ours[name][:, :2], theirs[name][:, :2], atol=0.1)  # headings are drawn
        means = [view["rgb"].mean(axis=(0, 2, 3)) for view in (ours, theirs)]
        np.testing.assert_allclose(*means, atol=25)
        red, green = (ours["rgb"][:, channel].astype(int) for channel in (0, 1))
        assert (np.abs(red - green) > 80).any(), "at the start the green pillar is beside the player"
    finally:
        doom.close()
        env.close()


def test_actions_move_the_player_and_poses_tell_it(env: GymVectorEnv) -> None:
    before = copied(env.reset(seed=2)[0])
    turned = 0.0
    for _ in range(3):
        after = copied(env.step(np.array([LEFT, LEFT]))[0])
        turned += math.degrees(after["ego_motion"][0, 2])
        np.testing.assert_allclose(after["pose"][:, :2], before["pose"][:, :2], atol=1e-4)
    assert turned == pytest.approx(7.03 + 12.30 + 14.06, abs=0.1)
    np.testing.assert_allclose(after["reward"], 4 * -0.0001, atol=1e-7)


def test_the_seed_says_it_all_and_workers_change_nothing(sets: dict[Task, ScenarioSet]) -> None:
    actions = np.random.default_rng(0).integers(5, size=(12, 3))
    played = []
    for workers in (1, 2, 0):
        env = opened(sets["ordered-items"], 3, workers)
        try:
            rows = [copied(env.reset(seed=7)[0])] + [copied(env.step(action)[0]) for action in actions]
            played.append(rows)
        finally:
            env.close()
    for others in played[1:]:
        for mine, theirs in zip(played[0], others, strict=True):
            for name in mine:
                np.testing.assert_array_equal(mine[name], theirs[name])


def test_each_layout_is_played_and_the_next_episode_follows_at_once(sets: dict[Task, ScenarioSet]) -> None:
    """Turning on the spot, with long decisions: every episode times out, and is followed in the same step."""
    config = TrainConfig(
        scenarios=str(sets["labyrinth"].folder), env=EnvSettings(world="miniworld", workers=1, frame_skip=35)
    )
    source = MiniWorldSource(config)
    env = source.open(source.examine(), source.worlds("test"), 2, episodes_per_layout=1)
    ended = []
    try:
        env.reset(seed=0)
        while not env.exhausted:
            observation, _, terminated, truncated, infos = env.step(np.full(2, LEFT))
            for row in np.flatnonzero(terminated | truncated).tolist():
                final = infos["final_info"]
                assert (final["decisions"][row], final["success"][row]) == (60, False)
                assert final["return"][row] == pytest.approx(-0.21)
                ended.append(str(final["layout_id"][row]))
                last = infos["final_obs"][row]
                if not env.idle[row]:
                    assert not np.array_equal(last["pose"], observation["pose"][row])
                    assert not observation["ego_motion"][row].any()
    finally:
        env.close()
    assert sorted(ended) == sorted(layout.hash for layout in sets["labyrinth"].layouts["test"])


def test_a_stream_goes_on_where_it_stopped(env: GymVectorEnv) -> None:
    env.reset(seed=5)
    second = env.episode(1)
    again = copied(env.reset(seed=5, options={"position": 1})[0])
    assert env.episode(0) == second
    assert again["rgb"][0].any()


def test_a_worker_that_dies_is_replaced(env: GymVectorEnv) -> None:
    env.reset(seed=0)
    assert env._crew is not None
    os.kill(env._crew._workers[0]._process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    *_, truncated, infos = env.step(np.full(2, FORWARD))
    assert truncated.all() and infos["final_info"]["interrupted"].all() and env.engine_restarts == 1
    assert env.step(np.full(2, FORWARD))[0]["rgb"].any()


def test_an_agent_is_trained_resumed_and_scored_in_both_worlds(
    sets: dict[Task, ScenarioSet], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of docs/environments.md: a row of the transfer table."""
    mazes, run = str(sets["labyrinth"].folder), str(tmp_path / "run")
    train = ["train", "--world", "miniworld", "--agent", "gru", "--scenarios", mazes, "--run", run, *SMALL]
    assert main(train) == 0
    assert main(["train", "--run", run, "--resume", "--budget", "64"]) == 0
    capsys.readouterr()
    scores = {}
    for world in (None, "doom", "miniworld"):
        chosen = [] if world is None else ["--world", world]
        out = tmp_path / f"{world}.json"
        one = ["evaluate", run, "--agents", "planner", "--layouts", "1", "--out", str(out), *chosen]
        assert main(one) == 0
        scores[world] = json.loads(out.read_text())["evaluations"]
    for told in scores[None] + scores["miniworld"]:
        assert told["scenarios"]["world"] == "miniworld"
    assert "world" not in scores["doom"][0]["scenarios"]
    assert scores[None][0]["layouts"] == scores["miniworld"][0]["layouts"]
    for told in scores.values():
        assert told[1]["summary"]["mean_return"] > 0.95, "the planner solves it, whoever draws it"

    page = tmp_path / "episode.html"
    assert main(["inspect", run, "--layout", "1", "--driver", "planner", "--out", str(page)]) == 0
    assert page.exists()


def test_the_inspector_shows_what_miniworld_draws(sets: dict[Task, ScenarioSet]) -> None:
    """An episode of the planner, and the same layout and seed again: the same pictures, depth on the same walls."""
    worlds = worlds_of_set(sets["labyrinth"], "test")
    with Stage(worlds, EnvSettings(world="miniworld")) as stage:
        first, again = (stage.play(1, driver_of("planner"), seed=4) for _ in range(2))
    assert first.outcome == "solved" and first.event[-1] and not first.event[:-1].any()
    np.testing.assert_array_equal(first.rgb, again.rgb)
    walls = expected_depth(sets["labyrinth"].layouts["test"][1], first.true_pose[0], first.camera)
    assert np.median(np.abs(first.depth[0, first.camera.height // 2 - 1] - walls)) < 1


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--imitate", "explorer"], "are of Doom; leave them out with another --world"),
        (["--env", "rooms:Room"], "--world draws our mazes, and --env is another world"),
        (["--env-fov", "60"], "go with --env"),
    ],
)
def test_what_does_not_go_together_is_told(
    flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--world", "miniworld", *flags]) == 2
    assert told in capsys.readouterr().err
