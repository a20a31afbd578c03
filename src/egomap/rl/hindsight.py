"""Hindsight: where something was paid, told to the decisions that led there.

What comes in: a filled rollout. What goes out: for each decision the place where its episode is paid next, if that
comes within the rollout: the pose at the decision that is paid, since the pose after it may be another episode's. It
follows from rewards and poses alone, both of which the agent is given. A memory that points at places of its map
learns from it where to point (`hindsight` in `egomap.rl.terms`).

Convention: as `egomap.geometry.frames`; places are (right, ahead) in the agent's frame at the decision, in map units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from egomap.geometry.frames import motion_between
from egomap.memory.protocol import PAID, PAID_AT
from egomap.rl.rollout import Rollout


def next_paid(rollout: Rollout) -> Tensor:
    """(T, N, 2): where the agent decides what its episode is paid for next; NaN where that is not in the rollout."""
    pose = rollout.observations["pose"][: rollout.steps]
    ended = rollout.terminated | rollout.truncated
    paid = rollout.reward > PAID
    place = torch.full_like(pose[0], torch.nan)
    rows = []
    for t in reversed(range(rollout.steps)):
        place = torch.where(ended[t][:, None], torch.nan, place)  # what was paid later is another episode's
        place = torch.where(paid[t][:, None], pose[t], place)
        rows.append(place)
    return motion_between(pose, torch.stack(rows[::-1]))[..., :2]


def fill(rollout: Rollout, memory: object, weight: float) -> None:
    """Note `next_paid` in the rollout, if it has any weight and the memory points at places."""
    if weight > 0 and getattr(memory, "points", False):
        rollout.notes[PAID_AT] = next_paid(rollout)
