"""`egomap offline`: which memory can learn what an explorer needs to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import tyro

from egomap.offline.options import OfflineOptions
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    pass


def offline(options: Annotated[OfflineOptions, tyro.conf.arg(name="")]) -> int:
    """Which memory can learn, with dense labels and without RL, what an explorer needs to know?

    Example: egomap offline --agents none gru egomap --out offline.json
    """
    options.validate()  # before torch is loaded
    from egomap.offline.command import offline as run
    from egomap.offline.report import print_table

    answer = run(options, progress_bar)
    mazes = options.walks("held-out").scenario
    title = f"{answer.decisions:,} decisions in {answer.episodes} episodes of the third split"
    print_table(answer.lines, f"{mazes.task}, size {mazes.size}: {title}")
    print(
        "action, seen: share told right; way, home, goal: mean squared error; ± standard error over episodes."
    )
    print("".join(f"{path}\n" for path in answer.written), end="")
    return 0
