from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egomap.config import ScenarioConfig
from egomap.scenarios import Layout, ScenarioSet, dataset, default_set, generate, load
from egomap.scenarios.export import build_manifest
from egomap.util.digest import sha256

from .conftest import SMALL

# SHA-256 of the manifest, which holds the SHA-256 of every WAD and .cfg and all layouts: if one of these
# changes, the same seed gives other bytes than before. Then FORMAT_VERSION must count up.
GOLDEN = {
    "labyrinth": "e50035fb8f6d9e0c202fa2285294a3fdfb9a57062b9f5fffeebe65ccf5ae6322",
    "find-return": "1751ae0a793bbad9e9de0c0d30c4b25cc39fbab9821a927ca4ea3583c465799e",
    "ordered-items": "4dd560a2520081e4f24fd6f4af07f12934643ceae034340d77d8de50d3c2b83c",
}


@pytest.mark.parametrize("task", list(SMALL))
def test_same_bytes_as_ever(small_set: Callable[[str], ScenarioSet], task: str) -> None:
    manifest = (small_set(task).folder / "manifest.json").read_bytes()
    assert sha256(manifest) == GOLDEN[task]


@pytest.mark.parametrize("task", list(SMALL))
def test_generate_and_load(small_set: Callable[[str], ScenarioSet], task: str) -> None:
    made = small_set(task)
    names = {"train.wad", "train.cfg", "test.wad", "test.cfg", "manifest.json", "layouts.png"}
    assert {path.name for path in made.folder.iterdir()} == names
    assert load(made.folder) == made
    assert made.config == SMALL[task]
    manifest = json.loads((made.folder / "manifest.json").read_bytes())
    for split in ("train", "test"):
        entries = manifest["layouts"][split]
        assert [entry["map"] for entry in entries] == [made.map_name(i) for i in range(len(entries))]
        assert [entry["hash"] for entry in entries] == [layout.hash for layout in made.layouts[split]]
    for name, digest in manifest["files"].items():
        assert sha256((made.folder / name).read_bytes()) == digest


def test_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = generate(ScenarioConfig(size=3, train=1, test=0), "set")
    assert load("set") == made and made.wad("train").is_absolute()


def test_map_names(small_set: Callable[[str], ScenarioSet]) -> None:
    made = small_set("labyrinth")
    assert [made.map_name(i) for i in (0, 98, 99, 9998)] == ["MAP01", "MAP99", "MAP100", "MAP9999"]


def test_split_without_layouts(tmp_path: Path) -> None:
    made = generate(ScenarioConfig(size=3, train=0, test=2), tmp_path / "set")
    assert {path.name for path in made.folder.iterdir()} == {
        "test.wad",
        "test.cfg",
        "manifest.json",
        "layouts.png",
    }
    assert load(made.folder) == made and made.layouts["train"] == ()
    with pytest.raises(ValueError, match="no 'train' split; it has: test"):
        made.wad("train")


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    config = ScenarioConfig(size=3, train=3, test=2)
    generate(config, tmp_path / "set", progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 2}, "size must be 3 to 21"),
        ({"items": 9}, "items must be 2 to 8"),
        ({"wall_probability": 1.5}, "wall-probability must be between 0 and 1"),
        ({"task": "chess"}, "task must be one of"),
        ({"train": 0, "test": 0}, "nothing to generate"),
        ({"seed": -1}, "seed"),
        ({"size": 5.5}, "size must be a whole number; got 5.5"),
        ({"seed": "x"}, "seed must be a whole number; got 'x'"),
        ({"wall_probability": "high"}, "wall-probability must be a number; got 'high'"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(replace(ScenarioConfig(), **change), tmp_path / "set")
    assert not any(tmp_path.iterdir())


def test_equal_settings_give_equal_bytes() -> None:
    plain = ScenarioConfig(size=3, wall_probability=0.0, train=2, test=0)
    for other in (replace(plain, wall_probability=0), replace(plain, wall_probability=-0.0)):
        assert other == plain
        assert dataset.draw_layouts(other) == dataset.draw_layouts(plain)
        assert build_manifest(other, *empty()) == build_manifest(plain, *empty())
    assert build_manifest(replace(plain, size=np.int64(3)), *empty()) == build_manifest(plain, *empty())


def empty() -> tuple[dict[str, tuple[Layout, ...]], dict[str, bytes]]:
    return {"train": (), "test": ()}, {}


def test_more_layouts_than_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without walls, a 3 x 3 labyrinth has 9 * 8 = 72 layouts; all of them can be had, no more.
    monkeypatch.setattr(dataset, "MAX_DRAWS", 3000)
    config = ScenarioConfig(size=3, wall_probability=0.0, train=60, test=12)
    assert len(set(sum(dataset.draw_layouts(config).values(), ()))) == 72
    with pytest.raises(ValueError, match="only 72 distinct solvable layouts"):
        generate(replace(config, test=13), tmp_path / "set")
    assert not any(tmp_path.iterdir())


def test_the_tightest_setting_works() -> None:
    # Eight items and the start fill all cells of the smallest maze.
    config = ScenarioConfig(task="ordered-items", size=3, items=8, train=2, test=1)
    assert len(set(sum(dataset.draw_layouts(config).values(), ()))) == 3


def test_folder_with_the_same_set_is_reused(set_copy: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in set_copy.iterdir()}
    assert generate(SMALL["labyrinth"], set_copy) == load(set_copy)
    assert before == {path: path.stat().st_mtime_ns for path in set_copy.iterdir()}


def test_empty_folder_is_used(tmp_path: Path) -> None:
    """It stays the same folder: somebody may stand in it, and a mounted one cannot be replaced."""
    before = tmp_path.stat().st_ino
    assert load(generate(ScenarioConfig(size=3, train=1, test=0), tmp_path).folder).config.size == 3
    assert tmp_path.stat().st_ino == before
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_a_kill_left_does_not_block_a_folder(tmp_path: Path) -> None:
    (tmp_path / f".{tmp_path.name}.abc").mkdir()
    made = generate(ScenarioConfig(size=3, train=2, test=1), tmp_path)
    assert load(tmp_path).layouts == made.layouts


def test_folder_with_something_else_is_refused(set_copy: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds another scenario set"):
        generate(replace(SMALL["labyrinth"], seed=8), set_copy)
    load(set_copy)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "letter.txt").write_text("dear reader")
    with pytest.raises(ValueError, match="holds other files"):
        generate(SMALL["labyrinth"], tmp_path / "docs")
    with pytest.raises(ValueError, match="is a file"):
        generate(SMALL["labyrinth"], tmp_path / "docs" / "letter.txt")
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["letter.txt"]


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset.sheet, "save_sheet", full_disk)
    with pytest.raises(OSError, match="No space left"):
        generate(ScenarioConfig(size=3, train=1, test=0), tmp_path / "set")
    with pytest.raises(OSError, match="No space left"):
        generate(ScenarioConfig(size=3, train=1, test=0), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_cannot_be_moved_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError, match="Permission denied"):
        generate(ScenarioConfig(size=3, train=1, test=0), tmp_path / "set")
    assert not any(tmp_path.iterdir())


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "one bit":
        path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["truncated", "one bit", "missing"])
