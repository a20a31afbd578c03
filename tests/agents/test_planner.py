"""The planner in the real engine: it solves every layout, and its model of the body is the engine's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from egomap.agents.planner import OPEN, PlannerAgent, Route, crosses
from egomap.agents.scripted import scripted_agent
from egomap.config import ScenarioConfig, Task
from egomap.envs import DoomEnv, DoomVectorEnv
from egomap.evaluation.runner import EpisodeResult, ScriptedPlayer, play
from egomap.scenarios.dataset import ScenarioSet, generate
from egomap.scenarios.planner import plan
from egomap.scenarios.tasks import optimum
from egomap.ways.body import Body, move

pytestmark = pytest.mark.slow


def scores(scenarios: ScenarioSet, kind: str, *, split: str = "train") -> list[EpisodeResult]:
    env = DoomVectorEnv(8, scenarios=scenarios, split=split, episodes_per_layout=1, copy=False)
    try:
        return play(env, ScriptedPlayer(scripted_agent(kind), env))  # type: ignore[arg-type]
    finally:
        env.close()


Played = Callable[[Task, str], list[EpisodeResult]]


@pytest.fixture(scope="module")
def played(sets: dict[Task, ScenarioSet]) -> Played:
    """played(task, kind): the episodes of that agent on every training layout, played once."""
    return functools.cache(lambda task, kind: scores(sets[task], kind))


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_it_solves_every_layout(sets: dict[Task, ScenarioSet], played: Played, task: Task) -> None:
    results = played(task, "planner")
    assert [result.layout for result in results] == list(range(16))
    assert all(result.success for result in results)
    layouts = sets[task].layouts["train"]
    for result, layout in zip(results, layouts, strict=True):
        # Nobody is faster than top speed along the shortest way; the planner takes less than four times that.
        least = sum(leg.length for leg in plan(layout)) / 33.4
        assert least <= result.decisions <= 4 * least + 20
        assert optimum(layout) - 0.15 <= result.total_reward < optimum(layout)


def test_it_beats_random(played: Played) -> None:
    planner, random = (played("labyrinth", kind) for kind in ("planner", "random"))
    mean = [sum(result.total_reward for result in results) / len(results) for results in (planner, random)]
    assert mean[0] > 0.95 > 0.5 > mean[1]


def test_narrow_cells(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = ScenarioConfig(task="find-return", size=5, cell=112, train=0, test=4, seed=3)
    made = generate(config, tmp_path_factory.mktemp("narrow") / "set")
    assert all(result.success for result in scores(made, "planner", split="test"))


def test_random_depends_on_the_seed_alone(sets: dict[Task, ScenarioSet], played: Played) -> None:
    assert scores(sets["labyrinth"], "random") == played("labyrinth", "random")


@pytest.mark.parametrize("actions", [(2,) * 12, (0,) * 9, (3, 3, 2, 4, 4, 2, 0, 1, 2, 2)])
def test_the_body_is_the_engines(sets: dict[Task, ScenarioSet], actions: Sequence[int]) -> None:
    """In the open, the model's places are the engine's to a hundredth of a unit."""
    env = DoomEnv(scenarios=sets["labyrinth"])
    try:
        observation, _ = env.reset(seed=1, options={"layout": 0})
        x, y, phi = (float(value) for value in observation["pose"])
        body = Body(x, y, 0.0, 0.0, phi, 0)
        for action in actions:
            observation, *_ = env.step(action)
            body, _ = move(body, action, OPEN, 4)
            x, y, phi = (float(value) for value in observation["pose"])
            if math.hypot(x - body.x, y - body.y) > 1:  # a wall was in the way
                break
            assert math.hypot(x - body.x, y - body.y) < 0.05
            assert abs(math.remainder(phi - body.heading, math.tau)) < 1e-3
    finally:
        env.close()


def test_crossing_a_box() -> None:
    box = (0.0, 0.0, 10.0, 10.0)
    assert crosses(-5, 5, 20, 0, box)
    assert not crosses(-5, 5, 4, 0, box)
    assert not crosses(-5, 11, 20, 0, box)
    assert crosses(-1, -1, 3, 3, box)
    assert not crosses(-1, 5, 0, 20, box)


def test_it_needs_the_layout() -> None:
    with pytest.raises(ValueError, match="layout"):
        PlannerAgent().begin(0, None, seed=0)


def test_a_push_makes_it_plan_anew(sets: dict[Task, ScenarioSet]) -> None:
    """Wherever it finds itself, it goes on: a route told of other poses than it foresaw still gives actions."""
    layout = sets["labyrinth"].layouts["train"][0]
    route = Route(layout)
    x, y = layout.center(layout.start)
    for offset in (0.0, 3.0, -4.0, 0.0):
        assert route.act(np.array([x + offset, y, 0.1])) in range(5)
