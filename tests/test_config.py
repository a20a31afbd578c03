"""Settings that no machine could follow are refused by name before anything is allocated."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import pytest

from egomap.config import AgentConfig, LearnerSettings, MapSettings, ScenarioConfig, TrainConfig
from egomap.memory.recurrent import RecurrentMemory
from egomap.presets import FAST
from egomap.training.allocator import require_memory


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (LearnerSettings(rollout_steps=10**12), "rollout-steps"),
        (LearnerSettings(rollout_steps=2**14, num_envs=2**10), "rollout-steps x num-envs"),
        (LearnerSettings(algorithm="ppo", epochs=10**9), "epochs"),
        (MapSettings(map_size=10**6), "map-size"),
        (MapSettings(map_size=11), "map-size"),
        (MapSettings(channels=10**9), "channels"),
        (AgentConfig(hidden_size=10**9), "hidden-size"),
        (AgentConfig(neural_map_size=10**9), "neural-map-size"),
        (AgentConfig(neural_map_channels=10**9), "neural-map-channels"),
        (TrainConfig(budget=10**16), "budget"),
        (TrainConfig(curriculum=(3,) * 1000), "number of the curriculum's sizes"),
        (TrainConfig(curriculum_bar=math.nan), "curriculum-bar"),
        (TrainConfig(curriculum_bar=math.inf), "curriculum-bar"),
        (TrainConfig(evaluation_episodes=10**9), "evaluation-episodes"),
        (ScenarioConfig(wall_probability=10**400), "wall-probability"),
    ],
    ids=str,
)
def test_out_of_bounds(settings: Any, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .*; got .*\.$"):
        settings.validate()


@pytest.mark.parametrize("path", ["curriculum_bar", "learner.clip", "agent.value_gain"])
def test_whole_numbers_that_no_float_can_hold(path: str) -> None:
    data = TrainConfig().to_json()
    *groups, name = path.split(".")
    part = data
    for group in groups:
        part = part[group]
    part[name] = 10**400
    with pytest.raises(ValueError, match=r"must be .*; got inf\.$"):
        TrainConfig.from_json(data)


def test_a_rollout_that_does_not_fit_into_this_machine() -> None:
    """2^20 decisions with the hidden state of a GRU fit into 53 GB; with maps of 256 x 256 cells into no machine."""
    learner = LearnerSettings(rollout_steps=2**10, num_envs=2**10)
    memory = RecurrentMemory((16, 4, 10))
    require_memory(dataclasses.replace(learner, rollout_steps=1), memory)
    huge = RecurrentMemory((16, 4, 10))
    huge.output_size = 256**2 * 16
    with pytest.raises(
        ValueError, match=r"needs 4,4\d\d GB at least, and this machine has .* lower --learner"
    ):
        require_memory(learner, huge)


def numbers(settings: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The ways to all numbers among settings within settings."""
    for entry in dataclasses.fields(settings):
        value = getattr(settings, entry.name)
        if dataclasses.is_dataclass(value):
            yield from numbers(value, *path, entry.name)
        elif type(value) in (int, float):
            yield *path, entry.name


def changed(settings: Any, path: tuple[str, ...], value: float) -> Any:
    name, *rest = path
    inner = changed(getattr(settings, name), tuple(rest), value) if rest else value
    return dataclasses.replace(settings, **{name: inner})


@pytest.mark.parametrize("path", [*numbers(FAST)], ids=".".join)
def test_no_number_of_a_training_is_absurd(path: tuple[str, ...]) -> None:
    """A setting that comes later is looked at, too: nobody has to remember to test its bounds."""
    default = functools.reduce(getattr, path, FAST)
    absurd = (-(10**15),) if isinstance(default, int) else (math.nan, math.inf, -math.inf)
    for value in absurd:
        if path == ("env", "watchdog") and value == math.inf:  # that is none
            continue
        with pytest.raises(ValueError) as refused:
            changed(FAST, path, value).validate()
        told = str(refused.value)
        assert told.endswith(".") and "\n" not in told and str(value) in told
