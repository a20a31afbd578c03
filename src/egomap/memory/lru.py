"""Linear recurrent unit: a memory whose state decays and turns, each unit at its own learned pace.

Input: features of the view and the ego-motion (`MemoryInputs`), as the recurrent baseline gets them. What
goes out: one vector for the heads. After Orvieto et al., "Resurrecting Recurrent Neural Networks for Long
Sequences", ICML 2023; not in the paper. The recurrence is linear and diagonal, so `unroll` runs it for all steps at
once (`decay`); what is not linear stands before and after it. It deliberately ignores depth and pose.

Cost with the default sizes: 1 kB of state per environment; a training unroll takes log2(T) passes over (T, N, 128).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig
from egomap.memory.decay import as_complex, decayed_sum
from egomap.memory.front import Front, check_state, common
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

SLOWEST, FASTEST = 0.999, 0.9
"""Between these the absolute values of the decay are drawn: 1000 and 9.5 steps until a third is left."""
LARGEST_PHASE = math.pi / 10
"""Up to this the phases of the decay are drawn; small ones keep long sums from cancelling."""


class LRUMemory(nn.Module):
    """View and ego-motion through one layer into a block of linear recurrent units.

    With x_t = ReLU(FC([ReLU(features), ego-motion features])), u_t = LayerNorm(x_t) and complex states h_t:
    h_t = lambda * h_{t-1} + gamma * B u_t, y_t = Re(C h_t) + D * u_t, output x_t + GLU(GELU(y_t)). The decay
    lambda = exp(-exp(nu) + i exp(theta)) has an absolute value always below 1; gamma starts as
    sqrt(1 - |lambda|^2), which keeps states of the size of their inputs. So the state is bounded: what enters
    is normalised, and what is kept decays.

    Choices: one block of 128 complex units, which has as many weights as the baseline's GRU (99 k); the complex
    B and C are real layers to and from [Re h, Im h], the same set of maps.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).
    """

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        self.reduce = Front(feature_shape, hidden_size, motion_unit=motion_unit, use_reward=use_reward)
        self.output_size = hidden_size
        self.norm = nn.LayerNorm(hidden_size)
        size = torch.sqrt(torch.rand(hidden_size) * (SLOWEST**2 - FASTEST**2) + FASTEST**2)
        phase = LARGEST_PHASE * (1 - torch.rand(hidden_size))  # above 0, for its logarithm is what is learned
        self.nu = nn.Parameter((-size.log()).log())
        self.theta = nn.Parameter(phase.log())
        self.gamma_log = nn.Parameter(0.5 * (1 - size**2).log())
        self.write = nn.Linear(hidden_size, 2 * hidden_size, bias=False)  # B: real parts, then imaginary ones
        self.read = nn.Linear(2 * hidden_size, hidden_size, bias=False)  # C
        self.direct = nn.Parameter(torch.randn(hidden_size))  # D
        self.gate = nn.Linear(hidden_size, 2 * hidden_size)
        for layer in (self.write, self.read):
            nn.init.normal_(layer.weight, std=(2 * layer.in_features) ** -0.5)

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting) -> LRUMemory:
        """A new one as an agent's settings ask for it."""
        return cls(fitting.feature_shape, **common(config))

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The states h (H, 2): real and imaginary parts."""
        return (TensorSpec((self.output_size, 2), self.nu.dtype),)

    @property
    def lesions(self) -> dict[str, Part]:
        """The states."""
        return {"hidden": Part(state=(0,))}

    @property
    def shown(self) -> Shown:
        """Nothing but words."""
        return Shown(words={"memory": f"{self.output_size} linear recurrent units"})

    def initial_state(self, n: int) -> MemoryState:
        """Zeros."""
        return (self.nu.new_zeros(n, self.output_size, 2),)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> output (N, H), next state."""
        x = self.reduce(inputs, axes=1)
        check_state(self, state, len(x))
        u = self.norm(x)
        hidden = self._decay() * as_complex(state[0]) + self._written(u)
        if trace is not None:
            trace["units"] = hidden.detach().abs()
        return self._output(x, u, hidden), (torch.view_as_real(hidden),)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> output (T, N, H), last state."""
        x = self.reduce(inputs, axes=2)
        check_episode_start(episode_start, tuple(x.shape[:2]))
        check_state(self, state, x.shape[1])
        u = self.norm(x)
        hidden = decayed_sum(self._written(u), self._decay(), as_complex(state[0]), episode_start)
        return self._output(x, u, hidden), (torch.view_as_real(hidden[-1]),)

    def parameter_groups(self) -> ParameterGroups:
        """The pace of the units (lambda and gamma), and the core: all layers."""
        pace = (self.nu, self.theta, self.gamma_log)
        return {"pace": pace, "core": tuple(p for p in self.parameters() if not any(p is q for q in pace))}

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """Median steps until a third of a state is left, and the mean size of the states."""
        span = torch.exp(-self.nu.detach()).median()
        return {"span": float(span), "state_size": float(trace["units"].mean())}

    def _decay(self) -> Tensor:
        """Lambda (H,), complex."""
        return torch.polar(torch.exp(-torch.exp(self.nu)), torch.exp(self.theta))

    def _written(self, u: Tensor) -> Tensor:
        """What is added to the states (..., H), complex: gamma * B u."""
        real, imaginary = self.write(u).to(self.nu.dtype).chunk(2, -1)
        gamma = torch.exp(self.gamma_log)
        return torch.complex(gamma * real, gamma * imaginary)

    def _output(self, x: Tensor, u: Tensor, hidden: Tensor) -> Tensor:
        """(..., H) from the layer's output x, its norm u and the states."""
        y = self.read(torch.cat((hidden.real, hidden.imag), -1)) + self.direct * u
        return x + F.glu(self.gate(F.gelu(y)), -1)
