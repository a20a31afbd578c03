"""A memory on a scripted task: shown the right answers of many episodes, then asked in episodes that it has not seen.

Input: a memory, a task. Output: the share of right answers. Supervised, so that it tells whether a
memory can hold what the task asks for within minutes, without the noise of reinforcement; only the answer at the
last step is learned from. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.agents.agent import Agent
from egomap.agents.perception import KERNELS, STRIDES, Perception
from egomap.config import AgentConfig, require_seed, require_within
from egomap.geometry import motion_between
from egomap.memory import Memory
from egomap.memory.protocol import Fitting
from egomap.memory.registry import build_memory
from egomap.zoo.room import CAMERA
from egomap.zoo.tasks import ScriptedTask

HELD_OUT = 2**32
"""Added to a seed for the episodes that are asked: no training seed reaches it."""


class Effort(NamedTuple):
    """How much a memory may learn: the same for every one that is compared."""

    updates: int = 400
    batch: int = 32
    """Episodes of an update."""
    learning_rate: float = 2e-3
    """Of Adam, at the start; it falls linearly to a tenth."""

    def validate(self) -> Effort:
        """Return self, or raise a ValueError that names the value out of range."""
        require_within("updates", self.updates, 0, 10**9)
        require_within("batch", self.batch, 1, 2**20)
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate must be above 0 and below 1; got {self.learning_rate}.")
        return self


class Episodes(NamedTuple):
    """A batch of episodes of one length, asked at the same steps."""

    observations: dict[str, Tensor]
    """(T, N, ...) as `Agent.unroll` takes them."""
    asked: Tensor
    """(Q,) int64: the steps at which questions are asked."""
    answer: Tensor
    """(Q, N) int64."""


def fitting(task: ScriptedTask) -> Fitting:
    """What a memory must fit to watch a task."""
    shape = Perception().feature_shape(CAMERA.height, CAMERA.width)
    return Fitting(CAMERA, shape, KERNELS, STRIDES, 1.2 * task.extent)


def maker(config: AgentConfig, task: ScriptedTask) -> Callable[[], Memory]:
    """What `learn` makes its memory with: the memory that the settings name, fit for a task."""
    config.validate()
    return lambda: build_memory(config, fitting(task))


def draw(task: ScriptedTask, episodes: int, draws: np.random.Generator) -> Episodes:
    """So many new episodes of a task."""
    scripts = [task.script(draws) for _ in range(episodes)]
    frames = list(zip(*scripts, strict=True))  # T x N

    def stack(values: Callable[..., np.ndarray]) -> Tensor:
        return torch.from_numpy(np.array([[values(frame) for frame in step] for step in frames]))

    pose = stack(lambda frame: np.array(frame.pose, np.float64))
    motion = torch.cat((torch.zeros_like(pose[:1]), motion_between(pose[:-1], pose[1:])))
    observations = {
        "rgb": stack(lambda frame: frame.picture[0]),
        "depth": stack(lambda frame: frame.picture[1]),
        "pose": pose.float(),
        "ego_motion": motion.float(),
    }
    asked = [step for step, row in enumerate(frames) if row[0].answer is not None]
    answer = torch.tensor([[frame.answer for frame in frames[step]] for step in asked])
    return Episodes(observations, torch.tensor(asked), answer)


def answers(agent: Agent, episodes: Episodes) -> Tensor:
    """Logits (Q, N, actions) at the questions."""
    steps, num_envs = episodes.observations["pose"].shape[:2]
    start = torch.zeros(steps, num_envs, dtype=torch.bool)
    start[0] = True
    return agent.unroll(episodes.observations, agent.initial_state(num_envs), start).logits[episodes.asked]


def learn(
    make: Callable[[], Memory], task: ScriptedTask, effort: Effort | None = None, *, seed: int = 0
) -> Agent:
    """A new agent that was shown the answers.

    Args:
        make: Makes its memory, initialised from torch's global generator.
        task: What is learned.
        effort: How much.
        seed: Of the weights and the episodes.

    Returns:
        The agent.
    """
    effort = (effort or Effort()).validate()
    require_seed(seed)
    torch.manual_seed(seed)
    agent = Agent(Perception(), make(), num_actions=len(task.actions))
    draws = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(agent.parameters(), lr=effort.learning_rate)
    for update in range(effort.updates):
        for group in optimiser.param_groups:
            group["lr"] = effort.learning_rate * (1 - 0.9 * update / effort.updates)
        episodes = draw(task, effort.batch, draws)
        loss = F.cross_entropy(answers(agent, episodes).flatten(0, 1), episodes.answer.flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
        optimiser.step()
    return agent


def score(agent: Agent, task: ScriptedTask, *, episodes: int = 256, seed: int = 0) -> float:
    """The share of right answers in episodes that were not learned from.

    Args:
        agent: From `learn`.
        task: What is asked.
        episodes: How many.
        seed: Of the episodes; each has its own, distinct from those of learning.

    Returns:
        0 to 1.
    """
    require_within("episodes", episodes, 1, 2**20)
    asked = draw(task, episodes, np.random.default_rng(HELD_OUT + seed))
    with torch.no_grad():
        right = answers(agent, asked).argmax(-1) == asked.answer
    return float(right.float().mean())
