"""Small scenario sets that the tests of this folder share, each generated once; and a place to run in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from egomap.config import ScenarioConfig
from egomap.scenarios import ScenarioSet, generate

SMALL = {
    "labyrinth": ScenarioConfig(task="labyrinth", size=4, train=3, test=2, seed=7),
    "find-return": ScenarioConfig(task="find-return", size=4, train=4, test=2, seed=7),
    "ordered-items": ScenarioConfig(task="ordered-items", size=5, cell=160, items=4, train=3, test=2, seed=7),
}


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ScenarioSet]:
    """small_set(task): a generated set of that task."""
    made: dict[str, ScenarioSet] = {}

    def get(task: str) -> ScenarioSet:
        if task not in made:
            made[task] = generate(SMALL[task], tmp_path_factory.mktemp("sets") / task)
        return made[task]

    return get


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain engine leaves a folder where it runs; let that not be the project's."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def set_copy(small_set: Callable[[str], ScenarioSet], tmp_path: Path) -> Path:
    """A folder with a labyrinth set that a test may damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in small_set("labyrinth").folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder
