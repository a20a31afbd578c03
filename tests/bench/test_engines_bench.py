"""The benches on real engines, briefly: what they promise to report."""

from __future__ import annotations

import dataclasses
import math
import os

import pytest
import torch

from egomap.bench import arithmetic, engines, memory, report, training
from egomap.bench.arithmetic import Operations, Speed, operations_of
from egomap.config import LearnerSettings


def children() -> set[str]:
    """Processes whose parent is this one."""
    pid, found = str(os.getpid()), set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if file.read().rsplit(")", 1)[1].split()[1] == pid:
                        found.add(entry)
            except OSError:
                continue
    return found


def test_engines_are_measured_and_gone_afterwards() -> None:
    engines.measure_engines(num_envs=1, decisions=1, rounds=1, size=3)  # starts the guard, which stays
    before = children()
    found = engines.measure_engines(num_envs=2, decisions=3, rounds=2, size=3)
    assert children() == before
    assert {*engines.AT_LEAST, *engines.AT_MOST} <= set(found)
    assert all(math.isfinite(value) and value > 0 for value in found.values())
    assert 5 < found["engines.resident_mb_per_engine"] < 200


def test_training_is_measured_for_every_agent() -> None:
    learner = LearnerSettings(rollout_steps=4, num_envs=2)
    found = training.measure_training(rounds=1, size=3, learners={"a2c": learner})
    assert {*training.AT_LEAST, *training.AT_MOST} <= set(found)
    assert all(math.isfinite(value) and value > 0 for value in found.values())
    for agent in ("gru", "neural_map", "egomap"):
        collect, learn, whole = (
            found[f"training.a2c.{agent}.{part}_decisions_per_second"]
            for part in ("rollout", "update", "whole")
        )
        assert 1 / whole == pytest.approx(1 / collect + 1 / learn, rel=0.01)
        share = found[f"training.a2c.{agent}.of_ceiling"]
        assert share == pytest.approx(whole / found[f"training.a2c.{agent}.ceiling_decisions_per_second"])


def test_operations_of_the_baseline_by_hand() -> None:
    """Three convolutions over 64 x 112; then 640 + 4 values into a GRU by way of 128."""
    decide, learn = operations_of(memory.make_agent("gru"))
    outputs = [(15 * 27 * 16, 4 * 8 * 8), (6 * 12 * 32, 16 * 4 * 4), (4 * 10 * 16, 32 * 3 * 3)]
    by_hand = sum(2 * count * inputs for count, inputs in outputs)
    assert decide.convolution == learn.convolution == by_hand
    # Backward: the weights' gradient of all three, the input's of all but the first.
    assert learn.convolution_backward == 2 * by_hand - 2 * outputs[0][0] * outputs[0][1]
    assert 0 < decide.matrix < learn.matrix


def test_seconds_are_operations_over_speed() -> None:
    assert Speed(1e9, 2e9, 4e9).seconds(Operations(1e9, 1e9, 1e9)) == pytest.approx(1.75)


def test_speed_is_that_of_a_computer() -> None:
    threads = torch.get_num_threads()
    speed = arithmetic.measure_speed(repeats=1)
    assert all(1e8 < value < 1e15 for value in speed)
    assert torch.get_num_threads() == threads


def test_every_bar_has_its_figure_and_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = report.bars()
    assert wanted["engines.vector_over_bare"] == ">= 0.9"
    assert wanted["training.a2c.egomap_over_gru"] == "<= 1.7"
    report.show(dict.fromkeys(wanted, 1.0))
    shown = capsys.readouterr().out
    assert ">= 0.55" in shown and "<= 40" in shown


def test_the_bench_measures_the_presets_algorithms() -> None:
    assert {name: learner.algorithm for name, learner in training.LEARNERS.items()} == {
        "a2c": "a2c",
        "ppo": "ppo",
    }
    assert dataclasses.asdict(training.LEARNERS["a2c"]) == dataclasses.asdict(LearnerSettings())
