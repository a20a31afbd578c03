"""`egomap generate`: a set of mazes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from egomap.config import (
    ScenarioConfig,
    Task,
)
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    pass


def generate(
    task: tyro.conf.Positional[Task],
    *,
    size: int | None = None,
    items: int = ScenarioConfig.items,
    cell: int | None = None,
    wall_probability: float = ScenarioConfig.wall_probability,
    train: int = ScenarioConfig.train,
    test: int = ScenarioConfig.test,
    seed: int = ScenarioConfig.seed,
    out: Path | None = None,
) -> int:
    """Make a set of mazes: training and held-out layouts as WAD, cfg, JSON manifest and a picture.

    Example: egomap generate find-return --size 9 --train 256 --test 64 --seed 0 --out mazes

    Args:
        task: Family of tasks.
        size: Cells along each side, 3 to 21 (labyrinth and find-return: 9; ordered-items: 5).
        items: Items to collect, 2 to 8 (ordered-items).
        cell: Side of a cell in map units, 96 to 512 (128; ordered-items: 160).
        wall_probability: Probability of a wall before the paths are carved, 0 to 1.
        train: Training layouts.
        test: Held-out layouts, none of them among the training ones.
        seed: The same seed gives the same bytes on any machine.
        out: Folder to write to (default: TASK-SIZE).
    """
    from egomap.scenarios import dataset

    default = ScenarioConfig.default(task)
    config = ScenarioConfig(
        task=task,
        size=default.size if size is None else size,
        items=items,
        cell=default.cell if cell is None else cell,
        wall_probability=wall_probability,
        train=train,
        test=test,
        seed=seed,
    ).validate()
    folder = out or Path(f"{task}-{config.size}")
    with progress_bar("layouts") as progress:
        made = dataset.generate(config, folder, progress=progress)
    counts = ", ".join(f"{len(layouts)} {split}" for split, layouts in made.layouts.items())
    print(f"{made.folder}: {counts} layouts of {task}, {config.size} x {config.size} cells.")
    print(f"See {made.folder / dataset.PICTURE}. Play: egomap evaluate --agents planner --scenarios {folder}")
    return 0
