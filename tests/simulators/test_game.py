"""The rules of our tasks without an engine, held against the real one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from egomap.agents.planner import PlannerAgent
from egomap.config import Task
from egomap.envs import DoomEnv
from egomap.scenarios.dataset import ScenarioSet
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.scenarios.tasks import EPISODE_TICS, LIVING_REWARD
from egomap.simulators.game import Game
from egomap.ways.body import FORWARD, LEFT, TOP_SPEED
from egomap.worlds.ego_motion import wrap

TASKS: tuple[Task, ...] = ("labyrinth", "find-return", "ordered-items")


def row_of_cells(task: Task, goals: tuple[Cell, ...], walls: tuple[Wall, ...] = ()) -> Layout:
    return Layout(task, 5, 128, walls, Cell(0, 2), goals)


def walk_east(layout: Layout, decisions: int = 200) -> tuple[Game, list[float], tuple[bool, ...]]:
    game, rewards = Game(layout, 0.0), []
    for _ in range(decisions):
        turn = game.play(FORWARD)
        rewards.append(turn.reward)
        if any(turn[1:]):
            return game, rewards, turn[1:]
    return game, rewards, (False, False, False)


def test_the_exit_pays_and_ends() -> None:
    game, rewards, end = walk_east(row_of_cells("labyrinth", (Cell(4, 2),)))
    assert end == (True, False, False)
    # One tic more than were walked: an end takes effect in the next one.
    assert sum(rewards) == pytest.approx(1.0 + LIVING_REWARD * (game.tics + 1))
    assert 256 - 36 < game.body.x < 256 - 36 + TOP_SPEED
    assert game.standing == []


def test_an_item_out_of_order_fails() -> None:
    _, rewards, end = walk_east(row_of_cells("ordered-items", (Cell(4, 2), Cell(2, 2))))
    assert end == (False, True, False)
    assert rewards[-1] == pytest.approx(-0.25, abs=0.001)


def test_items_in_order_pay_and_go() -> None:
    layout = row_of_cells("ordered-items", (Cell(2, 2), Cell(4, 2)))
    game = Game(layout, 0.0)
    assert game.standing == [0, 1]
    paid = []
    while game.reached < 2:
        paid.append(game.play(FORWARD).reward)
        assert game.standing == list(range(game.reached, 2))
    assert sorted(paid)[-2:] == pytest.approx([0.5, 1.0], abs=0.001)


def test_green_counts_after_red_only_and_pillars_stay() -> None:
    layout = Layout("find-return", 5, 128, (), Cell(0, 2), (Cell(4, 2), Cell(0, 2)))
    game = Game(layout, 0.0)
    assert (game.present, game.standing) == ([0], [0, 1])
    for _ in range(5):  # it begins within reach of the green pillar
        assert game.play(LEFT).reward == pytest.approx(4 * LIVING_REWARD)
    game = Game(layout, 0.0)  # along the south of both pillars
    paid = [game.play(FORWARD).reward for _ in range(20)]
    assert max(paid) == pytest.approx(0.5, abs=0.001)
    assert (game.present, game.standing) == ([1], [0, 1])


def test_walls_stop_and_time_is_up() -> None:
    wall = Wall(Cell(2, 2), Cell(3, 2))
    game, rewards, end = walk_east(row_of_cells("labyrinth", (Cell(4, 2),), (wall,)), 600)
    assert game.body.x == pytest.approx(64 - 8 - 16, abs=TOP_SPEED)
    assert end == (False, False, True) and len(rewards) == EPISODE_TICS // 4
    assert sum(rewards) == pytest.approx(EPISODE_TICS * LIVING_REWARD)


@pytest.mark.parametrize("heading", np.linspace(-3, 3, 13).tolist())
def test_nobody_is_caught_at_the_pillars_corner(heading: float) -> None:
    """The player begins at the corner of the green pillar, in the engine free to go everywhere but into it."""
    game = Game(Layout("find-return", 3, 128, (), Cell(1, 1), (Cell(2, 2), Cell(1, 1))), heading)
    for _ in range(8):
        game.play(FORWARD)
        assert max(abs(game.body.x), abs(game.body.y)) >= 32 - 1e-6
    assert math.dist(game.body[:2], (-32.0, -32.0)) > 25


def in_doom(env: DoomEnv, layout: Layout, index: int) -> tuple[float, int, float, bool]:
    """The heading that an episode begins with, and how the Planner fares: decisions, return, success."""
    observation, _ = env.reset(seed=index, options={"layout": index})
    heading, agent, paid = float(observation["pose"][2]), PlannerAgent(), 0.0
    agent.begin(0, layout, index)
    for decision in range(600):
        action = agent.act(0, observation["pose"].astype(float))
        observation, reward, terminated, truncated, info = env.step(np.int64(action))
        paid += float(reward)
        if terminated or truncated:
            return heading, decision + 1, paid, bool(info["success"])
    raise AssertionError("the episode has no end")


@pytest.mark.slow(seconds=8)
@pytest.mark.parametrize("task", TASKS)
def test_the_planner_fares_as_in_doom(task: Task, sets: dict[Task, ScenarioSet]) -> None:
    env = DoomEnv(task=task, scenarios=sets[task], split="test")
    for index, layout in enumerate(sets[task].layouts["test"]):
        heading, decisions, expected, success = in_doom(env, layout, index)
        game, agent, paid = Game(layout, heading), PlannerAgent(), 0.0
        agent.begin(0, layout, index)
        while True:
            body = game.body
            turn = game.play(agent.act(0, np.array([body.x, body.y, body.heading])))
            paid += turn.reward
            if any(turn[1:]):
                break
        assert success and turn.solved
        # Where it slides along a wall the model of its body is a few units off, a decision or two for a turn.
        assert abs(math.ceil(game.tics / 4) - decisions) <= 2 + decisions // 8
        assert paid == pytest.approx(expected, abs=0.0004 * (3 + decisions // 8))
    env.close()


@pytest.mark.slow
def test_away_from_walls_it_goes_where_the_engine_goes(sets: dict[Task, ScenarioSet]) -> None:
    """Open loop, in the middle of a cell: turns that speed up, thrust and coasting."""
    env = DoomEnv(task="labyrinth", scenarios=sets["labyrinth"], split="test")
    observation, _ = env.reset(seed=3, options={"layout": 0})
    game = Game(sets["labyrinth"].layouts["test"][0], float(observation["pose"][2]))
    for action in (0, 0, 4, 1, 0, 0, 1, 1):
        observation = env.step(np.int64(action))[0]
        game.play(action)
        assert math.dist(observation["pose"][:2], game.body[:2]) < 0.2
        assert abs(wrap(observation["pose"][2] - game.body.heading)) < 0.01
    env.close()
