"""An agent with a network that looks at one environment and lets us see what it thinks.

Input: observations, decision by decision. Output: a `Thought` for each, and all of them as a
`MindTrack`. The agent need not be the one that acts: it can observe while a person or the planner plays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from egomap.agents.agent import Agent, AgentStep
from egomap.inspector.recording import GuidesTrack, MapTrack, MindTrack, PlanesTrack, Recording, levels_of
from egomap.memory.protocol import MemoryTrace
from egomap.memory.shown import shown


class Thought(NamedTuple):
    """What a network thinks at one decision; arrays without a time axis, names as in `MapTrack`."""

    probabilities: np.ndarray
    choices: np.ndarray
    """What is drawn from: float64; the action probabilities, or with guides those of the table of selections times
    actions."""
    value: float
    output: np.ndarray
    hidden: np.ndarray | None = None
    features: np.ndarray | None = None
    known: np.ndarray | None = None
    attention: np.ndarray | None = None
    position: np.ndarray | None = None
    beta: float | None = None
    planes: np.ndarray | None = None
    shares: np.ndarray | None = None
    ways: np.ndarray | None = None
    pointing: np.ndarray | None = None


class Mind:
    """Follows one episode after the other; call `begin` before each."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._shown = agent, shown(agent.memory)
        self._state = agent.initial_state(1)
        self._start = True
        self._visited = np.zeros(0, bool)
        self._last: AgentStep | None = None
        self._chosen: list[int] = []

    def begin(self) -> None:
        """Forget everything."""
        self._start = True
        self._chosen = []
        self._visited = np.zeros(0, bool)

    @torch.no_grad()
    def see(self, observation: Mapping[str, np.ndarray]) -> Thought:
        """Take in one observation (no leading axis) and say what comes to mind."""
        trace: MemoryTrace = {}
        tensors = {name: torch.from_numpy(array[None]) for name, array in observation.items()}
        start = torch.tensor([self._start])
        step = self._agent.step(tensors, self._state, start, deterministic=True, trace=trace)
        self._state, self._start, self._last = step.state, False, step
        thought = Thought(
            probabilities=self._agent.policy(step)[0].numpy(),
            choices=step.logits[0].double().softmax(-1).numpy(),
            value=float(step.value[0]),
            output=trace["output"][0].numpy().copy(),
            hidden=_row(trace, "hidden"),
        )
        if self._shown.planes is not None:
            thought = thought._replace(planes=_row(trace, "place_near"))
        if self._shown.guides is not None:
            shares = self._agent.whom(step)[0].numpy()
            thought = thought._replace(
                shares=shares, ways=_row(trace, "ways"), pointing=_row(trace, "pointing")
            )
        found = self._shown.map
        if found is None:
            return thought
        add = {"ego": _with_ego_map, "world": self._with_world_map}
        return add[found.frame](thought, trace)

    @torch.no_grad()
    def acted(self, action: int, choice: int | None = None) -> None:
        """Record which action was taken after `see`.

        Args:
            action: What was done.
            choice: Which of the thought's choices it was; None if another agent acted: the most probable one.
        """
        assert self._last is not None, "see() comes first"
        chosen = torch.tensor([action if choice is None else choice])
        if choice is None:
            chosen = self._agent.choice_of(self._last, chosen)
        self._chosen.append(int(chosen[0]))
        self._state = self._agent.commit(self._state, chosen)

    def watch(self, recording: Recording) -> MindTrack:
        """Its thoughts in an episode that another agent played."""
        self.begin()
        thoughts = []
        for t in range(len(recording)):
            thoughts.append(self.see(recording.observation(t)))
            self.acted(int(recording.action[t]))
        return self.track(thoughts)

    def track(self, thoughts: list[Thought]) -> MindTrack:
        """The thoughts of one episode, stacked over time."""

        def stack(name: str, kind: type = np.float32) -> np.ndarray | None:
            values = [getattr(thought, name) for thought in thoughts]
            return None if values[0] is None else np.stack([np.asarray(value, kind) for value in values])

        probabilities, value, output = stack("probabilities"), stack("value"), stack("output")
        assert probabilities is not None and value is not None and output is not None
        tracks = self._map_track(stack), self._planes_track(stack), self._guides_track(stack)
        return MindTrack(probabilities, value, stack("hidden"), output, *tracks)

    def _map_track(self, stack: Callable[..., Any]) -> MapTrack | None:
        found = self._shown.map
        if found is None:
            return None
        parts = (stack("attention"), stack("position"), stack("beta"))
        return MapTrack(*found, stack("features"), stack("known", bool), *parts)

    def _planes_track(self, stack: Callable[..., Any]) -> PlanesTrack | None:
        found = self._shown.planes
        return None if found is None else PlanesTrack(*found, levels_of(stack("planes"), found.signed))

    def _guides_track(self, stack: Callable[..., Any]) -> GuidesTrack | None:
        if self._shown.guides is None:
            return None
        choice = np.array(self._chosen, np.int64)
        return GuidesTrack(self._agent.followed, stack("shares"), choice, stack("ways"), stack("pointing"))

    def _with_world_map(self, thought: Thought, trace: MemoryTrace) -> Thought:
        features = trace["map_world"][0].numpy().copy()  # (tiles, C, size, size)
        tiles, _, size, _ = features.shape
        if not len(self._visited):
            self._visited = np.zeros((size * size, tiles), bool)
        self._visited.flat[int(trace["row"][0])] = True
        return thought._replace(
            features=features,
            known=self._visited.T.reshape(tiles, size, size).copy(),
            attention=trace["attention"][0].numpy().copy(),
        )


def _with_ego_map(thought: Thought, trace: MemoryTrace) -> Thought:
    attention, position = _row(trace, "attention"), _row(trace, "query_position")
    return thought._replace(
        features=trace["map_ego"].numpy().copy(),  # (1, C, size, size)
        known=trace["known_ego"].numpy().copy(),
        attention=None if attention is None else attention[None],
        position=position,
        beta=None if "beta" not in trace else float(trace["beta"][0]),
    )


def _row(trace: MemoryTrace, name: str) -> np.ndarray | None:
    return trace[name][0].numpy().copy() if name in trace else None
