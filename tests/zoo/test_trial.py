"""Memories on the scripted tasks: all of them learn to recall, the GRU all tasks, and none of them without memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from egomap.config import AgentConfig, MapSettings
from egomap.zoo.tasks import Recall, Revisit, WayHome
from egomap.zoo.trial import Effort, answers, draw, learn, maker, score


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_batch_is_what_the_environment_shows():
    """Pictures, poses and answers of the same script; the motion is from the pose before, in its own frame."""
    task, draws = WayHome(moves=3, turns=True), np.random.default_rng(3)
    batch, scripts = (
        draw(task, 4, draws),
        [task.script(d) for d in [np.random.default_rng(3)] for _ in range(4)],
    )
    assert batch.asked.tolist() == [n for n, frame in enumerate(scripts[0]) if frame.answer is not None]
    assert batch.answer.tolist() == [[script[step].answer for script in scripts] for step in batch.asked]
    for n, script in enumerate(scripts):
        for t, frame in enumerate(script):
            assert np.array_equal(batch.observations["rgb"][t, n], frame.picture[0])
            x, y, phi = batch.observations["ego_motion"][t, n].tolist()
            before = script[max(t - 1, 0)].pose
            there = (
                before[0] + x * np.sin(before[2]) + y * np.cos(before[2]),
                before[1] - x * np.cos(before[2]) + y * np.sin(before[2]),
            )
            assert np.allclose(there, frame.pose[:2], atol=1e-3)
            assert np.isclose(np.cos(before[2] + phi), np.cos(frame.pose[2]), atol=1e-5)


def test_the_same_seed_learns_the_same_and_others_are_asked():
    task, effort = Revisit(), Effort(updates=2, batch=4)
    config = AgentConfig(kind="gru", hidden_size=8)
    one, two = (learn(maker(config, task), task, effort, seed=5) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    asked = draw(task, 3, np.random.default_rng(0))
    assert answers(one, asked).shape == (4, 3, 2)
    assert score(one, task, episodes=20) == score(two, task, episodes=20)


@pytest.mark.parametrize("effort", [Effort(updates=-1), Effort(batch=0), Effort(learning_rate=0.0)])
def test_wrong_efforts_are_told(effort):
    with pytest.raises(ValueError, match="must be"):
        learn(maker(AgentConfig(kind="gru"), Recall()), Recall(), effort)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gru", "lstm", "lru", "ffm", "gtrxl", "smt", "dnc"])
def test_every_memory_learns_to_recall(kind):
    task = Recall(delay=4)
    assert score(learn(maker(AgentConfig(kind=kind), task), task, Effort(updates=150)), task) > 0.6
    # Guessing has 0.25.


@pytest.mark.slow
def test_a_map_learns_to_recall():
    task, config = Recall(delay=4), AgentConfig(kind="proj-neural-map", map=MapSettings(map_size=12))
    assert score(learn(maker(config, task), task, Effort(updates=150)), task) > 0.9
