"""The preset `paper` is the paper's: its numbers are written out here once more."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from egomap.config import distinctive
from egomap.presets import PAPER, preset


def test_the_a2c_of_the_paper() -> None:
    learner = PAPER.learner
    assert (learner.algorithm, learner.num_envs, learner.rollout_steps) == ("a2c", 16, 128)
    assert (learner.discount, learner.trace_decay, learner.bootstrap_timeouts) == (0.99, 1.0, False)
    assert (learner.entropy_weight, learner.value_weight, learner.max_gradient_norm) == (0.001, 0.5, 0.5)
    assert (learner.optimizer, learner.learning_rate, learner.learning_rate_decay) == (
        "rmsprop",
        7e-4,
        "none",
    )
    assert learner.read_rate == learner.perception_rate == 1.0
    assert not learner.normalise_advantages
    assert PAPER.budget * PAPER.env.frame_skip == 1_200_000_000


def test_the_agent_of_the_paper() -> None:
    agent = PAPER.agent
    assert not agent.standardise and (agent.hidden_size, agent.value_gain, agent.padding) == (128, 1.0, 0.2)
    assert PAPER.env.rendering == "320x180" and PAPER.env.frame_skip == 4
    settings = agent.map
    assert (settings.channels, settings.map_size, settings.alpha) == (16, 24, 0.9)
    assert (
        settings.use_global_read and settings.use_query and settings.use_beta and settings.use_query_position
    )
    assert settings.similarity == "cosine" and settings.map_frame == "global"
    assert settings.write_gradient_steps is None
    assert not settings.use_ego_motion and not settings.normalise


def test_a_later_setting_tells_settings_apart_only_when_it_is_changed() -> None:
    plain = PAPER.to_json()
    later = [entry.name for entry in fields(PAPER.agent) if entry.metadata.get("later")]
    assert {name: plain["agent"].pop(name) for name in later}["stack_size"] == 4
    assert plain["agent"]["map"].pop("write") == "mean"  # later, too
    assert distinctive(PAPER)["agent"] == plain["agent"]
    changed = replace(PAPER, agent=replace(PAPER.agent, stack_size=8))
    assert distinctive(changed)["agent"] == {**plain["agent"], "stack_size": 8}


def test_an_unknown_preset() -> None:
    with pytest.raises(ValueError, match="there is no preset 'slow'; there are paper, fast, quick, full"):
        preset("slow")
