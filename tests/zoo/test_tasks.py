"""The tasks as environments, and that they ask for a memory: answers worked out anew, and nothing told at the end."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import egomap.zoo  # noqa: F401  registers them
from egomap.worlds.gym import FACTS
from egomap.zoo.tasks import COLOURS, TASKS, Recall, Revisit, Script, ScriptedTask, WayHome, WhereSeen

NAMES = sorted(TASKS)
VARIANTS = [*(task() for task in TASKS.values()), WayHome(turns=True), WhereSeen(turns=True)]


def scripts(task: ScriptedTask, number: int, seed: int = 0) -> list[Script]:
    draws = np.random.default_rng(seed)
    return [task.script(draws) for _ in range(number)]


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_accepts_it(name):
    env = gymnasium.make(name)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.unwrapped.camera.width == env.observation_space["rgb"].shape[2]


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_pay_and_no_others(name):
    env = TASKS[name]()
    for seed in range(12):
        observation, _ = env.reset(seed=seed)
        script = env._script
        assert script is not None
        asked, total = sum(frame.answer is not None for frame in script), 0.0
        for number, frame in enumerate(script):
            assert np.array_equal(observation["rgb"], frame.picture[0])
            assert np.array_equal(observation["depth"], frame.picture[1])
            assert np.allclose(observation["pose"], frame.pose)
            last, question = number == len(script) - 1, frame.answer is not None
            action = ((frame.answer or 0) + seed % 2) % len(env.actions)
            observation, reward, terminated, truncated, info = env.step(action)
            assert terminated == last and not truncated
            assert reward == (1 / asked if question and seed % 2 == 0 else 0.0)
            total += reward
        assert info["success"] == (seed % 2 == 0) and total == pytest.approx(1 - seed % 2)
        with pytest.raises(ValueError, match="call reset"):
            env.step(0)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_is_an_episode(name):
    one, two = TASKS[name](), TASKS[name]()
    for seed in (3, 3, 4):
        a, b = one.reset(seed=seed)[0], two.reset(seed=seed)[0]
        assert all(np.array_equal(a[key], b[key]) for key in a)
    follow_ups = [one.reset()[0]["pose"].tolist() for _ in range(20)]
    assert len({tuple(pose) for pose in follow_ups}) > 1


@pytest.mark.parametrize(
    "task", VARIANTS, ids=lambda task: f"{type(task).__name__} {vars(task).get('turns', '')}"
)
def test_the_present_tells_nothing(task):
    """Given what is seen at a question and the last motion, every answer is as likely: who forgets can only guess."""
    seen: dict[tuple[object, ...], Counter[int]] = {}
    for script in scripts(task, 1500):
        for before, frame in pairwise(script):
            if frame.answer is not None:
                x, y, phi = np.subtract(frame.pose, before.pose)
                ahead = x * math.cos(before.pose[2]) + y * math.sin(before.pose[2])
                right = x * math.sin(before.pose[2]) - y * math.cos(before.pose[2])
                motion = tuple(np.round((ahead, right, math.cos(phi), math.sin(phi)), 3) + 0.0)
                key = (frame.picture[0].tobytes(), frame.picture[1].tobytes(), motion)
                seen.setdefault(key, Counter())[frame.answer] += 1
    for counts in seen.values():
        total = counts.total()
        assert total > 200
        for answer in range(len(task.actions)):
            assert abs(counts[answer] / total - task.chance) < 5 * math.sqrt(task.chance / total)


@pytest.mark.parametrize("name", NAMES)
def test_the_past_tells_it(name):
    """Two episodes that look the same up to a question have the same answer."""
    answers: dict[bytes, int] = {}
    for script in scripts(TASKS[name](), 400):
        whole = b""
        for frame in script:
            whole += frame.picture[0].tobytes() + np.round(np.array(frame.pose), 6).tobytes()
            if frame.answer is not None:
                assert answers.setdefault(whole, frame.answer) == frame.answer
    assert answers


@pytest.mark.parametrize("name", NAMES)
def test_episodes_of_a_task_are_asked_at_the_same_steps_and_stay_in_the_world(name):
    task = TASKS[name]()
    found = scripts(task, 50)
    assert len({tuple(frame.answer is None for frame in script) for script in found}) == 1
    places = np.array([frame.pose[:2] for script in found for frame in script])
    assert np.abs(places).max() < task.extent / 2


@pytest.mark.parametrize("name", NAMES)
def test_it_tells_what_a_world_must_tell(name):
    told = TASKS[name]().egomap
    assert set(told) <= set(FACTS) and {"camera", "extent", "actions"} <= set(told)


def test_recall_by_hand():
    task = Recall(delay=3)
    for script in scripts(task, 8):
        assert len(script) == 5
        middle = tuple(int(c) for c in script[0].picture[0][:, 22, 30])
        assert middle == COLOURS[script[-1].answer]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), moves=st.integers(1, 6), turns=st.booleans())
def test_the_way_home_leads_home(seed, moves, turns):
    """From the last pose, turned to the answer's side, home lies ahead rather than beside or behind."""
    (script,) = scripts(WayHome(moves=moves, turns=turns), 1, seed)
    home, (x, y, phi) = script[0].pose, script[-1].pose
    turned = phi + (0, math.pi / 2, math.pi, -math.pi / 2)[script[-1].answer]
    ahead = (home[0] - x) * math.cos(turned) + (home[1] - y) * math.sin(turned)
    beside = (home[0] - x) * math.sin(turned) - (home[1] - y) * math.cos(turned)
    assert ahead >= abs(beside) + 31.9


