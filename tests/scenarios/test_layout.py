from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap.config import TASKS, ScenarioConfig
from egomap.scenarios.dataset import draw_layouts
from egomap.scenarios.layout import Cell, Layout, Wall
from egomap.scenarios.planner import solvable
from egomap.scenarios.tasks import FAMILIES, optimum, player_start, things, way


@st.composite
def configs(draw: st.DrawFn) -> ScenarioConfig:
    return ScenarioConfig(
        task=draw(st.sampled_from(TASKS)),
        size=draw(st.integers(4, 8)),
        items=draw(st.integers(2, 5)),
        cell=draw(st.sampled_from([96, 97, 128, 160])),
        wall_probability=draw(st.floats(0, 1)),
        train=draw(st.integers(0, 3)),
        test=draw(st.integers(1, 2)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


@given(configs())
@settings(deadline=None, max_examples=60)
def test_drawn_layouts(config: ScenarioConfig) -> None:
    layouts = draw_layouts(config)
    assert [len(layouts[split]) for split in ("train", "test")] == [config.train, config.test]
    everything = [*layouts["train"], *layouts["test"]]
    assert len({layout.hash for layout in everything}) == len(everything)
    assert layouts == draw_layouts(config)
    for layout in everything:
        assert solvable(layout)
        again = Layout.from_json(json.loads(json.dumps(layout.to_json())))
        assert again == layout and again.hash == layout.hash
        assert len(set(layout.goals)) == len(layout.goals) == FAMILIES[config.task].goal_count(config)
        assert (layout.start in layout.goals) == (config.task == "find-return")
        x, y = player_start(layout)
        assert abs(x) + 16 <= config.extent / 2 and abs(y) + 16 <= config.extent / 2


def test_the_test_split_does_not_depend_on_the_training_split() -> None:
    few = draw_layouts(ScenarioConfig(size=5, train=2, test=5, seed=3))
    many = draw_layouts(ScenarioConfig(size=5, train=40, test=5, seed=3))
    assert few["test"] == many["test"]
    assert few["train"] == many["train"][:2]


def test_other_seed_other_layouts() -> None:
    first, second = (draw_layouts(ScenarioConfig(train=10, test=0, seed=seed)) for seed in (0, 1))
    assert not set(first["train"]) & set(second["train"])


def three_by_three(walls: tuple[Wall, ...] = (), *, cell: int = 128) -> Layout:
    goals = (Cell(2, 0), Cell(1, 0))
    return Layout("ordered-items", 3, cell, walls, Cell(0, 0), goals)


def test_way_by_hand() -> None:
    layout = three_by_three()
    assert way(layout, Cell(0, 0), Cell(2, 0)) == [Cell(0, 0), Cell(1, 0), Cell(2, 0)]
    around = way(layout, Cell(0, 0), Cell(2, 0), avoid=[Cell(1, 0)])
    assert around == [Cell(0, 0), Cell(0, 1), Cell(1, 1), Cell(2, 1), Cell(2, 0)]
    assert way(layout, Cell(0, 0), Cell(0, 0)) == [Cell(0, 0)]


def test_optimum() -> None:
    assert optimum(three_by_three()) == 1.5
    for task, config, best in (
        ("labyrinth", {}, 1.0),
        ("find-return", {}, 1.0),
        ("ordered-items", {"items": 4}, 2.5),
        ("ordered-items", {"items": 6}, 3.5),
    ):
        layout = draw_layouts(ScenarioConfig(task=task, train=1, test=0, **config))["train"][0]
        assert optimum(layout) == best


def test_things_of_each_family() -> None:
    def of(task: str, **settings: int) -> list[tuple[int, bool]]:
        config = ScenarioConfig(task=task, train=1, test=0, **settings)
        return [(thing.type, thing.invisible) for thing in things(draw_layouts(config)["train"][0])]

    assert of("labyrinth") == [(1, False), (2018, False)]
    assert of("find-return") == [(1, False), (32, False), (30, False), (2019, True), (2018, True)]
    order = [2018, 2019, 2012, 2013, 13, 5, 2015, 2014]
    assert of("ordered-items", items=8) == [(1, False)] + [(item, False) for item in order]


def test_player_start_beside_the_green_pillar() -> None:
    goals = (Cell(2, 0), Cell(1, 0))
    roomy = Layout("find-return", 3, 128, (), Cell(1, 0), goals)
    assert player_start(roomy) == (-32.0, -160.0)
    narrow = Layout("find-return", 3, 96, (), Cell(1, 0), goals)
    assert player_start(narrow) == (32.0, -96.0)


def test_cell_geometry() -> None:
    layout = three_by_three()
    assert layout.center(Cell(0, 0)) == (-128.0, -128.0)
    assert layout.center(Cell(2, 1)) == (128.0, 0.0)
    assert layout.cell_at(100.0, -1000.0) == Cell(2, 0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"goals": None}, "not a layout"),
        ({"task": "chess"}, "unknown task: 'chess'"),
        ({"walls": [[1, 2, 3]]}, "not a layout"),
        ({"start": [1]}, "not a layout"),
        ({"size": "3"}, "not a layout"),
        ({"size": 3.5}, "not a layout"),
        ({"start": [0, 0.0]}, "not a layout"),
        ({"start": [0, 3]}, r"Cell\(column=0, row=3\) is not one of its 3 x 3 cells"),
        ({"goals": [[-1, 0]]}, r"Cell\(column=-1, row=0\) is not one of its 3 x 3 cells"),
        ({"goals": []}, "it has no goal"),
        ({"walls": [[0, 0, 1, 1]]}, "walls must stand between neighbours, sorted, each once"),
        ({"walls": [[1, 0, 0, 0]]}, "walls must stand between neighbours, sorted, each once"),
        ({"walls": [[2, 0, 3, 0]]}, "walls must stand between neighbours, sorted, each once"),
        ({"walls": [[1, 0, 2, 0], [0, 0, 1, 0]]}, "walls must stand between neighbours, sorted, each once"),
        ({"walls": [[0, 0, 1, 0], [0, 0, 1, 0]]}, "walls must stand between neighbours, sorted, each once"),
    ],
)
def test_from_json_refuses(broken: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout.from_json(three_by_three().to_json() | broken)


def test_hash_is_the_same_everywhere() -> None:
    wall = Wall(Cell(0, 0), Cell(1, 0))
    text = (
        '{"cell":128,"goals":[[2,0],[1,0]],"size":3,"start":[0,0],"task":"ordered-items","walls":[[0,0,1,0]]}'
    )
    assert three_by_three((wall,)).hash == hashlib.sha256(text.encode()).hexdigest()
