"""Fuzz every reader of files: damaged, edited and forged files must give a result or one sentence, soon.

Example: python tools/fuzz.py --cases 10000 --seed 0

What comes in: how many files, and a seed. What goes out: a table of how many of each kind were read and refused, and
exit code 1 if one of them was a traceback (any other error than ValueError and OSError, or a message that is not one
line), a hang (more than 20 s) or a glutton (200 MB more than before); such files are kept and named. The same seed
makes the same files. Checkpoints and sets are forged: what is changed gets a digest that fits again.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from egomap.agents.fitting import agent_for
from egomap.config import AgentConfig, LearnerSettings, ScenarioConfig, TrainConfig
from egomap.envs.doom import doom_spec
from egomap.envs.worlds import worlds_of_files
from egomap.evaluation.answer import FORMAT as EVALUATION_FORMAT
from egomap.evaluation.answer import read_evaluation
from egomap.evaluation.scores import summarise
from egomap.experiments.command import read_data
from egomap.experiments.gather import FORMAT as EXPERIMENT_FORMAT
from egomap.experiments.render import table_csv
from egomap.experiments.report import page
from egomap.inspector.components import Basis, load_basis, save_basis
from egomap.scenarios.dataset import generate, load
from egomap.scenarios.layout import Layout
from egomap.scenarios.planner import plan
from egomap.scenarios.reference import read_reference
from egomap.sharing.export import export
from egomap.training.checkpoint import (
    checkpoint_path,
    latest,
    load_checkpoint,
    module_tensors,
    require_resumable,
    save_checkpoint,
)
from egomap.training.counters import Counters
from egomap.training.metrics import COLUMNS, Metrics
from egomap.training.run import begin_run, load_agent
from egomap.training.trained import find_agent
from egomap.util.digest import sha256

SECONDS = 20
MEGABYTES = 200
EXTENT = 640.0

# What anybody could write where something else belongs.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 10**9, -(10**9), 2**31, 2**63, 10**30, 10**400),
    *(0.5, -0.5, 1e-300, 1e30, 1e308, float("nan"), float("inf"), -float("inf")),
    *("", "x", "0", "nan", "../..", "/dev/zero", "\0", "\udcff", "ä" * 50, "9" * 5000),
    *([], [[]], [0], [1, 2, 3], [None], {}, {"a": 1}, {"": {}}),
)
BYTES = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\n",
    b"\r\n",
    b",",
    b"{",
    b"}",
    b"[" * 3000,
    b'"',
    b"=",
    b"NaN",
    b"1e999",
    b"-1",
)


class Hang(BaseException):
    """A file took too long."""


@dataclass(frozen=True)
class Kind:
    """One kind of file: what a good one is, how it is changed, and who reads it."""

    name: str
    folder: Path
    """A good one; it is copied for each case."""
    change: Callable[[Path, random.Random], None]
    """Changes a file of the copy in place."""
    read: Callable[[Path], object]


# -- changes ------------------------------------------------------------------------------------------------


def spoil(data: bytes, draw: random.Random) -> bytes:
    """Bytes cut off, turned, doubled, swapped or put in, once or a few times."""
    for _ in range(draw.choice((1, 1, 1, 2, 5, 30))):
        at, length = draw.randrange(len(data) + 1), draw.choice((1, 2, 4, 8, 64, 4096))
        part = data[at : at + length]
        new = draw.choice(
            (
                b"",
                bytes(draw.randrange(256) for _ in range(min(length, 64))),
                bytes(byte ^ (1 << draw.randrange(8)) for byte in part[:1]) + part[1:],
                part * draw.choice((2, 3, 50)),
                part[::-1],
                draw.choice(BYTES),
                draw.choice((b"\0", b"\xff", b"\x7f")) * len(part),
            )
        )
        data = data[:at] + new + data[at + length :]
        if draw.random() < 0.1:
            data = data[: draw.randrange(len(data) + 1)]
    return data


def spoil_file(*names: str) -> Callable[[Path, random.Random], None]:
    """Spoil the bytes of one of these files."""

    def change(folder: Path, draw: random.Random) -> None:
        path = folder / draw.choice(names)
        path.write_bytes(spoil(path.read_bytes(), draw))

    return change


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every entry of nested tables and lists, as (where it is, its key)."""
    keys: Any = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    return [place for key in keys for place in ((data, key), *places(data[key]))]


