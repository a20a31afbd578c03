"""The single environment: Gymnasium's rules, the observation, rewards and ends, repeatability."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from egomap.config import Task
from egomap.envs import IDS, RENDER_MODES, DoomEnv
from egomap.scenarios.dataset import ScenarioSet
from egomap.scenarios.tasks import player_start

from .conftest import IDS as ID_OF
from .conftest import TASKS
from .helpers import (
    FORWARD,
    LEFT,
    all_same,
    can_be_walked,
    events,
    finish,
    legs,
    play,
    random_actions,
    run_python,
    same,
    shortened,
    walk,
)

Make = Callable[..., DoomEnv]
INFO = {
    "decisions",
    "frames",
    "return",
    "success",
    "layout",
    "layout_id",
    "engine_restarts",
    "interrupted",
    "repeat",
    "true_pose",
}


def test_every_id_is_registered_for_single_and_vector_use() -> None:
    assert set(ID_OF.values()) | {"EgoMap/Doom-v0"} == set(IDS)
    for name in IDS:
        spec = gymnasium.spec(name)
        assert spec.vector_entry_point is not None


@pytest.mark.filterwarnings("error", "ignore:.*infinity")  # positions have no bounds
@pytest.mark.parametrize("name", sorted(IDS))
def test_gymnasiums_checker_has_no_complaint(name: str, sets: dict[Task, ScenarioSet]) -> None:
    task = IDS[name].get("task")
    options = {"scenarios": sets[task]} if task else {"config": sets["labyrinth"].cfg("train")}
    env = gymnasium.make(name, render_mode="rgb_array", **options)
    try:
        check_env(env.unwrapped)
    finally:
        env.close()


def test_default_set_is_made_once_and_reused(own_cache: Path) -> None:
    env = gymnasium.make("EgoMap/OrderedItems-v0", size=3, items=2, split="test")
    try:
        _, info = env.reset(seed=1)
        assert len(env.unwrapped.worlds) == 64
        assert env.unwrapped.world.layout.size == 3
        assert len(env.unwrapped.world.layout.goals) == 2
        assert info["layout_id"] == env.unwrapped.world.layout.hash
    finally:
        env.close()
    (folder,) = (own_cache / "scenarios").glob("ordered-items-3-*")
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = gymnasium.make("EgoMap/OrderedItems-v0", size=3, items=2, split="test")
    again.close()
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == written


def test_observation_has_the_shapes_types_and_layout_that_are_promised(doom: Make) -> None:
    env = doom("labyrinth")
    observation, info = env.reset(seed=0)
    assert set(info) == INFO
    for _ in range(3):
        assert env.observation_space.contains(observation)
        assert observation["rgb"].shape == (3, 64, 112)
        assert observation["rgb"].dtype == np.uint8
        assert observation["depth"].shape == (64, 112)
        assert observation["depth"].dtype == np.float32
        assert observation["pose"].dtype == observation["ego_motion"].dtype == np.float32
        # Channels last in memory: the form that convolutions are fastest on.
        assert observation["rgb"].transpose(1, 2, 0).flags.c_contiguous
        assert len(np.unique(observation["rgb"])) > 20
        observation, *_, info = env.step(FORWARD)
        assert set(info) == INFO


def test_last_observation_repeats_the_one_before_it_in_the_same_layout(doom: Make) -> None:
    env = doom("labyrinth", frame_skip=35)
    before, _ = env.reset(seed=0)
    while True:
        observation, _, terminated, truncated, _ = env.step(LEFT)
        if terminated or truncated:
            break
        before = observation
    assert same(observation, before)
    assert observation["rgb"] is not before["rgb"]
    assert observation["rgb"].transpose(1, 2, 0).flags.c_contiguous


def test_observations_already_given_out_do_not_change(doom: Make) -> None:
    env = doom("labyrinth")
    first, _ = env.reset(seed=0)
    kept = {name: value.copy() for name, value in first.items()}
    for action in random_actions(0, 10):
        env.step(action)
    env.reset(seed=1)
    assert same(first, kept)


@pytest.mark.parametrize("rendering", sorted(RENDER_MODES))
def test_render_shows_the_engines_own_picture(rendering: str, doom: Make) -> None:
    env = doom("labyrinth", rendering=rendering, render_mode="rgb_array")
    observation, _ = env.reset(seed=4)
    picture = env.render()
    mode = RENDER_MODES[rendering]
    assert picture is not None
    assert picture.shape == (mode.height, mode.width, 3)
    assert picture.dtype == np.uint8
    # The same scene: the means of the left and right halves agree with the observation's.
    for half in (np.s_[:, :56], np.s_[:, 56:]):
        columns = slice(0, mode.width // 2) if half[1].start is None else slice(mode.width // 2, None)
        seen = observation["rgb"].transpose(1, 2, 0)[half].mean((0, 1))
        np.testing.assert_allclose(picture[:, columns].mean((0, 1)), seen, atol=2.5)
    assert (env.camera.width, env.camera.height) == (112, 64)


def test_all_wide_modes_show_the_same_view(doom: Make) -> None:
    pictures, cameras = {}, {}
    for name, mode in RENDER_MODES.items():
        env = doom("labyrinth", rendering=name)
        pictures[name] = env.reset(seed=4, options={"layout": 3})[0]["rgb"].astype(float)
        cameras[name] = (env.camera, mode.wide)
        env.close()
    paper = pictures["320x180"]
    for name, (camera, wide) in cameras.items():
        difference = np.abs(pictures[name] - paper).mean()
        assert (difference < 5) == wide, f"{name} differs by {difference}"
        assert camera.fx == pytest.approx(42.0 if wide else 56.0)
        assert camera.fy == pytest.approx(51.2)


@pytest.mark.parametrize("task", TASKS)
def test_doing_nothing_useful_times_out_at_minus_021(task: Task, doom: Make) -> None:
    env = doom(task)
    env.reset(seed=2)
    total = 0.0
    for decision in range(1, 526):
        _, reward, terminated, truncated, info = env.step(LEFT)
        total += reward
        assert (terminated, truncated) == (False, decision == 525)
        assert info["decisions"] == decision
        assert info["frames"] == 4 * decision
    assert total == pytest.approx(-0.21, abs=1e-9)
    assert info["return"] == pytest.approx(-0.21, abs=1e-9)
    assert info["success"] is False


def test_labyrinth_is_solved_at_the_exit(doom: Make) -> None:
    env = doom("labyrinth")
    for layout in range(3):
        observation, _ = env.reset(seed=0, options={"layout": layout})
        steps = finish(env, walk(env, observation, legs(env.world.layout, [0])[0]))
        assert events(steps) == [1.0]
        assert (steps[-1].terminated, steps[-1].truncated) == (True, False)
        assert steps[-1].info["success"] is True
        assert steps[-1].info["return"] == pytest.approx(sum(step.reward for step in steps))
        assert steps[-1].info["return"] > 0.9


def test_find_and_return_pays_half_and_half(doom: Make) -> None:
    env = doom("find-return")
    for layout in range(3):
        observation, _ = env.reset(seed=0, options={"layout": layout})
        out, back = legs(env.world.layout, [0, 1])
        there = walk(env, observation, out)
        assert events(there) == [0.5]
        assert not there[-1].ended
        home = finish(env, walk(env, there[-1].observation, back))
        assert events(home) == [0.5]
        assert home[-1].terminated
        assert home[-1].info["success"] is True


def test_ordered_items_pay_in_order_and_end_with_the_last(doom: Make) -> None:
    env = doom("ordered-items")
    layouts = [i for i, world in enumerate(env.worlds) if can_be_walked(world.layout, range(4))]
    for layout in layouts[:2]:
        observation, _ = env.reset(seed=0, options={"layout": layout})
        paid: list[float] = []
        for points in legs(env.world.layout, range(4)):
            steps = walk(env, observation, points)
            observation = steps[-1].observation
            paid += events(steps)
        finish(env, steps)
        assert paid == [0.5, 0.5, 0.5, 1.0]
        assert steps[-1].terminated
        assert steps[-1].info["success"] is True


def test_a_wrong_item_costs_a_quarter_and_ends_the_episode(doom: Make) -> None:
    env = doom("ordered-items")
    layout = next(i for i, world in enumerate(env.worlds) if can_be_walked(world.layout, [2]))
    observation, _ = env.reset(seed=0, options={"layout": layout})
    steps = finish(env, walk(env, observation, legs(env.world.layout, [2])[0]))
    assert events(steps) == [-0.25]
    assert (steps[-1].terminated, steps[-1].truncated) == (True, False)
    assert steps[-1].info["success"] is False


@pytest.mark.parametrize("task", TASKS)
def test_the_player_starts_where_the_layout_says_in_the_arenas_frame(task: Task, doom: Make) -> None:
    env = doom(task)
    for layout in (0, 7, 15):
        observation, info = env.reset(seed=layout, options={"layout": layout})
        np.testing.assert_allclose(observation["pose"][:2], player_start(env.world.layout), atol=0.01)
        np.testing.assert_array_equal(observation["ego_motion"], 0.0)
        assert info["layout"] == layout
        assert env.extent == env.world.layout.size * env.world.layout.cell


def test_start_headings_go_all_around(doom: Make) -> None:
    env = doom("labyrinth")
    headings = [env.reset(seed=seed)[0]["pose"][2] for seed in range(40)]
    assert len(set(headings)) == 40
    quadrants = {int((heading + np.pi) // (np.pi / 2)) for heading in headings}
    assert quadrants >= {0, 1, 2, 3}


@pytest.mark.parametrize("task", TASKS)
def test_seed_and_layout_fix_the_episode_bit_for_bit(task: Task, doom: Make) -> None:
    actions = random_actions(3, 60)
    options = {"seed": 11, "options": {"layout": 6}}
    env = doom(task)
    first = play(env, actions, **options)
    assert all_same(play(env, actions, **options), first), "right after it"
    play(env, random_actions(4, 30), seed=12, options={"layout": 2})
    env.reset()
    assert all_same(play(env, actions, **options), first), "after other episodes"
    assert all_same(play(doom(task), actions, **options), first), "in a fresh engine"
    assert not all_same(play(env, actions, seed=12, options={"layout": 6}), first), "another seed"
    assert not all_same(play(env, actions, seed=11, options={"layout": 7}), first), "another layout"


def test_a_seed_alone_fixes_the_layout_and_the_episodes_after_it(doom: Make) -> None:
    actions = random_actions(5, 20)

    def episodes(env: DoomEnv) -> list[list[dict[str, np.ndarray]]]:
        first = play(env, actions, seed=8)
        return [first, *(play(env, actions) for _ in range(3))]

    env, other = doom("labyrinth"), doom("labyrinth")
    other.reset(seed=99)
    ours, theirs = episodes(env), episodes(other)
    assert all(map(all_same, ours, theirs))
    starts = {tuple(episode[0]["pose"]) for episode in ours}
    assert len(starts) == 4


def test_importing_the_environments_imports_no_torch(tmp_path: Path) -> None:
    code = "import sys, egomap.envs; sys.exit('torch' in sys.modules)"
    assert run_python(code, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(("task", "solved"), [("labyrinth", True), ("ordered-items", False)])
def test_a_prize_in_the_last_decision_ends_the_episode_only_if_it_is_the_last_prize(
    task: Task, solved: bool, doom: Make, sets: dict[Task, ScenarioSet], tmp_path: Path
) -> None:
    env = doom(task)
    layout = next(i for i, world in enumerate(env.worlds) if can_be_walked(world.layout, [0]))
    reset = {"seed": 0, "options": {"layout": layout}}
    observation, _ = env.reset(**reset)
    paid = walk(env, observation, legs(env.world.layout, [0])[0])
    assert events(paid) == [1.0 if solved else 0.5]
    short = doom(task, scenarios=shortened(sets[task], tmp_path / task, 4 * len(paid)))
    short.reset(**reset)
    for step in paid:
        _, reward, terminated, truncated, info = short.step(step.action)
    assert reward > 0.4
    assert (terminated, truncated, info["success"]) == (solved, not solved, solved)


def test_a_prize_beside_the_time_out_solves_nothing_in_anybodys_map(
    doom: Make, sets: dict[Task, ScenarioSet], tmp_path: Path
) -> None:
    """Scripts may pay at any time; that the time was over is all that is known."""
    env = doom("ordered-items")
    layout = next(i for i, world in enumerate(env.worlds) if can_be_walked(world.layout, [0]))
    reset = {"seed": 0, "options": {"layout": layout}}
    observation, _ = env.reset(**reset)
    paid = walk(env, observation, legs(env.world.layout, [0])[0])
    short = shortened(sets["ordered-items"], tmp_path / "set", 4 * len(paid))
    theirs = doom(config=short.cfg("train"))
    theirs.reset(**reset)
    assert theirs.world.layout is None
    for step in paid:
        _, reward, terminated, truncated, info = theirs.step(step.action)
    assert reward > 0.4
    assert (terminated, truncated, info["success"]) == (False, True, False)
