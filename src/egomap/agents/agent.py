"""An agent: perception, a memory and two heads, for one step or a whole rollout.

Input: observations as the environments give them (rgb, depth, pose, ego_motion), the memory's opaque
state, and where episodes start. Output: actions with their log-probability and value (`step`), or
logits and values of a sequence (`unroll`, also `forward`, which wrappers of torch call). Paper: figure
of the architectures, appendix. Wiring only: the mathematics is in `perception`, `egomap.memory` and `heads`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from egomap.agents.heads import Heads, choice_of, choose, of_actions, of_guides, taken
from egomap.agents.perception import KERNELS, STRIDES, Perception
from egomap.compute import Compute
from egomap.config import NUM_ACTIONS, AgentConfig, Camera
from egomap.memory.figures import attention_entropy
from egomap.memory.protocol import (
    NOTE,
    Fitting,
    Memory,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    Notes,
    ParameterGroups,
    Rate,
    check_episode_start,
    figures,
    parameter_groups,
    rates,
    reset_state,
)
from egomap.memory.registry import build_memory

Observation = Mapping[str, Tensor]
"""rgb (..., 3, H, W) uint8, depth (..., H, W) map units, pose (..., 3), ego_motion (..., 3), and reward (...), what
the previous decision brought, if the memory uses it; and the memory's notes of it, if they were made before;
others are ignored."""

ITSELF = "itself"
"""Whom an agent with guides follows when it follows none of them."""

OBSERVATION_KEYS = ("rgb", "depth", "pose", "ego_motion")


class AgentStep(NamedTuple):
    """What an agent decides for N environments."""

    action: Tensor
    """(N,) int64; with guides an entry of the table of `egomap.agents.heads`, see `Agent.taken`."""
    log_prob: Tensor
    """(N,) log-probability of that action."""
    value: Tensor
    """(N,) estimate of the discounted return."""
    logits: Tensor
    """(N, actions)."""
    state: MemoryState
    """The memory after this step; opaque."""
    notes: Notes | None = None
    """What the memory noted of the observation, to be handed back with it in `unroll`; None if it notes nothing."""


class AgentOutput(NamedTuple):
    """What an agent thinks of a sequence of T steps of N environments."""

    logits: Tensor
    """(T, N, actions); with guides of the whole table of `egomap.agents.heads`."""
    value: Tensor
    """(T, N)."""
    state: MemoryState
    """The memory after the last step; opaque."""
    output: Tensor
    """(T, N, output_size): the memory's output, for terms of a loss; layers read the first `Heads.own_size`."""
    num_actions: int | None = None
    """Actions proper, if the logits may be of more (`egomap.agents.heads`)."""
    auxiliary: Tensor | None = None
    """(T, N, size): output of the auxiliary head; None without one."""

    @property
    def policy(self) -> Tensor:
        """(T, N, actions) logits of the actions, marginal over selections."""
        return self.logits if self.num_actions is None else of_actions(self.logits, self.num_actions)


