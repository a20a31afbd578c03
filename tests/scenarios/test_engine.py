"""The generated files in the real engine, played by plain ViZDoom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import vizdoom as vzd

from egomap.config import ScenarioConfig
from egomap.scenarios import ScenarioSet, generate
from egomap.scenarios.layout import Layout
from egomap.scenarios.scripts import FAILED, RUNNING, SOLVED
from egomap.scenarios.tasks import FAMILIES, optimum, player_start, way
from egomap.scenarios.udmf import wall_outline

from .player import IDLE, begin, opened, pose, status, tour, walk

pytestmark = pytest.mark.slow

Sets = Callable[[str], ScenarioSet]


def easy(layout: Layout, order: Sequence[int] | None = None) -> bool:
    """Whether the goals can be touched in that order through cells without other goals.

    The plain player of these tests walks from cell to cell; it cannot squeeze past an item.
    """
    order = range(len(layout.goals)) if order is None else order
    here = layout.start
    for place, index in enumerate(order):
        others = [goal for i, goal in enumerate(layout.goals) if i not in order[: place + 1]]
        if not way(layout, here, layout.goals[index], avoid=others):
            return False
        here = layout.goals[index]
    return True


def finish(game: vzd.DoomGame) -> None:
    """The engine leaves the map one tic after the exit; nothing is paid in it but the living reward."""
    assert game.make_action(IDLE, 1) == pytest.approx(-0.0001)
    assert game.is_episode_finished()
    assert not game.is_episode_timeout_reached() and not game.is_player_dead()


def solve(game: vzd.DoomGame, layout: Layout) -> None:
    """Reach all goals in order; check what is paid and counted on the way."""
    rewards = FAMILIES[layout.task].rewards(len(layout.goals))
    for index, leg in enumerate(tour(layout, range(len(layout.goals)))):
        assert status(game) == (index, RUNNING)
        assert walk(game, leg) == [rewards[index]]
    assert status(game) == (len(layout.goals), SOLVED)
    tics = game.get_episode_time() - game.get_episode_start_time()
    finish(game)
    assert status(game) == (len(layout.goals), SOLVED), "USER variables can be read after the end"
    # The exit's tic counts too; the engine's clock may be off by one.
    assert game.get_total_reward() == pytest.approx(optimum(layout) - 0.0001 * tics, abs=0.0003)


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_rewards_of_a_solved_episode(small_set: Sets, tmp_path: Path, task: str) -> None:
    made = small_set(task)
    with opened(made.cfg("train"), tmp_path) as game:
        for index, layout in enumerate(made.layouts["train"]):
            begin(game, made.map_name(index), seed=index)
            solve(game, layout)


def test_expected_scale() -> None:
    # What the paper's table calls the optimum: 1.0, 1.0, 2.5 and 3.5.
    rows = [("labyrinth", 1), ("find-return", 2), ("ordered-items", 4), ("ordered-items", 6)]
    paid = [FAMILIES[task].rewards(goals) for task, goals in rows]
    assert paid[:3] == [(1.0,), (0.5, 0.5), (0.5, 0.5, 0.5, 1.0)]
    assert [sum(rewards) for rewards in paid] == [1.0, 1.0, 2.5, 3.5]


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_doing_nothing_times_out(small_set: Sets, tmp_path: Path, task: str) -> None:
    made = small_set(task)
    with opened(made.cfg("test"), tmp_path) as game:
        begin(game, "MAP02")
        decisions = 0
        while not game.is_episode_finished():
            game.make_action(IDLE, 4)
            decisions += 1
        assert decisions == 525
        assert game.get_total_reward() == pytest.approx(-0.21)
        assert game.is_episode_timeout_reached() and not game.is_player_dead()
        assert status(game) == (0, RUNNING)


@pytest.mark.parametrize("order", [[2], [0, 2]])
def test_wrong_item_ends_the_episode(tmp_path: Path, order: list[int]) -> None:
    config = ScenarioConfig(
        task="ordered-items", size=5, cell=160, wall_probability=0.0, train=8, test=0, seed=1
    )
    made = generate(config, tmp_path / "set")
    # In an open arena of 25 cells, three items never shut in the fourth in all eight layouts.
    index, layout = next((i, layout) for i, layout in enumerate(made.layouts["train"]) if easy(layout, order))
    with opened(made.cfg("train"), tmp_path) as game:
        begin(game, made.map_name(index))
        events = [walk(game, leg) for leg in tour(layout, order)]
        assert events == [[0.5]] * (len(order) - 1) + [[-0.25]]
        assert status(game) == (len(order) - 1, FAILED)
        finish(game)
        begin(game, made.map_name(index))
        assert status(game) == (0, RUNNING) and game.get_total_reward() == 0.0


@pytest.mark.parametrize("skill", [1, 5])
def test_all_eight_items_can_be_picked_up(tmp_path: Path, skill: int) -> None:
    config = ScenarioConfig(task="ordered-items", items=8, size=6, wall_probability=0.3, train=8, test=0)
    made = generate(config, tmp_path / "set")
    index, layout = next((i, layout) for i, layout in enumerate(made.layouts["train"]) if easy(layout))
    with opened(made.cfg("train"), tmp_path, skill=skill) as game:
        begin(game, made.map_name(index))
        solve(game, layout)


def test_touching_green_first_does_nothing(small_set: Sets, tmp_path: Path) -> None:
    made = small_set("find-return")
    layout = made.layouts["train"][0]
    with opened(made.cfg("train"), tmp_path) as game:
        begin(game, "MAP01")
        x, y = layout.center(layout.start)
        # Press against the pillar from the start's corner, then from its west side.
        for target in ((x - 38, y), (x - 34, y)):
            assert walk(game, [target], near=3.0) == []
        for _ in range(8):
            assert game.make_action(IDLE, 1) == pytest.approx(-0.0001)
        assert status(game) == (0, RUNNING)


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_narrow_and_odd_cells_can_be_solved(tmp_path: Path, task: str) -> None:
    config = ScenarioConfig(
        task=task, size=3, cell=96, items=2, wall_probability=0.8, train=4, test=0, seed=2
    )
    for number, cell in enumerate((96, 115)):
        made = generate(replace(config, cell=cell), tmp_path / f"set{number}")
        with opened(made.cfg("train"), tmp_path) as game:
            assert sum(easy(layout) for layout in made.layouts["train"]) >= 2
            for index, layout in enumerate(made.layouts["train"]):
                begin(game, made.map_name(index))
                assert pose(game)[:2] == player_start(layout)
                if easy(layout):
                    solve(game, layout)


def test_a_hundred_maps_in_one_wad(tmp_path: Path) -> None:
    made = generate(ScenarioConfig(size=5, train=101, test=0, seed=5), tmp_path / "set")
    with opened(made.cfg("train"), tmp_path) as game:
        for index in (*range(0, 100, 9), 100, 98, 0):
            begin(game, made.map_name(index))
            assert pose(game)[:2] == player_start(made.layouts["train"][index])


def test_start_headings_follow_the_seed(small_set: Sets, tmp_path: Path) -> None:
    with opened(small_set("labyrinth").cfg("train"), tmp_path) as game:

        def heading(seed: int) -> float:
            begin(game, "MAP01", seed)
            return pose(game)[2]

        headings = [heading(seed) for seed in range(40)]
        assert len(set(headings)) == 40
        assert {int(angle // 90) for angle in headings} == {0, 1, 2, 3}
        begin(game, "MAP02", 3)
        assert heading(7) == headings[7]


def cast(layout: Layout, x: float, y: float, directions: np.ndarray) -> np.ndarray:
    """Distance from (x, y) to the nearest wall along each unit direction (n, 2), by intersecting all lines."""
    loops = wall_outline(layout)
    starts = np.array([point for loop in loops for point in loop])
    ends = np.array([point for loop in loops for point in loop[1:] + loop[:1]])
    along = ends - starts
    gap = starts - (x, y)
    # Solve position + t * direction = start + s * along for every ray and line.
    crossed = directions[:, None, 0] * along[:, 1] - directions[:, None, 1] * along[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (gap[:, 0] * along[:, 1] - gap[:, 1] * along[:, 0]) / crossed
        s = (gap[:, 0] * directions[:, None, 1] - gap[:, 1] * directions[:, None, 0]) / crossed
    hit = (crossed != 0) & (t > 0) & (s >= 0) & (s <= 1)
    return np.where(hit, t, np.inf).min(axis=1)


def test_depth_shows_the_walls_where_they_are(tmp_path: Path) -> None:
    made = generate(ScenarioConfig(size=6, train=6, test=0, seed=11), tmp_path / "set")
    errors = []
    with opened(made.cfg("train"), tmp_path) as game:
        for index, layout in enumerate(made.layouts["train"]):
            for seed in range(4):
                begin(game, made.map_name(index), seed)
                x, y, angle = pose(game)
                # The row just above the horizon sees walls only; 16:9 at 320 pixels has a focal length of 120.
                values = game.get_state().depth_buffer[88].astype(float)
                right = (np.arange(320) + 0.5 - 160) / 120
                ahead = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
                rays = ahead + right[:, None] * np.array([ahead[1], -ahead[0]])
                lengths = np.linalg.norm(rays, axis=1)
                expected = cast(layout, x, y, rays / lengths[:, None]) / lengths
                seen = values < 95  # the engine's depth ends there
                errors.append((7.138 * values + 8.56 - expected)[seen])
    error = np.abs(np.concatenate(errors))
    # A gap would show what is behind it; single columns on an edge may see either side.
    assert np.median(error) < 3 and np.mean(error > 12) < 0.02
