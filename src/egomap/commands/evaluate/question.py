"""What an evaluation asks of every agent, and noise levels from text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from egomap.config import EnvSettings, WorldKind, require, require_seed, require_within

if TYPE_CHECKING:  # for it brings torch along, and bad input is to be told at once
    from egomap.memory.lesions import Replacement

MOST_LEVELS = 1000
"""Of noise; each is a whole evaluation."""


@dataclass(frozen=True)
class Question:
    """What is asked of every agent."""

    split: Literal["train", "test"] = "test"
    episodes_per_layout: int = 1
    layouts: int | None = None
    """Only the first so many layouts of the split; None for all."""
    argmax: bool = False
    """The most probable actions instead of sampled ones."""
    checkpoint: Literal["last", "best"] = "last"
    noise: tuple[float, ...] = ()
    """Levels of ego-motion noise; none: each run's own."""
    seed: int = 0
    num_envs: int = 16
    """Engines at once; agents without a network score the same with any number."""
    lesions: tuple[str, ...] = ()
    """Also with these parts of the memory replaced: names, several joined by "+", or "all"."""
    lesion_by: Replacement | None = None
    """What takes their place; None: reads by their mean, what is kept by zeros."""
    world: WorldKind | None = None
    """Which simulator draws the mazes; None: the one that each run was trained in."""

    def validate(self) -> Question:
        """Return self, or raise a ValueError that says which value is out of range."""
        require_within("episodes-per-layout", self.episodes_per_layout, 1, 10**6)
        require(self.layouts is None or self.layouts >= 1, f"layouts must be 1 or more; got {self.layouts}.")
        require(self.num_envs >= 1, f"num-envs must be 1 or more; got {self.num_envs}.")
        require_seed(self.seed)
        for level in self.noise:
            EnvSettings(ego_motion_noise=level).validate()
        require_within("number of levels of noise", len(self.noise), 0, MOST_LEVELS)
        require(len(set(self.noise)) == len(self.noise), "a level of noise is given twice.")
        require(len(set(self.lesions)) == len(self.lesions), "a lesion is given twice.")
        require(
            bool(self.lesions) or self.lesion_by is None,
            "lesion-by goes with lesions; name them by --lesion.",
        )
        return self


def parse_levels(text: str) -> tuple[float, ...]:
    """Noise levels from text: "0,0.1,0.2", where "0,0.02,...,0.2" goes on in equal steps.

    Raises:
        ValueError: It is no such list.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    try:
        if "..." not in parts:
            return tuple(float(part) for part in parts)
        dots = parts.index("...")
        first, second, last = float(parts[dots - 2]), float(parts[dots - 1]), float(parts[dots + 1])
        steps = min(round((last - first) / (second - first)), MOST_LEVELS)
        require(dots >= 2 and steps >= 2 and abs(first + steps * (second - first) - last) < 1e-9, text)
        # Rounded, so that the levels are the numbers that a person would write.
        between = [round(first + step * (second - first), 9) for step in range(steps + 1)]
        before, after = parts[: dots - 2], parts[dots + 2 :]
        return (*map(float, before), *between, *map(float, after))
    except (ValueError, IndexError, ArithmeticError):
        raise ValueError(
            f"noise must be levels like 0,0.1,0.2 or 0,0.02,...,0.2, at most {MOST_LEVELS}; got {text!r:.200}."
        ) from None
