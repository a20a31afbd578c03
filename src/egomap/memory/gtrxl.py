"""Gated transformer-XL: attention over the latest inputs of every layer, with gates in place of residual sums.

Input: features of the view and the ego-motion (`MemoryInputs`), as the recurrent baseline gets them. What
goes out: one vector for the heads. After Parisotto et al., "Stabilizing Transformers for Reinforcement Learning",
ICML 2020 (GTrXL with GRU gates); not in the paper. A layer remembers what entered it at its latest M steps, so all
T steps of a rollout attend at once. It deliberately ignores depth and pose.

Cost with the default sizes: 29 kB of state per environment. A training unroll makes attention matrices of T x (M +
T) for each layer, head and environment: for T = 128 and N = 16, 1.6 million values a layer; a step attends to M + 1
inputs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig, require_within
from egomap.memory.front import MOST, Front, check_state, common, steps_within
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
from egomap.memory.reads import orthogonal
from egomap.memory.shown import Shown

GATE_BIAS = 2.0
"""b_g: a new gate lets an eighth of its layer through and seven eighths of what entered it."""


def sinusoids(ages: int, size: int) -> Tensor:
    """Encodings (ages, size) of how many steps ago something was: sines, then cosines, of falling frequency."""
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))
    angle = torch.arange(ages, dtype=torch.float64)[:, None] * frequency
    return torch.cat((angle.sin(), angle.cos()), -1)


class GRUGate(nn.Module):
    """What a GRU makes of the stream x and a layer's output y: (1 - z) * x + z * h.

    r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b), h = tanh(W_h y + U_h (r * x)).

    Shapes: x and y (..., size) -> (..., size).
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_layer = nn.Linear(size, 3 * size, bias=False)  # W_r, W_z, W_h
        self.of_stream = nn.Linear(size, 2 * size, bias=False)  # U_r, U_z
        self.of_reset = nn.Linear(size, size, bias=False)  # U_h
        self.bias = nn.Parameter(torch.full((size,), GATE_BIAS))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The stream after the gate."""
        reset_y, update_y, candidate_y = self.of_layer(y).chunk(3, -1)
        reset_x, update_x = self.of_stream(x).chunk(2, -1)
        reset = torch.sigmoid(reset_y + reset_x)
        update = torch.sigmoid(update_y + update_x - self.bias)
        candidate = torch.tanh(candidate_y + self.of_reset(reset * x))
        # Under autocast they come in several precisions.
        return torch.lerp(x.to(update.dtype), candidate.to(update.dtype), update)


class RelativeAttention(nn.Module):
    """Attention of T steps to the M steps before each, and to itself, by content and by how long ago.

    The score of step t for an input that is a steps old is (q_t + u) . k + (q_t + v) . W R_a, over the root of
    the head's size (Dai et al. 2019); R_a is a sinusoid, u and v are learned.

    Shapes: x (T, N, size), earlier (N, M, size), how many of the earlier steps each may see (T, N) ->
    (T, N, size), attention (N, heads, T, M + T).
    """

    ages: Tensor

    def __init__(self, size: int, heads: int, memory_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size, bias=False)
        self.key_value = nn.Linear(size, 2 * size, bias=False)
        self.age = nn.Linear(size, size, bias=False)
        self.out = nn.Linear(size, size, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, size // heads))  # u
        self.age_bias = nn.Parameter(torch.zeros(heads, size // heads))  # v
        encodings = sinusoids(memory_size + 1, size).to(torch.get_default_dtype())
        self.register_buffer("ages", encodings, persistent=False)

    def forward(self, x: Tensor, earlier: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """What is read, and the attention."""
        steps, num_envs, size = x.shape
        memory_size = earlier.shape[1]
        split = (self.heads, size // self.heads)
        everything = torch.cat((earlier.transpose(0, 1), x))  # (M + T, N, size), the oldest first
        query = self.query(x).unflatten(-1, split)  # (T, N, heads, head)
        key, value = (part.unflatten(-1, split) for part in self.key_value(everything).chunk(2, -1))
        by_age = self.age(self.ages.to(x.dtype)).unflatten(-1, split)  # (M + 1, heads, head)
        content = torch.einsum("tnhd,snhd->nhts", query + self.content_bias, key)
        of_age = torch.einsum("tnhd,ahd->nhta", query + self.age_bias, by_age)
        age = _ages(steps, memory_size, x.device)  # (T, M + T)
        index = age.clamp(0, memory_size).expand(num_envs, self.heads, -1, -1)
        scores = (content + of_age.gather(-1, index)) * split[1] ** -0.5
        visible = (age >= 0) & (age <= seen.clamp(max=memory_size).T[..., None])  # (N, T, M + T)
        attention = scores.masked_fill(~visible[:, None], -math.inf).softmax(-1)
        return self.out(torch.einsum("nhts,snhd->tnhd", attention, value).flatten(-2)), attention


def _ages(steps: int, memory_size: int, device: torch.device) -> Tensor:
    """How old (T, M + T) each input is at each step: negative if it is still to come."""
    now = torch.arange(steps, device=device)[:, None] + memory_size
    return now - torch.arange(memory_size + steps, device=device)


class GatedLayer(nn.Module):
    """Attention and a small network, each behind a layer norm ("identity map reordering") and before a gate.

    Shapes: as `RelativeAttention`.
    """

    def __init__(self, size: int, heads: int, memory_size: int) -> None:
        super().__init__()
        self.norm, self.inner_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = RelativeAttention(size, heads, memory_size)
        self.network = nn.Sequential(nn.Linear(size, 2 * size), nn.ReLU(), nn.Linear(2 * size, size))
        self.gate, self.inner_gate = GRUGate(size), GRUGate(size)

    def forward(self, x: Tensor, earlier: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The stream after this layer, and the attention."""
        read, attention = self.attention(self.norm(x), self.norm(earlier), seen)
        x = self.gate(x, F.relu(read))
        return self.inner_gate(x, F.relu(self.network(self.inner_norm(x)))), attention