class Agent(nn.Module):
    """Perception, memory and heads.

    Args:
        perception: Maps rgb and depth to features.
        memory: Any module with the methods of `egomap.memory.protocol.Memory`, a user's own too.
        num_actions: Discrete actions (paper: 5).
        value_gain: Gain of the value head's initialisation.
        auxiliary_size: Values of a further linear head, which only learns (`egomap.rl.auxiliary`); 0: none.
    """

    def __init__(
        self,
        perception: Perception,
        memory: Memory,
        *,
        num_actions: int = NUM_ACTIONS,
        value_gain: float = AgentConfig.value_gain,
        auxiliary_size: int = 0,
    ):
        super().__init__()
        self.compute = Compute()
        self.perception = perception
        self.memory = memory
        votes = getattr(memory, "votes", ())
        if votes and num_actions != NUM_ACTIONS:
            raise ValueError(
                f"guides propose the {NUM_ACTIONS} actions of the mazes, and this world has {num_actions}; "
                "choose an agent without guides."
            )
        self.heads = Heads(memory.output_size, num_actions, value_gain=value_gain, votes=votes)
        # After everything else, so that its weights draw nothing from those of an agent without it.
        self.auxiliary = nn.Linear(self.heads.own_size, auxiliary_size) if auxiliary_size else None

    def on(self, compute: Compute) -> Agent:
        """This agent, computing as `compute` says from now on; its inputs may be on any device."""
        self.compute = compute
        return self.to(compute.device)

    def initial_state(self, n: int) -> MemoryState:
        """The state of `n` environments at the start of an episode."""
        return self.memory.initial_state(n)

    def step(
        self,
        observation: Observation,
        state: MemoryState,
        episode_start: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
        trace: MemoryTrace | None = None,
    ) -> AgentStep:
        """Decide for N environments; call it under `torch.no_grad()` in a rollout.

        Args:
            observation: rgb (N, 3, H, W), depth (N, H, W), pose (N, 3), ego_motion (N, 3).
            state: From `initial_state` or the step before.
            episode_start: (N,) bool; where True the state is reset before the observation is taken in.
            deterministic: Take the most probable action instead of sampling.
            generator: Source of randomness; torch's global one if not given.
            trace: A dict that the memory fills with what can be shown (map, attention, ...).

        Returns:
            Actions, their log-probabilities, values, logits and the next state.
        """
        episode_start = self.compute.put(episode_start)
        with self.compute.casting():
            inputs = self._inputs(observation, axes=1)
            check_episode_start(episode_start, tuple(inputs.pose.shape[:1]))
            # On a CPU it is cheaper to look than to rewrite a state in which nothing starts.
            if not self.compute.on_cpu or bool(episode_start.any()):
                state = reset_state(self.memory, state, episode_start)
            if inputs.notes is None and hasattr(self.memory, "note"):
                nowhere = torch.zeros_like(episode_start)[None]  # the state has been reset
                notes, state = self.memory.note(inputs.each(lambda part: part[None]), state, nowhere)
                inputs = inputs._replace(notes={name: note[0] for name, note in notes.items()})
            out, state = self.memory.step(inputs, state, trace=trace)
        out = self._whole(out)
        logits, value = self.heads(out)
        action, log_prob = choose(logits, deterministic=deterministic, generator=generator)
        if trace is not None:
            trace["features"], trace["output"] = inputs.features, out.detach()
        return AgentStep(action, log_prob, value, logits, state, inputs.notes)

    def unroll(self, observations: Observation, state: MemoryState, episode_start: Tensor) -> AgentOutput:
        """Logits and values of T steps of N environments, all that can be parallel in time in one batch.

        Args:
            observations: As for `step`, with a leading T axis.
            state: The memory before the first of them.
            episode_start: (T, N) bool.

        Returns:
            Logits (T, N, actions), value (T, N), the last state, the memory's output, and what the auxiliary head
            says, if there is one; equal to a loop of `step`.
        """
        out, state = self.remember(observations, state, episode_start)
        logits, value = self.heads(out)
        auxiliary = None if self.auxiliary is None else self.auxiliary(out[..., : self.heads.own_size])
        return AgentOutput(logits, value, state, out, self.heads.num_actions, auxiliary)

    def taken(self, choice: Tensor) -> Tensor:
        """The actions (N,) that the environment is to get for what `step` chose."""
        return taken(choice, self.heads.num_actions)

    def policy(self, step: AgentStep) -> Tensor:
        """Probabilities (N, actions) of the actions proper, float64."""
        return of_actions(step.logits.cpu().double(), self.heads.num_actions).softmax(-1)

    @property
    def followed(self) -> tuple[str, ...]:
        """What the policy can select: itself, then the guides by name; empty without guides."""
        names = tuple(getattr(self.memory, "guide_names", ()))
        return (ITSELF, *names) if names else ()

    def whom(self, step: AgentStep) -> Tensor:
        """Probabilities (N, followed) of the selection, float64; a column of ones without guides."""
        return of_guides(step.logits.cpu().double(), self.heads.num_actions).exp()

    def choice_of(self, step: AgentStep, action: Tensor) -> Tensor:
        """The most probable choices (N,) of `step`, given the actions (N,) that were taken."""
        return choice_of(step.logits, self.compute.put(action), self.heads.num_actions)

    def commit(self, state: MemoryState, choice: Tensor) -> MemoryState:
        """The state after `step`, given what was chosen (N,); to be called by the code that draws the actions."""
        commit = getattr(self.memory, "commit", None)
        return state if commit is None else commit(state, self.compute.put(choice))

    def remember(
        self, observations: Observation, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """What `unroll` hands to the heads: the memory's output (T, N, output_size), and the last state."""
        episode_start = self.compute.put(episode_start)
        with self.compute.casting():
            inputs = self._inputs(observations, axes=2)
            check_episode_start(episode_start, tuple(inputs.pose.shape[:2]))
            out, state = self.memory.unroll(inputs, state, episode_start)
        return self._whole(out), state

    def _whole(self, out: Tensor) -> Tensor:
        """The memory's output in the heads' own precision: policies are compared by small differences."""
        return out if self.compute.dtype == torch.float32 else out.to(self.heads.value.weight.dtype)

    def parameter_groups(self) -> ParameterGroups:
        """Every parameter by what it does: perception, the groups that the memory names, heads, an auxiliary head."""
        auxiliary = {} if self.auxiliary is None else {"auxiliary": tuple(self.auxiliary.parameters())}
        return {
            "perception": tuple(self.perception.parameters()),
            **parameter_groups(self.memory),
            "heads": tuple(self.heads.parameters()),
            **auxiliary,
        }

    def rates(self) -> dict[str, Rate]:
        """Groups that do not learn at the whole rate: perception, and those that the memory names."""
        return {"perception": "perception", **rates(self.memory)}

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """The memory's figures of a traced step; none if it defines none."""
        return figures(self.memory, trace)

    def following(self, step: AgentStep, choices: Tensor) -> dict[str, float]:
        """Selections: shares of `choices` (any shape) by name, and the entropy of the selection in `step`.

        The entropy is a part of the largest there is: 1 is even, 0 is certain. Empty without guides.
        """
        if not self.followed:
            return {}
        whom = choices // self.heads.num_actions
        shares = {
            f"follow_{name}": float((whom == k).double().mean()) for k, name in enumerate(self.followed)
        }
        return {**shares, "follow_entropy": attention_entropy(self.whom(step))}

    def forward(self, observations: Observation, state: MemoryState, episode_start: Tensor) -> AgentOutput:
        """The same as `unroll`."""
        return self.unroll(observations, state, episode_start)

    def _inputs(self, observation: Observation, *, axes: int) -> MemoryInputs:
        missing = [key for key in OBSERVATION_KEYS if key not in observation]
        if missing:
            raise ValueError(
                f"the observation lacks {', '.join(missing)}; it needs {', '.join(OBSERVATION_KEYS)}."
            )
        put = self.compute.put
        rgb, depth, pose, motion = (put(observation[key]) for key in OBSERVATION_KEYS)
        if rgb.dim() != axes + 3:
            lead = "(T, N, 3, H, W) in unroll" if axes == 2 else "(N, 3, H, W) in step"
            raise ValueError(f"rgb must be {lead}; got {tuple(rgb.shape)}.")
        features = self.perception(rgb, depth)
        dtype = (
            self.perception.conv1.weight.dtype
        )  # not the features' dtype: under autocast it cannot distinguish places
        reward = observation.get("reward")
        told = None if reward is None else put(reward).to(dtype)
        names = getattr(self.memory, "note_names", ())
        notes = {name: put(observation[NOTE + name]) for name in names if NOTE + name in observation} or None
        return MemoryInputs(features, depth.to(dtype), pose.to(dtype), motion.to(dtype), told, notes)


def build_agent(
    config: AgentConfig,
    camera: Camera,
    extent: float,
    *,
    num_actions: int = NUM_ACTIONS,
    auxiliary_size: int = 0,
) -> Agent:
    """The agent that a config describes.

    Args:
        config: Kind of memory and its settings.
        camera: Camera of the observations; its size is that of the views.
        extent: Side of the arena in map units. Maps cover it and `config.padding` more.
        num_actions: Discrete actions.
        auxiliary_size: Values of an auxiliary head; 0: none.

    Returns:
        A new agent, initialised from torch's global generator.
    """
    config.validate()
    perception = Perception(standardise=config.standardise, unknown_depth=config.unknown_depth)
    shape = perception.feature_shape(camera.height, camera.width)
    fitting = Fitting(camera, shape, KERNELS, STRIDES, extent * (1 + config.padding))
    memory = build_memory(config, fitting)
    return Agent(
        perception,
        memory,
        num_actions=num_actions,
        value_gain=config.value_gain,
        auxiliary_size=auxiliary_size,
    )
