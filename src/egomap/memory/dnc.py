"""The memory of the differentiable neural computer: slots that are written and read by content, use and order.

Input: features of the view and the ego-motion (`MemoryInputs`), as the recurrent baseline gets them. What
goes out: one vector for the heads. After Graves et al., "Hybrid computing using a neural network with dynamic
external memory", Nature 2016, whose methods section `step` follows with its letters; the memory of MERLIN (Wayne et
al. 2018), which EgoMap's paper names as related work, descends from it. It deliberately ignores depth and pose.

Cost: every step reads what the last one wrote, so the time loop holds all of it, dozens of small operations for each
step. With the default sizes 7.8 kB of state per environment, of which the order of the writes, slots x slots, is
half; a training unroll keeps all of it for every step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.compute import exactly
from egomap.config import MOTION_UNIT, AgentConfig, require_within
from egomap.memory.attention import normalise
from egomap.memory.cores import LSTMCore
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
from egomap.memory.reads import oneplus, orthogonal
from egomap.memory.shown import Shown

ALIKE = 1e-4
"""How much freer than the slot before it a slot must be to be taken first."""
MODES = 3
"""Ways to read: backward in the order of the writes, by content, forward."""


class DNCState(NamedTuple):
    """What is remembered of N environments: S slots of W values, R read heads; zeros at an episode's start."""

    slots: Tensor
    """(N, S, W) the memory M."""
    usage: Tensor
    """(N, S) u, from 0 (free) to 1."""
    precedence: Tensor
    """(N, S) p: how much each slot was the last one written to."""
    link: Tensor
    """(N, S, S) L: how much slot i was written right after slot j."""
    write_weights: Tensor
    """(N, S) w^w of the last step."""
    read_weights: Tensor
    """(N, R, S) w^r of the last step."""
    reads: Tensor
    """(N, R, W) r, what was read."""
    hidden: Tensor
    """(N, H) of the controller."""
    cell: Tensor
    """(N, H) of the controller."""


class Interface(NamedTuple):
    """What the controller asks of the memory in one step."""

    read_keys: Tensor
    """(N, R, W)."""
    read_strengths: Tensor
    """(N, R), 1 or more."""
    write_key: Tensor
    """(N, W)."""
    write_strength: Tensor
    """(N,), 1 or more."""
    erase: Tensor
    """(N, W) e, 0 to 1."""
    write: Tensor
    """(N, W) v."""
    free: Tensor
    """(N, R) f, 0 to 1: whether what a head has just read may be overwritten."""
    allocation_gate: Tensor
    """(N,) g^a, 0 to 1: whether to write to a free slot or by content."""
    write_gate: Tensor
    """(N,) g^w, 0 to 1."""
    modes: Tensor
    """(N, R, 3) pi, sums to 1."""


def by_content(slots: Tensor, keys: Tensor, strengths: Tensor) -> Tensor:
    """softmax(strength * cosine similarity) of keys (N, K, W) over slots (N, S, W): (N, K, S)."""
    cosine = normalise(keys) @ normalise(slots).transpose(-1, -2)
    return torch.softmax(strengths[..., None] * cosine, -1)


def allocation(usage: Tensor) -> Tensor:
    """Where a new slot is taken: the freest first, a[phi_j] = (1 - u[phi_j]) u[phi_1] ... u[phi_(j-1)].

    Choice: of slots that are about as free the one with the lower number comes first. At an episode's start all
    are alike, and without this the last digit would decide, differently on every device.

    Args:
        usage: (N, S), from 0 to 1.

    Returns:
        (N, S), each 0 or more, their sum at most 1.
    """
    number = torch.arange(usage.shape[-1], device=usage.device, dtype=usage.dtype)
    order = (usage.detach() + ALIKE * number).argsort(-1)
    ordered = usage.gather(-1, order)
    before = torch.cat((torch.ones_like(ordered[:, :1]), ordered[:, :-1]), -1).cumprod(-1)
    return torch.zeros_like(usage).scatter(-1, order, (1 - ordered) * before)


