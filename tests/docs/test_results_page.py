"""docs/results.md is what its data say: nobody has typed into it."""

from __future__ import annotations

from egomap.experiments.command import read_data
from egomap.experiments.report import page

from .blocks import DOCS


def test_the_page_is_made_from_the_data() -> None:
    data = {path.stem: read_data(path) for path in sorted((DOCS / "data").glob("*.json"))}
    assert data
    assert (DOCS / "results.md").read_text() == page(data), "run `egomap reproduce report`"
    for name in data:
        assert (DOCS / "images" / f"results-{name}.png").stat().st_size < 250_000


def test_the_references_are_as_good_as_they_must_be() -> None:
    """Random and the Planner at the paper's sizes, on its number of held-out layouts."""
    data = read_data(DOCS / "data" / "references.json")
    found = {(row["task"], row["agent"]): row for row in data["rows"]}
    assert len(found) == 8 and data["test_layouts"] == 64
    for (task, agent), row in found.items():
        assert row["size"] == (9 if task in ("labyrinth", "find-return") else 5)
        test = row["ours"]["test"]
        if agent == "Random":
            assert abs(test["mean_return"] - row["paper"]["test"]["mean"]) < 0.1
        else:
            assert test["success"] * 64 >= 62
