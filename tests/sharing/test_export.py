"""`egomap export`: what is in the folder, what is not, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from egomap.cli import main
from egomap.config import ACTIONS, ScenarioConfig, TrainConfig
from egomap.sharing.card import headline
from egomap.sharing.export import export
from egomap.training.checkpoint import checkpoints, load_checkpoint
from egomap.training.exported import FILES, read_exported, write_exported
from egomap.training.run import load_agent, open_run
from egomap.training.trained import find_agent
from egomap.util.reading import read_json

pytestmark = pytest.mark.slow

ABSOLUTE = re.compile(rb"(?:^|[\s\"'(=:])(?:/[\w.+-]+){2,}|[A-Za-z]:\\\\")
"""A path from the root of a file system, of two parts or more."""


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("egomap: ") and found.err.count("\n") == 1, found.err
    return found.err.removeprefix("egomap: ").rstrip("\n")


def test_no_file_names_a_place_of_this_machine(run: Path, exported: Path, tiny_config: TrainConfig) -> None:
    assert tiny_config.scenarios is not None
    # The run's own files do, so the search would find it.
    assert ABSOLUTE.search((run / "config.json").read_bytes())
    assert sorted(path.name for path in exported.iterdir()) == sorted(FILES)
    own = (tiny_config.scenarios, str(run), str(run.parent), str(Path.home()))
    for path in exported.iterdir():
        data = path.read_bytes()
        # Of the weights the head, whose length comes first: behind it there are only numbers.
        text = data[8 : 8 + int.from_bytes(data[:8], "little")] if path.suffix == ".safetensors" else data
        assert not ABSOLUTE.search(text), (path, ABSOLUTE.search(text))
        assert not any(place.encode() in data for place in own), path


def test_the_weights_are_the_checkpoint_s_and_nothing_else(run: Path, exported: Path) -> None:
    checkpoint = load_checkpoint(checkpoints(run / "checkpoints")[0]).tensors
    weights = load_file(exported / "model.safetensors")
    assert set(weights) == {name for name in checkpoint if name.startswith("agent.")}
    assert all(torch.equal(weights[name], checkpoint[name]) for name in weights)
    assert (exported / "model.safetensors").stat().st_size < sum(t.nbytes for t in weights.values()) + 20_000
    agent, _, _ = load_agent(run)
    found = find_agent(exported)
    for mine, theirs in zip(found.agent.parameters(), agent.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_settings_lead_to_the_same_mazes_on_any_machine(run: Path, exported: Path) -> None:
    (_, config, extent), found = open_run(run), read_exported(exported)
    assert found.config.scenarios is None and found.extent == extent
    assert found.config.scenario == config.scenario != ScenarioConfig()
    assert found.config.agent == config.agent and found.config.env == config.env


def test_the_card_tells_training_scores_lesions_and_limits(run: Path, exported: Path) -> None:
    card = json.loads((exported / "card.json").read_text(), parse_constant=pytest.fail)
    (evaluated,) = (run / "evaluation").glob("test-*.json")
    (answer,) = read_json(evaluated)["evaluations"]
    (score,) = card["scores"]
    assert score["mean_return"] == answer["summary"]["mean_return"]
    assert score["interval_95"] == answer["summary"]["interval_95"]
    assert score["episodes"] == 4 and score["scenarios"] == answer["scenarios"]
    assert score["lesions"][0]["worth"] == answer["lesions"][0]["worth"]["mean_return"]
    assert headline(card) == score
    assert card["training"] | {"hours": 0} == {
        **{"decisions": 96, "budget": 96, "frames": 1920, "hours": 0, "checkpoint": "last", "seed": 0},
        **{"algorithm": "ppo", "curriculum": [], "imitate": "none"},
        **{"init": None, "extensions": []},
    }
    assert card["task"]["task"] == "labyrinth" and card["task"]["size"] == 5
    assert (card["camera"]["width"], card["camera"]["height"]) == (112, 64) and card["extent"] == 640.0
    assert card["actions"] == list(ACTIONS)
    assert card["name"] == "tiny-egomap" and card["licence"] == "MIT"
    limits = " ".join(card["limits"])
    assert "one seed (0)" in limits and "arenas of up to 640 map units" in limits
    low = answer["lesions"][0]["worth"]["interval_95"][0]
    assert ("not been shown to use these parts of its memory: hidden" in limits) == (low <= 0)


def test_the_card_for_people(exported: Path) -> None:
    text, card = (exported / "README.md").read_text(), read_json(exported / "card.json")
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["license"] == "mit" and head["library_name"] == "egomap"
    (result,) = head["model-index"][0]["results"]
    (score,) = card["scores"]
    assert result["metrics"][0]["value"] == pytest.approx(score["mean_return"], abs=1e-4)
    assert f"| {score['mean_return']:.3f} | {score['interval_95'][0]:.3f} to " in text
    assert all(f"- {limit}\n" in text for limit in card["limits"])
    assert "| labyrinth 5, test | hidden | zero |" in text


def test_the_same_agent_has_the_same_folder(run: Path, exported: Path, tmp_path: Path) -> None:
    again = tmp_path / "tiny-egomap"
    export(run, again)
    for name in ("config.json", "card.json", "README.md"):
        assert (again / name).read_bytes() == (exported / name).read_bytes(), name
    assert read_exported(again).weights.data == read_exported(exported).weights.data


def test_nothing_is_written_over_unasked(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a" / "b"
    assert main(["export", str(run), str(out), "--name", "first"]) == 0
    assert "96 decisions" in capsys.readouterr().out
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert refused(capsys, "export", run, out) == (
        f"{out} holds an exported agent already; give another folder, or --overwrite."
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert (
        main(["export", str(run), str(out), "--name", "second", "--overwrite", "--checkpoint", "best"]) == 0
    )
    card = read_json(out / "card.json")
    assert (card["name"], card["training"]["checkpoint"]) == ("second", "best")
    (out / "notes.txt").touch()
    told = refused(capsys, "export", run, out, "--overwrite")
    assert told == f"{out} holds other files (notes.txt); give a new or empty folder."
    assert sorted(path.name for path in out.parent.iterdir()) == ["b"], "something was left beside it"


def test_what_is_refused(
    run: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert refused(capsys, "export", "nowhere", out).startswith("nowhere holds no run")
    assert refused(capsys, "export", exported, out).endswith("an exported agent already; copy its folder.")
    assert refused(capsys, "export", run, out, "--name", "a\nb").startswith("name must be letters")
    assert refused(capsys, "export", run, out, "--licence", "mine, all mine").startswith("licence must be")
    assert refused(capsys, "export", run, run).startswith(f"{run} holds other files")
    (tmp_path / "file").touch()
    assert refused(capsys, "export", run, tmp_path / "file").endswith("is a file; give a folder.")
    assert not out.exists()


@pytest.mark.parametrize("place", ["/home/somebody/mazes", "C:\\mazes"])
def test_a_path_is_refused_wherever_it_stands(exported: Path, tmp_path: Path, place: str) -> None:
    found = read_exported(exported)
    settings = {**found.weights.data, "scenarios": place}
    with pytest.raises(ValueError, match=r"config\.scenarios is an absolute path"):
        write_exported(tmp_path / "out", found.weights.tensors, settings, found.card, "")
    card = {**found.card, "limits": ["One.", place]}
    with pytest.raises(ValueError, match=r"card\.limits is an absolute path"):
        write_exported(tmp_path / "out", found.weights.tensors, found.weights.data, card, "")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_what_was_there(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's last step, the rename, fails: the export of before is whole, and nothing is beside it."""
    out = tmp_path / "out"
    export(run, out, name="before")
    rename = os.rename

    def failing(old: Path, new: Path) -> None:
        if str(old).endswith(".tmp"):
            raise OSError(28, "No space left on device")
        rename(old, new)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="No space"):
        export(run, out, name="after", overwrite=True)
    assert read_json(out / "card.json")["name"] == "before"
    assert list(tmp_path.iterdir()) == [out]