@dataclass(frozen=True)
class GTrXLSettings:
    """Sizes of this memory; of an agent: `--agent.settings NAME=VALUE`."""

    size: int = 56
    """Values of the stream, even and a multiple of heads."""
    heads: int = 4
    """Of the attention, 1 or more."""
    layers: int = 2
    """How many, 1 or more."""
    memory_size: int = 64
    """Steps that each layer looks back, 1 or more."""

    def validate(self) -> GTrXLSettings:
        """Return self, or raise a ValueError that names the value out of range."""
        for name, value, least in (
            ("size", self.size, 1),
            ("heads", self.heads, 1),
            ("layers", self.layers, 1),
            ("memory_size", self.memory_size, 1),
        ):
            require_within(name, value, least, MOST)
        return self


class GTrXLMemory(nn.Module):
    """View and ego-motion through one layer into gated transformer layers, each with a memory of its latest inputs.

    x_t = ReLU(FC([ReLU(features), ego-motion features])) of `size` values -> layers -> FC `hidden_size`, ReLU. A
    step sees its own episode alone: what lies before an episode's start is masked. Within a rollout gradients go
    through the attended inputs of all layers; what the rollout began with is data, as the authors' stop-gradient
    has it.

    Choices: two layers of 56 values, 4 heads and 64 steps of memory, so that the whole has about as many parameters
    as the recurrent baseline (176 k); the last layer, so that the heads read as many values as from it.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).

    Args:
        feature_shape: (C, Hf, Wf) of the features.
        hidden_size: Units of the last layer.
        size: Values of the stream, even and a multiple of `heads`.
        heads: Of the attention.
        layers: How many.
        memory_size: M, how many steps each layer looks back.
        motion_unit: As for the recurrent baseline.
        use_reward: As for the recurrent baseline.
    """

    Settings = GTrXLSettings

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        size: int = 56,
        heads: int = 4,
        layers: int = 2,
        memory_size: int = 64,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        if heads < 1 or size < 2 or size % heads or size % 2:
            raise ValueError(f"size must be even and a multiple of heads; got {size} and {heads}.")
        if layers < 1 or memory_size < 1:
            raise ValueError(f"layers and memory_size must be 1 or more; got {layers} and {memory_size}.")
        self.memory_size, self.size, self.output_size = memory_size, size, hidden_size
        self.reduce = Front(feature_shape, size, motion_unit=motion_unit, use_reward=use_reward)
        self.layers = nn.ModuleList(GatedLayer(size, heads, memory_size) for _ in range(layers))
        self.out = nn.Linear(size, hidden_size)
        orthogonal(self.out, nn.init.calculate_gain("relu"))

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting, settings: GTrXLSettings) -> GTrXLMemory:
        """A new one as an agent's settings, and its own, ask for it."""
        return cls(fitting.feature_shape, **asdict(settings), **common(config))

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """What entered each layer at the latest steps (layers, M, size), the oldest first, and how many these are."""
        shape = (len(self.layers), self.memory_size, self.size)
        return TensorSpec(shape, self.out.weight.dtype), TensorSpec((), torch.int64)

    @property
    def lesions(self) -> dict[str, Part]:
        """What the layers remember."""
        return {"inputs": Part(state=(0, 1))}

    @property
    def shown(self) -> Shown:
        """Nothing but words."""
        return Shown(words={"memory": f"the latest {self.memory_size} inputs of {len(self.layers)} layers"})

    def initial_state(self, n: int) -> MemoryState:
        """Nothing."""
        inputs, count = self.state_spec
        zeros = self.out.weight.new_zeros(n, *inputs.shape)
        return zeros, torch.zeros(n, dtype=count.dtype, device=zeros.device)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> output (N, H), next state."""
        x = self.reduce(inputs, axes=1)
        check_state(self, state, len(x))
        begin = torch.zeros(1, len(x), dtype=torch.bool, device=x.device)
        out, state, attention = self._advance(x[None], state, begin)
        if trace is not None:
            trace["attended"] = torch.stack(attention, 1)[:, :, :, 0].detach()  # (N, layers, heads, M + 1)
            trace["count"] = state[1]
        return out[0], state

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> output (T, N, H), last state."""
        x = self.reduce(inputs, axes=2)
        check_episode_start(episode_start, tuple(x.shape[:2]))
        check_state(self, state, x.shape[1])
        out, state, _ = self._advance(x, state, episode_start)
        return out, state

    def parameter_groups(self) -> ParameterGroups:
        """The attention of all layers, the gates of all layers, and the core: the rest."""
        layers = [layer for layer in self.layers if isinstance(layer, GatedLayer)]
        attention = tuple(p for layer in layers for p in layer.attention.parameters())
        gates = tuple(
            p for layer in layers for gate in (layer.gate, layer.inner_gate) for p in gate.parameters()
        )
        named = {id(parameter) for parameter in (*attention, *gates)}
        core = tuple(p for p in self.parameters() if id(p) not in named)
        return {"attention": attention, "gates": gates, "core": core}

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """How many steps back the attention looks, on average, and how much of it looks back at all."""
        mean = trace["attended"].mean((0, 1, 2))  # (M + 1,), the oldest first
        age = torch.arange(len(mean) - 1, -1, -1, device=mean.device, dtype=mean.dtype)
        return {"lookback": float((mean * age).sum()), "attention_past": float(1 - mean[-1])}

    def _advance(
        self, x: Tensor, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState, list[Tensor]]:
        """The recursion over x (T, N, size): output (T, N, H), last state, attention of each layer."""
        memory, count = state
        seen = steps_within(count, episode_start)  # (T, N)
        earlier = self._remembered(memory, count.masked_fill(episode_start[0], 0))
        attentions, kept = [], []
        for number, layer in enumerate(self.layers):
            line = torch.cat((earlier[:, number], x.transpose(0, 1)), 1)  # (N, M + T, size)
            kept.append(line[:, -self.memory_size :])
            x, attention = layer(x, earlier[:, number], seen)
            attentions.append(attention)
        count = (seen[-1] + 1).clamp(max=self.memory_size)
        memory = self._remembered(torch.stack(kept, 1), count)
        return F.relu(self.out(x)), (memory, count), attentions

    def _remembered(self, memory: Tensor, count: Tensor) -> Tensor:
        """The memory (N, layers, M, size) with zeros in empty places."""
        age = torch.arange(self.memory_size - 1, -1, -1, device=count.device)
        return memory.masked_fill((age >= count[:, None])[:, None, :, None], 0.0)
