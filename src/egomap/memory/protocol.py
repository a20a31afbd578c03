"""What every memory is to the rest of the package: three methods over an opaque state.

Input: features of the current view, depth, pose and ego-motion. Output: one vector per
environment for the policy and value heads, and the next state. A trainer stores states, hands them back and
never looks inside; so a user's own memory works with everything here if it has these methods.

Time convention: `episode_start[t, n]` is True when input t is the first of an episode; the state is set to the
initial one *before* input t is taken in. Axes: T time, N environments; time first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from egomap.config import Camera, require

MemoryState = tuple[Tensor, ...]
"""Opaque to everyone but the memory; each tensor has the environment axis N first."""

MemoryTrace = dict[str, Tensor]
"""Filled on request with what can be shown: `map_ego`, `attention`, `query_position`, `beta`, ... by name."""

Notes = dict[str, Tensor]
"""What a memory notes of observations: data, without gradient, by name; (T, N, ...) or (N, ...)."""

NOTE = "note."
"""Begins the names of notes where they lie among observations."""

PAID_AT = "paid_at"
"""Name of a note that the learner adds for a memory that `points`: the place (right, ahead; map units) where the
next reward is received, NaN where that is not known (`egomap.rl.hindsight`)."""

PAID = 0.0
"""A reward above this counts as a goal; living costs are below it."""

ParameterGroups = dict[str, tuple[nn.Parameter, ...]]
"""Parameters by what they do. Each parameter is in one group."""

Rate = str | float
"""How fast a group learns: "read" or "perception" for that setting of the learner, or a part of the learning rate."""


class MemoryInputs(NamedTuple):
    """One observation of N environments, or with a leading T axis a sequence of them."""

    features: Tensor
    """(..., C, Hf, Wf) feature map of the view, before its last ReLU."""
    depth: Tensor
    """(..., H, W) forward distance in map units; non-finite where unknown."""
    pose: Tensor
    """(..., 3) x, y (map units, world frame), phi (radians, counter-clockwise from +x)."""
    ego_motion: Tensor
    """(..., 3) dx, dy, dphi since the previous observation, in the previous ego frame (x right, y forward)."""
    reward: Tensor | None = None
    """(...) the reward of the decision before this observation, 0 at an episode's start; None: not observed."""
    notes: Notes | None = None
    """What the memory's own `note` made of these observations, where that was done before."""

    def each(self, function: Callable[[Tensor], Tensor]) -> MemoryInputs:
        """The inputs with every tensor replaced by what `function` makes of it."""
        notes = self.notes and {name: function(note) for name, note in self.notes.items()}
        parts = (None if part is None else function(part) for part in self[:-1])
        return MemoryInputs(*parts, notes=notes)  # type: ignore[arg-type, misc]

    def at(self, index: Any) -> MemoryInputs:
        """The inputs at an index of the leading axes: a step of a sequence, a slice, ..."""
        return self.each(lambda part: part[index])

    @property
    def told(self) -> Tensor:
        """(...) the reward, zeros where it is not observed; in the dtype of the pose."""
        return torch.zeros_like(self.pose[..., 0]) if self.reward is None else self.reward.to(self.pose.dtype)


class Fitting(NamedTuple):
    """What a memory must fit: the views, what perception makes of them, and the arena."""

    camera: Camera
    """Of the depth image."""
    feature_shape: tuple[int, int, int]
    """(C, Hf, Wf) of the features."""
    kernels: tuple[int, ...]
    """Kernel sizes of the convolutions that made them."""
    strides: tuple[int, ...]
    """Their strides."""
    extent: float
    """Side of the square that a map is to cover, in map units: the arena and the padding."""


class TensorSpec(NamedTuple):
    """Shape (without the environment axis) and dtype of one tensor of a state."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Memory(Protocol):
    """The protocol; implemented by `RecurrentMemory`, `NeuralMapMemory`, `EgoMapMemory` and the two floors.

    A memory may also have `parameter_groups()`, `rates` and `figures(trace)`; see the functions of these names.
    A memory may say `has_map = True`; see `has_map`.
    A memory may also have `lesions`, a mapping from names to `egomap.memory.lesions.Part`: which of its parts an
    evaluation can replace to measure what they are worth; and `shown`, an `egomap.memory.shown.Shown`: what the
    inspector finds in its trace.
    A memory may also have `votes`, K numbers: its output then ends with K distributions over the actions, one after
    the other, and the guide selected so far; the heads select a guide (`egomap.agents.heads`), and the numbers
    are the initial logits of that selection. It has `commit(state, choice) -> state`, which stores what was chosen.
    A memory of which a part depends on observations alone, through no parameter, may have `note(inputs, state,
    episode_start) -> notes, state` over T steps, and `note_names`: that part is then computed once in the rollout,
    and handed back by name in `MemoryInputs.notes` whenever the learner unrolls the same observations.
    """

    output_size: int

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """Shapes and dtypes of the state's tensors, before any is made."""
        ...

    def initial_state(self, n: int) -> MemoryState:
        """The state of `n` environments at the start of an episode."""
        ...

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: inputs (N, ...) -> output (N, output_size), next state."""
        ...

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """A sequence: inputs (T, N, ...), episode_start (T, N) bool -> output (T, N, output_size), last state."""
        ...


def parameter_groups(memory: Any) -> ParameterGroups:
    """The groups that a memory names by a method `parameter_groups`; otherwise all of it is its "core".

    The log has the gradient's norm of each group; `rates` says which of them have a rate of their own.
    """
    named = getattr(memory, "parameter_groups", None)
    return {"core": tuple(memory.parameters())} if named is None else named()


def rates(memory: Any) -> dict[str, Rate]:
    """The rates that a memory gives groups of its own by an attribute `rates`; none without it."""
    found = dict(getattr(memory, "rates", {}))
    unknown = sorted(set(found) - set(parameter_groups(memory))) if found else []
    require(
        not unknown, f"{type(memory).__name__} has rates for {', '.join(unknown)}, which are not its groups."
    )
    return found


def figures(memory: Any, trace: MemoryTrace) -> dict[str, float]:
    """The figures that a memory names by a method `figures(trace)`, from a trace of one step; none without it."""
    named = getattr(memory, "figures", None)
    return {} if named is None else named(trace)


def has_map(memory: Any) -> bool:
    """Whether a memory declares that it keeps a map of a fixed extent, beyond which it stores nothing."""
    return bool(getattr(memory, "has_map", False))


def check_episode_start(episode_start: Tensor, lead: tuple[int, ...]) -> None:
    """Raise a ValueError unless `episode_start` is bool and has the leading axes `lead` of the inputs."""
    if tuple(episode_start.shape) != lead or episode_start.dtype != torch.bool:
        raise ValueError(
            f"episode_start must be bool {lead} like the inputs; got {episode_start.dtype} "
            f"{tuple(episode_start.shape)}."
        )


def reset_state(memory: Memory, state: MemoryState, episode_start: Tensor) -> MemoryState:
    """The state with the rows where `episode_start` (N,) is True set to the initial state."""
    if state:
        check_episode_start(episode_start, tuple(state[0].shape[:1]))
    initial = memory.initial_state(episode_start.shape[0])
    return tuple(
        torch.where(episode_start.view(-1, *(1,) * (old.dim() - 1)), new.to(old), old)
        for old, new in zip(state, initial, strict=True)
    )
