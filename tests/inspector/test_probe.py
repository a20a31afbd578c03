"""Probes: the linear models by known answers, the samples by what stands there, and the whole on real episodes."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from egomap.config import EnvSettings, Task
from egomap.envs.worlds import worlds_of_set
from egomap.inspector.linear import angle_errors, classify, regress, standardised
from egomap.inspector.probe import Samples, constant_error, probe, sample, score
from egomap.inspector.probe_report import figure, rows
from egomap.scenarios.dataset import ScenarioSet

from .conftest import Recorder, small_agent

DRAW = np.random.default_rng


def test_classes_that_a_plane_parts_are_told_apart() -> None:
    draw = DRAW(0)
    centres = np.array([[0, 0, 9.0], [9, 0, 0], [0, 9, 0]])
    labels = draw.choice(3, 600, p=[0.94, 0.03, 0.03])  # two of them rare, as items are
    points = (centres[labels] + draw.normal(size=(600, 3))) * [1e-3, 1, 1e3]
    said = classify(points[:400], labels[:400], points[400:], 3)
    assert (said == labels[400:]).all()


def test_noise_tells_nothing() -> None:
    draw = DRAW(1)
    labels = draw.integers(2, size=4000)
    said = classify(draw.normal(size=(2000, 4)), labels[:2000], draw.normal(size=(2000, 4)), 2)
    assert abs((said == labels[2000:]).mean() - 0.5) < 0.05


def test_a_class_that_never_occurs_is_an_error() -> None:
    with pytest.raises(ValueError, match="every class"):
        classify(np.ones((3, 2)), np.array([0, 0, 2]), np.ones((1, 2)), 3)


def test_ridge_regression_finds_a_linear_law() -> None:
    draw = DRAW(2)
    rows = draw.normal(size=(500, 5)) * [1, 2, 3, 4, 5] + 3
    law = draw.normal(size=(5, 2))
    found = regress(rows[:400], rows[:400] @ law + 7, rows[400:], penalty=1e-9)
    assert found == pytest.approx(rows[400:] @ law + 7, abs=1e-5)


def test_standardised_rows() -> None:
    one, other = standardised(np.array([[0.0, 5], [2, 5]]), np.array([[4.0, 9]]))
    assert one.tolist() == [[-1, 0], [1, 0]] and other.tolist() == [[3, 0]]


def test_angle_errors_go_the_short_way() -> None:
    predicted = np.array([[1.0, 0], [0, 2], [-1, 0], [-1, 1e-9]])
    errors = angle_errors(predicted, np.array([math.pi / 2, math.pi / 2, -3.0, -math.pi]))
    assert errors == pytest.approx([math.pi / 2, 0, math.pi - 3, 0], abs=1e-6)
    assert constant_error(np.array([0.1, -0.1]), np.array([math.pi / 2, 0.0])) == pytest.approx(45)


def test_samples_are_of_the_map_and_the_maze(recorded: Recorder) -> None:
    recording = recorded("ordered-items", "egomap", "planner")
    assert recording.mind is not None and recording.layout is not None
    found = sample(recording, recording.mind, DRAW(0))
    assert found.cells is not None and len(found.cells) == len(found.labels)
    assert set(found.labels.tolist()) <= set(range(2 + 4)) and {0, 1} <= set(found.labels.tolist())
    assert len(found.state) == len(found.bearing) == len(range(int(DRAW(0).integers(5)), len(recording), 5))
    # Just before it touches an item, the planner has it ahead.
    first = int(np.flatnonzero(recording.event)[0])
    x, y, phi = recording.true_pose[first]
    gx, gy = recording.layout.center(recording.layout.goals[0])
    assert math.cos(math.atan2(gy - y, gx - x) - phi) > 0.5


def test_a_memory_that_knows_scores_and_one_that_does_not_fails() -> None:
    draw = DRAW(3)

    def episodes(knows: bool, count: int) -> list[Samples]:
        found = []
        for _ in range(count):
            labels, bearing = draw.integers(3, size=90), draw.uniform(-math.pi, math.pi, 40)
            truth = np.eye(3)[labels] if knows else np.zeros((90, 3))
            aims = np.stack((np.cos(bearing), np.sin(bearing)), 1) if knows else np.zeros((40, 2))
            noise = 0.1 * draw.normal(size=(40, 2))
            found.append(Samples(truth + 0.1 * draw.normal(size=(90, 3)), labels, aims + noise, bearing))
        return found

    names = ["free", "wall", "exit"]
    good = score(episodes(True, 6), episodes(True, 4), names, 0)
    bad = score(episodes(False, 6), episodes(False, 4), names, 0)
    assert good.balanced is not None and bad.balanced is not None
    assert good.balanced.value > 0.99 and abs(bad.balanced.value - 1 / 3) < 0.12
    assert good.bearing_error.value < 10 and abs(bad.bearing_error.value - 90) < 15
    assert bad.balanced.low < bad.balanced.value < bad.balanced.high


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["egomap", "neural-map", "gru", "frame-stack"])
def test_real_agents(sets: dict[Task, ScenarioSet], kind: str) -> None:
    worlds = worlds_of_set(sets["find-return"], "test")
    agents = (small_agent(kind, worlds), small_agent(kind, worlds))
    result = probe(*agents, worlds, EnvSettings(), layouts=4, driver="planner", seed=0)
    assert result.fitted == [0, 1, 2] and result.tested == [3]
    # The same weights watching the same episodes know the same.
    assert repr(result.trained) == repr(result.untrained)
    assert 0 < result.trained.bearing_error.value < 180
    assert (result.trained.balanced is None) == (kind in ("gru", "frame-stack"))
    if result.trained.balanced is not None:
        assert list(result.trained.recall) == result.classes == ["free", "wall", "red pillar", "green pillar"]
        assert result.trained.balanced.value > 0.3, "even random features tell a red pillar from a grey wall"
        # A Neural Map writes where the agent stands, which is never inside a pillar's cell in these mazes.
        unheard = {name for name, found in result.trained.recall.items() if math.isnan(found.value)}
        assert unheard <= ({"red pillar", "green pillar"} if kind == "neural-map" else set())
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert plain["trained"] == plain["untrained"]
    table = list(rows(result))
    assert len(table) == (1 if result.trained.balanced is None else 6)
    assert table[-1][0].startswith("state: direction")
    assert table[-1][-1] == f"{result.constant_error:.0f}°"
    assert figure(result, "png").startswith(b"\x89PNG") and b"untrained" in figure(result, "svg")


def test_too_few_layouts(sets: dict[Task, ScenarioSet]) -> None:
    worlds = worlds_of_set(sets["find-return"], "test")
    agent = small_agent("gru", worlds)
    for layouts in (3, 5):
        with pytest.raises(ValueError, match=f"layouts must be 4 to 4; got {layouts}"):
            probe(agent, agent, worlds, EnvSettings(), layouts=layouts, driver="planner", seed=0)
    two = dataclasses.replace(worlds, worlds=worlds.worlds[:2])
    with pytest.raises(ValueError, match="probing needs 4 held-out layouts or more; there are only 2"):
        probe(agent, agent, two, EnvSettings(), layouts=4, driver="planner", seed=0)
