"""Collect rollouts: the agent decides, the simulators step, rows are filled in place.

Input: a vector environment with SAME_STEP autoreset, an agent, and a teacher if there is one. Output:
a filled `Rollout` and the episodes that ended in it. While engines run, torch has one thread: its pool would fight
them for the cores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from egomap.agents.agent import Agent, AgentStep
from egomap.compute import torch_threads
from egomap.config import require
from egomap.memory.protocol import MemoryState, MemoryTrace
from egomap.rl.rollout import Rollout
from egomap.rl.teaching import NO_LESSON, Lesson, Lessons, Teacher
from egomap.rl.update import Diverged
from egomap.worlds.api import Arrays, VectorWorld, WritesInPlace, copy_into, known


class EndedEpisode(NamedTuple):
    """An episode that ended during a rollout."""

    total_reward: float
    success: bool | None
    """None where the simulator does not say."""
    decisions: int
    helped: bool = False
    """Whether a teacher chose some of its actions: then it does not measure the agent."""


class Collector:
    """Plays N environments and fills one rollout after the other, continuing where the last one ended."""

    def __init__(
        self,
        env: VectorWorld,
        agent: Agent,
        steps: int,
        *,
        seed: int = 0,
        position: int = 0,
        threads: int = 1,
        teacher: Teacher | None = None,
    ) -> None:
        mode = env.metadata.get("autoreset_mode")
        require(
            mode is AutoresetMode.SAME_STEP,
            f"the collector needs an environment with SAME_STEP autoreset; this one has {mode}.",
        )
        self.env, self.agent = env, agent
        self.rollout = Rollout(steps, env.num_envs, env.world_spec.arrays, agent.compute)
        self._in_place = env if isinstance(env, WritesInPlace) else None
        self._lessons = Lessons(teacher, env.num_envs)
        self._threads = threads
        self._seed = seed
        self._begin(position)

    def _begin(self, position: int) -> None:
        self._write_to(0)
        observation, _ = self.env.reset(seed=self._seed, options={"position": position})
        self._take(0, observation)
        self.rollout.episode_start[0] = True
        self._state = self.agent.initial_state(self.env.num_envs)
        self._fresh, self._position = True, position

    @property
    def position(self) -> int:
        """Place in the stream of episodes where a collector that takes over from this one is to begin."""
        return self._position if self._fresh else self.env.episodes_begun

    def restart(self) -> None:
        """Begin new episodes everywhere, the next ones of the sequence; as a new collector would."""
        if not self._fresh:
            self._begin(self.position)

    def collect(self, lesson: Lesson = NO_LESSON) -> list[EndedEpisode]:
        """Fill the rollout; the values of its rows and of what follows come with it.

        Args:
            lesson: How much of it the teacher teaches. Once there was none, there is none until new episodes begin.
        """
        rollout, env, lessons = self.rollout, self.env, self._lessons
        if not self._fresh:
            rollout.carry_over()
        self._fresh = False
        rollout.state = self._state
        lessons.begin(rollout, lesson)
        ended: list[EndedEpisode] = []
        state = self._state
        with torch.inference_mode(False), torch.no_grad(), torch_threads(self._threads):
            for t in range(rollout.steps):
                step = self._decide(t, state)
                rollout.note(t, step.notes)
                action = lessons.actions(rollout, t, step.action.cpu())  # waits for the device
                state = self.agent.commit(step.state, action)
                self._write_to(t + 1)
                taken = self.agent.taken(action).numpy()
                env.step_async(taken)
                lessons.label(rollout, t)
                rollout.action[t] = action
                self._fetch(rollout.log_prob[t], step.log_prob)
                self._fetch(rollout.value[t], step.value)
                observation, rewards, terminated, truncated, infos = env.step_wait()
                self._take(t + 1, observation)
                lessons.hear(rollout, taken, rewards)
                rollout.reward[t] = torch.from_numpy(rewards)
                rollout.terminated[t] = torch.from_numpy(terminated)
                rollout.truncated[t] = torch.from_numpy(truncated)
                torch.logical_or(
                    rollout.terminated[t], rollout.truncated[t], out=rollout.episode_start[t + 1]
                )
                if "final_info" in infos:
                    ended += _ended(infos["final_info"], terminated | truncated, lessons.helped)
            # What follows: its value, without letting the memory take the observation in twice.
            after = self.agent.step(rollout.rows[-1], state, rollout.episode_start[-1], deterministic=True)
            rollout.next_value.copy_(after.value)  # waits for the device, and so for everything before it
        self._state = state
        return ended

    def require_numbers(self) -> None:
        """Raise `Diverged` if the agent, as it is now, cannot decide what to do next; nothing is drawn."""
        self._require_numbers(0 if self._fresh else self.rollout.steps, self._state)

    def figures(self, most: int = 16) -> dict[str, float]:
        """The memory's figures, from the step that comes next, in up to `most` environments.

        With guides, also the shares of the selections in the last rollout.
        """
        t, trace = 0 if self._fresh else self.rollout.steps, MemoryTrace()
        row = {name: tensor[:most] for name, tensor in self.rollout.rows[t].items()}
        state = tuple(tensor[:most] for tensor in self._state)
        with torch.no_grad(), torch_threads(self._threads):
            start = self.rollout.episode_start[t, :most]
            step = self.agent.step(row, state, start, deterministic=True, trace=trace)
        return {**self.agent.figures(trace), **self.agent.following(step, self.rollout.action)}

    def _write_to(self, t: int) -> None:
        """Have the next observation written into row t, where the environment can."""
        if self._in_place is not None:
            self._in_place.write_to(self.rollout.targets[t])

    def _fetch(self, row: Tensor, told: Tensor) -> None:
        row.copy_(told, non_blocking=self.agent.compute.overlaps)

    def _take(self, t: int, observation: Arrays) -> None:
        """Copy an observation into row t, unless it is there already."""
        if self._in_place is None:
            copy_into(self.rollout.targets[t].arrays, observation)

    def _decide(self, t: int, state: MemoryState) -> AgentStep:
        try:
            return self.agent.step(self.rollout.rows[t], state, self.rollout.episode_start[t])
        except RuntimeError:  # torch samples no action from a policy that is NaN
            self._require_numbers(t, state)
            raise

    def _require_numbers(self, t: int, state: MemoryState) -> None:
        rollout = self.rollout
        with torch.no_grad(), torch_threads(self._threads):
            step = self.agent.step(rollout.rows[t], state, rollout.episode_start[t], deterministic=True)
        if not bool(torch.isfinite(step.logits).all() and torch.isfinite(step.value).all()):
            raise Diverged(
                "the agent's policy or value is not finite: training cannot continue. Try a lower learning "
                "rate."
            )


def _ended(final: dict[str, Any], mask: np.ndarray, helped: np.ndarray) -> list[EndedEpisode]:
    return [
        EndedEpisode(
            float(final["return"][i]), known(final["success"][i]), int(final["decisions"][i]), bool(helped[i])
        )
        for i in np.flatnonzero(mask).tolist()
        if not final["interrupted"][i]
    ]
