"""Tables, figures and the results page, from data made by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from egomap.cli import main
from egomap.experiments.figures import bands, picture
from egomap.experiments.findings import what_it_shows
from egomap.experiments.paper import SIZES
from egomap.experiments.plan import settings_digest
from egomap.experiments.render import markdown, short, table, table_csv, times_as_many


def summary(
    mean: float, *, std: float | None = 0.01, low: float, high: float, success: float
) -> dict[str, Any]:
    return {
        "runs": 3 if std is not None else 1,
        "layouts": 64,
        "episodes": 192,
        "mean_return": mean,
        "std_over_seeds": std,
        "interval_95": [low, high],
        "iqm_return": mean,
        "success": success,
        "median_decisions_to_success": 80.0,
        "share_of_optimum": 0.5,
    }


def row(
    agent: str, ours: dict[str, Any] | None, mean: float, *, learns: bool = True, size: int = 9
) -> dict[str, Any]:
    points = [[100_000 * i, 100.0 * i, 0.1 * i] for i in (1, 2, 3, 4)]
    return {
        "task": "labyrinth",
        "size": size,
        "agent": agent,
        "noise": 0.0,
        "decisions": 400_000 if learns else None,
        "paper_frames": 1_200_000_000 if learns else None,
        "hours": [0.1, 0.2, 0.3] if learns else None,
        "ours": {"train": ours, "test": ours},
        "paper": {"train": None, "test": {"mean": mean, "std": 0.02 if learns else None}},
        "curves": [points, points[:2], points] if learns else None,
        "training": [points, points[1:], []] if learns else None,
    }


def data(experiment: str = "results", size: int = 9) -> dict[str, Any]:
    random = summary(-0.1, low=-0.15, high=-0.05, success=0.1)
    return {
        "format": "egomap experiment 1",
        "experiment": experiment,
        "title": "Results: agents on tasks",
        "command": "egomap reproduce results --budget 400000 --seeds 3",
        "preset": "fast",
        "settings": settings_digest("fast"),
        "seeds": 3,
        "budget": 400_000,
        "paper_frames": 1_200_000_000,
        "train_layouts": 64,
        "test_layouts": 64,
        "rows": [
            row("Random", random, -0.086, learns=False, size=size),
            row("GRU", summary(-0.08, low=-0.12, high=-0.02, success=0.1), 0.694, size=size),
            row("EgoMap", summary(0.5, low=0.4, high=0.6, success=0.5), 0.732, size=size),
            row("Neural Map", None, 0.706, size=size),
            row("Planner", summary(0.98, low=0.97, high=0.99, success=0.99), 1.0, learns=False, size=size),
        ],
    }


def test_markdown_has_ours_the_papers_and_both_budgets() -> None:
    text = markdown(data())
    assert "1.6 million frames (400 000 decisions) for each run" in text
    assert "1.2 billion frames, 750 times as many" in text
    lines = [line for line in text.splitlines() if line.startswith("| labyrinth")]
    assert lines[2] == (
        "| labyrinth | 9 x 9 | EgoMap | 1.6 million / 1.2 billion | 0.500 ± 0.010 | - | 0.500 ± 0.010 | "
        "0.400 to 0.600 | 0.500 | 0.732 ± 0.020 | 96 of 192 | 50% |"
    )
    assert lines[3].split(" | ")[4:10] == ["-", "-", "-", "-", "-", "0.706 ± 0.020"]


def test_tables_of_legs_and_lesions_where_there_are_any() -> None:
    assert "Legs" not in table(data()) and "worth" not in table(data())
    found = data()
    egomap = found["rows"][2]
    leg = {"finished": 50, "in_time": 64, "decisions": 120.4, "optimum": 35.0, "efficiency": 0.4}
    leg |= {"interval_95": [0.35, 0.45], "revisited": 0.31, "since_seen": 90.0, "detour": 1.4}
    intact = [{"leg": 1, "goal": "red pillar", **leg}, {"leg": 2, "goal": "green pillar", **leg}]
    egomap["ours"]["test"] = {**egomap["ours"]["test"], "legs": intact}
    lost = {**intact[1], "efficiency": 0.1}
    egomap["lesions"] = [
        {
            "lesion": "all",
            "by": {"map": "zero", "context": "mean"},
            "summary": {**summary(0.3, low=0.2, high=0.4, success=0.3), "legs": [intact[0], lost]},
            "worth": {"mean_return": 0.2, "interval_95": [0.12, 0.28]},
        },
        {
            "lesion": "hidden",
            "by": {"hidden": "zero"},
            "summary": {**summary(-0.1, low=-0.2, high=0.0, success=0.0), "legs": [intact[0]]},
            "worth": {"mean_return": 0.6, "interval_95": [0.5, 0.7]},
        },
    ]
    lines = table(found).splitlines()
    where = "| labyrinth | 9 x 9 | EgoMap |"
    assert f"{where} 2 green pillar | 50 of 64 | 120 | 35 | 0.400 | 0.350 to 0.450 | 31% |" in lines
    assert f"{where} all | zero, mean | 0.500 | 0.300 | +0.200 | +0.120 to +0.280 | 0.400 | 0.100 |" in lines
    # Nobody began a leg back without its hidden state.
    assert f"{where} hidden | zero | 0.500 | -0.100 | +0.600 | +0.500 to +0.700 | 0.400 | - |" in lines
    heads = [line for line in lines if line.startswith("| task")]
    assert len(heads) == 3 and all(
        lines[lines.index(head) + 1].count("|") == head.count("|") for head in heads
    )


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(table_csv(data()))))
    assert [row["agent"] for row in rows] == ["Random", "GRU", "EgoMap", "Neural Map", "Planner"]
    egomap, none = rows[2], rows[3]
    assert (egomap["frames"], egomap["paper_frames"]) == ("1600000", "1200000000")
    assert (egomap["test_mean"], egomap["test_std"], egomap["paper_test_mean"]) == ("0.5", "0.01", "0.732")
    assert egomap["hours_per_run"] == "0.2"
    begun = data()
    begun["rows"][2]["hours"] = [0.4, 0.0, 0.0]
    assert list(csv.DictReader(io.StringIO(table_csv(begun))))[2]["hours_per_run"] == "0.4"
    assert (none["test_mean"], none["seeds"]) == ("", "0")


def test_numbers_as_people_say_them() -> None:
    assert [short(n) for n in (1.2e9, 800e6, 1_600_000, 8192)] == [
        *("1.2 billion", "800 million", "1.6 million", "8 192")
    ]


def test_what_the_page_says_is_worked_out() -> None:
    told = " ".join(what_it_shows(data()))
    assert "Random on held-out mazes is within 0.1 of the paper's Random on labyrinth; farthest on" in told
    assert "labyrinth: -0.014." in told
    assert "The Planner solves at least 96.9% of the held-out mazes of labyrinth" in told
    assert "tasks and rewards are the paper's" not in told  # one task of four
    assert "better than Random on held-out mazes (intervals apart): EgoMap." in told
    assert "not told from Random by this budget: GRU." in told
    assert "the paper's 750 times as many" in told and "3 seeds" in told and "not the paper's A2C" in told
    assert "Not finished: labyrinth Neural Map (0 of 3 seeds)." in told
    assert "has changed" not in told
    assert "smaller than the paper's" not in told
    worse = data()
    worse["rows"][0]["ours"]["test"]["mean_return"] = 0.2
    worse["rows"][4]["ours"]["test"]["success"] = 0.9
    told = " ".join(what_it_shows(worse))
    assert "is not within 0.1 of the paper's Random" in told and "does not solve at least 96.9%" in told
    assert "smaller than the paper's" in " ".join(what_it_shows(data(size=5)))


def test_only_what_is_there_is_said() -> None:
    """Of nobody who learns, of all four tasks, of seeds that are missing, of agents that fell below Random."""
    nobody = data()
    nobody["rows"] = [nobody["rows"][0], nobody["rows"][4]]
    four = {**nobody, "rows": [{**row, "task": task} for task in SIZES for row in nobody["rows"]]}
    for row in four["rows"]:
        row["size"] = SIZES[row["task"]]
    told = " ".join(what_it_shows(four))
    assert "So tasks and rewards are the paper's" in told and "nothing about memories" in told
    four["rows"][0]["paper"] = {"train": None, "test": {"mean": 0.5, "std": None}}
    assert "So tasks and rewards" not in " ".join(what_it_shows(four))
    nobody["rows"][1]["ours"] = {"train": None, "test": None}
    assert "Not finished: labyrinth Planner (0 of 3 seeds)." in what_it_shows(nobody)

    part = data()
    part["rows"][2]["ours"] = {"train": None, "test": {**part["rows"][2]["ours"]["test"], "runs": 1}}
    told = " ".join(what_it_shows(part))
    assert "One seed: nothing is known" in told and "labyrinth EgoMap (0 of 3 seeds)" in told
    assert "0.500 ± 0.010 (1 of 3 seeds)" in table(part)

    fallen = data()
    fallen["rows"][1]["ours"]["test"] |= {"mean_return": -0.2, "interval_95": [-0.21, -0.16]}
    told = " ".join(what_it_shows(fallen))
    assert (
        "worse than Random on held-out mazes (intervals apart): GRU." in told and "not told from" not in told
    )
    assert "has changed since these runs" in " ".join(what_it_shows({**data(), "settings": "other"}))


def test_times_as_many() -> None:
    assert [
        times_as_many({**data(), "budget": budget}) for budget in (400_000, 200_000_000, 900_000_000)
    ] == [*("750 times as many", "1.5 times as many", "0.33 times as many")]


@pytest.mark.parametrize("experiment", ["results", "curves", "ablation", "noise"])
def test_figures(experiment: str) -> None:
    found = data(experiment)
    if experiment == "noise":
        found["rows"] = [
            *({**found["rows"][i], "agent": f"noise {0.02 * i:.2f}", "noise": 0.02 * i} for i in (1, 2, 3)),
            found["rows"][1],
        ]
    assert picture(found, "png").startswith(b"\x89PNG")
    svg = picture(found, "svg")
    assert svg == picture(found, "svg")
    words = " ".join(ElementTree.fromstring(svg).itertext())
    assert "held-out mazes" in words and "paper" in words


def test_bands_tell_how_far_all_seeds_have_come() -> None:
    array, whole = bands(data()["rows"][1]["curves"])
    assert array.shape == (3, 4, 3) and whole == 2
    assert np.array_equal(array[:, 1, 2], [0.2, 0.2, 0.2])
    assert np.array_equal(np.isnan(array[:, 2, 2]), [False, True, False])
    array, whole = bands([[], []])
    assert array.size == 0 and whole == 0


def test_the_legend_does_not_wait_for_the_first_row() -> None:
    found = data()
    found["rows"][0]["ours"]["test"] = None
    words = " ".join(ElementTree.fromstring(picture(found, "svg")).itertext())
    assert "ours, 95 % interval" in words and "paper, ± deviation" in words
    curves = data("curves", size=5)
    for row in curves["rows"]:
        row["curves"] = row["curves"] and [[], [], []]
    words = " ".join(ElementTree.fromstring(picture(curves, "svg")).itertext())
    assert "EgoMap" in words and "Neural Map" in words and "5 x 5 (paper: 9 x 9)" in words


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs, out = tmp_path / "docs", tmp_path / "out" / "small"
    docs.mkdir()
    out.mkdir(parents=True)
    (out / "results.json").write_text(json.dumps(data()))
    assert main(["reproduce", "report", str(out), "--docs", str(docs)]) == 0
    page = (docs / "results.md").read_text()
    assert table(data()) in page
    assert "](images/results-small.png)" in page and (docs / "images" / "results-small.png").exists()
    # From what was kept, without the output folder: the same page.
    assert main(["reproduce", "report", "--docs", str(docs)]) == 0
    assert (docs / "results.md").read_text() == page
    capsys.readouterr()
    for arguments, told in (
        ([str(tmp_path)], f"{tmp_path} is not the output folder of an experiment."),
        (["--docs", str(tmp_path / "nothing")], "is not a folder; give the documentation's by --docs."),
    ):
        assert (
            main(
                ["reproduce", "report", *arguments, *([] if "--docs" in arguments else ["--docs", str(docs)])]
            )
            == 2
        )
        assert told in capsys.readouterr().err
    (out / "results.json").write_text("{}")
    assert main(["reproduce", "report", str(out), "--docs", str(docs)]) == 2
    assert "is not the data of an experiment of this version" in capsys.readouterr().err
