"""From episodes to scores, by hand."""

from __future__ import annotations

import json

import pytest

from egomap.evaluation.runner import EpisodeResult
from egomap.evaluation.scores import Optimum, layout_scores, summarise


def episode(layout: int, repeat: int, reward: float, decisions: int, *, success: bool) -> EpisodeResult:
    return EpisodeResult(layout, f"maze {layout}", repeat, reward, success, decisions, not success)


FIRST = [
    episode(0, 0, 0.9, 100, success=True),
    episode(0, 1, -0.2, 525, success=False),
    episode(1, 0, 0.8, 50, success=True),
    episode(1, 1, 0.6, 40, success=True),
]
OPTIMA = {"maze 0": Optimum(60.0, 0.95), "maze 1": Optimum(45.0, 0.96)}


def test_layouts() -> None:
    first, second = layout_scores(FIRST, OPTIMA)
    assert first["returns"] == [0.9, -0.2]
    assert first["decisions_to_success"] == [100, None]
    assert first["share_of_optimum"] == [0.6, 0.0]
    assert second["share_of_optimum"] == [0.9, 1.0]
    assert (second["layout_id"], second["optimum_decisions"], second["optimum_return"]) == (
        "maze 1",
        45.0,
        0.96,
    )


def test_summary_of_one_run() -> None:
    found = summarise([layout_scores(FIRST, OPTIMA)])
    assert (found["runs"], found["layouts"], found["episodes"]) == (1, 2, 4)
    assert found["mean_return"] == pytest.approx((0.35 + 0.7) / 2)
    assert found["std_over_seeds"] is None
    assert found["std_over_layouts"] == pytest.approx(0.175)
    assert found["success"] == 0.75
    assert found["median_decisions_to_success"] == 50
    assert found["share_of_optimum"] == pytest.approx((0.3 + 0.95) / 2)
    assert found["interval_95"] == pytest.approx([0.35, 0.7])  # both layouts, or one of them twice


def test_summary_over_seeds() -> None:
    second = [result._replace(total_reward=result.total_reward + 0.2) for result in FIRST]
    found = summarise([layout_scores(FIRST, OPTIMA), layout_scores(second, OPTIMA)])
    assert (found["runs"], found["layouts"], found["episodes"]) == (2, 2, 8)
    assert found["mean_return"] == pytest.approx(0.625)
    assert found["std_over_seeds"] == pytest.approx(0.2 / 2**0.5)


def test_without_a_planner_and_without_success_there_are_no_figures() -> None:
    lost = layout_scores([episode(0, 0, -0.21, 525, success=False)])
    found = json.loads(json.dumps(summarise([lost])), parse_constant=pytest.fail)
    assert found["share_of_optimum"] is None and found["median_decisions_to_success"] is None
    unsolved = layout_scores(FIRST, {"maze 0": None, "maze 1": OPTIMA["maze 1"]})
    found = summarise([unsolved])
    assert found["layouts_with_optimum"] == 1 and found["share_of_optimum"] == pytest.approx(0.95)


def test_other_layouts_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="other layouts"):
        summarise([layout_scores(FIRST), layout_scores(FIRST[:2])])
    with pytest.raises(ValueError, match="nothing to summarise"):
        summarise([])
