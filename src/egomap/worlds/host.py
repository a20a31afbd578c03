"""Some environments in one process: this one, or a worker's.

What comes in: seeds and actions, by row. What goes out: observations, written into rows of arrays that all processes
share, and a `Report` of each decision. Autoreset is SAME_STEP: with the end of an episode the next one begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from egomap.worlds.api import WorldSpec, known
from egomap.worlds.gym import RawRow, Reader, make


class Start(NamedTuple):
    """How an episode begins: what the environment's `reset` is given."""

    seed: int
    options: dict[str, Any] | None = None


class Order(NamedTuple):
    """One decision to be made."""

    row: int
    action: int
    following: Start | None
    """The episode that follows if this one ends; None: none follows."""


class Report(NamedTuple):
    """What one decision led to."""

    reward: float
    terminated: bool
    truncated: bool
    success: bool | None = None
    """Of an episode that has ended; None where its info does not say."""
    interrupted: bool = False
    """Whether the environment's process died; then nothing was written."""


class RawArrays(NamedTuple):
    """Observations of N environments, and the last ones of their episodes that have ended."""

    now: RawRow
    """Each array with a leading axis N."""
    last: RawRow

    @staticmethod
    def size(spec: WorldSpec, num_envs: int) -> int:
        """Bytes of all of it."""
        return 2 * num_envs * sum(part.nbytes for part in RawRow.blank(spec))

    @staticmethod
    def over(memory: Any, spec: WorldSpec, num_envs: int) -> RawArrays:
        """Views of a buffer of `size` bytes."""
        found, place = [], 0
        for like in sorted(2 * [*RawRow.blank(spec)], key=lambda part: -part.itemsize):  # keeps all aligned
            shape = (num_envs, *like.shape)
            found.append(np.frombuffer(memory, like.dtype, math.prod(shape), place).reshape(shape))
            place += found[-1].nbytes
        pose, motion, last_pose, last_motion, depth, last_depth, rgb, last_rgb = found
        return RawArrays(
            RawRow(rgb, depth, pose, motion), RawRow(last_rgb, last_depth, last_pose, last_motion)
        )


class Host:
    """The environments of some rows.

    Args:
        spec: What they are.
        arrays: Where they write.
        rows: Which rows are here.
    """

    def __init__(self, spec: WorldSpec, arrays: RawArrays, rows: Sequence[int]) -> None:
        self._reader = Reader(spec)
        self._now = {row: RawRow(*(part[row] for part in arrays.now)) for row in rows}
        self._last = {row: RawRow(*(part[row] for part in arrays.last)) for row in rows}
        self._envs = {row: make(spec.name) for row in rows}

    def reset(self, starts: Iterable[tuple[int, Start]]) -> None:
        """Begin an episode in each of these rows."""
        for row, start in starts:
            observation, _ = self._envs[row].reset(**start._asdict())
            self._reader.read(observation, self._now[row])

    def step(self, orders: Iterable[Order]) -> list[Report]:
        """Make these decisions, one after the other."""
        return [self._step(order) for order in orders]

    def close(self) -> None:
        """End the environments."""
        for env in self._envs.values():
            env.close()

    def _step(self, order: Order) -> Report:
        env = self._envs[order.row]
        observation, reward, terminated, truncated, info = env.step(self._reader.action(env, order.action))
        if not (terminated or truncated):
            self._reader.read(observation, self._now[order.row])
            return Report(float(reward), False, False)
        self._reader.read(observation, self._last[order.row])
        if order.following is not None:
            self.reset([(order.row, order.following)])
        # An end of its own counts, even if time is up in the same decision.
        success = known(info.get("success", info.get("is_success")))
        return Report(float(reward), bool(terminated), not terminated, success)
