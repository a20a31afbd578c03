"""`egomap evaluate` with real runs and engines: who plays what, how often, what is written, what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egomap.cli import main
from egomap.commands.evaluate.entries import entries_of
from egomap.commands.evaluate.question import Question, parse_levels
from egomap.commands.evaluate.scoring import evaluate
from egomap.config import ScenarioConfig, Task, TrainConfig
from egomap.envs.worlds import worlds_of_files, worlds_of_set
from egomap.evaluation.answer import groups
from egomap.mazes import optimum
from egomap.scenarios.dataset import ScenarioSet, cache_folder, generate
from egomap.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def quiet(title: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None


def test_every_layout_exactly_k_times_and_the_same_answer_twice(
    runs: dict[str, Path], sets: dict[Task, ScenarioSet]
) -> None:
    question = Question(episodes_per_layout=2, seed=5, num_envs=3)
    found = entries_of([runs["gru"]], ["random", "planner"], question, None)
    answer = evaluate(found, question, quiet)
    ids = [layout.hash for layout in sets["labyrinth"].layouts["test"]]
    for one in answer["evaluations"]:
        assert [entry["layout_id"] for entry in one["layouts"]] == ids
        assert all(len(entry["returns"]) == len(entry["success"]) == 2 for entry in one["layouts"])
    gru, random, planner = answer["evaluations"]
    # Episodes end at very different times: the planner's are short, Random's mostly run out of time.
    assert planner["summary"]["success"] == 1.0 > random["summary"]["success"]
    assert 0.8 < planner["summary"]["share_of_optimum"] <= 1.0
    assert random["summary"]["share_of_optimum"] < 0.5
    assert (gru["run"], gru["trained_decisions"], gru["train_seed"]) == (str(runs["gru"]), 128, 0)
    assert answer == evaluate(found, question, quiet)
    other = evaluate(found[:1], Question(episodes_per_layout=2, seed=6, num_envs=3), quiet)
    assert other["evaluations"][0]["layouts"] != gru["layouts"]


def test_runs_that_differ_in_their_seed_are_summed_up(runs: dict[str, Path]) -> None:
    question = Question(noise=(0.0, 0.5), layouts=2)
    answer = evaluate(entries_of(list(runs.values()), [], question, None), question, quiet)
    assert [(one["train_seed"], one["noise"]) for one in answer["evaluations"]] == [
        *((0, 0.0), (0, 0.5), (1, 0.0), (1, 0.5), (0, 0.0), (0, 0.5))
    ]
    assert all(len(one["layouts"]) == 2 for one in answer["evaluations"])
    assert [(group["agent"], group["noise"]) for group in answer["groups"]] == [
        ("egomap", 0.0),
        ("egomap", 0.5),
    ]
    means = [one["summary"]["mean_return"] for one in answer["evaluations"]]
    assert answer["groups"][0]["summary"]["mean_return"] == pytest.approx((means[0] + means[2]) / 2)
    assert answer["groups"][0]["runs"] == [str(runs["egomap-s0"]), str(runs["egomap-s1"])]


def test_groups_are_of_different_seeds(runs: dict[str, Path]) -> None:
    question = Question(layouts=1)
    two = entries_of([runs["egomap-s0"], runs["egomap-s1"]], [], question, None)
    first, second = evaluate(two, question, quiet)["evaluations"]
    later = {**second, "trained_decisions": 256}
    assert len(groups([first, second])) == 1
    # The last checkpoints of runs that are not equally far are not compared; the best ones are of any moment.
    assert groups([first, later]) == []
    assert [group["runs"] for group in groups([first, later], same_decisions=False)] == [
        [str(runs["egomap-s0"]), str(runs["egomap-s1"])]
    ]
    assert groups([first, {**second, "train_seed": 0}]) == []


def test_another_size_is_of_the_runs_own_task(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs["gru"], tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"task": "labyrinth"', '"task": "find-return"'))
    (path,) = checkpoints(tmp_path / "run" / "checkpoints")
    tensors, data = load_checkpoint(path)
    data["config"]["scenario"]["task"] = "find-return"
    save_checkpoint(path, tensors, data)
    assert main(["evaluate", str(tmp_path / "run"), "--size", "3", "--layouts", "1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert (found["scenarios"]["task"], found["scenarios"]["size"]) == ("find-return", 3)
    told = refused(capsys, str(tmp_path / "run"), str(runs["gru"]), "--size", "3")
    assert told == (
        "these runs were trained on different mazes (task find-return, labyrinth); say which by --scenario."
    )
    assert refused(capsys, str(runs["gru"]), "--size", "0").startswith("size must be 3 to 21")


def test_lesions_of_all_who_have_them(
    runs: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Real agents and engines: the intact scores are those without lesions; each run has its own parts lesioned."""
    monkeypatch.setenv("COLUMNS", "200")
    names = [str(runs[name]) for name in ("egomap-s0", "egomap-s1", "gru")]
    out = tmp_path / "scores.json"
    lesions = ["global-read+context", "hidden", "all"]
    command = ["evaluate", *names, "--agents", "random", "--lesion", *lesions, "--out", str(out)]
    assert main(command) == 0
    told = capsys.readouterr()
    notes = [line for line in told.err.splitlines() if line.startswith("Note: ")]
    assert notes == [
        f"Note: {names[2]} plays without a lesion of global-read+context; its memory names hidden."
    ]
    assert "what memory is worth" in told.out and "egomap, 2 seeds" in told.out
    answer = json.loads(out.read_text())
    egomap, _, gru, random = answer["evaluations"]
    assert [row["lesion"] for row in egomap["lesions"]] == lesions
    assert [row["lesion"] for row in gru["lesions"]] == lesions[1:] and "lesions" not in random
    assert egomap["lesions"][2]["by"] == {
        "global-read": "mean",
        "context": "mean",
        "map": "zero",
        "hidden": "zero",
    }
    # A memory that can be lesioned in one part only: all of it is that part.
    assert gru["lesions"][0]["layouts"] == gru["lesions"][1]["layouts"] != gru["layouts"]
    for one in (egomap, gru):
        for row in one["lesions"]:
            gain = one["summary"]["mean_return"] - row["summary"]["mean_return"]
            assert row["worth"]["mean_return"] == pytest.approx(gain)
    (group,) = answer["groups"]
    assert [row["lesion"] for row in group["lesions"]] == lesions
    gains = [one["lesions"][1]["worth"]["mean_return"] for one in answer["evaluations"][:2]]
    assert group["lesions"][1]["worth"]["mean_return"] == pytest.approx(sum(gains) / 2)
    plain = evaluate(entries_of([runs["egomap-s0"]], [], Question(), None), Question(), quiet)
    assert plain["evaluations"][0]["layouts"] == egomap["layouts"]