def edit(data: Any, draw: random.Random) -> None:
    """Change, remove, double or rename entries of plain data."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        found = places(data)
        if not found:
            return
        inside, key = draw.choice(found)
        what = draw.choice(("value", "value", "value", "near", "remove", "other", "double"))
        if what == "value":
            inside[key] = copy.deepcopy(draw.choice(VALUES))
        elif what == "near" and type(inside[key]) in (int, float):
            inside[key] = inside[key] + draw.choice((-1, 1, 0.5, 1e6))
        elif what == "remove":
            del inside[key]
        elif what == "other":
            other, its = draw.choice(found)
            inside[key] = copy.deepcopy(other[its])
        elif isinstance(inside, list):
            inside.insert(key, copy.deepcopy(inside[key]))
        else:
            inside[f"{key}2"] = inside[key]


def edit_json(name: str) -> Callable[[Path, random.Random], None]:
    """Edit what a JSON file holds; or spoil its bytes."""

    def change(folder: Path, draw: random.Random) -> None:
        path = folder / name
        if draw.random() < 0.3:
            path.write_bytes(spoil(path.read_bytes(), draw))
            return
        data = json.loads(path.read_text())
        edit(data, draw)
        path.write_text(json.dumps(data), errors="surrogatepass")

    return change


def forge_set(folder: Path, draw: random.Random) -> None:
    """Edit the manifest of a set, or spoil a file of it, and let digests and hashes fit again."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    if draw.random() < 0.5:
        name = draw.choice(("train.wad", "test.wad", "train.cfg", "test.cfg"))
        (folder / name).write_bytes(spoil((folder / name).read_bytes(), draw))
    else:
        edit(data[draw.choice(("config", "layouts"))], draw)
    with contextlib.suppress(Exception):  # what is not as it was has no hash
        for entry in (entry for split in data["layouts"].values() for entry in split):
            entry["hash"] = Layout.from_json(entry["layout"]).hash
    for name in data["files"]:
        data["files"][name] = sha256((folder / name).read_bytes())
    path.write_text(json.dumps(data), errors="surrogatepass")


def forge_checkpoint(folder: Path, draw: random.Random) -> None:
    """Edit the data of a checkpoint or its tensors, and write it with a digest that fits; or spoil its bytes."""
    (path,) = (folder / "checkpoints").glob("*.safetensors")
    if draw.random() < 0.3:
        path.write_bytes(spoil(path.read_bytes(), draw))
        return
    tensors, data = load_checkpoint(path)
    tensors, data = {name: tensor.clone() for name, tensor in tensors.items()}, copy.deepcopy(data)
    if draw.random() < 0.6:
        edit(data, draw)
    else:
        name = draw.choice(sorted(tensors))
        tensor = tensors.pop(name)
        changes: tuple[Callable[[], torch.Tensor | None], ...] = (
            lambda: None,
            lambda: torch.full(tensor.shape, float("nan")).to(tensor.dtype),
            tensor.flatten,
            lambda: tensor[..., None],
            lambda: tensor.to(draw.choice((torch.float16, torch.float64, torch.uint8, torch.bool))),
            lambda: torch.zeros(0),
            lambda: torch.full_like(tensor, 255),
        )
        new = draw.choice(changes)()
        if new is not None:
            tensors[draw.choice((name, name, f"{name}.x", "optimizer.7.step"))] = new
    save_checkpoint(path, tensors, data)


# -- readers ------------------------------------------------------------------------------------------------


def read_set(folder: Path) -> None:
    """As `evaluate --scenarios FOLDER` with the planner does."""
    for layouts in load(folder).layouts.values():
        for layout in layouts:
            plan(layout)


def read_run(folder: Path) -> None:
    """As `evaluate RUN` and `train --resume` do."""
    load_agent(folder)
    path, found = latest(folder / "checkpoints")
    require_resumable(found, path)


def read_export(folder: Path) -> None:
    """As `inspect FOLDER` does with an exported agent."""
    find_agent(folder)


