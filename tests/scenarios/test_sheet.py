from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from egomap.config import ScenarioConfig
from egomap.scenarios import ScenarioSet
from egomap.scenarios.dataset import draw_layouts
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.scenarios.sheet import FLOOR, WALL, _place_legend, draw_layout, save_sheet
from egomap.scenarios.tasks import goal_looks


def pixels_like(image: np.ndarray, colour: str) -> int:
    return int((np.abs(image[..., :3] - to_rgb(colour)).max(axis=-1) < 0.02).sum())


@pytest.mark.parametrize("task", ["labyrinth", "find-return", "ordered-items"])
def test_sheet_shows_every_goal_in_its_colour(small_set: Callable[[str], ScenarioSet], task: str) -> None:
    made = small_set(task)
    image = imread(made.folder / "layouts.png")
    assert image.shape[1] > 800
    for look in goal_looks(made.layouts["train"][0]):
        assert pixels_like(image, look.colour) > 100


def test_sheet_shows_a_selection_of_many(tmp_path: Path) -> None:
    config = ScenarioConfig(size=5, train=100, test=0)
    save_sheet(config, draw_layouts(config), tmp_path / "sheet.png")
    image = imread(tmp_path / "sheet.png")
    assert pixels_like(image, FLOOR) > 0.5 * image.shape[0] * image.shape[1]


def test_legend_fits_its_lines() -> None:
    config = ScenarioConfig(task="ordered-items", items=8, size=4, train=1, test=0)
    layout = draw_layouts(config)["train"][0]
    figure = Figure(dpi=100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    places = _place_legend(layout, 8.0, numbered=True)
    assert [look.name for _, _, look in places][:2] == ["start", "1 green armour"]
    assert {line for line, _, _ in places} == {0, 1}
    ends: dict[int, float] = {}
    for line, x, look in places:
        assert x >= ends.get(line, 0.0), f"{look.name} overlaps the entry before it"
        ends[line] = (
            x + 0.2 + figure.text(0, 0, look.name, fontsize=10).get_window_extent(renderer).width / 100
        )
    assert max(ends.values()) <= 8.0


def test_draw_layout_in_world_coordinates() -> None:
    layout = Layout("labyrinth", 3, 128, (Wall(Cell(0, 1), Cell(1, 1)),), Cell(0, 0), (Cell(2, 2),))
    figure = Figure(figsize=(4, 4), dpi=100)
    canvas = FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    draw_layout(layout, ax, numbers=False)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[..., :3] / 255

    def colour_at(x: float, y: float) -> np.ndarray:
        column, row = ax.transData.transform((x, y))
        return image[image.shape[0] - 1 - int(row), int(column)]

    np.testing.assert_allclose(colour_at(-64, 0), to_rgb(WALL), atol=0.02)
    np.testing.assert_allclose(colour_at(64, 0), to_rgb(FLOOR), atol=0.02)
    np.testing.assert_allclose(colour_at(128, 128), to_rgb(goal_looks(layout)[0].colour), atol=0.02)
