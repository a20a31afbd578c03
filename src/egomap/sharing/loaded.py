"""A trained agent that plays: observations in, actions out; its memory is kept between calls.

Input: a `Trained`, then observations of one environment or of N. Output: actions. It knows no
simulator; `make_env` makes the mazes that it was trained for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from egomap.agents.agent import OBSERVATION_KEYS, Agent
from egomap.config import TrainConfig, require, require_seed
from egomap.envs.doom import DoomEnv
from egomap.memory.protocol import MemoryState
from egomap.scenarios.dataset import default_set
from egomap.training.trained import Trained

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class LoadedAgent:
    """A trained agent; `egomap.load_agent` gives one.

    Call `act` once for each observation, in order, and `reset` where an episode begins: the memory is as long as the
    calls in between. One environment and a batch of N are distinguished by the shape of `rgb`; in a batch each
    environment has a memory and a stream of random numbers of its own.

    Attributes:
        name: What it was loaded by.
        module: The network, an `egomap.agents.Agent`, with `step` and `unroll`.
        config: The settings that it was trained with.
        extent: Side of the arenas that it was made for, in map units.
        decisions: How many it was trained for.
        which: Which checkpoint of its run it is: first, last or best.
        card: The card of an exported agent as plain data; None of a run.
    """

    name: str
    module: Agent
    config: TrainConfig
    extent: float
    decisions: int
    which: str
    card: dict[str, Any] | None

    def __init__(self, trained: Trained, *, deterministic: bool = False, seed: int = 0) -> None:
        require_seed(seed)
        self.name, self.module, self.config = trained.source.name, trained.agent, trained.config
        self.extent, self.decisions, self.which = trained.extent, trained.decisions, trained.which
        self.card = trained.card
        self._deterministic, self._seed = deterministic, seed
        self._state: MemoryState | None = None
        self._start = np.ones(0, bool)
        self._draws: list[np.random.Generator] = []

    def __repr__(self) -> str:
        """Name and kind."""
        kind, task = self.config.agent.kind, self.config.scenario.task
        return f"<LoadedAgent {self.name}: {kind} on {task}, {self.decisions:,} decisions>"

    def reset(self, begin: ArrayLike | None = None) -> None:
        """Forget: the next observation is the first of an episode.

        Args:
            begin: Of a batch, (N,) bool: in which environments an episode begins, such as `terminated | truncated`
                of a vector environment that resets by itself. None: in all; then N may change.
        """
        if begin is None:
            self._state, self._start = None, np.ones(0, bool)
            return
        where = np.asarray(begin)
        require(
            where.dtype == bool and where.shape == self._start.shape and where.ndim == 1,
            f"begin must be {len(self._start)} bools, one for each environment of the last call of act; got "
            f"{where.dtype} of shape {where.shape}.",
        )
        self._start = self._start | where

    def act(self, observation: Mapping[str, Any]) -> Any:
        """The next action.

        Args:
            observation: Arrays or tensors by name, as the environments of `egomap.envs` give them: rgb (3, H, W)
                uint8, depth (H, W) in map units, pose (3,), ego_motion (3,), and, if it uses rewards, reward ().
                Of a batch with a leading axis N. Others are ignored.

        Returns:
            An int from 0, or of a batch an array (N,) of int64: what `env.step` takes.

        Raises:
            ValueError: Something is missing, or N is another than before without a `reset`.
        """
        batch, single = self._batch(observation)
        count = len(batch["rgb"])
        if self._state is None:
            self._state, self._start = self.module.initial_state(count), np.ones(count, bool)
            while len(self._draws) < count:
                self._draws.append(np.random.default_rng([self._seed, len(self._draws)]))
        require(
            count == len(self._start),
            f"the memory is of {len(self._start)} environments, and there are {count} observations; call reset().",
        )
        with torch.no_grad():
            start = torch.from_numpy(self._start)
            step = self.module.step(batch, self._state, start, deterministic=True)
            choice = step.action if self._deterministic else self._drawn(step.logits)
            self._state = self.module.commit(step.state, choice)
            actions = self.module.taken(choice).numpy()
        self._start = np.zeros(count, bool)
        return int(actions[0]) if single else actions

    def make_env(self, *, split: str = "test", **options: Any) -> DoomEnv:
        """The Gymnasium environment that it was trained for: its mazes, rendering, frame skip and noise.

        Args:
            split: "test" for held-out mazes, or "train".
            options: Of `DoomEnv`, such as render_mode.
        """
        config = self.config
        require(
            not config.env.id, f"{self.name} plays {config.env.id}; make that environment by gymnasium.make."
        )
        require(
            config.env.world == "doom",
            f"{self.name} was trained in {config.env.world}; egomap evaluate plays there.",
        )
        size = config.curriculum[-1] if config.curriculum else None
        scenario = config.scenario if size is None else replace(config.scenario, size=size)
        chosen = {
            "rendering": config.env.rendering,
            "frame_skip": config.env.frame_skip,
            "ego_motion_noise": config.env.ego_motion_noise,
            **options,
        }
        if config.files:
            return DoomEnv(config=config.files, **chosen)
        mazes = config.scenarios or default_set(scenario)
        return DoomEnv(scenarios=mazes, split=split, **chosen)

    def _batch(self, observation: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], bool]:
        """The observation as tensors with a leading axis, and whether it had none."""
        missing = [name for name in OBSERVATION_KEYS if name not in observation]
        require(not missing, f"the observation lacks {', '.join(missing)}.")
        used = (*OBSERVATION_KEYS, *(["reward"] if "reward" in observation else []))
        found = {name: torch.from_numpy(np.array(observation[name])) for name in used}
        axes = found["rgb"].dim()
        require(axes in (3, 4), f"rgb must be (3, H, W) or (N, 3, H, W); got {tuple(found['rgb'].shape)}.")
        single = axes == 3
        return ({name: value[None] for name, value in found.items()} if single else found), single

    def _drawn(self, logits: torch.Tensor) -> torch.Tensor:
        """A choice for each row, (N,), each drawn from the row's own stream of random numbers."""
        shares = logits.double().softmax(-1).numpy().cumsum(-1)
        draws = np.array([self._draws[row].random() for row in range(len(shares))])[:, None] * shares[:, -1:]
        return torch.from_numpy(np.minimum((draws >= shares).sum(-1), shares.shape[1] - 1).astype(np.int64))
