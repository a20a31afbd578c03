"""The package from Python: the functions do what the commands do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import egomap
from egomap.cli import main
from egomap.config import Task
from egomap.scenarios.dataset import ScenarioSet

pytestmark = pytest.mark.slow


def test_evaluate_is_the_command(
    run: Path, sets: dict[Task, ScenarioSet], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.rglob("*"))
    found = egomap.evaluate(run, "random", layouts=2, seed=3)
    assert capsys.readouterr() == ("", "")
    assert main(["evaluate", str(run), "--agents", "random", "--layouts", "2", "--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))
    (run / "evaluation").joinpath(
        next(path.name for path in sorted(set(run.rglob("*")) - set(before)))
    ).unlink()  # what the command wrote, and the function did not
    assert sorted(run.rglob("*")) == before
    other = egomap.evaluate("planner", scenarios=sets["find-return"].folder, layouts=1)
    assert other["evaluations"][0]["scenarios"]["task"] == "find-return"
    assert other["evaluations"][0]["summary"]["success"] == 1.0
    smaller = egomap.evaluate(str(run), size=3, layouts=1)
    assert smaller["evaluations"][0]["scenarios"]["size"] == 3
    with pytest.raises(ValueError, match="layouts must be 1 or more"):
        egomap.evaluate(run, layouts=0)


def test_inspect_writes_what_was_asked_for(exported: Path, tmp_path: Path) -> None:
    page, figure = tmp_path / "episode.html", tmp_path / "memory.png"
    assert egomap.inspect(exported, layout=2, out=page, figure=str(figure), driver="planner") == [
        page,
        figure,
    ]
    assert "egomap after 96 decisions" in page.read_text()
    with pytest.raises(ValueError, match="must end in"):
        egomap.inspect(exported, out="page.pdf")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"egomap {egomap.__version__}\n"


def test_what_there_is() -> None:
    assert {"train", "evaluate", "load_agent", "inspect"} <= set(dir(egomap))
    with pytest.raises(AttributeError, match="has no attribute 'traln'"):
        egomap.traln  # type: ignore[attr-defined]  # noqa: B018
