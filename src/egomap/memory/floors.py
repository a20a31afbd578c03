"""Two memories that hardly are one, to measure the others against: none at all, and the last few observations.

Input: features of the view and the ego-motion (`MemoryInputs`), as the recurrent baseline gets them. What
goes out: one layer over them for the heads. Not in the paper. A memory is worth what it adds to these two, which see
the same through the same perception and have as many units before the heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig, require_length
from egomap.memory.front import steps_since_start
from egomap.memory.lesions import Part
from egomap.memory.protocol import (
    Fitting,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    TensorSpec,
    check_episode_start,
)
from egomap.memory.reads import orthogonal
from egomap.memory.recurrent import view_and_motion, view_size
from egomap.memory.shown import Shown


class NoMemory(nn.Module):
    """The recurrent baseline without its recurrence: view and ego-motion through one layer.

    ReLU(features), flattened, and four ego-motion features -> FC 128, ReLU. The state is empty. The ego-motion shows
    what the last action did (whether a wall stopped it), and nothing of what was before.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).
    """

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ):
        super().__init__()
        self.use_reward = use_reward
        require_length("motion_unit", motion_unit)
        self.feature_shape, self.motion_unit = tuple(feature_shape), float(motion_unit)
        self.output_size = hidden_size
        self.reduce = nn.Linear(view_size(feature_shape, use_reward), hidden_size)
        orthogonal(self.reduce, nn.init.calculate_gain("relu"))

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting) -> NoMemory:
        """A new one as an agent's settings ask for it."""
        return cls(
            fitting.feature_shape,
            hidden_size=config.hidden_size,
            motion_unit=config.motion_unit,
            use_reward=config.use_reward,
        )

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """Nothing."""
        return ()

    def initial_state(self, n: int) -> MemoryState:
        """Nothing."""
        return ()

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> output (N, H), the empty state."""
        return self._output(inputs, axes=1), state

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> output (T, N, H), the empty state."""
        return self._output(inputs, axes=2), state

    def _output(self, inputs: MemoryInputs, *, axes: int) -> Tensor:
        return F.relu(self.reduce(self._view(inputs, axes=axes)))

    def _view(self, inputs: MemoryInputs, *, axes: int) -> Tensor:
        return view_and_motion(
            inputs, self.feature_shape, self.motion_unit, axes=axes, use_reward=self.use_reward
        )


class FrameStackMemory(nn.Module):
    """The last k observations of the episode side by side, through one layer.

    With x_t = [ReLU(features), ego-motion features] (paper's sizes: 644 values) the output is
    ReLU(FC([x_t, x_{t-1}, ..., x_{t-k+1}])). Choice: what was before the episode's start is zeros, so that a state is
    reset by zeros. Perception learns from every observation within the rollout that a stack holds; older ones, from
    the state that the rollout began with, are data.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).

    Args:
        feature_shape: (C, Hf, Wf) of the features.
        stack_size: k, how many observations, with the latest; 2 or more.
        hidden_size: Units of the layer.
        motion_unit: As for the recurrent baseline.
    """

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        stack_size: int = 4,
        hidden_size: int = 128,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ):
        super().__init__()
        self.use_reward = use_reward
        if stack_size < 2:
            raise ValueError(f"stack_size must be 2 or more observations; got {stack_size}.")
        require_length("motion_unit", motion_unit)
        self.feature_shape, self.motion_unit = tuple(feature_shape), float(motion_unit)
        self.stack_size, self.output_size = stack_size, hidden_size
        self.reduce = nn.Linear(stack_size * view_size(feature_shape, use_reward), hidden_size)
        orthogonal(self.reduce, nn.init.calculate_gain("relu"))

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting) -> FrameStackMemory:
        """A new one as an agent's settings ask for it."""
        return cls(
            fitting.feature_shape,
            stack_size=config.stack_size,
            hidden_size=config.hidden_size,
            motion_unit=config.motion_unit,
            use_reward=config.use_reward,
        )

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The k - 1 observations before the next one (k - 1, values), the latest first."""
        size = self.reduce.in_features // self.stack_size
        return (TensorSpec((self.stack_size - 1, size), self.reduce.weight.dtype),)

    @property
    def lesions(self) -> dict[str, Part]:
        """The earlier observations."""
        return {"frames": Part(state=(0,))}

    @property
    def shown(self) -> Shown:
        """Nothing but words."""
        return Shown(words={"memory": f"the latest {self.stack_size} observations"})

    def initial_state(self, n: int) -> MemoryState:
        """Zeros."""
        (spec,) = self.state_spec
        return (self.reduce.weight.new_zeros(n, *spec.shape),)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> output (N, H), next state."""
        x = view_and_motion(inputs, self.feature_shape, self.motion_unit, axes=1, use_reward=self.use_reward)
        self._check_state(state, len(x))
        stack = torch.cat((x[:, None].to(state[0].dtype), state[0]), 1)  # (N, k, values)
        return F.relu(self.reduce(stack.flatten(1))), (stack[:, :-1],)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> output (T, N, H), last state."""
        x = view_and_motion(inputs, self.feature_shape, self.motion_unit, axes=2, use_reward=self.use_reward)
        check_episode_start(episode_start, tuple(x.shape[:2]))
        self._check_state(state, x.shape[1])
        steps, back = len(x), self.stack_size - 1
        line = torch.cat((state[0].flip(1).transpose(0, 1), x.to(state[0].dtype)))  # (k - 1 + T, N, values)
        age = steps_since_start(episode_start, otherwise=back)
        stacks = torch.stack(
            [
                line[back - j : back - j + steps].masked_fill((age < j)[..., None], 0.0)
                for j in range(self.stack_size)
            ],
            2,
        )  # (T, N, k, values)
        return F.relu(self.reduce(stacks.flatten(2))), (stacks[-1, :, :-1],)

    def _check_state(self, state: MemoryState, num_envs: int) -> None:
        expected = (num_envs, *self.state_spec[0].shape)
        if len(state) != 1 or state[0].shape != expected:
            got = [tuple(tensor.shape) for tensor in state]
            raise ValueError(f"the state must be one tensor of {expected}; got {got}.")
