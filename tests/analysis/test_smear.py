"""The smearing figure: a map in the world keeps its landmarks, one that is resampled at every step loses them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from egomap.analysis.smear import (
    LANDMARKS,
    METHODS,
    MOTIONS,
    STEPS,
    SmearResult,
    contrast,
    poses,
    reproduce_smear,
    synthetic_map,
)
from egomap.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("smear") / "out"


@pytest.fixture(scope="module")
def result(folder: Path) -> SmearResult:
    return reproduce_smear(folder)


@pytest.mark.parametrize("motion", MOTIONS)
def test_the_world_map_keeps_its_landmarks_and_the_naive_one_does_not(result, motion):
    assert (result.peak_left[motion, "world"][STEPS] >= 0.95).all()
    assert (result.peak_left[motion, "naive"][STEPS] < 0.5).all()
    assert (result.peak_moved[motion, "world"][STEPS] < 1e-6).all()
    assert (result.peak_moved[motion, "naive"][STEPS] > 0.9).all()  # a cell or more, but for rounding


@pytest.mark.parametrize("motion", MOTIONS)
def test_one_read_of_the_world_map_is_never_off_by_more_than_its_own_cell(result, motion):
    """Between the cells one interpolation is left, which takes little and moves the peak within its cell."""
    assert result.peak_left[motion, "world"].min() > 0.9
    assert result.peak_moved[motion, "world"].max() <= 0.5**0.5 + 1e-6


@pytest.mark.parametrize("motion", MOTIONS)
def test_both_maps_begin_as_the_synthetic_one(result, motion):
    for method in METHODS:
        torch.testing.assert_close(result.maps[motion, method][0], synthetic_map())
        torch.testing.assert_close(
            result.peak_left[motion, method][0], torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-12
        )
        assert (result.peak_moved[motion, method][0] < 1e-6).all()
    assert torch.equal(contrast(synthetic_map()).flatten(1).amax(1), torch.ones(3, dtype=torch.float64))


def test_the_motions_end_where_they_began_and_move_by_fractions_of_a_cell():
    turns, walk = poses("turns"), poses("translations")
    assert len(turns) == len(walk) == STEPS + 1 == 181
    torch.testing.assert_close(turns[-1, 2] - turns[0, 2], torch.tensor(2 * torch.pi, dtype=torch.float64))
    torch.testing.assert_close(walk[-1], walk[0])
    stride = walk.diff(dim=0)[:, :2].abs()
    torch.testing.assert_close(stride, torch.tensor([[0.2, 0.3]], dtype=torch.float64).expand_as(stride))


def test_the_files_hold_the_result(result, folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "smear.csv", "smear.md", "smear.png", "smear.svg",
    ]  # fmt: skip
    with open(folder / "smear.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(MOTIONS) * len(METHODS) * len(LANDMARKS) * (STEPS + 1)
    for row in rows:
        case, number = (row["motion"], row["method"]), list(LANDMARKS).index(row["landmark"])
        assert float(row["peak_left"]) == float(result.peak_left[case][int(row["step"]), number])
        assert float(row["attention_moved_cells"]) == float(result.peak_moved[case][int(row["step"]), number])
    assert (folder / "smear.png").read_bytes().startswith(b"\x89PNG")
    svg = (folder / "smear.svg").read_text()
    assert "step 180" in svg and "world map" in svg
    assert "| turns | world | 100.0% (100.0%) | 0.00 (0.00) |" in (folder / "smear.md").read_text()


def test_the_command_writes_again_but_never_into_another_folder(result, folder, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["reproduce", "smear", "--out", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert str(folder / "smear.png") in printed
    assert "world map keeps 100.0%" in printed
    assert {
        path.name: path.read_bytes() for path in folder.iterdir()
    } == before  # the same figures, byte by byte
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["reproduce", "smear", "--out", str(tmp_path)]) == 2
    assert "mine.txt" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
