"""Hindsight: the place of a reward as a label of the decisions before it.

Input: a filled rollout. Output: for each decision the place of its episode's next reward, if that comes
within the rollout: the pose at the rewarded decision, since the pose after it may belong to another episode. It is
computed from rewards and poses alone, both of which the agent observes. A memory that points at places of its map
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
    """(T, N, 2): place of the next rewarded decision of the episode; NaN where that is not in the rollout."""
    pose = rollout.observations["pose"][: rollout.steps]
    ended = rollout.terminated | rollout.truncated
    paid = rollout.reward > PAID
    place = torch.full_like(pose[0], torch.nan)
    rows = []
    for t in reversed(range(rollout.steps)):
        place = torch.where(ended[t][:, None], torch.nan, place)  # later rewards belong to another episode
        place = torch.where(paid[t][:, None], pose[t], place)
        rows.append(place)
    return motion_between(pose, torch.stack(rows[::-1]))[..., :2]


def fill(rollout: Rollout, memory: object, weight: float) -> None:
    """Note `next_paid` in the rollout, if it has any weight and the memory points at places."""
    if weight > 0 and getattr(memory, "points", False):
        rollout.notes[PAID_AT] = next_paid(rollout)
