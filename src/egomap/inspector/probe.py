"""How much a memory knows: linear probes of the map's cells and of the hidden state, over held-out episodes.

Input: a trained agent and its worlds. Output: a `ProbeResult`: how well a linear model reads from a
cell what is there (free, wall, each goal), and from the hidden state in which direction the next goal is. The
probe is fitted on some layouts and tested on others. The same is done for an untrained agent of the same kind that
watches the very same episodes, so that the difference is what training put into the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from egomap.agents.agent import Agent
from egomap.config import EnvSettings, require
from egomap.envs.worlds import Worlds
from egomap.inspector.events import goals_reached
from egomap.inspector.linear import angle_errors, classify, regress
from egomap.inspector.mind import Mind
from egomap.inspector.record import Stage, driver_of
from egomap.inspector.recording import MindTrack, Recording
from egomap.inspector.surroundings import FIRST_GOAL, FREE, label_cells, label_names, standing

EVERY = 5
"""Decisions between those that are looked at: neighbours hardly differ."""
CELLS = 48
"""Known cells of free floor and of wall, each, that are drawn from a map; goals are rare, and all are taken."""
FITTED = 0.75
"""Part of the layouts that the probe is fitted on."""
RESAMPLES = 1000


class Samples(NamedTuple):
    """What one agent's memory held in one episode."""

    cells: np.ndarray | None
    """(K, C) features of cells; None without a map."""
    labels: np.ndarray
    """(K,) class of the cell: 0 free, 1 wall, 2 + k goal k."""
    state: np.ndarray
    """(D, H) the hidden state, or what the heads read where there is none."""
    bearing: np.ndarray
    """(D,) direction of the next goal in radians, counter-clockwise from straight ahead."""


class Score(NamedTuple):
    """A figure with its 95 % interval over test layouts."""

    value: float
    low: float
    high: float


class AgentScores(NamedTuple):
    """One agent's."""

    recall: dict[str, Score]
    """By class: the share of such cells that the probe classifies so."""
    balanced: Score | None
    """Mean of the recalls; chance is one over their number. None without a map."""
    bearing_error: Score
    """Mean error of the next goal's direction in degrees."""


class ProbeResult(NamedTuple):
    """Both agents'."""

    trained: AgentScores
    untrained: AgentScores
    classes: list[str]
    fitted: list[int]
    """Layouts that the probes were fitted on."""
    tested: list[int]
    decisions: int
    constant_error: float
    """Degrees by which one direction for all is off: what a probe that reads nothing would do."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "trained": _plain(self.trained), "untrained": _plain(self.untrained)}


def probe(
    agent: Agent,
    untrained: Agent,
    worlds: Worlds,
    settings: EnvSettings,
    *,
    layouts: int,
    driver: str,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> ProbeResult:
    """Play `layouts` episodes and probe both agents.

    Raises:
        ValueError: There are too few layouts, or a kind of thing was never seen.
    """
    require(len(worlds) >= 4, f"probing needs 4 held-out layouts or more; there are only {len(worlds)}.")
    require(4 <= layouts <= len(worlds), f"layouts must be 4 to {len(worlds)}; got {layouts}.")
    first = worlds[0].layout
    require(first is not None, "probing needs the layouts, and these scenario files come without them.")
    assert first is not None
    minds = (Mind(agent), Mind(untrained))
    found: list[tuple[Samples, Samples]] = []
    decisions = 0
    with Stage(worlds, settings) as stage:
        for layout in range(layouts):
            recording = stage.play(
                layout, driver_of(driver, frame_skip=settings.frame_skip), mind=minds[0], seed=seed
            )
            assert recording.mind is not None
            tracks = (recording.mind, minds[1].watch(recording))
            one, other = (sample(recording, track, np.random.default_rng([seed, layout])) for track in tracks)
            found.append((one, other))
            decisions += len(recording)
            if progress is not None:
                progress(layout + 1, layouts)
    classes = label_names(first)[FREE:]
    split = round(FITTED * layouts)
    scores = [
        score([pair[who] for pair in found[:split]], [pair[who] for pair in found[split:]], classes, seed)
        for who in (0, 1)
    ]
    everything = list(range(layouts))
    bearings = [np.concatenate([pair[0].bearing for pair in part]) for part in (found[:split], found[split:])]
    constant = constant_error(*bearings)
    return ProbeResult(
        scores[0], scores[1], classes, everything[:split], everything[split:], decisions, constant
    )


def constant_error(train: np.ndarray, test: np.ndarray) -> float:
    """Mean error in degrees of the training bearings' mean direction, for the test bearings."""
    mean = np.array([[np.cos(train).mean(), np.sin(train).mean()]])
    return float(np.degrees(angle_errors(np.repeat(mean, len(test), 0), test)).mean())


