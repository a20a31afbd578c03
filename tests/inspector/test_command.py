"""The commands as people run them: a trained run becomes a page; what is wrong is one sentence and exit code 2."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from egomap.cli import main
from egomap.config import AgentConfig, MapSettings, Task, TrainConfig
from egomap.inspector.components import load_basis
from egomap.inspector.options import InspectOptions
from egomap.inspector.subject import find_subject
from egomap.presets import FAST_LEARNER
from egomap.scenarios.dataset import ScenarioSet
from egomap.training.command import train
from warm import egomap

from .test_page import Parts

pytestmark = pytest.mark.slow


class Refused:
    """Runs a command in this process, in a folder of its own, and gives the sentence with which it refuses."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def __call__(self, *arguments: object) -> str:
        before = sorted(path.name for path in self.folder.iterdir())
        code = main([str(argument) for argument in arguments])
        told = self._capsys.readouterr().err
        found = [line for line in told.splitlines() if line.startswith("egomap: ")]
        assert code == 2 and len(found) == 1 and found[0].endswith("."), told
        assert sorted(path.name for path in self.folder.iterdir()) == before, (
            "a refused command wrote something"
        )
        return found[0].removeprefix("egomap: ")


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - nobody to ask
    return Refused(tmp_path, capsys)


@pytest.fixture(scope="module")
def run(sets: dict[Task, ScenarioSet], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates, in a folder whose name is markup."""
    config = TrainConfig(
        agent=AgentConfig(map=MapSettings(map_size=16)),
        scenario=sets["find-return"].config,
        scenarios=str(sets["find-return"].folder),
        learner=dataclasses.replace(FAST_LEARNER, num_envs=2, rollout_steps=8, minibatches=1),
        budget=32,
        evaluate_every=0,
        evaluation_episodes=1,
    )
    path = tmp_path_factory.mktemp("runs") / "<script>alert(1)<"
    train(config, path)
    return path


def test_a_run_becomes_a_page_a_figure_and_a_basis(run: Path, tmp_path: Path, refused: Refused) -> None:
    wanted = (
        "--driver",
        "planner",
        "--layout",
        3,
        "--out",
        "episode.html",
        "--figure",
        "memory.svg",
        "--steps",
        "0,4",
    )
    found = egomap("inspect", run, *wanted, "--basis", "basis.json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["episode.html", "memory.svg", "basis.json"]
    parts = Parts((tmp_path / "episode.html").read_text())
    data = parts.data
    assert data["layout"] == 3 and data["outcome"] == "solved" and data["driver"] == "planner"
    assert data["agent"] == "egomap after 32 decisions" and data["settings"]["run"] == run.name
    assert "t = 4" in (tmp_path / "memory.svg").read_text()
    kept = load_basis(tmp_path / "basis.json")
    assert data["map"]["explained"] == pytest.approx(kept.explained, abs=1e-4)
    # Another episode in the same colours; nothing is written over without a word.
    assert "episode.html exists already" in refused("inspect", run, "--out", "episode.html")
    other = ("--layout", 1, "--basis", "basis.json", "--overwrite", "--lesion", "each", "--lesion-by", "zero")
    again = egomap("inspect", run, "--driver", "planner", *other, cwd=tmp_path)
    assert again.returncode == 0 and again.stdout.split() == ["episode.html"], again.stderr
    data = Parts((tmp_path / "episode.html").read_text()).data
    assert data["layout"] == 1 and data["map"]["explained"] == pytest.approx(kept.explained, abs=1e-4)
    assert [entry["name"] for entry in data["lesions"]] == ["global-read", "context", "map", "hidden", "all"]
    assert set(data["lesions"][-1]["by"].values()) == {"zero"}


def test_what_is_left_out_is_as_the_run_has_it(run: Path) -> None:
    def subject(**asked: object) -> tuple[str, int]:
        found = find_subject(InspectOptions(run=run, **asked)).worlds  # type: ignore[arg-type]
        layout = found[0].layout
        assert layout is not None
        return layout.task, layout.size

    assert subject() == ("find-return", 5)
    assert subject(size=3) == ("find-return", 3)
    assert subject(scenario="labyrinth", size=3) == ("labyrinth", 3)


def test_an_agent_without_a_run(sets: dict[Task, ScenarioSet], tmp_path: Path) -> None:
    found = egomap("inspect", "--agent", "planner", "--scenarios", sets["labyrinth"].folder, cwd=tmp_path)
    assert found.returncode == 0 and found.stdout == "episode.html\n", found.stderr
    assert Parts((tmp_path / "episode.html").read_text()).data["agent"] == "planner"


def test_somebody_s_own_files(sets: dict[Task, ScenarioSet], tmp_path: Path, refused: Refused) -> None:
    cfg = sets["labyrinth"].cfg("test")
    found = egomap("inspect", "--agent", "gru", "--scenarios", cfg, "--layout", 1, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    data = Parts((tmp_path / "episode.html").read_text()).data
    assert not data["known_layout"] and data["title"] == "Doom map" and data["layout_id"].startswith("test:")
    sentence = refused("inspect", "--agent", "planner", "--scenarios", cfg, "--out", "x.html")
    assert "the planner needs the layout" in sentence


def test_bad_input(run: Path, refused: Refused) -> None:
    assert "nowhere holds no run" in refused("inspect", "nowhere")
    assert "layout must be 0 to 3 in these worlds; got 4" in refused("inspect", run, "--layout", 4)
    assert "give RUN" in refused("inspect")
    assert "not both" in refused("inspect", run, "--agent", "gru")
    assert "must end in .html" in refused("inspect", run, "--out", "page.pdf")
    assert "is not a folder" in refused("inspect", run, "--out", "no/page.html")
    assert "--video shows several" in refused("inspect", run, "--layout", 0, 1, "--out", "x.html")
    assert "steps must be" in refused(
        "inspect", run, "--driver", "planner", "--figure", "x.png", "--steps", "a"
    )
    assert "layouts must be 4 to 4" in refused("probe", run, "--layouts", 9, "--out", "p")
    assert "no memory" in refused("play", "--agent", "planner")
    assert "give the figure's file by --figure" in refused("inspect", run, "--steps", "0,4")
    assert "EgoMapMemory has no part 'brain'" in refused("inspect", run, "--lesion", "brain")
    assert "name them by --lesion" in refused("inspect", run, "--lesion-by", "zero")
    assert "planner has no memory" in refused("inspect", "--agent", "planner", "--lesion", "all")
    assert "only the page shows lesions" in refused("inspect", run, "--lesion", "all", "--figure", "x.png")


def test_a_run_without_a_checkpoint(run: Path, tmp_path: Path, refused: Refused) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_text((run / "config.json").read_text())
    assert "there is no checkpoint in" in refused("inspect", empty)


def test_no_ffmpeg(run: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty path, and no package imageio_ffmpeg."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert "a video needs ffmpeg" in refused("inspect", run, "--video", "x.mp4")


def test_probe(run: Path, tmp_path: Path, refused: Refused) -> None:
    found = egomap("probe", run, "--layouts", 4, "--driver", "planner", "--out", "p", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "map: wall" in found.stdout and "direction of the next goal" in found.stdout
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"probe.json", "probe.png", "probe.svg"}
    assert "exists already" in refused("probe", run, "--layouts", 4, "--out", "p")
