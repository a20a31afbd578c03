"""A plain ViZDoom player for tests: opens a .cfg, walks from point to point by its pose, adds up rewards.

It uses vizdoom alone, as any outside user of the generated files would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import vizdoom as vzd

from egomap.scenarios.layout import Cell, Layout
from egomap.scenarios.tasks import player_start, way

LEFT, RIGHT, FORWARD, IDLE = [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]


@contextmanager
def opened(cfg: Path, scratch: Path, **settings: int) -> Iterator[vzd.DoomGame]:
    """An engine on `cfg` as it is, with its own settings file in `scratch`."""
    game = vzd.DoomGame()
    assert game.load_config(str(cfg))
    game.set_doom_config_path(str(scratch / "engine.ini"))
    if "skill" in settings:
        game.set_doom_skill(settings["skill"])
    game.init()
    try:
        yield game
    finally:
        game.close()


def begin(game: vzd.DoomGame, map_name: str, seed: int = 1) -> None:
    game.set_doom_map(map_name)
    game.set_seed(seed)
    game.new_episode()


def pose(game: vzd.DoomGame) -> tuple[float, float, float]:
    """x, y (map units) and the heading (degrees)."""
    names = (vzd.GameVariable.POSITION_X, vzd.GameVariable.POSITION_Y, vzd.GameVariable.ANGLE)
    x, y, angle = (game.get_game_variable(name) for name in names)
    return x, y, angle


def status(game: vzd.DoomGame) -> tuple[int, int]:
    """USER1 and USER2: goals reached, and how the episode stands."""
    return (
        int(game.get_game_variable(vzd.GameVariable.USER1)),
        int(game.get_game_variable(vzd.GameVariable.USER2)),
    )


def walk(game: vzd.DoomGame, points: Sequence[tuple[float, float]], *, near: float = 12.0) -> list[float]:
    """Walk through `points`; stop when the episode ends or, on the way to the last, when something is paid.

    Returns the rewards other than the living reward, in the order in which they came.
    """
    events = []
    for index, (tx, ty) in enumerate(points):
        last = index == len(points) - 1
        for _ in range(400):
            if game.is_episode_finished():
                return events
            x, y, angle = pose(game)
            if math.hypot(tx - x, ty - y) < near:
                break
            error = (math.degrees(math.atan2(ty - y, tx - x)) - angle + 180) % 360 - 180
            action = FORWARD if abs(error) < 8 else LEFT if error > 0 else RIGHT
            reward = game.make_action(action, 1) + 0.0001
            if abs(reward) > 0.01:
                events.append(round(reward, 4))
                if last:
                    return events
        else:
            raise AssertionError(f"the player is stuck at {pose(game)} on its way to {(tx, ty)}")
    return events


def tour(layout: Layout, order: Sequence[int]) -> list[list[tuple[float, float]]]:
    """The points to walk through to touch the goals in `order`, one list for each goal.

    Cells of goals that are still there are avoided. A pillar in the start cell is left towards the first cell.
    """
    here = layout.start
    legs = []
    for place, index in enumerate(order):
        target = layout.goals[index]
        taken = {layout.goals[i] for i in order[:place]}
        avoid = [goal for goal in layout.goals if goal != target and goal not in taken]
        cells = way(layout, here, target, avoid=avoid)
        assert cells, f"no way from {here} to {target}"
        legs.append(_points(layout, here, cells))
        here = target
    return legs


def _points(layout: Layout, here: Cell, cells: list[Cell]) -> list[tuple[float, float]]:
    points = [layout.center(cell) for cell in cells[1:]]
    x, y = layout.center(here)
    if here == layout.start and player_start(layout) == (x - 32, y - 32):
        # The player stands south-west of the pillar: north and east are reached around a corner.
        step = (cells[1].column - here.column, cells[1].row - here.row)
        corners = {(1, 0): [(x + 38, y - 38)], (0, 1): [(x - 38, y + 38)]}
        points = corners.get(step, []) + points
    return points
