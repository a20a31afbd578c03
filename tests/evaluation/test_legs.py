"""Legs: by hand on small layouts, and in the engine with the planner, who wastes nothing, and Random."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egomap.agents.scripted import ScriptedKind, scripted_agent
from egomap.cli import main
from egomap.config import FRAME_SKIP, Camera, Task
from egomap.envs.vector import Arrays, DoomVectorEnv
from egomap.evaluation.leg_scores import leg_rows
from egomap.evaluation.runner import EpisodeResult, ScriptedPlayer, play
from egomap.evaluation.scores import layout_scores, summarise
from egomap.mazes.legs import (
    Leg,
    Span,
    Track,
    body_at,
    first_seen,
    legs_of,
    revisited,
    spans,
    walked_and_shortest,
)
from egomap.mazes.tracks import Recorder
from egomap.scenarios.dataset import ScenarioSet
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.ways.body import COAST, FRICTION, REACH, TOP_SPEED

CAMERA = Camera.from_fov(112, 64, horizontal=math.pi / 2, vertical=math.pi / 3)
LIFE = -0.0004
EAST, NORTH, WEST = 0.0, math.pi / 2, math.pi


def hall(*walls: Wall, task: Task = "labyrinth", goals: tuple[Cell, ...] = (Cell(2, 1),)) -> Layout:
    """Nine cells of 128 units; it begins at (-128, 0), and cell (2, 1) is around (128, 0)."""
    return Layout(task, 3, 128, walls, Cell(0, 1), goals)


CLOSED = hall(Wall(Cell(1, 1), Cell(2, 1)))
"""With a wall at x = 64 from y = -64 to 64 in front of the goal."""


def track(
    poses: list[tuple[float, float, float]], rewards: list[float], layout: Layout, *, timed_out: bool = False
) -> Track:
    return Track(layout, np.array(poses, float), np.array(rewards), timed_out)


def leg(**changed: object) -> Leg:
    usual = Leg("exit", 0, 50, True, 20, True, 0.25, 10, 300.0, 200.0)
    return usual._replace(**changed)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------ one episode


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([LIFE] * 3, [Span(0, 3, False)]),
        ([LIFE, 0.5 + LIFE, LIFE, LIFE], [Span(0, 2, True), Span(2, 4, False)]),
        ([0.5, LIFE, 0.5], [Span(0, 1, True), Span(1, 3, True)]),
        ([LIFE, 0.5], [Span(0, 2, True)]),  # red was reached when time was up: the leg back never began
        ([LIFE, -0.25, LIFE], [Span(0, 3, False)]),  # a penalty reaches nothing
    ],
)
def test_a_leg_ends_with_a_reward(rewards: list[float], expected: list[Span]) -> None:
    layout = hall(task="find-return", goals=(Cell(2, 1), Cell(0, 1)))
    assert spans(track([(0, 0, 0)] * len(rewards), rewards, layout)) == expected


@given(rewards=st.lists(st.sampled_from([LIFE, 0.5, -0.25]), min_size=1, max_size=30))
def test_legs_follow_each_other_and_the_last_one_ends_the_episode(rewards: list[float]) -> None:
    layout = hall(task="find-return", goals=(Cell(2, 1), Cell(0, 1)))
    found = spans(track([(0, 0, 0)] * len(rewards), rewards, layout))
    assert found[0].begin == 0
    assert all(one.end == other.begin and one.finished for one, other in itertools.pairwise(found))
    assert all(span.end > span.begin for span in found)
    reached = sum(reward > 0 for reward in rewards)
    assert sum(span.finished for span in found) == min(reached, 2)
    assert found[-1].end == len(rewards) or reached >= 2


def test_revisited_cells() -> None:
    def walk(*cells: tuple[int, int]) -> np.ndarray:
        return np.array([(*hall().center(Cell(*cell)), 0.0) for cell in cells])

    assert revisited(walk((0, 1), (0, 1), (1, 1), (2, 1)), hall()) == 0.0
    # Entered are (1, 1), (0, 1) again, (1, 1) again, (1, 2): two of four were known; standing still enters nothing.
    assert revisited(walk((0, 1), (1, 1), (0, 1), (0, 1), (1, 1), (1, 2)), hall()) == 0.5
    assert revisited(walk((0, 1), (0, 1)), hall()) is None


@pytest.mark.parametrize(
    ("layout", "poses", "expected"),
    [
        (hall(), [(-128, 0, EAST)], 0),
        (hall(), [(-128, 0, WEST), (-128, 0, NORTH + 0.1), (-128, 0, NORTH / 2 + 0.01)], None),
        (hall(), [(-128, 0, WEST), (-128, 0, NORTH / 2 - 0.01)], 1),  # half of the view is 45 degrees
        (CLOSED, [(-128, 0, EAST), (0, 60, EAST)], None),
        (CLOSED, [(-128, 0, EAST), (50, 150, -math.pi / 3), (128, 60, -NORTH)], 1),  # past the wall's end
    ],
)
def test_a_goal_is_seen_in_view_and_past_walls(
    layout: Layout, poses: list[tuple[float, float, float]], expected: int | None
) -> None:
    assert first_seen(np.array(poses), layout, 0, CAMERA) == expected


def test_the_optimum_of_a_straight_way_is_that_of_a_body_with_thrust_and_friction() -> None:
    """From rest, pushed all the time: after n tics the speed is top (1 - f^n), and the way its sum."""
    tic = 0
    while TOP_SPEED * (tic - FRICTION * (1 - FRICTION**tic) * COAST) <= 256 - REACH:
        tic += 1
    expected = math.ceil(tic / FRAME_SKIP)
    found = legs_of(track([(-128, 0, EAST)] * 40, [LIFE] * 39 + [1.0], hall()), CAMERA)
    assert [one.optimum for one in found] == [expected]
    assert found[0].efficiency == expected / 40


def test_a_leg_goes_on_with_the_speed_of_the_one_before() -> None:
    """Whoever passes an item at top speed needs less for the next one than whoever stands there."""
    layout = hall(task="ordered-items", goals=(Cell(1, 1), Cell(2, 1)))
    step = FRAME_SKIP * TOP_SPEED
    running = track([(-step, 0, EAST), (0, 0, EAST), (0, 0, EAST)], [0.5, LIFE, LIFE], layout)
    standing = track([(0, 0, EAST), (0, 0, EAST), (0, 0, EAST)], [0.5, LIFE, LIFE], layout)
    assert body_at(running.poses, 1).vx == pytest.approx(FRICTION * TOP_SPEED)
    fast, slow = (legs_of(one, CAMERA)[1].optimum for one in (running, standing))
    assert fast == math.ceil((128 - REACH) / step)
    assert slow is not None and slow > fast


def test_the_ways_walked_and_the_shortest_one() -> None:
    straight = np.array([(-128, 0, 0), (0, 0, 0), (70, 0, 0)])  # touched at 128 - 35 = 93
    assert walked_and_shortest(straight, hall(), 0) == pytest.approx((221, 221))
    around = np.array([(-128, 0, 0), (-128, 64, 0), (0, 64, 0), (0, 0, 0), (80, 0, 0)])
    assert walked_and_shortest(around, hall(), 0) == pytest.approx((64 + 128 + 64 + 80 + 13, 221))


def test_a_leg_walked_since_its_goal_was_known() -> None:
    poses = [(-128.0, 0.0, WEST), (-64.0, 0.0, EAST), (0.0, 0.0, EAST), (64.0, 0.0, EAST)]
    (found,) = legs_of(track(poses, [LIFE, LIFE, LIFE, 1.0], hall()), CAMERA)
    assert (found.seen, found.since_seen) == (1, 3)
    assert (found.walked, found.shortest) == pytest.approx((157, 157))
    (lost,) = legs_of(track(poses, [LIFE] * 4, hall()), CAMERA)
    assert (lost.seen, lost.since_seen, lost.walked) == (1, None, None)


def test_efficiency_of_unfinished_legs() -> None:
    """Time that was too short for anybody says nothing; a mistake that ends the episode does."""
    poses, rewards = [(-128.0, 0.0, EAST)] * 3, [LIFE] * 3
    (short,) = legs_of(track(poses, rewards, hall(), timed_out=True), CAMERA)
    assert (short.finished, short.in_time, short.efficiency) == (False, False, None)
    (mistake,) = legs_of(track(poses, rewards, hall()), CAMERA)
    assert (mistake.finished, mistake.in_time, mistake.efficiency) == (False, True, 0.0)
    (long,) = legs_of(track(poses * 100, rewards * 100, hall(), timed_out=True), CAMERA)
    assert (long.finished, long.in_time, long.efficiency) == (False, True, 0.0)
    assert leg(decisions=19).efficiency == 1.0  # quicker than the planner counts as the planner
    assert leg(optimum=None).efficiency is None


# ------------------------------------------------------------------------------------------------ over episodes


def episode(layout: int, repeat: int, legs: tuple[Leg, ...] | None) -> EpisodeResult:
    return EpisodeResult(layout, f"maze {layout}", repeat, 0.5, False, 525, True, legs)


def test_rows_over_episodes_and_runs() -> None:
    back = leg(goal="green pillar", began=50, decisions=40, optimum=30, seen=0, walked=900.0, shortest=600.0)
    late = back._replace(finished=False, in_time=False, walked=None, shortest=None)
    lost = back._replace(finished=False, walked=None, shortest=None, optimum=None)
    first = [
        episode(0, 0, (leg(), back)),
        episode(0, 1, (leg(), lost)),
        episode(1, 0, (leg(decisions=80),)),
        episode(1, 1, (leg(), late)),
    ]
    found = summarise([layout_scores(first)])["legs"]
    assert json.loads(json.dumps(found)) == found
    out, home = found
    assert (out["leg"], out["goal"], out["begun"], out["finished"]) == (1, "exit", 4, 4)
    assert out["decisions"] == pytest.approx((50 + 50 + 80 + 50) / 4)
    assert out["efficiency"] == pytest.approx((0.4 + 0.4 + 0.25 + 0.4) / 4)
    assert out["detour"] == 1.5
    assert (home["leg"], home["goal"]) == (2, "green pillar")
    assert (home["begun"], home["in_time"], home["finished"], home["seen_before"]) == (3, 2, 1, 3)
    assert (home["decisions"], home["optimum"], home["since_seen"]) == (40, 30, 90)
    # Layout 1 has no leg back that tells anything: all that is known comes from layout 0.
    assert (home["efficiency"], home["interval_95"]) == (0.375, [0.375, 0.375])
    over_seeds = leg_rows([layout_scores(first), layout_scores([e._replace(legs=(leg(),)) for e in first])])
    assert [row["begun"] for row in over_seeds] == [8, 3]


def test_episodes_that_nobody_recorded_have_no_legs() -> None:
    scores = layout_scores([episode(0, 0, None)])
    assert "legs" not in scores[0]
    assert "legs" not in summarise([scores])


# --------------------------------------------------------------------------------------------------- in the engine


def played(
    scenarios: ScenarioSet, kind: ScriptedKind, *, seed: int = 0, noise: float = 0.0, num_envs: int = 4
) -> list[EpisodeResult]:
    env = DoomVectorEnv(
        num_envs, scenarios=scenarios, split="test", episodes_per_layout=1, ego_motion_noise=noise
    )
    try:
        return play(env, ScriptedPlayer(scripted_agent(kind), env), seed=seed, watcher=Recorder(env))
    finally:
        env.close()


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_a_planner_wastes_nothing(sets: dict[Task, ScenarioSet], task: Task) -> None:
    goals = {"labyrinth": 1, "find-return": 2, "ordered-items": 4}[task]
    episodes = played(sets[task], "planner")
    for one in episodes:
        assert one.legs is not None and one.success
        assert len(one.legs) == goals and all(each.finished for each in one.legs)
        # An episode ends in the tic after the last goal, which may be the first of another decision.
        assert one.decisions - sum(each.decisions for each in one.legs) in (0, 1)
        for each in one.legs:
            assert each.optimum is not None
            # The planner looks for a shorter way at every decision, the optimum at every fourth.
            assert each.optimum <= 1.2 * each.decisions + 1
    rows = summarise([layout_scores(episodes)])["legs"]
    assert [row["finished"] for row in rows] == [4] * goals
    assert all(row["efficiency"] >= 0.9 for row in rows)
    assert all(row["revisited"] < 0.1 for row in rows)


def test_random_wastes_nearly_all(sets: dict[Task, ScenarioSet]) -> None:
    rows = summarise([layout_scores(played(sets["find-return"], "random"))])["legs"]
    assert rows[0]["efficiency"] < 0.3
    assert rows[0]["revisited"] > 0.2


def test_legs_are_of_true_poses(sets: dict[Task, ScenarioSet]) -> None:
    """Random looks at nothing, so noise in what it sees changes nothing that it does."""
    exact, noisy = (played(sets["find-return"], "random", noise=noise) for noise in (0.0, 0.5))
    assert exact == noisy


class Murderer:
    """Random, but in one decision an engine dies."""

    def __init__(self, env: DoomVectorEnv, at: int) -> None:
        self._player, self._env, self._left = ScriptedPlayer(scripted_agent("random"), env), env, at
        self.begin = self._player.begin

    def act(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
        self._left -= 1
        if self._left == 0:
            os.kill(self._env.engine_pids[1], signal.SIGKILL)
        return self._player.act(observation, playing)


def test_an_episode_whose_engine_died_is_recorded_from_its_new_start(sets: dict[Task, ScenarioSet]) -> None:
    env = DoomVectorEnv(4, scenarios=sets["labyrinth"], split="test", episodes_per_layout=1)
    try:
        broken = play(env, Murderer(env, 30), watcher=Recorder(env))
        assert env.engine_restarts == 1
        assert broken == play(env, ScriptedPlayer(scripted_agent("random"), env), watcher=Recorder(env))
    finally:
        env.close()


@pytest.mark.parametrize("columns", ["80", "120"])
def test_evaluate_tells_the_legs(
    columns: Literal["80", "120"],
    sets: dict[Task, ScenarioSet],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = tmp_path / "scores.json"
    given = ["--agents", "planner", "--scenarios", str(sets["find-return"].folder), "--out", str(out)]
    assert main(["evaluate", *given]) == 0
    printed = capsys.readouterr().out
    assert "legs" in printed and "2 green" in printed and "efficiency" in printed
    (one,) = json.loads(out.read_text())["evaluations"]
    legs = [legs for entry in one["layouts"] for legs in entry["legs"]]
    assert [[each["goal"] for each in found] for found in legs] == [["red pillar", "green pillar"]] * 4
    assert [row["goal"] for row in one["summary"]["legs"]] == ["red pillar", "green pillar"]
