"""The agents that come with the package: each loads by its name, plays, and says what its card says."""

from __future__ import annotations

import json

import numpy as np
import pytest

import egomap
from egomap.training.names import RELEASED, released

NAMES = [entry["name"] for entry in released()]


def test_there_is_one() -> None:
    assert "find-return-9/egomap+" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_plays(name: str) -> None:
    agent = egomap.load_agent(name)
    env = agent.make_env()
    try:
        observation, _ = env.reset(seed=0)
        before = np.asarray(observation["pose"]).copy()
        for _ in range(12):
            observation, _, terminated, truncated, _ = env.step(agent.act(observation))
            assert not (terminated or truncated)
        assert np.abs(np.asarray(observation["pose"]) - before).max() > 0  # it does something
    finally:
        env.close()


@pytest.mark.parametrize("name", NAMES)
def test_its_card_tells_scores_with_intervals_and_what_its_memory_is_worth(name: str) -> None:
    card = json.loads((RELEASED / name / "card.json").read_text())
    assert name == card["name"] and card["scores"]
    assert all(score["interval_95"] for score in card["scores"]) and card["scores"][0]["lesions"]
    assert str(RELEASED) not in json.dumps(card)


@pytest.mark.slow(seconds=30)
def test_the_score_of_its_card_can_be_made_again() -> None:
    """All held-out mazes: the same number on one processor, and on another one that cannot be told from it."""
    name = "find-return-9/egomap+"
    said = json.loads((RELEASED / name / "card.json").read_text())["scores"][0]
    assert (said["split"], said["episodes_per_layout"], said["argmax"]) == ("test", 1, False)
    (found,) = egomap.evaluate(name, split="test", seed=said["seed"])["evaluations"]
    assert found["summary"]["episodes"] == said["episodes"] == 64
    low, high = found["summary"]["interval_95"]
    assert low <= said["interval_95"][1] and high >= said["interval_95"][0]
    assert found["summary"]["success"] > 0.8  # a wanderer solves half of them
