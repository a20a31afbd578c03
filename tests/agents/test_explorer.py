"""The Explorer: its grid by hand, its ways against plain loops, and whole episodes in the engine without a layout."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.agents.explorer.things import LOOKS, Things, evidence, tint, tinted
from egomap.agents.explorer.walker import Walker
from egomap.agents.planner import OPEN
from egomap.config import Camera
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds, find_worlds
from egomap.evaluation.runner import play
from egomap.mazes.explorer import ExplorerPlayer, search_for
from egomap.ways import grid
from egomap.ways.body import move
from egomap.worlds.episodes import Episode

CAMERA = Camera(112, 64, 42.0, 51.2, 56.0, 32.0)


def test_a_scan_frees_what_it_passes_and_blocks_where_it_ends():
    room = grid.Grid.over(320.0)
    # One ray from the middle to the east, 100 units long.
    grid.look(room.score, room.origin, 0.0, 0.0, 0.0, np.array([100.0]), np.array([0.0]), 440.0)
    row, column = room.cell(0.0, 0.0)
    assert room.score[room.cell(104.0, 0.0)] == grid.HIT
    assert (room.score[row, column : room.cell(80.0, 0.0)[1] + 1] == grid.PASS).all()
    assert (np.delete(room.score, row, axis=0) == 0).all() and (room.score[row, :column] == 0).all()


def test_nothing_hit_is_free_up_to_the_sight():
    room = grid.Grid.over(1600.0)
    grid.look(room.score, room.origin, 0.0, 0.0, math.pi / 2, np.array([np.inf]), np.array([0.0]), 440.0)
    assert (
        (room.score <= 0).all()
        and room.score[room.cell(0.0, 430.0)] < 0
        and room.score[room.cell(0.0, 470.0)] == 0
    )


@given(st.lists(st.sampled_from([50.0, 100.0, 300.0]), min_size=1, max_size=40))
@settings(deadline=None, max_examples=30)
def test_what_was_seen_never_becomes_unknown_again(depths):
    room, known = grid.Grid.over(640.0), None
    for depth in depths:
        grid.look(
            room.score, room.origin, 0.0, 0.0, 0.3, np.full(3, depth), np.array([-0.5, 0.0, 0.5]), 440.0
        )
        assert known is None or (room.score[known] != 0).all()
        known = room.score != 0


def plain_costs(room: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Dijkstra with a heap, for comparison."""
    cost = np.full(room.shape, grid.UNREACHED)
    queue = [(0, start)]
    while queue:
        price, (row, column) = heapq.heappop(queue)
        if cost[row, column] != grid.UNREACHED:
            continue
        cost[row, column] = price
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                r, c = row + dr, column + dc
                inside = 0 <= r < len(room) and 0 <= c < len(room)
                if (dr or dc) and inside and room[r, c] != grid.SHUT:
                    step = grid.DIAGONAL if dr and dc else grid.ORTHOGONAL
                    heapq.heappush(
                        queue, (price + step + grid.SQUEEZE * int(room[r, c] == grid.TIGHT), (r, c))
                    )
    return cost


@given(st.integers(0, 2**32 - 1), st.integers(4, 14))
@settings(deadline=None, max_examples=50)
def test_ways_equal_a_plain_search(seed, size):
    rng = np.random.default_rng(seed)
    room = rng.choice([grid.SHUT, grid.TIGHT, grid.ROOMY, grid.ROOMY], (size, size)).astype(np.uint8)
    start = tuple(rng.integers(0, size, 2).tolist())
    cost, parent, _ = grid.travel(room, *start)
    assert (cost.reshape(size, size) == plain_costs(room, start)).all()
    for cell in np.flatnonzero(cost > 0):  # each way leads back to the start
        assert cost[parent[cell]] < cost[cell]


def test_a_wall_leaves_tight_cells_beside_it():
    score = np.full((7, 7), -1, np.int8)
    score[3, 3] = 5
    room = grid.walkable(score)
    assert room[3, 3] == grid.SHUT and (room[2:5, 2:5] == grid.TIGHT).sum() == 8
    assert (room == grid.ROOMY).sum() == 49 - 9


