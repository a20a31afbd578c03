"""Where a run stands: the counters that every checkpoint carries, read back with suspicion."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, fields
from typing import Any

from egomap.config import require

WINDOW = 100
"""Episodes that the running means are over."""
LARGEST = 2.0**53
"""What lies beyond is not counted exactly any more, so nobody has counted that far."""


@dataclass
class Counters:
    """Where a run stands."""

    update: int = 0
    decisions: int = 0
    """Of all ranks."""
    episodes: int = 0
    seconds: float = 0.0
    stage: int = 0
    """Of the curriculum."""
    engine_restarts: int = 0
    best_return: float = -math.inf
    evaluated_at: int = 0
    saved_at: int = 0
    recent: deque[tuple[float, bool | None, int]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """Return, success (None where the simulator does not say) and decisions of the latest episodes (of rank 0's)."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        data = {name: value for name, value in vars(self).items() if name != "recent"}
        best = None if math.isinf(self.best_return) else self.best_return
        return {**data, "best_return": best, "recent": [list(entry) for entry in self.recent]}

    @staticmethod
    def from_json(data: Any) -> Counters:
        """The counters that `to_json` gave.

        Raises:
            ValueError: They are something else; the sentence says which of them.
        """
        require(isinstance(data, dict), f"its counters are {data!r:.40}, not a table.")
        values: dict[str, Any] = dict(data)
        wrong = {entry.name for entry in fields(Counters)} ^ set(values)
        require(not wrong, f"its counters lack or do not know {', '.join(sorted(wrong))[:80]}.")
        recent, best = values.pop("recent"), values.pop("best_return")
        for name, value in values.items():
            number = type(value) is int or (name == "seconds" and type(value) is float)
            require(number and 0 <= value < LARGEST, f"its counter {name} is {value!r:.40}, not a number.")
        require(best is None or _is_number(best), f"its best return is {best!r:.40}, not a number.")
        require(
            isinstance(recent, list) and all(_is_episode(entry) for entry in recent),
            "its latest episodes are not returns, successes and decisions.",
        )
        return Counters(
            **values,
            best_return=-math.inf if best is None else best,
            recent=deque(((float(a), b, int(c)) for a, b, c in recent), maxlen=WINDOW),
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST


def _is_episode(entry: object) -> bool:
    if not (isinstance(entry, list) and len(entry) == 3):
        return False
    score, success, decisions = entry
    told = success is None or type(success) is bool
    return _is_number(score) and told and type(decisions) is int
