"""A scripted task that needs memory, without an engine: what is seen first must be done last.

In the first view one half is bright; it stays behind the agent, which then looks the other way at a grey wall. The
last action must be 0 if it was the left half and 1 if it was the right one; only that pays. So without memory nobody
can do better than to guess.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from egomap.agents.agent import Agent
from egomap.agents.perception import Perception
from egomap.config import Camera
from egomap.envs.vector import Arrays
from egomap.envs.worlds import World, Worlds
from egomap.memory import Memory
from egomap.worlds.episodes import EachLayout, Episode

HEIGHT, WIDTH, STEPS = 44, 60, 4
CAMERA = Camera.from_fov(WIDTH, HEIGHT, horizontal=math.pi / 2, vertical=math.pi / 3)
FEATURES = (16, 2, 4)
EXTENT = 1000.0


def cue_of(seed: int) -> int:
    """Which action an episode wants."""
    return seed % 2


def view(cues: np.ndarray, steps: np.ndarray) -> Arrays:
    """What N environments see: cues (N,), steps (N,)."""
    n = len(cues)
    rgb = np.full((n, 3, HEIGHT, WIDTH), 50, np.uint8)
    for index in np.flatnonzero(steps == 0):
        half = slice(0, WIDTH // 2) if cues[index] == 0 else slice(WIDTH // 2, WIDTH)
        rgb[index, :, :, half] = 250
    pose, motion = np.zeros((2, n, 3), np.float32)
    pose[:, 2] = np.where(steps == 0, math.pi / 2, -math.pi / 2)
    motion[:, 2] = np.where(steps == 1, math.pi, 0.0)
    return {
        "rgb": rgb,
        "depth": np.full((n, HEIGHT, WIDTH), 200.0, np.float32),
        "pose": pose,
        "ego_motion": motion,
    }


class CueTask:
    """The task as what `play` asks of an environment; it keeps which episodes it was asked to play."""

    def __init__(self, num_envs: int, *, layouts: int = 12, episodes_per_layout: int = 2) -> None:
        self.num_envs = num_envs
        names = (f"cue {number}" for number in range(layouts))
        self.worlds = Worlds(
            tuple(World(Path("a.cfg"), Path("a.wad"), "MAP01", name, (0.0, 0.0), EXTENT) for name in names)
        )
        self._repeats = episodes_per_layout
        self.idle = np.zeros(num_envs, bool)
        self.begun: list[Episode] = []

    @property
    def exhausted(self) -> bool:
        return bool(self.idle.all())

    @property
    def episodes_in_all(self) -> int:
        return len(self.worlds) * self._repeats

    def episode(self, index: int) -> Episode:
        return self._episodes[index]

    def reset(self, *, seed: int) -> tuple[Arrays, dict[str, Any]]:
        self._stream = EachLayout(len(self.worlds), self._repeats, seed)
        self._episodes = [Episode(0, 0)] * self.num_envs
        self._steps = np.zeros(self.num_envs, int)
        self.idle[:] = False
        for index in range(self.num_envs):
            self._begin(index)
        return self._view(), {}

    def step(self, actions: np.ndarray) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        ended = (self._steps == STEPS - 1) & ~self.idle
        right = actions == [cue_of(episode.seed) for episode in self._episodes]
        reward = (ended & right).astype(float)
        final = {
            "interrupted": np.zeros(self.num_envs, bool),
            "layout": np.array([episode.layout for episode in self._episodes]),
            "layout_id": np.array([self.worlds[episode.layout].id for episode in self._episodes]),
            "repeat": np.array([episode.repeat for episode in self._episodes]),
            "return": reward,
            "success": right,
            "decisions": self._steps + 1,
        }
        self._steps += 1
        for index in np.flatnonzero(ended).tolist():
            self._begin(index)
        return self._view(), reward, ended, np.zeros_like(ended), {"final_info": final}

    def _begin(self, index: int) -> None:
        episode = self._stream.next()
        self.idle[index] = episode is None
        if episode is not None:
            self.begun.append(episode)
            self._episodes[index], self._steps[index] = episode, 0

    def _view(self) -> Arrays:
        return view(np.array([cue_of(episode.seed) for episode in self._episodes]), self._steps)


def learn(memory: nn.Module, *, updates: int = 80, seed: int = 0) -> Agent:
    """An agent with this memory that was shown the right action at the end of many episodes."""
    torch.manual_seed(seed)
    agent = Agent(Perception(), cast(Memory, memory))
    draws = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(agent.parameters(), lr=2e-3)
    for _ in range(updates):
        cues = draws.integers(2, size=32)
        steps = [view(cues, np.full(32, step)) for step in range(STEPS)]
        observations = {name: torch.from_numpy(np.stack([step[name] for step in steps])) for name in steps[0]}
        start = torch.zeros(STEPS, 32, dtype=torch.bool)
        start[0] = True
        logits = agent.unroll(observations, agent.initial_state(32), start).logits[-1]
        loss: Tensor = nn.functional.cross_entropy(logits, torch.from_numpy(cues))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return agent