def test_compiled_loops_equal_plain_python():
    rng = np.random.default_rng(0)
    score = rng.integers(-3, 3, (9, 9)).astype(np.int8)
    plain = getattr(grid.walkable, "py_func", grid.walkable)
    assert (plain(score) == grid.walkable(score)).all()
    room = grid.walkable(score)
    for a, b in zip(
        getattr(grid.travel, "py_func", grid.travel)(room, 4, 4), grid.travel(room, 4, 4), strict=True
    ):
        assert (a == b).all()


def test_the_walker_turns_to_a_place_behind_it():
    walker = Walker(CAMERA, 640.0, 4)
    walker.see(np.full((64, 112), 200.0, np.float32), (0.0, 0.0, 0.0))
    assert walker.steer((-100.0, 10.0)) == 0 and walker.steer((-100.0, -10.0)) == 1
    assert walker.steer((100.0, 0.0)) == 2


def test_colours_tell_pillars_apart_and_mazes_say_nothing():
    table = evidence(("red pillar", "green pillar"))
    red, green, grey = (7 * 256, 3 * 256 + 7 * 16 + 2, 5 * 256 + 5 * 16 + 5)
    assert table[red].argmax() == 0 and table[green].argmax() == 1 and np.isnan(table[grey]).all()
    assert len(LOOKS) == 10


