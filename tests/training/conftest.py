"""Mazes and begun runs for the tests of training, each made once; copies of a run may be damaged or trained on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from small_runs import SMALL, Train

from egomap.cli import main
from egomap.config import ScenarioConfig
from egomap.scenarios.dataset import ScenarioSet, generate


@pytest.fixture(scope="session")
def mazes(tmp_path_factory: pytest.TempPathFactory) -> ScenarioSet:
    """Small labyrinths; a single one is held out, for a training ends with an engine and an episode for each."""
    config = ScenarioConfig(task="labyrinth", size=3, train=4, test=1, seed=5)
    return generate(config, tmp_path_factory.mktemp("training") / "mazes")


@pytest.fixture
def train_here(capsys: pytest.CaptureFixture[str]) -> Train:
    """train_here(*flags): `egomap train` in this process, which has loaded torch already."""

    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(["train", *flags])
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(flags, code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """begun(run, mazes, *flags): in the folder `run`, a run that stands at three updates of ten; trained once."""
    folder = tmp_path_factory.mktemp("begun")
    made: dict[tuple[str, ...], Path] = {}

    def copy(run: Path, mazes: ScenarioSet, *flags: str) -> None:
        chosen = (f"--scenarios={mazes.folder}", "--budget=96", *SMALL, *flags)
        if chosen not in made:
            path = folder / str(len(made))
            assert main(["train", *chosen, f"--run={path}"]) == 0
            # As after Ctrl-C: a part of the budget is left.
            config = (path / "config.json").read_text()
            (path / "config.json").write_text(config.replace('"budget": 96', '"budget": 320'))
            made[chosen] = path
        shutil.copytree(made[chosen], run)

    return copy
