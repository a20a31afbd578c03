"""Let a memory learn from recorded walks, and test what it has learned on others.

Input: an agent (its perception and memory; its policy and value are not used) and two recordings. What goes
out: the error of every decision of the second one, for each of `TARGETS`. Linear heads read the memory's output.
Sequences of 64 decisions follow each other with the state carried on, as in a rollout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.agents.agent import OBSERVATION_KEYS, Agent
from egomap.compute import torch_threads
from egomap.config import NUM_ACTIONS, require
from egomap.memory.protocol import MemoryState
from egomap.offline.store import Walks
from egomap.rl.terms import Loss
from egomap.rl.threads import GradientThreads
from egomap.rl.update import Diverged

MAX_GRADIENT_NORM = 1.0


def _classes(output: Tensor, label: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), label.long().flatten(), reduction="none").view(label.shape)


def _vectors(output: Tensor, label: Tensor) -> Tensor:
    return (output - label).square().mean(-1)


def _flags(output: Tensor, label: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output[..., 0], label.to(output), reduction="none")


class Target(NamedTuple):
    """A target that a head learns to predict."""

    size: int
    """Values of its head."""
    loss: Callable[[Tensor, Tensor], Tensor]
    """Of (T, B, size) outputs and labels, (T, B); NaN where there is no label."""
    measure: Callable[[Tensor, Tensor], Tensor]
    """What is reported, likewise."""


TARGETS: dict[str, Target] = {
    "action": Target(NUM_ACTIONS, _classes, lambda output, label: (output.argmax(-1) == label).float()),
    "way": Target(2, _vectors, _vectors),
    "home": Target(2, _vectors, _vectors),
    "goal": Target(2, _vectors, _vectors),
    "seen": Target(1, _flags, lambda output, label: ((output[..., 0] > 0) == label).float()),
}
"""By the names of their labels: shares of correct decisions (action, seen), squared errors (way, home, goal)."""

Measures = dict[str, np.ndarray]
"""By target: (T, N) float32 of every decision, NaN where there is no label."""


class Training(NamedTuple):
    """How the memory learns."""

    epochs: int = 6
    minibatches: int = 4
    learning_rate: float = 1e-3
    threads: int = 2


class Learned(NamedTuple):
    """What came out for one memory."""

    measures: Measures
    """On the walks that it was tested on."""
    parameters: int
    """Of perception, memory and the linear heads."""
    seconds: float
    """That learning took."""


class Student(nn.Module):
    """An agent's perception and memory, and a linear head for each target."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.perception, self.memory = agent.perception, agent.memory
        self._agent = (agent,)  # in a tuple, so that its own heads are no parameters of this module
        self.heads = nn.ModuleDict(
            {name: nn.Linear(agent.memory.output_size, target.size) for name, target in TARGETS.items()}
        )

    def forward(
        self, observations: dict[str, Tensor], state: MemoryState, episode_start: Tensor
    ) -> tuple[dict[str, Tensor], MemoryState]:
        """(T, B, size) outputs by target, and the last state."""
        out, state = self._agent[0].remember(observations, state, episode_start)
        return {name: head(out) for name, head in self.heads.items()}, state


def learn(
    agent: Agent,
    train: Walks,
    held_out: Walks,
    training: Training | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """Train an agent's perception and memory on `train` and test them on `held_out`.

    The heads are initialised from torch's global generator.

    Raises:
        Diverged: The loss became NaN or infinite.
    """
    training = training or Training()
    require(
        training.minibatches <= train.num_envs,
        f"minibatches must be {train.num_envs} or less, for so many environments were recorded.",
    )
    student = Student(agent)
    parameters = list(student.parameters())
    optimizer = torch.optim.Adam(parameters, training.learning_rate)
    threads = GradientThreads(training.threads)
    began = time.perf_counter()
    try:
        with torch_threads(training.threads):
            for epoch in range(training.epochs):
                for done, _ in enumerate(_pass(student, train, optimizer, parameters, threads, training), 1):
                    if progress is not None:
                        progress(epoch * len(train) + done, training.epochs * len(train))
            seconds = time.perf_counter() - began
            measures = measure(student, held_out)
    finally:
        threads.close()
    return Learned(measures, sum(parameter.numel() for parameter in parameters), seconds)


def _pass(
    student: Student,
    walks: Walks,
    optimizer: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
    threads: GradientThreads,
    training: Training,
) -> Iterator[None]:
    """One pass over the walks; yields after each chunk."""
    state = student.memory.initial_state(walks.num_envs)
    for chunk in walks.chunks():
        tensors = {name: torch.from_numpy(array) for name, array in chunk.items()}
        after: list[tuple[Tensor, MemoryState]] = []
        loss_of = _loss_of(student, tensors, state, after)
        for envs in torch.arange(walks.num_envs).tensor_split(training.minibatches):
            loss = threads.differentiate(loss_of, envs, parameters)
            norm = nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT_NORM)
            if not bool(torch.isfinite(loss.total)) or not bool(torch.isfinite(norm)):
                raise Diverged("the loss is not a finite number; try a lower learning rate.")
            optimizer.step()
        state = _joined(after)
        yield


