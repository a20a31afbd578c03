"""What the memories of the zoo share: the layer that takes the view in, checks of a state, the clock of episodes.

Input: `MemoryInputs`, states, episode starts. Output: the vector that a memory remembers with, the
same layer as the recurrent baseline's, so that memories differ in what they remember and not in what they see. Not
in the paper.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig, require_length
from egomap.memory.protocol import Memory, MemoryInputs, MemoryState
from egomap.memory.reads import orthogonal
from egomap.memory.recurrent import view_and_motion, view_size

MOST = 4096
"""Of anything that a memory has many of: beyond it no machine could follow."""


class Front(nn.Module):
    """View, ego-motion and (with `use_reward`) the last reward through one layer: FC, ReLU, as for the GRU.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3), reward (...) -> (..., output_size).
    """

    def __init__(
        self,
        feature_shape: tuple[int, int, int],
        output_size: int,
        *,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        require_length("motion_unit", motion_unit)
        self.feature_shape, self.motion_unit = tuple(feature_shape), float(motion_unit)
        self.use_reward, self.output_size = use_reward, output_size
        self.linear = nn.Linear(view_size(feature_shape, use_reward), output_size)
        orthogonal(self.linear, nn.init.calculate_gain("relu"))

    def forward(self, inputs: MemoryInputs, *, axes: int) -> Tensor:
        """(..., output_size), for one step (axes = 1) or a sequence (axes = 2)."""
        view = view_and_motion(
            inputs, self.feature_shape, self.motion_unit, axes=axes, use_reward=self.use_reward
        )
        return F.relu(self.linear(view))


def common(config: AgentConfig) -> dict[str, Any]:
    """What an agent's settings say to every memory that has a `Front`, by the names of its arguments."""
    return {
        "hidden_size": config.hidden_size,
        "motion_unit": config.motion_unit,
        "use_reward": config.use_reward,
    }


def check_state(memory: Memory, state: MemoryState, num_envs: int) -> None:
    """Raise a ValueError unless the state is of `num_envs` environments and matches `memory.state_spec`."""
    expected = [((num_envs, *spec.shape), spec.dtype) for spec in memory.state_spec]
    got = [(tuple(tensor.shape), tensor.dtype) for tensor in state]
    if got != expected:
        raise ValueError(f"the state of {num_envs} environments must be {expected}; got {got}.")


def steps_since_start(episode_start: Tensor, *, otherwise: int) -> Tensor:
    """How many observations of the episode there were before each; `otherwise` if it began before them all.

    Args:
        episode_start: (T, N) bool.
        otherwise: The value for steps whose episode began before the sequence.

    Returns:
        (T, N) int64.
    """
    time = torch.arange(len(episode_start), device=episode_start.device)[:, None]
    began = torch.where(episode_start, time, -1).cummax(0).values
    return torch.where(began >= 0, time - began, otherwise)


def steps_within(count: Tensor, episode_start: Tensor) -> Tensor:
    """How many observations of the episode were taken in before each step, those before the sequence included.

    Args:
        count: (N,) int64, how many there were before the sequence.
        episode_start: (T, N) bool.

    Returns:
        (T, N) int64.
    """
    time = torch.arange(len(episode_start), device=episode_start.device)[:, None]
    since = steps_since_start(episode_start, otherwise=-1)
    return torch.where(since < 0, count + time, since)
