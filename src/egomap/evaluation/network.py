"""An agent with a network as a player of evaluations.

Input: a trained `Agent`. Output: a `Player`. Each episode draws its actions from a stream of its own,
seeded by the episode, so that results do not depend on which environments play it beside which others.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from egomap.agents.agent import Agent, AgentStep
from egomap.memory.protocol import MemoryState, reset_state
from egomap.worlds.api import Arrays, World
from egomap.worlds.episodes import Episode


class Surgery(Protocol):
    """Changes the memory states of N environments between two steps; see `egomap.evaluation.lesions`."""

    def begin(self, index: int, episode: Episode) -> None:
        """Environment `index` begins an episode."""
        ...

    def before(self, state: MemoryState, playing: np.ndarray) -> MemoryState:
        """The state (reset where episodes begin) that the next step shall begin with."""
        ...


class NetworkPlayer:
    """Plays with sampled actions, or with the most probable ones.

    Args:
        agent: The agent that plays.
        num_envs: N.
        deterministic: The most probable actions instead of sampled ones.
        surgery: Changes the memory between steps, for a lesion.
    """

    def __init__(
        self, agent: Agent, num_envs: int, *, deterministic: bool = False, surgery: Surgery | None = None
    ) -> None:
        self._agent, self._deterministic, self._surgery = agent, deterministic, surgery
        self._state = agent.initial_state(num_envs)
        self._start = torch.ones(num_envs, dtype=torch.bool)
        self._draws: dict[int, np.random.Generator] = {}
        self._last: AgentStep | None = None

    def begin(self, index: int, world: World, episode: Episode) -> None:
        """Forget everything, and begin the episode's own stream of random numbers."""
        self._start[index] = True
        self._draws[index] = np.random.default_rng([episode.seed, 3])
        if self._surgery is not None:
            self._surgery.begin(index, episode)

    def act(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
        """One decision for every environment."""
        step = self._step(observation, playing)
        choice = torch.from_numpy(self._choose(step, playing))
        self._state = self._agent.commit(self._state, choice)
        return self._agent.taken(choice).numpy()

    def _choose(self, step: AgentStep, playing: np.ndarray) -> np.ndarray:
        if self._deterministic:
            return step.action.cpu().numpy()
        shares = _policy(step).cumsum(-1)
        actions = np.zeros(len(playing), np.int64)
        for index in np.flatnonzero(playing).tolist():
            draw = self._draws[index].random() * shares[index, -1]
            actions[index] = min(int(np.searchsorted(shares[index], draw, side="right")), shares.shape[1] - 1)
        return actions

    def policy(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
        """One step of the memory without a decision: (N, actions) float64 probabilities, and nothing is drawn.

        Say by `acted` what was done then.
        """
        self._last = self._step(observation, playing)
        return self._agent.policy(self._last).numpy()

    def acted(self, actions: np.ndarray, choices: np.ndarray | None = None) -> None:
        """Record which actions (N,) were taken after `policy`, if others choose them.

        Args:
            actions: What was done.
            choices: The entries (N,) of the table of choices that were drawn; None: the most probable ones.
        """
        assert self._last is not None, "policy() comes first"
        if choices is None:
            choice = self._agent.choice_of(self._last, torch.from_numpy(actions))
        else:
            choice = torch.from_numpy(choices)
        self._state = self._agent.commit(self._state, choice)

    @torch.no_grad()
    def _step(self, observation: Arrays, playing: np.ndarray) -> AgentStep:
        tensors = {name: torch.from_numpy(array) for name, array in observation.items()}
        if self._surgery is not None:
            state = reset_state(self._agent.memory, self._state, self._agent.compute.put(self._start))
            self._state = self._surgery.before(state, playing)
            self._start = torch.zeros_like(self._start)
        step = self._agent.step(tensors, self._state, self._start, deterministic=True)
        self._state = step.state
        self._start = torch.zeros_like(self._start)
        return step


def _policy(step: AgentStep) -> np.ndarray:
    return step.logits.cpu().double().softmax(-1).numpy()