def view_of(pixels: int, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """Grey, with a patch straight ahead in the red of a red pillar."""
    rgb, away = np.full((3, 64, 112), 60, np.uint8), np.full((64, 112), 300.0, np.float32)
    patch = np.s_[34 : 34 + pixels, 55:57]
    rgb[0][patch], rgb[1][patch], rgb[2][patch] = 120, 0, 0
    away[patch] = depth
    return rgb, away


def test_a_few_pixels_near_by_are_no_thing_and_far_away_they_add_up():
    tangents = (np.arange(CAMERA.width) + 0.5 - CAMERA.cx) / CAMERA.fx
    near, far = Things(("red pillar",)), Things(("red pillar",))
    for _ in range(4):
        near.see(*view_of(2, 60.0), (0.0, 0.0, 0.0), tangents)
    assert near.where(0) is None and near.kinds() == []
    far.see(*view_of(2, 280.0), (0.0, 0.0, 0.0), tangents)
    assert far.where(0) is None
    far.see(*view_of(2, 280.0), (0.0, 0.0, 0.0), tangents)
    assert far.where(0) == pytest.approx((280.0, 0.0), abs=4)


def test_a_goal_that_was_not_there_is_dismissed_until_it_is_seen_anew():
    search = search_for("labyrinth", 1, CAMERA, 800.0)
    green = np.full((3, 64, 112), 60, np.uint8)
    green[0, 34:44, 50:62], green[1, 34:44, 50:62], green[2, 34:44, 50:62] = 56, 120, 40
    away = np.full((64, 112), 100.0, np.float32)
    search.see(green, away, np.zeros(3), 0.0)
    seen = search.goal()
    assert seen is not None and seen[0] == pytest.approx(100, abs=1)
    grey, there = np.full_like(green, 60), np.array((100.0, 0.0, 0.0))
    for _ in range(5):
        assert search.goal() == seen
        search.see(grey, away, there, 0.0)
    assert search.goal() is None
    search.see(green, away, np.zeros(3), 0.0)
    assert search.goal() is not None


def coloured(rgb: tuple[int, int, int]) -> np.ndarray:
    """Grey, with a patch of 10 x 12 pixels straight ahead."""
    view = np.full((3, 64, 112), 60, np.uint8)
    view[:, 34:44, 50:62] = np.array(rgb, np.uint8)[:, None, None]
    return view


GREEN = (24, 40, 8)
"""Of a green armour, the first item."""


def test_what_was_taken_is_no_thing_any_more_and_others_are_something_else():
    tangents = (np.arange(CAMERA.width) + 0.5 - CAMERA.cx) / CAMERA.fx
    things, away = Things(LOOKS[:4]), np.full((64, 112), 100.0, np.float32)
    things.see(coloured(GREEN), away, (0.0, 0.0, 0.0), tangents)  # at (100, 0)
    things.see(coloured(GREEN), away, (300.0, 0.0, 0.0), tangents)  # at (400, 0)
    assert [look for look, *_ in things.kinds()] == [0, 0]
    things.taken(0, 70.0, 10.0)
    ((look, x, y),) = things.kinds()
    assert look > 0 and (x, y) == pytest.approx((400, 0), abs=1)
    assert things.where(0) is None and things.where(look) == (x, y)
    things.taken(1, 1000.0, 1000.0)  # where nothing was seen: nothing is forgotten
    assert len(things.kinds()) == 1


def test_every_item_but_the_goal_is_kept_away_from():
    """Two things that look like the first item: one is walked to, the other one is not touched."""
    search = search_for("ordered-items", 4, CAMERA, 800.0)
    away = np.full((64, 112), 100.0, np.float32)
    search.see(coloured(GREEN), away, np.zeros(3), 0.0)
    assert search._forbidden() == ()
    search.see(coloured(GREEN), away, np.array((100.0, 100.0, math.pi / 2)), 0.0)  # another at (100, 200)
    search.see(coloured(GREEN), away, np.array((100.0, 100.0, math.pi / 2)), 0.0)
    assert search.goal() == pytest.approx((100, 200), abs=1)
    ((x0, y0, x1, y1),) = search._forbidden()
    assert ((x0 + x1) / 2, (y0 + y1) / 2) == pytest.approx((100, 0), abs=1) and x1 - x0 > 72


def test_items_that_would_have_been_touched_are_forgotten():
    tangents = (np.arange(CAMERA.width) + 0.5 - CAMERA.cx) / CAMERA.fx
    things, away = Things(LOOKS[:4]), np.full((64, 112), 100.0, np.float32)
    things.see(coloured(GREEN), away, (0.0, 0.0, 0.0), tangents)  # at (100, 0)
    things.see(coloured(GREEN), away, (300.0, 0.0, 0.0), tangents)  # at (400, 0)
    things.dismiss_around(60.0, 0.0, 31.0)  # 40 units away: too far
    assert len(things.kinds()) == 2
    things.dismiss_around(80.0, 20.0, 31.0)
    assert [round(x) for _, x, _ in things.kinds()] == [400]


def test_who_stands_still_beside_an_item_keeps_less_berth():
    """After eight decisions without a move the box is as large as the item's touch, and no larger."""
    search = search_for("ordered-items", 4, CAMERA, 800.0)
    away = np.full((64, 112), 100.0, np.float32)
    search.see(coloured(GREEN), away, np.zeros(3), 0.0)  # at (100, 0)
    pose = np.array((100.0, 100.0, math.pi / 2))  # another at (100, 200)
    widths = []
    for _ in range(12):
        search.see(coloured(GREEN), away, pose, 0.0)
        widths += [x1 - x0 for x0, _, x1, _ in search._forbidden()]
    assert widths[:8] == pytest.approx([82.0] * 8) and widths[-1] == pytest.approx(72.0)


def test_home_frees_nothing_beside_it():
    """A wall two cells from where the episode began stays one; beside a goal that blocks its place nothing does."""
    walker = Walker(CAMERA, 800.0, 4)
    row, column = walker.grid.cell(0.0, 0.0)
    walker.grid.score[row, column + 2] = 6
    walker.grid.score[row, column] = -6  # where it stood
    assert walker.ways((0.0, 0.0)).room[row, column + 2] == grid.SHUT
    walker.grid.score[row, column] = 6  # a pillar
    assert walker.ways((0.0, 0.0)).room[row, column + 2] == grid.ROOMY


def test_a_tinted_view_is_known():
    view = np.full((3, 64, 112), 60, np.uint8)
    assert not tinted(view)
    view[0] += 20
    assert tinted(view)


@given(st.integers(0, 2**32 - 1), st.sampled_from([(64, 112), (9, 5), (12, 8)]))
@settings(deadline=None, max_examples=30)
def test_the_tint_is_a_median(seed, shape):
    """Over an odd and an even number of pixels."""
    view = np.random.default_rng(seed).integers(0, 256, (3, *shape)).astype(np.uint8)
    walls = view[:, : shape[0] // 3 : 3, ::4].astype(np.int16)
    assert tint(view) == np.median(walls[0] - walls[2])


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_decisions_equal_the_formula(seed):
    """Way at 25 units a decision, turn at 14 degrees a decision, and 8 more to turn back."""
    rng = np.random.default_rng(seed)
    side, cells = 9, rng.choice(81, 20, replace=False)
    cost, gate = (rng.integers(1, 81, 81).astype(np.int32) for _ in range(2))
    x, y, heading = rng.uniform(-60, 60, 3)
    turning = int(rng.integers(-1, 2))
    found = grid.decisions(cost, gate, cells, side, -72.0, x, y, heading, turning)
    for cell, price in zip(cells, found, strict=True):
        row, column = divmod(int(gate[cell]), side)
        aim = math.atan2(-72 + 16 * (row + 0.5) - y, -72 + 16 * (column + 0.5) - x)
        off = math.remainder(aim - heading, math.tau)
        back = 8.0 if off * turning < 0 else 0.0
        expected = cost[cell] / 5 * 16 / 25 + abs(off) / math.radians(14) + back
        assert price == pytest.approx(expected, rel=1e-9)


def test_it_is_told_what_others_did_in_its_place():
    """A body that was pushed forward has its speed, whatever the Explorer itself would have done."""
    world = find_worlds(task="labyrinth", size=3, split="test")[0]
    player = ExplorerPlayer(1, CAMERA)
    player.begin(0, world, Episode(0, 0))
    observation = {
        "rgb": np.full((1, 3, 64, 112), 60, np.uint8),
        "depth": np.full((1, 64, 112), 200.0, np.float32),
        "pose": np.zeros((1, 3), np.float32),
    }
    player.act(observation, np.ones(1, bool))
    walker = player._searches[0].walker
    player.watch(np.array([2]))
    pushed, _ = move(walker.body, 2, OPEN, 4)
    assert walker._expected == pushed and pushed.vx > 0
    player.watch(np.array([0]))
    turned, _ = move(walker.body, 0, OPEN, 4)
    assert walker._expected == turned and walker._turning == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "size", "least"), [("find-return", 5, 0.9), ("labyrinth", 5, 0.93), ("ordered-items", 5, 2.3)]
)
def test_it_solves_mazes_that_it_never_saw(task, size, least):
    with_layouts = DoomVectorEnv(4, task=task, size=size, split="test", episodes_per_layout=1)
    worlds = Worlds(with_layouts.worlds.worlds[:8])
    with_layouts.close()
    env = DoomVectorEnv(4, worlds=worlds, episodes_per_layout=1)
    try:
        episodes = play(env, ExplorerPlayer(4, env.camera), seed=3)
    finally:
        env.close()
    assert len(episodes) == 8 and all(episode.success for episode in episodes)
    assert np.mean([episode.total_reward for episode in episodes]) > least


def test_the_layout_is_hidden_from_it():
    """The same observations give the same actions, whatever maze the world says that it is."""
    env = DoomVectorEnv(1, task="find-return", size=5, split="test", episodes_per_layout=1)
    try:
        layouts = [env.worlds[0].layout, env.worlds[1].layout]
        searches = [search_for(one.task, len(one.goals), env.camera, env.extent) for one in layouts]
        observation, _ = env.reset(seed=0)
        reward = 0.0
        for _ in range(60):
            view = [observation[name][0] for name in ("rgb", "depth", "pose")]
            actions = [search.act(*view, reward) for search in searches]
            assert actions[0] == actions[1]
            observation, rewards, *_ = env.step(np.array(actions[:1]))
            reward = float(rewards[0])
    finally:
        env.close()
