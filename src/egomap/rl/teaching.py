"""A teacher beside the learner: its actions as labels in the learner's states, and where it acts itself.

Input: the observations and rewards of the learner's own environments, and how much of the budget is spent.
Output: actions, as labels of the imitation term and, in the first few environments, to be taken. Teachers
are rows of `egomap.training.teachers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from egomap.config import LearnerSettings
from egomap.memory.protocol import PAID
from egomap.rl.rollout import Rollout
from egomap.rl.schedules import falling
from egomap.rl.terms import imitation_weight


class Teacher(Protocol):
    """Knows what to do in each of N environments from what it has seen there since the episode's start."""

    def begin(self, index: int) -> None:
        """Environment `index` begins an episode: forget the last one."""
        ...

    def hear(self, actions: np.ndarray, rewards: np.ndarray) -> None:
        """The actions and their rewards, (N,) each; called before the episodes that follow begin."""
        ...

    def act(self, observation: Mapping[str, np.ndarray], asked: np.ndarray) -> np.ndarray:
        """Actions (N,) int64 at this observation; each environment is asked once in each decision.

        Args:
            observation: Arrays with a leading axis N.
            asked: (N,) bool; actions for the others are ignored.
        """
        ...


class Lesson(NamedTuple):
    """How much of one rollout is taught."""

    weight: float = 0.0
    """Of the imitation term; 0 with no environment driven or led: the teacher is not queried."""
    driven: int = 0
    """Environments, the first ones, in which the teacher's actions are taken."""
    led: int = 0
    """Environments, those after them, in which an episode that begins is led to its first goal: the teacher's actions
    are taken until a reward is received."""

    @property
    def taught(self) -> bool:
        """Whether the teacher is needed."""
        return self.weight > 0 or self.driven > 0 or self.led > 0

    def figures(self, num_envs: int) -> dict[str, float]:
        """For the log."""
        return {
            "imitation_weight": self.weight,
            "teacher_share": self.driven / num_envs,
            "head_start": self.led / num_envs,
        }


NO_LESSON = Lesson()


def lesson_at(settings: LearnerSettings, spent: float, *, imitate: bool = True) -> Lesson:
    """The lesson of a rollout before which a share `spent` of the budget was spent.

    The share of environments that the teacher drives falls twice as fast as the imitation's weight: the learner first
    sees what success looks like, and is then corrected in states of its own making.

    Args:
        settings: Weights and shares.
        spent: Share of the budget.
        imitate: Whether the teacher is imitated; otherwise it gives head starts alone.
    """
    envs = settings.num_envs
    led = round(falling(settings.head_start, settings.head_start_decay, spent) * envs)
    if not imitate:
        return Lesson(led=led)
    driven = round(falling(settings.teacher_share, settings.imitation_decay / 2, spent) * envs)
    return Lesson(imitation_weight(settings, spent), driven, min(led, envs - driven))


class Lessons:
    """A teacher at work on one rollout after the other; without one, or without a lesson, it does nothing."""

    def __init__(self, teacher: Teacher | None, num_envs: int) -> None:
        self._teacher = teacher
        self._lesson = NO_LESSON
        self._leads = np.zeros(num_envs, bool)
        self._drives = np.zeros(num_envs, bool)
        self.helped = np.zeros(num_envs, bool)
        """(N,) bool: the teacher chose some of the actions of the episode that runs there, or has just ended."""

    def begin(self, rollout: Rollout, lesson: Lesson) -> None:
        """Make ready for a rollout. A lesson may follow only on a lesson, or on episodes that begin everywhere."""
        self._lesson = lesson if self._teacher is not None else NO_LESSON
        rollout.taught = self._lesson.taught
        rollout.labelled = self._lesson.weight > 0

    def actions(self, rollout: Rollout, t: int, own: Tensor) -> Tensor:
        """The actions to take in row t: the learner's `own`, or the teacher's where it drives."""
        if self._teacher is None:
            return own
        begins, lesson = rollout.episode_start[t].numpy(), self._lesson
        environment = np.arange(len(begins))
        driven = environment < lesson.driven
        led = ~driven & (environment < lesson.driven + lesson.led)
        # An environment is led until a reward is received; leading starts only where an episode begins.
        self._leads = np.where(begins, led, self._leads) & lesson.taught
        self._drives = driven | self._leads
        self.helped = (self.helped & ~begins) | self._drives
        if not rollout.taught:
            return own
        rollout.driven[t] = torch.from_numpy(self._drives)
        for index in np.flatnonzero(begins).tolist():
            self._teacher.begin(index)
        if not self._drives.any():
            return own
        self._ask(rollout, t, self._drives)
        return torch.where(rollout.driven[t], rollout.label[t], own)

    def label(self, rollout: Rollout, t: int) -> None:
        """Fill in the labels of row t where the learner acts; meanwhile the engines step."""
        if rollout.labelled and not self._drives.all():
            self._ask(rollout, t, ~self._drives)

    def hear(self, rollout: Rollout, taken: np.ndarray, rewards: np.ndarray) -> None:
        """Pass on what was done, the actions proper (N,), and what it brought."""
        self._leads &= ~(rewards > PAID)
        if self._teacher is not None and rollout.taught:
            self._teacher.hear(taken, rewards)

    def _ask(self, rollout: Rollout, t: int, asked: np.ndarray) -> None:
        assert self._teacher is not None
        said = self._teacher.act({name: array[t] for name, array in rollout.arrays.items()}, asked)
        rollout.label[t][torch.from_numpy(asked)] = torch.from_numpy(said[asked])
