"""Flat recurrent memory: the paper's baseline, a GRU (or LSTM) over view and ego-motion.

Input: features of the view and the ego-motion (`MemoryInputs`). Output: the hidden state h_t
for the heads. Paper: section 3 (f_r), section 4 (the baseline gets dx, dy, sin, cos) and appendix
"Architectures", Baseline Model. The time loop is in `cores`. It deliberately ignores depth and pose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig, require_length
from egomap.geometry.checks import check_features
from egomap.memory.cores import GRUCore, LSTMCore
from egomap.memory.figures import saturation
from egomap.memory.lesions import Part
from egomap.memory.protocol import Fitting, MemoryInputs, MemoryState, MemoryTrace, TensorSpec

__all__ = [
    "EGO_MOTION_FEATURES",
    "GRUCore",
    "LSTMCore",
    "RecurrentMemory",
    "ego_motion_features",
    "view_and_motion",
    "view_size",
]

EGO_MOTION_FEATURES = 4


def ego_motion_features(ego_motion: Tensor, unit: float = MOTION_UNIT) -> Tensor:
    """What the paper gives its baseline beside the view: dx, dy, sin dphi, cos dphi.

    Args:
        ego_motion: (..., 3) dx, dy (map units), dphi (radians), in the previous ego frame.
        unit: dx and dy are divided by it. Choice: the paper states no unit; raw map units would be 30 times
            the scale of every other input of the layer.

    Returns:
        (..., 4) dx / unit, dy / unit, sin dphi, cos dphi.
    """
    dphi = ego_motion[..., 2:]
    return torch.cat((ego_motion[..., :2] / unit, dphi.sin(), dphi.cos()), -1)


def view_size(feature_shape: Sequence[int], use_reward: bool = False) -> int:
    """How many values `view_and_motion` has (paper: 640 + 4)."""
    return math.prod(feature_shape) + EGO_MOTION_FEATURES + use_reward


def view_and_motion(
    inputs: MemoryInputs,
    feature_shape: tuple[int, ...],
    motion_unit: float,
    *,
    axes: int,
    use_reward: bool = False,
) -> Tensor:
    """ReLU(features), flattened, the four ego-motion features and, with `use_reward`, the last reward.

    Choice: features are flattened place by place (rows, columns, channels), which is a view of a channels-last
    tensor; the order only permutes the columns of the layer that follows.

    Args:
        inputs: Features (..., C, Hf, Wf), ego_motion (..., 3) and reward (...); the others are not looked at.
        feature_shape: (C, Hf, Wf) that is expected.
        motion_unit: See `ego_motion_features`.
        axes: Leading axes: 1 for a step, 2 for a sequence.
        use_reward: Whether the last reward is among the values (not in the paper).

    Returns:
        (..., `view_size`).

    Raises:
        ValueError: The shapes are others.
    """
    features, motion = inputs.features, inputs.ego_motion
    lead = tuple(features.shape[:axes])
    if features.shape != (*lead, *feature_shape):
        raise ValueError(
            f"features must be ({'T, N' if axes == 2 else 'N'}, *{feature_shape}); got {tuple(features.shape)}."
        )
    if motion.shape != (*lead, 3):
        raise ValueError(f"ego_motion must be {(*lead, 3)} like the features; got {tuple(motion.shape)}.")
    check_features(features)
    flat = features.movedim(-3, -1).flatten(-3)  # (..., Hf * Wf * C)
    told = (inputs.told[..., None].to(flat.dtype),) if use_reward else ()
    return torch.cat((F.relu(flat), ego_motion_features(motion, motion_unit).to(flat.dtype), *told), -1)


class RecurrentMemory(nn.Module):
    """The paper's baseline: view and ego-motion through one layer into a GRU (or LSTM).

    ReLU(features), flattened (paper: 640 values), and four ego-motion features -> FC 128, ReLU -> GRU 128.
    Depth and pose are not looked at: the baseline sees depth only through the features of the RGBD view.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).
    """

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        cell: Literal["gru", "lstm"] = "gru",
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ):
        super().__init__()
        self.use_reward = use_reward
        if cell not in ("gru", "lstm"):
            raise ValueError(f"cell must be 'gru' or 'lstm'; got {cell!r}.")
        require_length("motion_unit", motion_unit)
        self.feature_shape, self.motion_unit = tuple(feature_shape), float(motion_unit)
        self.output_size = hidden_size
        self.core: GRUCore | LSTMCore = (GRUCore if cell == "gru" else LSTMCore)(hidden_size, hidden_size)
        self.reduce = nn.Linear(view_size(feature_shape, use_reward), hidden_size)
        nn.init.orthogonal_(self.reduce.weight, gain=2**0.5)
        nn.init.zeros_(self.reduce.bias)

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting) -> RecurrentMemory:
        """A new one as an agent's settings ask for it; of the kind "lstm" it is an LSTM."""
        return cls(
            fitting.feature_shape,
            cell="lstm" if config.kind == "lstm" else "gru",
            hidden_size=config.hidden_size,
            motion_unit=config.motion_unit,
            use_reward=config.use_reward,
        )

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """Hidden state (H,), for an LSTM also its cell (H,)."""
        spec = TensorSpec((self.output_size,), self.core.weight_hh.dtype)
        return (spec,) * self.core.states

    @property
    def lesions(self) -> dict[str, Part]:
        """The hidden state, with the cell of an LSTM."""
        return {"hidden": Part(state=tuple(range(self.core.states)))}

    def initial_state(self, n: int) -> MemoryState:
        """Zeros."""
        return self.core.initial_state(n)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> hidden (N, H), next state."""
        x = self._input(inputs, axes=1)
        core = self.core
        state = (core.step(x, state[0]),) if isinstance(core, GRUCore) else core.step(x, *state)
        if trace is not None:
            trace["hidden"] = state[0].detach()
        return state[0], state

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> hidden (T, N, H), last state."""
        x = self._input(inputs, axes=2)
        if isinstance(self.core, GRUCore):
            out, *last = self.core.unroll(x, state[0], episode_start)
        else:
            out, *last = self.core.unroll(x, state[0], state[1], episode_start)
        return out, tuple(last)

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """Saturation of the hidden state."""
        return {"hidden_saturation": saturation(trace["hidden"])}

    def _input(self, inputs: MemoryInputs, *, axes: int) -> Tensor:
        """(..., H): what enters the core, for one step (axes = 1) or a sequence (axes = 2)."""
        x = view_and_motion(
            inputs, self.feature_shape, self.motion_unit, axes=axes, use_reward=self.use_reward
        )
        return F.relu(self.reduce(x))
