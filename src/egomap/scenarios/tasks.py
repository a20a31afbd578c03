"""The task families: where start and goals go, which things stand there, what is paid. One table, `FAMILIES`.

What comes in: a maze and a stream of random numbers, or a finished layout. What goes out: places, things,
scripts. A new task is a new row (and its name in `egomap.config.Task`). All families share the script of
`scripts`: goals are numbered things, touching the next one pays, touching another one may end the episode.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from egomap.config import ScenarioConfig, Task
from egomap.scenarios.layout import Cell, Layout
from egomap.scenarios.maze import distinct_cells
from egomap.scenarios.scripts import FIRST_GOAL_TID, PILLAR_TID, goal_scripts
from egomap.scenarios.udmf import WALL_THICKNESS, Thing

EPISODE_TICS = 2100
LIVING_REWARD = -0.0001

PLAYER_START_TYPE = 1
GREEN_ARMOUR, BLUE_ARMOUR = 2018, 2019
GREEN_PILLAR, RED_PILLAR = 30, 32
PLAYER_RADIUS = 16
TOUCH_DISTANCE = 36
"""An item is picked up when both |dx| and |dy| to the player's centre are below this."""
PILLAR_DISTANCE = 32
"""From the player's to a pillar's centre along one axis: just free of it."""
# Pillar, player and half a wall fit side by side into half a cell, with 4 units to spare.
ROOMY_CELL = 2 * (PILLAR_DISTANCE + PLAYER_RADIUS + WALL_THICKNESS // 2 + 4)


@dataclass(frozen=True)
class Look:
    """How a goal is shown to people: its name and a colour like that of its sprite."""

    name: str
    colour: str


@dataclass(frozen=True)
class TaskFamily:
    """One row of the table."""

    title: str
    rule: str
    looks: tuple[Look, ...]
    goal_count: Callable[[ScenarioConfig], int]
    """How many goals a layout has."""
    rewards: Callable[[int], tuple[float, ...]]
    """What each of so many goals pays, in order."""
    wrong_reward: float | None
    """What touching a goal out of order pays before it ends the episode; None if that cannot happen."""
    place: Callable[[random.Random, int, int], tuple[Cell, tuple[Cell, ...]]]
    """Draw start and goals: (stream, size, number of goals) -> (start, goals)."""
    things: Callable[[Layout], list[Thing]]
    """The goals' things; the touchable one of goal i has tid FIRST_GOAL_TID + i."""
    hurts: bool = False
    """Whether the player is kept below full health, without which a medikit cannot be picked up."""
    hides_last: bool = False
    """Whether the last goal becomes touchable only when all others are reached, at the pillar PILLAR_TID."""


def optimum(layout: Layout) -> float:
    """The sum of the goals' rewards: what a perfect episode pays before the living reward."""
    return sum(FAMILIES[layout.task].rewards(len(layout.goals)))


def goal_looks(layout: Layout) -> tuple[Look, ...]:
    """Name and colour of each goal of `layout`, in order."""
    return FAMILIES[layout.task].looks[: len(layout.goals)]


def player_start(layout: Layout) -> tuple[float, float]:
    """World x, y (map units) at which the player appears.

    In find-return the green pillar stands in the middle of the start cell. The player stands south-west of it
    where the cell has room for that. In narrow cells (below 120 units) nobody can squeeze past the pillar, so
    the player stands on the side from which the way to the red pillar begins.
    """
    x, y = layout.center(layout.start)
    if not FAMILIES[layout.task].hides_last:
        return x, y
    if layout.cell >= ROOMY_CELL:
        return x - PILLAR_DISTANCE, y - PILLAR_DISTANCE
    begin = way(layout, layout.start, layout.goals[0])[1:2]
    if not begin:
        raise ValueError("the first goal of this layout cannot be reached.")
    (step,) = begin
    dx, dy = step.column - layout.start.column, step.row - layout.start.row
    return x + dx * PILLAR_DISTANCE, y + dy * PILLAR_DISTANCE


def require_fitting(layout: Layout, config: ScenarioConfig) -> None:
    """Raise a ValueError unless `layout` is one that the settings of its set describe."""
    got, expected = (
        f"{each.task} with {each.size} x {each.size} cells of {each.cell} map units"
        for each in (layout, config)
    )
    if got != expected:
        raise ValueError(f"a layout is of {got}, but the set is of {expected}.")
    family, goals = FAMILIES[config.task], layout.goals
    count = family.goal_count(config)
    if len(goals) != count:
        raise ValueError(f"a layout has {len(goals)} goals; those of this set have {count}.")
    # The last goal of a task of returning is the start; all other places are apart.
    places = (layout.start, *(goals[:-1] if family.hides_last else goals))
    if len(set(places)) != len(places) or (family.hides_last and goals[-1] != layout.start):
        raise ValueError(f"a layout has its start and goals in other places than a {config.task} can have.")


def things(layout: Layout) -> list[Thing]:
    """Everything that `layout` places in the map: the player's start and the goals."""
    x, y = player_start(layout)
    return [Thing(x, y, PLAYER_START_TYPE), *FAMILIES[layout.task].things(layout)]


def way(layout: Layout, origin: Cell, target: Cell, *, avoid: Collection[Cell] = ()) -> list[Cell]:
    """A shortest way from `origin` to `target`, both included, that avoids `avoid`; [] if there is none."""
    came: dict[Cell, Cell] = {origin: origin}
    queue = deque([origin])
    while queue and target not in came:
        here = queue.popleft()
        for cell in layout.neighbours(here):
            if cell not in came and cell not in avoid:
                came[cell] = here
                queue.append(cell)
    if target not in came:
        return []
    cells = [target]
    while cells[-1] != origin:
        cells.append(came[cells[-1]])
    return cells[::-1]


def behavior(layout: Layout) -> bytes:
    """The BEHAVIOR lump, the scripts that pay: a function of the task and the number of goals only."""
    family = FAMILIES[layout.task]
    return goal_scripts(
        family.rewards(len(layout.goals)),
        wrong_reward=family.wrong_reward,
        hurts=family.hurts,
        hides_last=family.hides_last,
    )


def _place_apart(rng: random.Random, size: int, goals: int) -> tuple[Cell, tuple[Cell, ...]]:
    """Start and goals in distinct cells."""
    start, *cells = distinct_cells(rng, size, goals + 1)
    return start, tuple(cells)


def _place_and_return(rng: random.Random, size: int, goals: int) -> tuple[Cell, tuple[Cell, ...]]:
    """The last goal is the start; the others are in distinct cells."""
    start, *cells = distinct_cells(rng, size, goals)
    return start, (*cells, start)


def _items(layout: Layout) -> list[Thing]:
    places = [layout.center(goal) for goal in layout.goals]
    return [Thing(x, y, ITEM_TYPES[i], tid=FIRST_GOAL_TID + i) for i, (x, y) in enumerate(places)]


def _pillars(layout: Layout) -> list[Thing]:
    """Two pillars, an invisible pick-up inside each; green's waits outside the arena until red is reached.

    A pillar stops the player 32 units from its centre and a pick-up is touched within 36, so what lies inside
    a pillar is picked up by whoever bumps into it.
    """
    (red_x, red_y), (green_x, green_y) = (layout.center(goal) for goal in layout.goals)
    outside = layout.size * layout.cell / 2 + 1024
    return [
        Thing(red_x, red_y, RED_PILLAR, tid=PILLAR_TID + 1),
        Thing(green_x, green_y, GREEN_PILLAR, tid=PILLAR_TID),
        Thing(red_x, red_y, BLUE_ARMOUR, tid=FIRST_GOAL_TID, invisible=True),
        Thing(-outside, -outside, GREEN_ARMOUR, tid=FIRST_GOAL_TID + 1, invisible=True),
    ]


# In the order in which they must be collected.
ITEM_TYPES = (GREEN_ARMOUR, BLUE_ARMOUR, 2012, 2013, 13, 5, 2015, 2014)

FAMILIES: dict[Task, TaskFamily] = {
    "labyrinth": TaskFamily(
        title="Labyrinth",
        rule="Find the exit.",
        looks=(Look("exit", "#2f9e44"),),
        goal_count=lambda config: 1,
        rewards=lambda goals: (1.0,),
        wrong_reward=None,
        place=_place_apart,
        things=_items,
    ),
    "find-return": TaskFamily(
        title="Find and return",
        rule="Find the red pillar, then come back to the green one.",
        looks=(Look("red pillar", "#e03131"), Look("green pillar", "#2f9e44")),
        goal_count=lambda config: 2,
        rewards=lambda goals: (0.5, 0.5),
        wrong_reward=None,
        place=_place_and_return,
        things=_pillars,
        hides_last=True,
    ),
    "ordered-items": TaskFamily(
        title="Ordered items",
        rule="Collect the items in their fixed order.",
        looks=(
            Look("green armour", "#2f9e44"),
            Look("blue armour", "#1971c2"),
            Look("medikit", "#868e96"),
            Look("soul sphere", "#22b8cf"),
            Look("red key", "#e03131"),
            Look("blue key", "#3b5bdb"),
            Look("armour bonus", "#66a80f"),
            Look("health bonus", "#7048e8"),
        ),
        goal_count=lambda config: config.items,
        rewards=lambda goals: (*(0.5,) * (goals - 1), 1.0),
        wrong_reward=-0.25,
        place=_place_apart,
        things=_items,
        hurts=True,
    ),
}