def read_scores(folder: Path) -> None:
    """As `reproduce` does with what `evaluate` wrote."""
    summarise([entry["layouts"] for entry in read_evaluation(folder / "scores.json")["evaluations"]][:1])


def read_experiment(folder: Path) -> None:
    """As `reproduce report` does."""
    data = read_data(folder / "results.json")
    page({"results": data})
    table_csv(data)


# -- good files ---------------------------------------------------------------------------------------------


def make_run(folder: Path) -> None:
    """A run folder with a checkpoint of an agent that has learned nothing."""
    config = TrainConfig(
        agent=AgentConfig(kind="gru", hidden_size=8),
        learner=LearnerSettings(num_envs=2, rollout_steps=4),
        budget=64,
    )
    run = begin_run(folder, config, EXTENT)
    tensors = module_tensors(agent_for(config.agent, doom_spec(config.env, EXTENT)))
    state = torch.get_rng_state()[None]
    tensors |= {"random": state, "shuffle": state.clone(), "positions": torch.tensor([3])}
    tensors["scale"] = torch.ones(2, dtype=torch.float64)
    data = {
        "counters": Counters(update=4, decisions=32).to_json(),
        "config": config.to_json(),
        "extent": EXTENT,
    }
    save_checkpoint(checkpoint_path(run.checkpoints, 32), tensors, data)


def make_export(folder: Path, run: Path) -> None:
    """The agent of a run, exported."""
    export(run, folder)


def make_metrics(folder: Path) -> None:
    """A log of a few updates."""
    metrics = Metrics(folder, tensorboard=False)
    for update in range(1, 20):
        metrics.add({**dict.fromkeys(COLUMNS, 0.5), "update": update, "decisions": 32 * update})


def make_plain(folder: Path) -> None:
    """Scores, an experiment, a basis and an authors' side-car."""
    layouts = [
        {
            "layout": place,
            "layout_id": f"{place:04}",
            "returns": [0.5, -0.1],
            "success": [True, False],
            "decisions": [30, 525],
            "decisions_to_success": [30, None],
            "optimum_decisions": 20.0,
            "optimum_return": 0.9,
            "share_of_optimum": [0.6, 0.0],
        }
        for place in range(4)
    ]
    summary = summarise([layouts])
    row = {
        "task": "labyrinth",
        "size": 9,
        "agent": "Random",
        "noise": 0.0,
        "decisions": 1000,
        "paper_frames": 10**9,
        "hours": [0.5],
        "ours": {"train": summary, "test": summary},
        "paper": {"train": None, "test": {"mean": -0.1, "std": 0.01}},
        "curves": [[[100, 2.0, 0.5]]],
        "training": None,
    }
    experiment = {
        "format": EXPERIMENT_FORMAT,
        "experiment": "results",
        "title": "Results",
        "command": "egomap reproduce results --first-seed 3",
        "preset": "fast",
        "settings": "",
        **{"seeds": 1, "budget": 1000, "paper_frames": 10**9, "train_layouts": 4, "test_layouts": 4},
        "rows": [row, {**row, "agent": "GRU"}, {**row, "agent": "Planner"}],
    }
    answer = {
        "format": EVALUATION_FORMAT,
        "evaluations": [{"summary": summary, "layouts": layouts}],
        "groups": [],
    }
    side_car = {
        "exterior": [[0, 0], [384, 0], [384, 384], [0, 384]],
        "walls": [[128, 0, 128, 128], [128, 256, 256, 256]],
        **{"start": [64, 64], "end": [320, 320]},
    }
    for name, data in (("scores", answer), ("results", experiment), ("side-car", side_car)):
        (folder / f"{name}.json").write_text(json.dumps(data))
    values = torch.rand(4, 3, dtype=torch.float64).numpy()
    save_basis(folder / "basis.json", Basis(values[:, 0], values.T, values[0], values[1], 0.9))


