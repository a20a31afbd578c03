"""Named settings: the paper's, a faster algorithm, a quick look; and the rows of the paper's ablation table."""

from __future__ import annotations

from dataclasses import replace

from egomap.config import (
    AgentConfig,
    EnvSettings,
    LearnerSettings,
    MapSettings,
    ScenarioConfig,
    TrainConfig,
)

PAPER = TrainConfig(
    agent=AgentConfig(standardise=False, unknown_depth=687.0),
    env=EnvSettings(rendering="320x180"),
    budget=300_000_000,
)
"""The paper's A2C, agents and pictures: 1.2 billion frames."""

FAST_LEARNER = LearnerSettings(
    algorithm="ppo",
    rollout_steps=64,
    num_envs=32,
    trace_decay=0.95,
    bootstrap_timeouts=True,
    entropy_weight=0.01,
    value_weight=4.0,
    optimizer="adam",
    learning_rate=2e-3,
    read_rate=0.1,
    perception_rate=0.25,
    learning_rate_decay="linear",
    epochs=2,
    minibatches=4,
    normalise_advantages=True,
)

FAST = TrainConfig(
    agent=AgentConfig(value_gain=0.01, map=MapSettings(use_ego_motion=True, normalise=True)),
    learner=FAST_LEARNER,
)
"""Recurrent PPO with settings chosen for learning per hour on two cores (docs/training.md)."""

QUICK = replace(
    FAST,
    scenario=ScenarioConfig(task="labyrinth", size=5),
    budget=300_000,
    evaluate_every=100_000,
)
"""The main job: small labyrinths, about ten minutes on two cores."""

FULL = replace(
    FAST,
    agent=replace(FAST.agent, kind="egomap+", use_reward=True),
    scenario=ScenarioConfig(task="find-return", size=9),
    curriculum=(5, 7, 9),
    learner=replace(
        FAST_LEARNER,
        epochs=4,
        rollout_steps=128,
        discount=0.995,
        trace_decay=0.97,
        hindsight_weight=0.5,
    ),
    budget=400_000,
)
"""EgoMap+ on growing mazes up to the paper's size, by reward alone (docs/trials.md)."""

PRESETS: dict[str, TrainConfig] = {"paper": PAPER, "fast": FAST, "quick": QUICK, "full": FULL}

ABLATIONS: dict[str, MapSettings] = {
    "EgoMap": MapSettings(),
    "no global read": MapSettings(use_global_read=False),
    "no query": MapSettings(use_query=False),
    "no query temperature": MapSettings(use_beta=False),
    "no query position": MapSettings(use_query_position=False),
    "L1 query": MapSettings(similarity="l1"),
}
"""The paper's ablation table, by the names of its rows."""


def preset(name: str) -> TrainConfig:
    """The preset of that name; a ValueError that lists them otherwise."""
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}.")
    return PRESETS[name]