def write_and_read(asked: Interface, old: DNCState) -> tuple[DNCState, Tensor]:
    """One step of the memory: free, write, order, read.

    Returns:
        The next state (hidden and cell as they were), and the allocation a (N, S).
    """
    retention = (1 - asked.free[..., None] * old.read_weights).prod(1)  # psi
    usage = (old.usage + old.write_weights - old.usage * old.write_weights) * retention
    free = allocation(usage)
    content = by_content(old.slots, asked.write_key[:, None], asked.write_strength[:, None])[:, 0]
    # Under autocast they come in several precisions.
    chosen = torch.lerp(content.to(free.dtype), free, asked.allocation_gate[:, None].to(free.dtype))
    write = asked.write_gate[:, None] * chosen  # w^w
    slots = (
        old.slots * (1 - write[..., None] * asked.erase[:, None]) + write[..., None] * asked.write[:, None]
    )

    rows, columns = write[:, :, None], write[:, None]
    link = (1 - rows - columns) * old.link + rows * old.precedence[:, None]
    link = link * (1 - torch.eye(link.shape[-1], dtype=link.dtype, device=link.device))
    precedence = (1 - write.sum(-1, keepdim=True)) * old.precedence + write

    ways = (
        old.read_weights @ link,  # backward: L^T w^r
        by_content(slots, asked.read_keys, asked.read_strengths),
        old.read_weights @ link.transpose(-1, -2),  # forward: L w^r
    )
    read_weights = (asked.modes[..., None] * torch.stack(ways, 2)).sum(2)
    reads = read_weights @ slots
    return DNCState(slots, usage, precedence, link, write, read_weights, reads, old.hidden, old.cell), free


@dataclass(frozen=True)
class DNCSettings:
    """Sizes of this memory; of an agent: `--agent.settings NAME=VALUE`."""

    controller_size: int = 64
    """Units of the controller, 1 or more."""
    slots: int = 32
    """How many, 2 or more."""
    slot_size: int = 16
    """Values of a slot, 1 or more."""
    heads: int = 4
    """Read heads, 1 or more."""

    def validate(self) -> DNCSettings:
        """Return self, or raise a ValueError that names the value out of range."""
        for name, value, least in (
            ("controller_size", self.controller_size, 1),
            ("slots", self.slots, 2),
            ("slot_size", self.slot_size, 1),
            ("heads", self.heads, 1),
        ):
            require_within(name, value, least, MOST)
        return self