def make_kinds(folder: Path) -> list[Kind]:
    """Every kind of file that a command reads, with a good one of each below `folder`."""
    sets, run, log, plain, agent = (folder / name for name in ("set", "run", "log", "plain", "agent"))
    generate(ScenarioConfig(task="find-return", size=3, train=2, test=2), sets)
    make_run(run)
    make_export(agent, run)
    for path in (log, plain):
        path.mkdir()
    make_metrics(log)
    make_plain(plain)
    good_json = {
        "scores": read_scores,
        "results": read_experiment,
        "basis": lambda folder: load_basis(folder / "basis.json"),
        "side-car": lambda folder: read_reference(folder / "side-car.json", "labyrinth"),
    }
    return [
        Kind("set", sets, edit_json("manifest.json"), read_set),
        Kind("set, forged", sets, forge_set, read_set),
        Kind(
            "cfg and WAD",
            sets,
            spoil_file("test.cfg", "test.wad"),
            lambda at: worlds_of_files(at / "test.cfg"),
        ),
        Kind("config.json", run, edit_json("config.json"), read_run),
        Kind("checkpoint, forged", run, forge_checkpoint, read_run),
        Kind("card.json", agent, edit_json("card.json"), read_export),
        Kind("exported config.json", agent, edit_json("config.json"), read_export),
        Kind("exported weights", agent, spoil_file("model.safetensors"), read_export),
        Kind(
            "metrics.csv",
            log,
            spoil_file("metrics.csv"),
            lambda at: Metrics(at, keep_updates=10, tensorboard=False).add({"update": 11, "decisions": 400}),
        ),
        *(Kind(f"{name}.json", plain, edit_json(f"{name}.json"), read) for name, read in good_json.items()),
    ]


# -- the loop -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raise `Hang` if what is within takes longer."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def peak() -> float:
    """The most that this process ever had resident, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def outcome(kind: Kind, folder: Path) -> tuple[str, str]:
    """What became of one file: "read", "refused", or the fault, with what is to be told about it."""
    before = peak()
    try:
        with limit(SECONDS), contextlib.redirect_stderr(io.StringIO()):
            kind.read(folder)
        found = "read", ""
    except (ValueError, OSError) as error:
        told = str(error)
        whole = bool(told.strip()) and "\n" not in told and len(told) < 2000
        found = ("refused", told) if whole else ("traceback", f"not one sentence: {told!r:.300}")
    except Hang:
        found = "hang", f"more than {SECONDS} s"
    except Exception:
        found = "traceback", traceback.format_exc()
    grown = peak() - before
    return found if grown < MEGABYTES else ("glutton", f"{grown:.0f} MB more than before")


def fuzz(cases: int, seed: int, keep: Path) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Try so many files; how often each kind came to what, and the faults."""
    count: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        good, case = Path(scratch) / "good", Path(scratch) / "case"
        good.mkdir()
        kinds = make_kinds(good)
        for kind in kinds:  # the good ones are good
            shutil.copytree(kind.folder, case)
            assert (found := outcome(kind, case))[0] == "read", (kind.name, found)
            shutil.rmtree(case)
        for number in range(cases):
            kind, draw = kinds[number % len(kinds)], random.Random(f"{seed} {number}")
            shutil.copytree(kind.folder, case)
            kind.change(case, draw)
            changed = copy_aside(case, Path(scratch) / "changed")
            what, told = outcome(kind, case)
            count[kind.name, what] += 1
            if what not in ("read", "refused"):
                kept = copy_aside(changed, keep / f"{number}")
                faults.append(f"case {number} ({kind.name}) is a {what}; it is kept in {kept}:\n{told}")
            shutil.rmtree(case)
    return count, faults


def copy_aside(folder: Path, place: Path) -> Path:
    """A copy of a folder in place of what was there."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    return place


def main() -> int:
    """Fuzz, and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=10_000, help="files")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same files")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-faults"), help="folder for files that are faults"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.monotonic()
    count, faults = fuzz(given.cases, given.seed, given.keep)
    for name in dict.fromkeys(name for name, _ in count):
        print(
            f"{name:20} "
            + ", ".join(f"{n} {what}" for (kind, what), n in sorted(count.items()) if kind == name)
        )
    kinds = Counter(what for (_, what), n in count.items() for _ in range(n))
    told = ", ".join(f"{kinds[what]} {what}" for what in ("read", "refused", "traceback", "hang", "glutton"))
    print(f"{given.cases} files in {time.monotonic() - begin:.0f} s: {told}; peak {peak():.0f} MB.")
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
