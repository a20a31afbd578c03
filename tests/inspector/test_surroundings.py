"""What stands where, by hand-computed places, and components against numpy's own decomposition."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from egomap.inspector.components import Basis, colours, fit_basis, load_basis, save_basis
from egomap.inspector.surroundings import (
    FIRST_GOAL,
    FREE,
    OUTSIDE,
    WALL,
    cell_points,
    label_cells,
    label_names,
    label_points,
    standing,
)
from egomap.scenarios.layout import Cell, Layout, Wall

# Three by three cells of 128: the arena reaches from -192 to 192. One wall at x = -64, beside the lowest row.
LAYOUT = Layout(
    "find-return",
    3,
    128,
    (Wall(Cell(0, 0), Cell(1, 0)),),
    Cell(0, 0),
    (Cell(2, 2), Cell(0, 0)),
)
ALL = np.array([True, True])


@pytest.mark.parametrize(
    ("x", "y", "label"),
    [
        (0, 0, FREE),
        (-64, -128, WALL),
        (-57, -128, WALL),
        (-55, -128, FREE),
        (-64, 0, FREE),
        (200, 0, WALL),
        (0, -209, OUTSIDE),
        (128, 128, FIRST_GOAL),
        (128, 147, FIRST_GOAL),
        (128, 149, FREE),
        (-128, -128, FIRST_GOAL + 1),
    ],
)
def test_points(x: float, y: float, label: int) -> None:
    assert label_points(LAYOUT, np.array([x, y], float), ALL) == label


def test_a_goal_that_is_gone_is_floor() -> None:
    assert label_points(LAYOUT, np.array([128.0, 128.0]), np.array([False, True])) == FREE
    reached = np.array([[False, False], [True, False]])
    assert standing(LAYOUT, reached).all(), "pillars stay"
    items = Layout("ordered-items", 3, 160, (), Cell(0, 0), (Cell(2, 2), Cell(1, 0)))
    assert standing(items, reached).tolist() == [[True, True], [False, True]]


def test_names_are_in_the_order_of_the_labels() -> None:
    assert label_names(LAYOUT) == ["outside", "free", "wall", "red pillar", "green pillar"]


def test_cell_points_of_a_world_map_and_of_an_agent() -> None:
    world = cell_points(4, 400.0, None).mean(2)
    assert world[0, 0] == pytest.approx((-150, 150)), "north-west"
    # An agent at (10, 20) that faces east has the west behind it: the last row, and its left is the north.
    ego = cell_points(4, 400.0, np.array([10.0, 20.0, 0.0])).mean(2)
    assert ego[0, 0] == pytest.approx((10 + 150, 20 + 150)), "ahead, left"
    assert ego[3, 3] == pytest.approx((10 - 150, 20 - 150)), "behind, right"
    north = cell_points(4, 400.0, np.array([0.0, 0.0, math.pi / 2])).mean(2)
    assert north == pytest.approx(world), "who stands in the middle and faces north sees the world map"


def test_cells() -> None:
    found = label_cells(LAYOUT, 12, 480.0, None, ALL)  # cells of 40: column 4 is x from -80 to -40
    assert found[9, 4] == WALL and found[9, 6] == FREE and found[0, 0] == OUTSIDE
    assert found[2, 9] == FIRST_GOAL  # x and y from 120 to 160
    turned = label_cells(LAYOUT, 12, 480.0, np.array([0.0, 0.0, -math.pi / 2]), ALL)
    assert np.array_equal(turned, found[::-1, ::-1]), "facing south everything is upside down"


def test_components_are_those_of_numpy() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 6)) * [5, 1, 3, 0.2, 0.1, 2] + 7
    basis = fit_basis(rows)
    _, values, vectors = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    assert np.abs(basis.axes @ vectors[:3].T) == pytest.approx(np.eye(3), abs=1e-9)
    assert basis.explained == pytest.approx((values[:3] ** 2).sum() / (values**2).sum())
    again = fit_basis(rows[np.random.default_rng(1).permutation(500)])
    assert again.axes == pytest.approx(basis.axes), "the order of the cells does not matter, nor do signs"


def test_colours() -> None:
    basis = Basis(np.zeros(4), np.eye(3, 4), np.array([-1.0, 0, 0]), np.array([1.0, 2, 0]), 1.0)
    features = np.array([[0.0, 1.0, 5.0, 9.0], [-9.0, 2.0, 5.0, 0.0], [1.0, 0.0, 0.0, 0.0]])  # (cells, C)
    known = np.array([[True, True, False]])
    shown = colours(basis, features.T[:, None], known)[0]
    middle = round(24 + 0.5 * 231)
    assert shown.tolist() == [[middle, middle, middle], [24, 255, middle], [0, 0, 0]]
    with pytest.raises(ValueError, match="for 4 channels; this map has 5"):
        colours(basis, np.zeros((5, 1, 3)), known)


@pytest.mark.parametrize("rows", [np.ones((1, 4)), np.ones((9, 2)), np.eye(2)])
def test_few_or_equal_cells_give_colours_too(rows: np.ndarray) -> None:
    shown = colours(fit_basis(rows), rows.T[:, None], np.ones((1, len(rows)), bool))
    assert shown.shape == (1, len(rows), 3) and (shown >= 24).all()


def test_no_cell_is_an_error() -> None:
    with pytest.raises(ValueError, match="no known cell"):
        fit_basis(np.zeros((0, 4)))


def test_a_basis_is_kept_in_a_file(tmp_path: Path) -> None:
    basis = fit_basis(np.random.default_rng(0).normal(size=(50, 5)))
    save_basis(tmp_path / "basis.json", basis)
    for one, other in zip(load_basis(tmp_path / "basis.json"), basis, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "egomap basis 1", "mean": [1]}', '{"format": "%s"}' % ("9" * 5000), "\x00"],
    ids=["empty", "list", "table", "mean", "long", "zero"],
)
def test_another_file_is_no_basis(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="is no basis") as caught:
        load_basis(tmp_path / "x.json")
    assert len(str(caught.value)) < 1000