def damaged(exported: Path, folder: Path, name: str, old: str, new: str) -> Path:
    path = Path(shutil.copytree(exported, folder / "damaged"))
    (path / name).write_text((path / name).read_text().replace(old, new))
    return path


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        (
            "config.json",
            '"alpha": 0.9',
            '"alpha": 0.5',
            "config.json is damaged: it was changed after the export",
        ),
        ("config.json", "{", "", "config.json is damaged"),
        ("card.json", "egomap agent 1", "egomap agent 9", "is not an agent's card of this version"),
        ("card.json", '"decisions": 96', '"decisions": "many"', "is not an agent's card of this version"),
        ("card.json", '"decisions": 96', '"decisions": -1', "its decisions are below 0"),
    ],
)
def test_damage_is_told(
    exported: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    old: str,
    new: str,
    told: str,
) -> None:
    assert told in refused(capsys, "evaluate", damaged(exported, tmp_path, name, old, new))


def test_damaged_weights_are_told(
    exported: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(exported, tmp_path / "damaged"))
    data = bytearray((path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "model.safetensors").write_bytes(data)
    assert "was changed after it was written" in refused(capsys, "evaluate", path)
    (path / "model.safetensors").write_bytes(data[:-100])
    assert "is truncated or no exported agent" in refused(capsys, "evaluate", path)
    shutil.copy(checkpoints(run / "checkpoints")[0], path / "model.safetensors")
    assert "is no exported agent of this version" in refused(capsys, "evaluate", path)
    (path / "card.json").unlink()
    shutil.copy(exported / "model.safetensors", path)
    assert "card.json is not an agent's card" in refused(capsys, "inspect", path)