def _loss_of(
    student: Student,
    tensors: dict[str, Tensor],
    state: MemoryState,
    after: list[tuple[Tensor, MemoryState]],
) -> Callable[[Tensor], Loss]:
    """The loss of some environments over one chunk; the states that it ends with are added to `after`."""

    def loss_of(envs: Tensor) -> Loss:
        part = {name: _of(tensor, envs) for name, tensor in tensors.items()}
        outputs, last = student(
            {key: part[key] for key in OBSERVATION_KEYS},
            tuple(each.index_select(0, envs) for each in state),
            part["episode_start"],
        )
        after.append((envs, tuple(each.detach() for each in last)))
        # A mean over all decisions, so that the means of several threads have one weight for each environment.
        losses = [
            _known(target.loss, outputs[name], part[name])[0].mean() for name, target in TARGETS.items()
        ]
        return Loss(torch.stack(losses).sum(), {})

    return loss_of


@torch.no_grad()
def measure(student: Student, walks: Walks) -> Measures:
    """The measures of every decision."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in TARGETS}
    state = student.memory.initial_state(walks.num_envs)
    for chunk in walks.chunks():
        tensors = {name: torch.from_numpy(array) for name, array in chunk.items()}
        outputs, state = student(
            {key: tensors[key] for key in OBSERVATION_KEYS}, state, tensors["episode_start"]
        )
        for name, values in measured(outputs, tensors).items():
            found[name].append(values)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def constant(train: Walks, held_out: Walks) -> Measures:
    """The measures of the best constant prediction, fitted on the training walks."""
    outputs, labels = {}, {}
    for name, target in TARGETS.items():
        known = torch.from_numpy(train.column(name))
        labels[name] = torch.from_numpy(held_out.column(name))
        if known.dim() == 3:
            best = known[~known.isnan().any(-1)].mean(0)
        elif target.size == 1:
            best = known.float().mean().sub(0.5).view(1)
        else:
            best = torch.bincount(known.flatten().long(), minlength=target.size).float()
        outputs[name] = best.expand(*labels[name].shape[:2], -1)
    return measured(outputs, labels)


def other_opinion(walks: Walks, without: str) -> Measures:
    """The measures of the Explorer asked again, with the same knowledge but "without_target" or "without_intent"."""
    action, way = (torch.from_numpy(walks.column(f"{name}_{without}")) for name in ("action", "way"))
    outputs = {"action": F.one_hot(action.long(), NUM_ACTIONS).float(), "way": way}
    labels = {name: torch.from_numpy(walks.column(name)) for name in outputs}
    return measured(outputs, labels)


def measured(outputs: dict[str, Tensor], labels: dict[str, Tensor]) -> Measures:
    """(T, N) measures of outputs (T, N, size), NaN where there is no label."""
    found = {}
    for name, output in outputs.items():
        values, known = _known(TARGETS[name].measure, output, labels[name])
        found[name] = torch.where(known, values, torch.nan).numpy()
    return found


def _known(
    function: Callable[[Tensor, Tensor], Tensor], output: Tensor, label: Tensor
) -> tuple[Tensor, Tensor]:
    """A loss or measure (T, B), 0 where there is no label, and where there is one."""
    known = torch.ones(output.shape[:2], dtype=torch.bool)
    if label.dim() > 2:
        known = ~label.isnan().any(-1)
        label = torch.where(known[..., None], label, 0.0)
    values = function(output, label)
    return torch.where(known, values, 0.0), known


def _of(tensor: Tensor, envs: Tensor) -> Tensor:
    if tensor.dim() < 5:
        return tensor.index_select(1, envs)
    # Channels stay last in memory, as convolutions are fastest on.
    return tensor.movedim(2, -1).index_select(1, envs).movedim(-1, 2)


def _joined(parts: list[tuple[Tensor, MemoryState]]) -> MemoryState:
    """The states of all environments, in order, from those of some of them each."""
    order = torch.cat([envs for envs, _ in parts]).argsort()
    return tuple(
        torch.cat(tensors).index_select(0, order)
        for tensors in zip(*(state for _, state in parts), strict=True)
    )
