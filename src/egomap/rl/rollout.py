"""A rollout: T decisions of N environments in arrays that engines write into and torch reads, without a copy.

Input: observations row by row, written by the vector environment itself where it can. Output: a batch
for `Agent.unroll`, whole or for some of the environments.

Time convention: T + 1 rows of observations; row T is what follows the last decision and becomes row 0 of the next
rollout. `episode_start[t]` says that observation t is the first of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from egomap.compute import Compute
from egomap.memory.protocol import NOTE, MemoryState, Notes
from egomap.worlds.api import Arrays, Target, observation_arrays


class Batch(NamedTuple):
    """Rows for one pass of the learner; B environments."""

    observations: dict[str, Tensor]
    """(T, B, ...), with what the memory noted of them."""
    state: MemoryState
    """The memory before the first row, (B, ...)."""
    episode_start: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    driven: Tensor | None = None
    """(T, B) bool: rows whose action a teacher chose; None if there is no teacher."""
    label: Tensor | None = None
    """(T, B) int64: what the teacher would do; None without imitation."""
    auxiliary: Tensor | None = None
    """(T, B, size): targets of the auxiliary head, NaN where there is none; None without one."""

    def on(self, compute: Compute) -> Batch:
        """The same rows where the network is."""
        if compute.on_cpu:
            return self

        def put(part: Any) -> Any:
            if isinstance(part, dict):
                return {name: put(each) for name, each in part.items()}
            if isinstance(part, tuple):
                return tuple(map(put, part))
            return None if part is None else compute.put(part)

        return Batch(*map(put, self))


class Rollout:
    """Storage for T decisions of N environments; used again and again.

    Args:
        steps: T.
        num_envs: N.
        arrays: Makes zeroed arrays for observations with the leading axes that it is called with.
        compute: Where the network is; the rows are on the CPU, ready to be copied there.
    """

    def __init__(
        self,
        steps: int,
        num_envs: int,
        arrays: Callable[[int, int], Arrays] = observation_arrays,
        compute: Compute | None = None,
    ) -> None:
        self.steps, self.num_envs = steps, num_envs
        host = (compute or Compute()).host
        self.observations = {
            name: host(torch.from_numpy(array)) for name, array in arrays(steps + 1, num_envs).items()
        }
        self.arrays = {name: tensor.numpy() for name, tensor in self.observations.items()}
        self.targets = [
            Target.of({name: array[t] for name, array in self.arrays.items()}) for t in range(steps + 1)
        ]
        self.rows = [
            {name: tensor[t] for name, tensor in self.observations.items()} for t in range(steps + 1)
        ]
        self.episode_start = torch.zeros(steps + 1, num_envs, dtype=torch.bool)
        self.action = torch.zeros(steps, num_envs, dtype=torch.int64)
        self.log_prob = host(torch.zeros(steps, num_envs))
        self.value = host(torch.zeros(steps, num_envs))
        self.next_value = torch.zeros(num_envs)
        self.reward = torch.zeros(steps, num_envs)
        self.bonus = torch.zeros(steps, num_envs)
        """Intrinsic rewards (`egomap.rl.bonuses`), beside the task's."""
        self.terminated = torch.zeros(steps, num_envs, dtype=torch.bool)
        self.truncated = torch.zeros(steps, num_envs, dtype=torch.bool)
        self.taught = False
        """Whether a teacher took part in these rows; `driven` counts only then."""
        self.labelled = False
        """Whether every row has a label; `label` is used only then."""
        self.label = torch.zeros(steps, num_envs, dtype=torch.int64)
        self.driven = torch.zeros(steps, num_envs, dtype=torch.bool)
        self.advantage = torch.zeros(steps, num_envs)
        self.target = torch.zeros(steps, num_envs)
        self.auxiliary: Tensor | None = None
        """(T, N, size) targets of the auxiliary head (`egomap.rl.auxiliary`), if there is one."""
        self.state: MemoryState = ()
        self.notes: Notes = {}
        """What the memory noted of each row's observation, by name, (T, N, ...)."""

    def note(self, t: int, notes: Notes | None) -> None:
        """Keep what the memory noted of row t."""
        for name, row in (notes or {}).items():
            if name not in self.notes:
                self.notes[name] = row.new_empty(self.steps, *row.shape)
            self.notes[name][t] = row

    def carry_over(self) -> None:
        """Make the last row the first of the next rollout."""
        for array in self.arrays.values():
            np.copyto(array[0], array[-1])
        self.episode_start[0] = self.episode_start[-1]

    def batch(self, envs: Tensor | None = None) -> Batch:
        """The T rows of all environments, or of those in `envs` (indices), which are copied."""

        def choose(tensor: Tensor, axis: int) -> Tensor:
            return tensor if envs is None else tensor.index_select(axis, envs.to(tensor.device))

        observations = {name: tensor[: self.steps] for name, tensor in self.observations.items()}
        observations |= {NOTE + name: note for name, note in self.notes.items()}
        if envs is not None:
            # Channels stay last in memory: select from the layout that the engines write.
            rgb = observations.pop("rgb").movedim(-3, -1).index_select(1, envs).movedim(-1, -3)
            observations = {"rgb": rgb, **{name: choose(tensor, 1) for name, tensor in observations.items()}}
        return Batch(
            observations,
            tuple(choose(tensor, 0) for tensor in self.state),
            choose(self.episode_start[: self.steps], 1),
            choose(self.action, 1),
            choose(self.log_prob, 1),
            choose(self.advantage, 1),
            choose(self.target, 1),
            choose(self.driven, 1) if self.taught else None,
            choose(self.label, 1) if self.labelled else None,
            None if self.auxiliary is None else choose(self.auxiliary, 1),
        )