@pytest.mark.parametrize("name", ["train.wad", "test.cfg", "manifest.json"])
def test_load_refuses_damage(set_copy: Path, name: str, how: str) -> None:
    load(set_copy)
    damage(set_copy / name, how)
    with pytest.raises(ValueError, match=name) as caught:
        load(set_copy)
    assert "\n" not in str(caught.value)


def test_load_refuses_other_formats_and_folders(set_copy: Path, tmp_path: Path) -> None:
    manifest = json.loads((set_copy / "manifest.json").read_text())
    (set_copy / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(ValueError, match="format 99; this version reads format 2"):
        load(set_copy)
    (set_copy / "manifest.json").write_text(
        json.dumps(manifest | {"config": manifest["config"] | {"size": 5}})
    )
    with pytest.raises(ValueError, match="has been changed"):
        load(set_copy)
    (set_copy / "manifest.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="not the manifest"):
        load(set_copy)
    (set_copy / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="truncated or not JSON"):
        load(set_copy)
    with pytest.raises(ValueError, match="holds no scenario set"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"EGOMAP_CACHE": "/a/b"}, "/a/b"),
        ({"EGOMAP_CACHE": "~/b", "HOME": "/home/someone"}, "/home/someone/b"),
        ({"EGOMAP_CACHE": "", "XDG_CACHE_HOME": "/c"}, "/c/egomap"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/someone"}, "/home/someone/.cache/egomap"),
    ],
)
def test_cache_folder(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str) -> None:
    monkeypatch.delenv("EGOMAP_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert dataset.cache_folder() == Path(expected)


def test_cache_folder_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("EGOMAP_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ValueError, match="set EGOMAP_CACHE to a folder"):
        dataset.cache_folder()


def test_default_set_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGOMAP_CACHE", str(tmp_path))
    config = ScenarioConfig(size=3, train=2, test=1)
    first = default_set(config)
    stamp = first.wad("train").stat().st_mtime_ns
    assert default_set(config) == first
    assert first.wad("train").stat().st_mtime_ns == stamp
    assert default_set(replace(config, seed=1)).folder != first.folder
    damage(first.wad("train"), "truncated")
    with pytest.raises(ValueError, match=r"train\.wad is truncated.* Delete .* made again"):
        default_set(config)


def test_two_processes_ask_at_once(tmp_path: Path) -> None:
    program = (
        "from egomap.config import ScenarioConfig\n"
        "from egomap.scenarios import default_set\n"
        "print(default_set(ScenarioConfig(size=4, train=30, test=5)).folder)\n"
    )
    environment = os.environ | {"EGOMAP_CACHE": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    folders = {run.communicate()[0].strip() for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(folders) == 1
    load(Path(folders.pop()))
    assert len(list((tmp_path / "scenarios").iterdir())) == 1, "a temporary folder was left behind"