@pytest.mark.parametrize("turns", [False, True])
def test_where_seen_by_hand(turns):
    """Turned to the answer's side, the wall that the card asks for is looked at."""
    for script in scripts(WhereSeen(turns=turns), 40):
        for question in script[-2:]:
            turned = question.pose[2] + (0, math.pi / 2, math.pi, -math.pi / 2)[question.answer]
            views = [frame for frame in script[:4] if math.cos(frame.pose[2] - turned) > 0.99]
            assert len(views) == 1
            assert np.array_equal(views[0].picture[0][:, 22, 30], question.picture[0][:, 22, 30])


def test_revisit_by_hand():
    task = Revisit(places=3, visits=7)
    visited = set()
    for script in scripts(task, 60):
        first = script[: task.places]
        for before, visit in pairwise(script[task.places - 1 :]):
            here = [n for n, frame in enumerate(first) if np.allclose(frame.pose, visit.pose)]
            assert len(here) == 1 and not np.allclose(before.pose, visit.pose)
            visited.add(here[0])
            assert tuple(int(c) for c in first[here[0]].picture[0][:, 22, 30]) == COLOURS[visit.answer]
    assert visited == {0, 1, 2}


def test_a_panel_is_as_wide_as_the_view():
    """What is seen of the wall at one place ends where what is seen at the next begins."""
    (script,) = scripts(Revisit(), 1)
    edges = []
    for frame in script[:2]:
        x, y, phi = frame.pose
        depth = frame.picture[1][22].astype(float)
        across = depth[[0, -1]] * (np.array([0.0, 60.0]) - 30.0) / 30.0  # of the view's outer edges
        edges.append([x * math.sin(phi) - y * math.cos(phi) + right for right in across])
    assert edges[0][0] == pytest.approx(edges[1][1], abs=1e-3)


def test_wrong_settings_and_actions_are_told():
    with pytest.raises(ValueError, match="delay must be 0 or more"):
        Recall(delay=-1)
    with pytest.raises(ValueError, match="moves must be 1 or more"):
        WayHome(moves=0)
    with pytest.raises(ValueError, match="places must be 2 or more"):
        Revisit(places=1)
    with pytest.raises(ValueError, match="visits must be 1 or more"):
        Revisit(visits=0)
    with pytest.raises(ValueError, match="render_mode"):
        Recall(render_mode="human")
    env = Recall()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must be 0 to 3"):
        env.step(4)


def test_a_picture_for_people():
    env = Recall(render_mode="rgb_array")
    assert env.render() is None
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None and picture.shape == (44, 60, 3)
