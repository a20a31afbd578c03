"""Who can teach, by name: one row each, imported when it is asked for.

What comes in: the learner's worlds and its vector environment. What goes out: a `Teacher` that follows its episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from egomap.config import TeacherKind, TrainConfig
from egomap.rl.teaching import Teacher


def teacher_kind(config: TrainConfig) -> TeacherKind:
    """Who is beside the learner of a run: whom it imitates, or else who gives it head starts."""
    return "explorer" if config.imitate == "none" and config.learner.head_start else config.imitate


def require_rules(worlds: Any) -> None:
    """Raise a ValueError unless every world tells its task: a teacher knows no other rules."""
    from egomap.mazes.teacher import require_rules as require

    require(worlds)


def _explorer(env: Any) -> Teacher:
    from egomap.mazes.teacher import ExplorerTeacher

    return ExplorerTeacher(env)


TEACHERS: dict[TeacherKind, Callable[[Any], Teacher | None]] = {
    "none": lambda env: None,
    "explorer": _explorer,
}
"""Every teacher, by the name that `--imitate` takes."""