def test_argmax_is_another_way_to_play(runs: dict[str, Path]) -> None:
    sampled, greedy = (
        evaluate(entries_of([runs["gru"]], [], question, None), question, quiet)["evaluations"][0]
        for question in (
            Question(episodes_per_layout=4, num_envs=4),
            Question(episodes_per_layout=4, num_envs=4, argmax=True),
        )
    )
    assert sampled["layouts"] != greedy["layouts"]


def test_the_command_writes_the_same_file_twice(
    runs: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs["gru"], run)
    before = set((run / "evaluation").iterdir())
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["evaluate", str(run), "--json"]) == 0
    text = capsys.readouterr().out
    (made,) = set((run / "evaluation").iterdir()) - before
    assert made.read_text() == text
    assert main(["evaluate", str(run)]) == 0
    table = capsys.readouterr().out
    assert "mean return" in table and made.name in table.replace("\n", "")
    assert made.read_text() == text and set((run / "evaluation").iterdir()) == before | {made}
    # Another question, another file; --out puts everything in one.
    assert (
        main(["evaluate", str(run), "--layouts", "1", "--noise", "0,0.1", "--out", str(tmp_path / "a")]) == 0
    )
    assert [one["noise"] for one in json.loads((tmp_path / "a").read_text())["evaluations"]] == [0.0, 0.1]
    assert set((run / "evaluation").iterdir()) == before | {made}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["evaluate", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("egomap: ") and found.err.count("\n") == 1
    return found.err.removeprefix("egomap: ").rstrip("\n")


def test_bad_input(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], small_config: TrainConfig
) -> None:
    assert refused(capsys, str(tmp_path)) == f"{tmp_path} holds no run: it has no config.json."
    gru = str(runs["gru"])
    assert refused(capsys, gru, gru) == "a run folder is given twice."
    assert "noise must be levels" in refused(capsys, gru, "--noise", "much")
    assert "noise must be levels" in refused(capsys, gru, "--noise", "0,0.1,...,inf")
    assert "noise must be between 0 and 1" in refused(capsys, gru, "--noise", "0,7")
    assert refused(capsys, gru, "--noise", "0,0.1,0") == "a level of noise is given twice."
    assert refused(capsys, gru, "--episodes-per-layout", "0").startswith("episodes-per-layout must be 1")
    assert refused(capsys, gru, "--layouts", "0").startswith("layouts must be 1 or more")
    assert refused(capsys, gru, "--out", f"{gru}/config.json").endswith("exists already; give another name.")
    told = refused(capsys, gru, "--lesion", "hidden", "maps")
    assert told == "RecurrentMemory has no part 'maps' that can be lesioned; it has hidden, all."
    assert refused(capsys, gru, "--lesion", "all", "all") == "a lesion is given twice."
    assert refused(capsys, gru, "--lesion-by", "zero").startswith("lesion-by goes with lesions")
    told = refused(capsys, "--agents", "random", "--lesion", "all")
    assert told == "lesions are of a run's memory; give a run folder."
    assert f"{tmp_path}" in refused(capsys, gru, "--scenarios", str(tmp_path))
    assert refused(capsys, gru, "--scenarios", f"{tmp_path}/*.cfg") == f"no file matches '{tmp_path}/*.cfg'."
    generate(ScenarioConfig(task="labyrinth", size=3, train=2, test=0), tmp_path / "no-test")
    told = refused(capsys, gru, "--scenarios", str(tmp_path / "no-test"))
    assert told.endswith("has no layouts in split 'test'; it has train (2), test (0).")


