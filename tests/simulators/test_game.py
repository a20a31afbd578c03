"""The rules of our tasks without an engine, held against the real one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from egomap.agents.scripted import scripted_agent
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
    game = Game(layout, math.atan2(32, 4 * 128 + 32))  # towards the red one
    while game.reached == 0:
        turn = game.play(FORWARD)
    assert turn.reward == pytest.approx(0.5, abs=0.001) and not turn.solved
    assert (game.present, game.standing) == ([1], [0, 1])
    for _ in range(20):  # a pillar is solid
        game.play(FORWARD)
    assert max(abs(game.body.x - 256), abs(game.body.y)) >= 32
    while abs(wrap(game.body.heading - math.pi)) > 0.12:
        game.play(LEFT)
    while not turn.solved:
        turn = game.play(FORWARD)
    assert turn.reward == pytest.approx(0.5, abs=0.001)


def test_walls_stop_and_time_is_up() -> None:
    wall = Wall(Cell(2, 2), Cell(3, 2))
    game, rewards, end = walk_east(row_of_cells("labyrinth", (Cell(4, 2),), (wall,)), 600)
    assert game.body.x == pytest.approx(64 - 8 - 16, abs=TOP_SPEED)
    assert end == (False, False, True) and len(rewards) == EPISODE_TICS // 4
    assert sum(rewards) == pytest.approx(EPISODE_TICS * LIVING_REWARD)


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("task", TASKS)
def test_the_same_actions_lead_to_the_same_places_and_rewards_as_in_doom(
    task: Task, sets: dict[Task, ScenarioSet]
) -> None:
    """The Planner plays in Doom; the game is given its actions, from the same heading."""
    env = DoomEnv(task=task, scenarios=sets[task], split="test")
    agent = scripted_agent("planner")
    solved = 0
    for index, layout in enumerate(sets[task].layouts["test"]):
        observation, _ = env.reset(seed=index, options={"layout": index})
        game = Game(layout, float(observation["pose"][2]))
        agent.begin(0, layout, index)
        terminated = False
        paid, expected = 0.0, 0.0
        while not terminated:
            action = agent.act(0, observation["pose"].astype(float))
            observation, reward, terminated, truncated, info = env.step(np.int64(action))
            turn = game.play(action)
            paid, expected = paid + turn.reward, expected + float(reward)
            assert not truncated
            if not terminated and not turn.solved:
                there = math.dist(observation["pose"][:2], (game.body.x, game.body.y))
                assert there < 8, f"{there:.1f} map units off after {info['decisions']} decisions"
            if terminated != turn.solved:  # at a goal's edge a decision sooner or later
                break
        # A decision costs 0.0004; whoever slides along a wall may be a few units elsewhere.
        solved += terminated == turn.solved
        if terminated and turn.solved:
            assert paid == pytest.approx(expected, abs=0.002)
    env.close()
    assert solved >= len(sets[task].layouts["test"]) - 1
