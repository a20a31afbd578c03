"""Fast and forgetful memory: sums of the past that fade and swing, each at its own pace, between two gates.

Input: features of the view and the ego-motion (`MemoryInputs`), as the recurrent baseline gets them. What
goes out: one vector for the heads. After Morad et al., "Reinforcement Learning with Fast and Forgetful Memory",
NeurIPS 2023; not in the paper. The sums do not depend on what they hold, so `unroll` makes them for all steps at
once. Their closed form divides by gamma^t, which overflows on long sequences; the sums of `decay` do not. It
deliberately ignores depth and pose.

Cost with the default sizes: 1.5 kB of state per environment; a training unroll takes log2(T) passes over (T, N, 192).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from egomap.config import MOTION_UNIT, AgentConfig, require_within
from egomap.memory.decay import as_complex, decayed_sum
from egomap.memory.front import MOST, Front, check_state, common
from egomap.memory.lesions import Part
from egomap.memory.protocol import (
    Fitting,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    ParameterGroups,
    TensorSpec,
    check_episode_start,
)
from egomap.memory.shown import Shown

LONGEST = 1024
"""Steps: the longest time constant and the longest period that a new memory has."""


@dataclass(frozen=True)
class FFMSettings:
    """Sizes of this memory; of an agent: `--agent.settings NAME=VALUE`."""

    trace_size: int = 48
    """m: how many paces of fading, 1 or more."""
    context_size: int = 4
    """c: how many paces of swinging, 1 or more."""

    def validate(self) -> FFMSettings:
        """Return self, or raise a ValueError that names the value out of range."""
        for name, value, least in (
            ("trace_size", self.trace_size, 1),
            ("context_size", self.context_size, 1),
        ):
            require_within(name, value, least, MOST)
        return self


class FFMMemory(nn.Module):
    """View and ego-motion through one layer into a cell with an input gate, fading sums and an output gate.

    With x_t = ReLU(FC([ReLU(features), ego-motion features])): what is kept, k_t = l1(x_t) * sigmoid(l2(x_t)), of
    m values, is added to sums S_t (m, c): S_t = S_{t-1} * gamma + k_t, with gamma = exp(-|alpha|) exp(i omega)
    for each of the m decays alpha and the c contexts omega. With z_t = l3([Re S_t, Im S_t]) and
    g_t = sigmoid(l4(x_t)) the output is LayerNorm(z_t) * g_t + l5(x_t) * (1 - g_t). As |gamma| <= 1, no sum exceeds
    the number of steps of its episode times the largest k.

    Choices: 48 decays and 4 contexts, so that the cell has about as many weights as the baseline's GRU (95 k);
    decays start with time constants from 1 to 1024 steps, contexts with periods from 2 to 1024, both with even
    ratios.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).

    Args:
        feature_shape: (C, Hf, Wf) of the features.
        hidden_size: Units of the layer before the cell, and of the output.
        trace_size: m.
        context_size: c.
        motion_unit: As for the recurrent baseline.
        use_reward: As for the recurrent baseline.
    """

    Settings = FFMSettings

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        trace_size: int = 48,
        context_size: int = 4,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        if trace_size < 1 or context_size < 1:
            raise ValueError(
                f"trace_size and context_size must be 1 or more; got {trace_size}, {context_size}."
            )
        self.reduce = Front(feature_shape, hidden_size, motion_unit=motion_unit, use_reward=use_reward)
        self.output_size = hidden_size
        self.alpha = nn.Parameter(1 / torch.logspace(0, math.log10(LONGEST), trace_size))
        periods = torch.logspace(math.log10(2), math.log10(LONGEST), context_size)
        self.omega = nn.Parameter(2 * math.pi / periods)
        self.keep = nn.Linear(hidden_size, trace_size)  # l1
        self.keep_gate = nn.Linear(hidden_size, trace_size)  # l2
        self.read = nn.Linear(2 * trace_size * context_size, hidden_size)  # l3
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False)
        self.out_gate = nn.Linear(hidden_size, hidden_size)  # l4
        self.skip = nn.Linear(hidden_size, hidden_size)  # l5

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting, settings: FFMSettings) -> FFMMemory:
        """A new one as an agent's settings, and its own, ask for it."""
        return cls(fitting.feature_shape, **asdict(settings), **common(config))

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The sums S (m, c, 2): real and imaginary parts."""
        return (TensorSpec((len(self.alpha), len(self.omega), 2), self.alpha.dtype),)

    @property
    def lesions(self) -> dict[str, Part]:
        """The sums."""
        return {"hidden": Part(state=(0,))}

    @property
    def shown(self) -> Shown:
        """Nothing but words."""
        return Shown(words={"memory": f"sums with {len(self.alpha)} decays and {len(self.omega)} contexts"})

    def initial_state(self, n: int) -> MemoryState:
        """Zeros."""
        (spec,) = self.state_spec
        return (self.alpha.new_zeros(n, *spec.shape),)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> output (N, H), next state."""
        x = self.reduce(inputs, axes=1)
        check_state(self, state, len(x))
        sums = as_complex(state[0]) * self._gamma() + self._kept(x)
        out, gate = self._output(x, sums)
        if trace is not None:
            trace["sums"], trace["gate"] = sums.detach().abs(), gate.detach()
        return out, (torch.view_as_real(sums),)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> output (T, N, H), last state."""
        x = self.reduce(inputs, axes=2)
        check_episode_start(episode_start, tuple(x.shape[:2]))
        check_state(self, state, x.shape[1])
        gamma = self._gamma()
        kept = self._kept(x).expand(*x.shape[:2], *gamma.shape)
        sums = decayed_sum(kept, gamma, as_complex(state[0]), episode_start)
        return self._output(x, sums)[0], (torch.view_as_real(sums[-1]),)

    def parameter_groups(self) -> ParameterGroups:
        """The pace of the sums (alpha and omega), and the core: all layers."""
        pace = (self.alpha, self.omega)
        return {"pace": pace, "core": tuple(p for p in self.parameters() if not any(p is q for q in pace))}

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """Median steps until a third of a sum is left, the sums' mean size, and how far the output gate is open."""
        span = 1 / self.alpha.detach().abs().median()
        size, gate = trace["sums"].mean(), trace["gate"].mean()
        return {"span": float(span), "state_size": float(size), "gate": float(gate)}

    def _gamma(self) -> Tensor:
        """Decay of the sums (m, c), complex."""
        return torch.polar(
            torch.exp(-self.alpha.abs())[:, None].expand(-1, len(self.omega)),
            self.omega.expand(len(self.alpha), -1),
        )

    def _kept(self, x: Tensor) -> Tensor:
        """What is added to the sums (..., m, 1), complex: the same in every context."""
        kept = (self.keep(x) * torch.sigmoid(self.keep_gate(x))).to(self.alpha.dtype)[..., None]
        return torch.complex(kept, torch.zeros_like(kept))

    def _output(self, x: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """(..., H) from what enters the cell and the sums (..., m, c), and the output gate."""
        flat = torch.cat((sums.real.flatten(-2), sums.imag.flatten(-2)), -1)
        gate = torch.sigmoid(self.out_gate(x))
        return torch.lerp(self.skip(x), self.norm(self.read(flat)), gate), gate