def test_who_learns_nothing_is_scored_on_the_mazes_that_are_given(
    sets: dict[Task, ScenarioSet], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    mazes = sets["find-return"]
    assert main(["train", "--agent", "planner", "--scenarios", str(mazes.folder)]) == 0
    told = capsys.readouterr().out
    assert "planner learns nothing" in told and "4 of 4" in told, told


def test_checkpoints_that_do_not_fit(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs["egomap-s0"], tmp_path / "mixed")
    (stale,) = checkpoints(tmp_path / "mixed" / "checkpoints")
    shutil.copy(checkpoints(runs["gru"] / "checkpoints")[0], stale)
    told = refused(capsys, str(tmp_path / "mixed"))
    assert "was trained with other settings than config.json has: agent.kind was 'gru'" in told
    stale.unlink()
    assert refused(capsys, str(tmp_path / "mixed")).startswith("there is no checkpoint in ")


def test_levels() -> None:
    assert parse_levels("") == ()
    assert parse_levels("0.1") == (0.1,)
    assert parse_levels("0, 0.02,...,0.2") == (
        0.0,
        *(0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2),
    )
    assert parse_levels("0,0.1,0.2,...,0.4,1") == (0.0, 0.1, 0.2, 0.3, 0.4, 1.0)
    for bad in (
        "0,...,0.2",
        "0,0.1,...",
        "0,0,...,0.2",
        "0,0.03,...,0.2",
        "a",
        "0,,1",
        "...,1,2",
        "0,1,...,1",
    ):
        with pytest.raises(ValueError, match="noise must be levels like"):
            parse_levels(bad)


def test_the_optimum_is_played_once(
    sets: dict[Task, ScenarioSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGOMAP_CACHE", str(tmp_path))
    worlds = worlds_of_set(sets["find-return"], "test")
    played: list[str] = []

    @contextlib.contextmanager
    def bar(title: str) -> Iterator[Callable[[int, int], None]]:
        played.append(title)
        yield lambda done, total: played.append(f"{done}/{total}")

    found = optimum.optima(worlds, bar)
    assert played == ["optimum ", "1/4", "2/4", "3/4", "4/4"]
    assert all(best is not None and 0 < best.decisions < 525 for best in found.values())
    assert optimum.optima(worlds, bar) == found and len(played) == 5
    # Damaged, it is played again, with the same result.
    (kept,) = (cache_folder() / "planner").rglob("*.json")
    text = kept.read_text()
    kept.write_text("{")
    assert optimum.optima(worlds, bar) == found and len(played) == 10
    assert kept.read_text() == text


def test_files_of_somebody_else(runs: dict[str, Path], sets: dict[Task, ScenarioSet], tmp_path: Path) -> None:
    """A .cfg alone: no layout is known, so nobody can say how far from the optimum the agent is."""
    worlds = worlds_of_files(sets["find-return"].cfg("test"))
    question = Question()
    answer = evaluate(entries_of([runs["gru"]], ["random"], question, worlds), question, quiet)
    for one in answer["evaluations"]:
        assert len(one["layouts"]) == 4 and one["summary"]["share_of_optimum"] is None
    with pytest.raises(ValueError, match="the planner needs the layout"):
        entries_of([], ["planner"], question, worlds)


def test_the_authors_own_files(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get("EGOMAP_REFERENCE_SCENARIOS")
    if not folder:
        pytest.skip("EGOMAP_REFERENCE_SCENARIOS does not name the folder of the authors' scenario files")
    pattern = f"{folder}/labyrinth-9/*.cfg"
    assert main(["evaluate", str(runs["egomap-s0"]), "--scenarios", pattern, "--json"]) == 0
    found = capsys.readouterr()
    (one,) = json.loads(found.out)["evaluations"]
    assert len(one["layouts"]) == len(worlds_of_files(pattern))
    assert "it will not remember what lies beyond" in found.err
