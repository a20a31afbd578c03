"""Returns worked out by hand, and the generalised advantages against their definition."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from egomap.rl.returns import RunningScale, following_values, generalised_advantages

NO = torch.tensor([[False], [False], [False]])


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def flags(*values: bool) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def test_discounted_returns_by_hand() -> None:
    values = column(0.5, 0.4, 0.3)
    following = following_values(values, torch.tensor([2.0]), NO, NO, bootstrap_timeouts=True)
    advantage = generalised_advantages(
        column(1.0, 0.0, 1.0), values, following, NO, discount=0.5, trace_decay=1.0
    )
    # Returns: 1 + 0.5 * 2 = 2; 0 + 0.5 * 2 = 1; 1 + 0.5 * 1 = 1.5.
    torch.testing.assert_close(advantage + values, column(1.5, 1.0, 2.0))


def test_an_end_stops_the_return() -> None:
    values, ended = column(0.5, 0.4, 0.3), flags(False, True, False)
    following = following_values(values, torch.tensor([2.0]), ended, NO, bootstrap_timeouts=True)
    torch.testing.assert_close(following, column(0.4, 0.0, 2.0))
    advantage = generalised_advantages(
        column(0.0, 1.0, 1.0), values, following, ended, discount=0.5, trace_decay=1.0
    )
    torch.testing.assert_close(advantage + values, column(0.5, 1.0, 2.0))


def test_a_time_out_is_not_an_end() -> None:
    values, timed_out = column(0.5, 0.4, 0.3), flags(False, True, False)
    following = following_values(values, torch.tensor([2.0]), NO, timed_out, bootstrap_timeouts=True)
    # The last value that was seen stands in for what the time-out cut off.
    torch.testing.assert_close(following, column(0.4, 0.4, 2.0))
    as_end = following_values(values, torch.tensor([2.0]), NO, timed_out, bootstrap_timeouts=False)
    torch.testing.assert_close(as_end, column(0.4, 0.0, 2.0))


def test_one_step_errors_with_no_trace() -> None:
    values = column(0.5, 0.4, 0.3)
    following = following_values(values, torch.tensor([2.0]), NO, NO, bootstrap_timeouts=True)
    advantage = generalised_advantages(
        column(1.0, 0.0, 1.0), values, following, NO, discount=0.5, trace_decay=0.0
    )
    torch.testing.assert_close(advantage, column(1 + 0.2 - 0.5, 0.15 - 0.4, 1 + 1.0 - 0.3))


@given(steps=st.integers(1, 7), envs=st.integers(1, 3), seed=st.integers(0, 10_000))
def test_advantages_are_the_sum_of_their_definition(steps: int, envs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw() -> torch.Tensor:
        return torch.randn(steps, envs, generator=generator, dtype=torch.float64)

    rewards, values, next_value = draw(), draw(), draw()[0]
    terminated, truncated = draw() > 1, draw() > 1
    truncated &= ~terminated
    ended = terminated | truncated
    following = following_values(values, next_value, terminated, truncated, bootstrap_timeouts=True)
    found = generalised_advantages(rewards, values, following, ended, discount=0.9, trace_decay=0.7)
    for n in range(envs):
        for t in range(steps):
            total, weight = 0.0, 1.0
            for k in range(t, steps):
                after = values[k + 1, n] if k + 1 < steps else next_value[n]
                after = 0.0 if terminated[k, n] else values[k, n] if truncated[k, n] else after
                total += weight * float(rewards[k, n] + 0.9 * after - values[k, n])
                weight *= 0.63
                if ended[k, n]:
                    break
            assert abs(float(found[t, n]) - total) < 1e-12


def test_a_running_scale_by_hand() -> None:
    scale = RunningScale(decay=0.5)
    assert scale.deviation == 1.0
    scale.add(4.0)
    assert scale.deviation == pytest.approx(2.0), "the first rollout is not taken for small"
    scale.add(1.0)  # 0.25 * 4 + 0.5 * 1 = 1.5, of a weight of 0.75
    assert scale.deviation == pytest.approx(math.sqrt(2.0))


def test_a_quiet_rollout_stays_quiet() -> None:
    scale = RunningScale()
    for _ in range(50):
        scale.add(0.01)
    scale.add(1e-6)
    assert scale.deviation == pytest.approx(0.1, rel=0.06)
    for _ in range(50):
        scale.add(1e-6)
    assert scale.deviation < 0.01  # but it forgets
