"""An auxiliary task: a linear head on the memory's output predicts targets that are computed from the rollout.

Input: filled rollouts, one after the other. Output: `rollout.auxiliary`, a target for each decision,
and the loss of the head's prediction. The target must follow from what the agent observes, not from the layout. To
add one: a class with `size`, `targets` and `loss`, and a row in `AUXILIARIES`, or its address in the settings.

Targets may remember the running episodes from one rollout to the next, as an episode's start does; a resumed run
begins new episodes, so nothing of this is saved.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor

from egomap.config import LearnerSettings, require
from egomap.geometry.frames import motion_between
from egomap.rl.hindsight import next_paid
from egomap.rl.rollout import Rollout
from egomap.util.named import import_named

UNIT = 600.0
"""Map units that ways are divided by, so that they are about 1 in the mazes of the paper."""


class Auxiliary(Protocol):
    """What is to be predicted, constructed anew for each rank and each stage of a curriculum."""

    size: int
    """Values that the head gives."""

    def targets(self, rollout: Rollout) -> Tensor:
        """(T, N, size): the target of each decision; NaN where there is none."""
        ...

    @staticmethod
    def loss(told: Tensor, target: Tensor) -> Tensor:
        """(T, B): how wrong (T, B, size) of the head is, for finite targets of the same shape."""
        ...


def squared(told: Tensor, target: Tensor) -> Tensor:
    """(told - target)^2, the mean over the values."""
    return (told - target).square().mean(-1)


class Home:
    """The way home: where the episode began, from the poses that the agent was given.

    Convention: (right, ahead) in the agent's frame, in units of `UNIT` map units.
    """

    size = 2

    def __init__(self) -> None:
        self._home: Tensor | None = None

    @staticmethod
    def loss(told: Tensor, target: Tensor) -> Tensor:
        """The squared error."""
        return squared(told, target)

    def targets(self, rollout: Rollout) -> Tensor:
        """(T, N, 2); episodes that were running before are known from the rollout before."""
        pose = rollout.observations["pose"]
        home = pose[0].clone() if self._home is None else self._home
        rows = []
        for pose_t, start in zip(pose.unbind(0), rollout.episode_start.unbind(0), strict=True):
            home = torch.where(start[:, None], pose_t, home)
            rows.append(home)
        self._home = home  # of the last row, which becomes the first of the next rollout
        steps = rollout.steps
        return motion_between(pose[:steps], torch.stack(rows[:steps]))[..., :2] / UNIT


class Paid:
    """Place of the episode's next reward, if that comes within the rollout (`egomap.rl.hindsight`).

    Convention: (right, ahead) in the agent's frame, in units of `UNIT` map units.
    """

    size = 2

    @staticmethod
    def loss(told: Tensor, target: Tensor) -> Tensor:
        """The squared error."""
        return squared(told, target)

    def targets(self, rollout: Rollout) -> Tensor:
        """(T, N, 2); NaN where it is not in the rollout."""
        return next_paid(rollout) / UNIT


AUXILIARIES: dict[str, type[Auxiliary]] = {"home": Home, "paid": Paid}
"""By the names of `--learner.auxiliary`."""


def auxiliary_class(settings: LearnerSettings) -> type[Auxiliary] | None:
    """The class of what the settings ask for; None if they ask for nothing.

    Raises:
        ValueError: There is no such class, or it lacks something.
    """
    if settings.auxiliary_weight == 0.0:
        return None
    name = settings.auxiliary
    if name in AUXILIARIES:
        return AUXILIARIES[name]
    found = import_named(name)
    missing = [each for each in ("size", "targets", "loss") if not hasattr(found, each)]
    require(
        isinstance(found, type) and not missing,
        f"{name} is no auxiliary task: it must be a class with size, targets and loss.",
    )
    size = cast(Any, found).size
    require(isinstance(size, int) and size >= 1, f"{name}: size must be 1 or more; got {size!r:.80}.")
    return cast(type[Auxiliary], found)


def auxiliary_size(settings: LearnerSettings) -> int:
    """Values of the auxiliary head; 0: none is asked for."""
    found = auxiliary_class(settings)
    return 0 if found is None else found.size


class Targets:
    """The targets that the settings ask for, over the rollouts of one rank."""

    def __init__(self, settings: LearnerSettings) -> None:
        found = auxiliary_class(settings)
        self._auxiliary = None if found is None else found()

    def fill(self, rollout: Rollout) -> None:
        """Fill `rollout.auxiliary`, if anything is asked for.

        Raises:
            ValueError: The targets have another shape.
        """
        if self._auxiliary is None:
            return
        found = self._auxiliary.targets(rollout)
        expected = (rollout.steps, rollout.num_envs, self._auxiliary.size)
        require(
            tuple(found.shape) == expected,
            f"{type(self._auxiliary).__name__}.targets must be {expected}; got {tuple(found.shape)}.",
        )
        rollout.auxiliary = found.to(rollout.value)


def auxiliary_loss(settings: LearnerSettings, told: Tensor, target: Tensor) -> Tensor:
    """The mean loss over all rows (T, B); rows without a target count as 0.

    So the mean of a batch is the weighted mean of its parts, however many targets they have.
    """
    found = auxiliary_class(settings)
    assert found is not None
    known = ~target.isnan().any(-1)
    wrong = found.loss(told, torch.where(known[..., None], target, 0.0))
    return torch.where(known, wrong, 0.0).mean()
