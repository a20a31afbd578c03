"""The paper's own figures, to stand beside ours: its main table, its ablation table, its table of noise.

Returns as (mean, standard deviation over three runs); None where the paper gives no deviation. Frames are what it
calls environment steps; one decision is four of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """A figure of the paper."""

    mean: float
    std: float | None = None


class Pair(NamedTuple):
    """The figures of one agent on one task."""

    train: Value | None
    test: Value | None


NOTHING = Pair(None, None)
"""What the paper has of an agent that is not in it."""

RESULTS_FRAMES = 1_200_000_000
ABLATION_FRAMES = 800_000_000
NOISE_FRAMES = 320_000_000

SIZES = {"labyrinth": 9, "find-return": 9, "4-item": 5, "6-item": 5}
"""Cells along each side of the mazes, by task."""

RESULTS: dict[tuple[str, str], Pair] = {
    ("4-item", "Random"): Pair(Value(-0.179), Value(-0.206)),
    ("4-item", "GRU"): Pair(Value(2.341, 0.026), Value(2.266, 0.035)),
    ("4-item", "Neural Map"): Pair(Value(2.339, 0.038), Value(2.223, 0.040)),
    ("4-item", "EgoMap"): Pair(Value(2.398, 0.014), Value(2.291, 0.021)),
    ("4-item", "Planner"): Pair(Value(2.5), Value(2.5)),
    ("6-item", "Random"): Pair(Value(-0.21), Value(-0.21)),
    ("6-item", "GRU"): Pair(Value(2.855, 0.164), Value(2.545, 0.226)),
    ("6-item", "Neural Map"): Pair(Value(2.750, 0.062), Value(2.465, 0.034)),
    ("6-item", "EgoMap"): Pair(Value(3.214, 0.007), Value(2.801, 0.048)),
    ("6-item", "Planner"): Pair(Value(3.5), Value(3.5)),
    ("find-return", "Random"): Pair(Value(-0.21), Value(-0.21)),
    ("find-return", "GRU"): Pair(Value(0.661, 0.003), Value(0.633, 0.027)),
    ("find-return", "Neural Map"): Pair(Value(0.825, 0.070), Value(0.723, 0.026)),
    ("find-return", "EgoMap"): Pair(Value(0.893, 0.007), Value(0.848, 0.017)),
    ("find-return", "Planner"): Pair(Value(1.0), Value(1.0)),
    ("labyrinth", "Random"): Pair(Value(-0.115), Value(-0.086)),
    ("labyrinth", "GRU"): Pair(Value(0.73, 0.02), Value(0.694, 0.009)),
    ("labyrinth", "Neural Map"): Pair(Value(0.769, 0.042), Value(0.706, 0.018)),
    ("labyrinth", "EgoMap"): Pair(Value(0.753, 0.002), Value(0.732, 0.016)),
    ("labyrinth", "Planner"): Pair(Value(1.0), Value(1.0)),
}
"""The main table, by task and agent. Its last row is an upper bound, the sum of all rewards with no time passing;
ours is what the planner really gets."""

ABLATION: dict[str, Pair] = {
    "Baseline (GRU)": Pair(Value(0.668, 0.028), Value(0.662, 0.036)),
    "no global read": Pair(Value(0.787, 0.007), Value(0.771, 0.029)),
    "no query": Pair(Value(0.838, 0.003), Value(0.811, 0.013)),
    "no query temperature": Pair(Value(0.845, 0.014), Value(0.815, 0.019)),
    "no query position": Pair(Value(0.839, 0.007), Value(0.814, 0.008)),
    "EgoMap": Pair(Value(0.847, 0.011), Value(0.814, 0.017)),
    "L1 query": Pair(Value(0.851, 0.014), Value(0.828, 0.011)),
}
"""The ablation table, find and return, in the paper's order."""

NOISE: dict[float, Value] = {
    0.00: Value(0.702, 0.026),
    0.02: Value(0.686, 0.027),
    0.04: Value(0.669, 0.031),
    0.06: Value(0.623, 0.018),
    0.08: Value(0.585, 0.017),
    0.10: Value(0.568, 0.023),
    0.12: Value(0.575, 0.020),
    0.14: Value(0.578, 0.023),
    0.16: Value(0.546, 0.017),
    0.20: Value(0.537, 0.031),
}
"""EgoMap trained with noise of this standard deviation; average return on held-out layouts."""
NOISE_BASELINE = Value(0.527, 0.047)