def sample(recording: Recording, mind: MindTrack, draw: np.random.Generator) -> Samples:
    """What is looked at of one episode; the same draws give the same cells for both agents where both know them."""
    layout = recording.layout
    assert layout is not None
    # What decision t sees is as the decisions before it left it.
    after = goals_reached(recording)
    before = np.concatenate([np.zeros_like(after[:1]), after[:-1]])
    cells, labels, states, bearings = [], [], [], []
    state = mind.output if mind.hidden is None else mind.hidden
    for t in range(int(draw.integers(EVERY)), len(recording), EVERY):
        goal = int(before[t].argmin())
        x, y, phi = recording.true_pose[t]
        gx, gy = layout.center(layout.goals[goal])
        states.append(state[t])
        bearings.append(math.remainder(math.atan2(gy - y, gx - x) - phi, math.tau))
        if mind.map is not None:
            features, there = _cells(recording, mind, t, standing(layout, before[t]), draw)
            cells.append(features)
            labels.append(there)
    return Samples(
        np.concatenate(cells) if cells else None,
        np.concatenate(labels) if labels else np.zeros(0, np.int64),
        np.array(states).reshape(-1, state.shape[1]),
        np.array(bearings),
    )


def _cells(
    recording: Recording, mind: MindTrack, t: int, present: np.ndarray, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Features (K, C) and labels (K,) of some known cells at decision t."""
    track, layout = mind.map, recording.layout
    assert track is not None and layout is not None
    pose = recording.true_pose[t] if track.frame == "ego" else None
    labels = label_cells(layout, track.size, track.extent, pose, present)
    # A Neural Map has a vector for each heading; whichever is known is a row of its own.
    labels = np.broadcast_to(labels, track.known[t].shape)
    rows = np.moveaxis(track.features[t], 1, -1)
    chosen = []
    for label in range(FREE, FIRST_GOAL + len(layout.goals)):
        places = np.flatnonzero(track.known[t] & (labels == label))
        chosen.append(draw.permutation(places)[:CELLS] if label < FIRST_GOAL else places)
    index = np.concatenate(chosen)
    return rows.reshape(-1, rows.shape[-1])[index], labels.reshape(-1)[index].astype(np.int64) - FREE


def score(train: Sequence[Samples], test: Sequence[Samples], classes: list[str], seed: int) -> AgentScores:
    """Fit on `train`, test on `test`, each a list of episodes."""
    draw = np.random.default_rng([seed, 1])
    drawn = draw.integers(len(test), size=(RESAMPLES, len(test)))
    bearing_train = np.concatenate([part.bearing for part in train])
    aims = np.stack((np.cos(bearing_train), np.sin(bearing_train)), 1)
    states = np.concatenate([part.state for part in train])
    errors = [
        np.degrees(angle_errors(regress(states, aims, part.state), part.bearing))
        for part in test
        if len(part.state)
    ]
    sums, counts = np.array([part.sum() for part in errors]), np.array([len(part) for part in errors])
    picks = drawn % len(errors)
    bearing_error = _score(sums.sum() / counts.sum(), sums[picks].sum(1) / counts[picks].sum(1))
    if train[0].cells is None:
        return AgentScores({}, None, bearing_error)
    # A Neural Map writes where the agent stands, and never at some things: what no map held cannot be asked for.
    held = np.unique(np.concatenate([part.labels for part in train]))
    confusion = _confusions(train, test, held)  # (layouts, truth, said)
    recalls = _recalls(confusion.sum(0))
    again = _recalls(confusion[drawn].sum(1))  # (RESAMPLES, held)
    nothing = Score(math.nan, math.nan, math.nan)
    by_name = dict.fromkeys(classes, nothing)
    by_name |= {classes[label]: _score(recalls[k], again[:, k]) for k, label in enumerate(held.tolist())}
    return AgentScores(by_name, _score(float(np.nanmean(recalls)), np.nanmean(again, 1)), bearing_error)


def _confusions(train: Sequence[Samples], test: Sequence[Samples], held: np.ndarray) -> np.ndarray:
    """(layouts, truth, said) counts of the test cells whose label is among those `held` in training."""
    require(
        len(held) > 1, "the maps held one kind of thing only; play more layouts, or let the planner drive."
    )
    rows = np.concatenate([part.cells for part in train if part.cells is not None])
    labels = np.concatenate([part.labels for part in train])
    parts = [(part.cells, part.labels) for part in test if part.cells is not None]
    asked = [np.isin(there, held) for _, there in parts]
    cells = np.concatenate([found[mask] for (found, _), mask in zip(parts, asked, strict=True)])
    said = classify(rows, np.searchsorted(held, labels), cells, len(held))
    counts = np.zeros((len(parts), len(held), len(held)), np.int64)
    episode = np.repeat(np.arange(len(parts)), [int(mask.sum()) for mask in asked])
    truth = np.concatenate([there[mask] for (_, there), mask in zip(parts, asked, strict=True)])
    np.add.at(counts, (episode, np.searchsorted(held, truth), said), 1)
    return counts


def _recalls(confusion: np.ndarray) -> np.ndarray:
    """(..., classes) of confusion matrices (..., truth, said); NaN where nothing of a class is there."""
    total = confusion.sum(-1)
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    return np.where(total > 0, hits / np.maximum(total, 1), np.nan)


def _score(value: float, resampled: np.ndarray) -> Score:
    if np.isnan(resampled).all():
        return Score(float(value), float("nan"), float("nan"))
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return Score(float(value), float(low), float(high))


def _plain(scores: AgentScores) -> dict[str, Any]:
    def plain(score: Score | None) -> dict[str, float | None] | None:
        if score is None:
            return None
        return {name: None if math.isnan(value) else value for name, value in score._asdict().items()}

    return {
        "recall": {name: plain(found) for name, found in scores.recall.items()},
        "balanced": plain(scores.balanced),
        "bearing_error": plain(scores.bearing_error),
    }