class DNCMemory(nn.Module):
    """View and ego-motion through one layer into a controller (an LSTM) with slots to write to and read from.

    With x_t = ReLU(FC([ReLU(features), ego-motion features])): h_t = LSTM([x_t, r_{t-1}]); a linear layer of h_t
    asks (`Interface`); the memory is written and read (`write_and_read`); output ReLU(FC([h_t, r_t])).

    Choices: 32 slots of 16 values, 4 read heads and a controller of 64 units, so that the whole has about as many
    parameters as the recurrent baseline (174 k); lengths in the cosine are smooth at zero, as in EgoMap's query.

    Shapes: features (..., C, Hf, Wf), ego_motion (..., 3) -> output (..., hidden_size).

    Args:
        feature_shape: (C, Hf, Wf) of the features.
        hidden_size: Units of the first and the last layer.
        controller_size: Units of the controller.
        slots: S.
        slot_size: W.
        heads: R.
        motion_unit: As for the recurrent baseline.
        use_reward: As for the recurrent baseline.
    """

    Settings = DNCSettings

    def __init__(
        self,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        *,
        hidden_size: int = 128,
        controller_size: int = 64,
        slots: int = 32,
        slot_size: int = 16,
        heads: int = 4,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        if slots < 2 or slot_size < 1 or heads < 1:
            raise ValueError(
                f"there must be 2 slots or more, of 1 value or more, and 1 head or more; got {slots}, {slot_size} "
                f"and {heads}."
            )
        self.slots, self.slot_size, self.heads, self.output_size = slots, slot_size, heads, hidden_size
        self.reduce = Front(feature_shape, hidden_size, motion_unit=motion_unit, use_reward=use_reward)
        self.controller = LSTMCore(hidden_size + heads * slot_size, controller_size)
        self.sizes = (
            heads * slot_size,
            heads,
            slot_size,
            1,
            slot_size,
            slot_size,
            heads,
            1,
            1,
            MODES * heads,
        )
        self.interface = nn.Linear(controller_size, sum(self.sizes))
        self.read = nn.Identity()  # what is read passes here, where a lesion can reach it
        self.out = nn.Linear(controller_size + heads * slot_size, hidden_size)
        orthogonal(self.interface, 1.0)
        orthogonal(self.out, nn.init.calculate_gain("relu"))

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting, settings: DNCSettings) -> DNCMemory:
        """A new one as an agent's settings, and its own, ask for it."""
        return cls(fitting.feature_shape, **asdict(settings), **common(config))

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """See `DNCState`."""
        s, w, r, h = self.slots, self.slot_size, self.heads, self.controller.hidden_size
        shapes = ((s, w), (s,), (s,), (s, s), (s,), (r, s), (r, w), (h,), (h,))
        return tuple(TensorSpec(shape, self.out.weight.dtype) for shape in shapes)

    @property
    def lesions(self) -> dict[str, Part]:
        """What is read, what the memory keeps, and the controller's state."""
        return {
            "read": Part(module="read"),
            "slots": Part(state=(0, 1, 2, 3, 4, 5, 6)),
            "hidden": Part(state=(7, 8)),
        }

    @property
    def shown(self) -> Shown:
        """Nothing but words."""
        return Shown(words={"memory": f"{self.slots} slots of {self.slot_size} values, {self.heads} heads"})

    def initial_state(self, n: int) -> MemoryState:
        """Zeros."""
        return DNCState(*(self.out.weight.new_zeros(n, *spec.shape) for spec in self.state_spec))

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), ego_motion (N, 3) -> output (N, H), next state."""
        x = self.reduce(inputs, axes=1)
        check_state(self, state, len(x))
        return self._advance(x, DNCState(*state), trace)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), ego_motion (T, N, 3) -> output (T, N, H), last state."""
        x = self.reduce(inputs, axes=2)
        check_episode_start(episode_start, tuple(x.shape[:2]))
        check_state(self, state, x.shape[1])
        current, outs = DNCState(*state), []
        # A reset touches the whole state, so steps in which no episode starts leave it out.
        starts = episode_start.any(1).cpu().tolist()
        for x_t, begin, some in zip(x.unbind(0), episode_start.unbind(0), starts, strict=True):
            out, current = self._advance(x_t, _emptied(current, begin) if some else current, None)
            outs.append(out)
        return torch.stack(outs), current

    def parameter_groups(self) -> ParameterGroups:
        """The controller, what it asks, and the core: the layers before and after."""
        return {
            "controller": tuple(self.controller.parameters()),
            "interface": tuple(self.interface.parameters()),
            "core": (*self.reduce.parameters(), *self.out.parameters()),
        }

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """How full the memory is, how often it is written, how often to a free slot and how often read by content."""
        names = ("usage", "write_gate", "allocation_gate", "content_mode")
        return {name: float(trace[name].mean()) for name in names}

    def _advance(self, x: Tensor, old: DNCState, trace: MemoryTrace | None) -> tuple[Tensor, DNCState]:
        """One step of the recursion: x (N, H) -> output (N, H), next state."""
        with exactly(x):  # the state is read by small differences, and comes back as it was given
            return self._advance_exactly(x.to(old.hidden.dtype), old, trace)

    def _advance_exactly(
        self, x: Tensor, old: DNCState, trace: MemoryTrace | None
    ) -> tuple[Tensor, DNCState]:
        hidden, cell = self.controller.step(torch.cat((x, old.reads.flatten(1)), -1), old.hidden, old.cell)
        asked = self._asked(hidden)
        state, free = write_and_read(asked, old._replace(hidden=hidden, cell=cell))
        reads = self.read(state.reads)
        if trace is not None:
            shown = {
                "hidden": hidden,
                "usage": state.usage,
                "allocation": free,
                "write_gate": asked.write_gate,
                "allocation_gate": asked.allocation_gate,
                "content_mode": asked.modes[..., 1],
                "read_weights": state.read_weights,
            }
            trace.update({name: value.detach() for name, value in shown.items()})
        return F.relu(self.out(torch.cat((hidden, reads.flatten(1)), -1))), state._replace(reads=reads)

    def _asked(self, hidden: Tensor) -> Interface:
        """The controller's wishes from its hidden state (N, H), each in its range."""
        parts = self.interface(hidden).split(self.sizes, -1)
        heads = (self.heads, -1)
        return Interface(
            read_keys=parts[0].unflatten(-1, heads),
            read_strengths=oneplus(parts[1]),
            write_key=parts[2],
            write_strength=oneplus(parts[3][:, 0]),
            erase=torch.sigmoid(parts[4]),
            write=parts[5],
            free=torch.sigmoid(parts[6]),
            allocation_gate=torch.sigmoid(parts[7][:, 0]),
            write_gate=torch.sigmoid(parts[8][:, 0]),
            modes=parts[9].unflatten(-1, heads).softmax(-1),
        )


def _emptied(state: DNCState, begin: Tensor) -> DNCState:
    """The state with zeros where an episode begins (N,)."""
    return DNCState(*(part.masked_fill(begin.view(-1, *(1,) * (part.dim() - 1)), 0.0) for part in state))
