"""The command `egomap offline`: from options to the lines of its table and the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from egomap.agents.agent import build_agent
from egomap.envs.rendering import render_mode
from egomap.offline import report
from egomap.offline.learn import Training, constant, learn, other_opinion
from egomap.offline.options import OfflineOptions
from egomap.offline.record import walks, worlds_of_walks
from egomap.offline.store import Walks
from egomap.util.files import write_whole

FORMAT = "egomap offline 1"
CEILINGS = {
    "without_target": "teacher, no target",
    "without_intent": "teacher, no intent",
}
"""Lines for the ceiling of the labels, by the name of the second opinion."""

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""A progress bar with a title."""


class Answer(NamedTuple):
    """What was found."""

    lines: list[report.Line]
    episodes: int
    """In the walks that were tested on."""
    decisions: int
    written: list[Path]


def offline(options: OfflineOptions, bar: Bar) -> Answer:
    """Record or find the walks, let each memory learn, and test it on the third split."""
    options.validate()
    found: dict[str, Walks] = {}
    for split in ("train", "held-out"):
        with bar(f"walks, {split}") as progress:
            found[split] = walks(options.walks(split), progress=progress)
    train, held_out = found["train"], found["held-out"]
    episode = held_out.column("episode")
    lines = [report.Line("constant", report.figures(constant(train, held_out), episode))]
    lines += [
        report.Line(name, report.figures(other_opinion(held_out, without), episode))
        for without, name in CEILINGS.items()
    ]
    for kind in options.agents:
        lines.append(_train(options, kind, train, held_out, bar))
        _write(options, lines)  # after each memory, so that stopping the command keeps the results so far
    return Answer(lines, len(set(episode.flat)), episode.size, list(options.out))


def _write(options: OfflineOptions, lines: list[report.Line]) -> None:
    for path in options.out:
        write_whole(path, report.markdown(lines) if path.suffix == ".md" else _json(options, lines))


def _train(options: OfflineOptions, kind: Any, train: Walks, held_out: Walks, bar: Bar) -> report.Line:
    """One memory's line, from one training or several."""
    camera = render_mode(train.settings.env.rendering).observation_camera
    extent = max(
        worlds_of_walks(each.settings.scenario, each.settings.split).extent for each in (train, held_out)
    )
    training = Training(options.epochs, options.minibatches, options.learning_rate, options.threads)
    runs = []
    for seed in range(options.seed, options.seed + options.seeds):
        torch.manual_seed(seed)
        agent = build_agent(options.config(kind), camera, extent)
        title = kind if options.seeds == 1 else f"{kind}, seed {seed}"
        with bar(title) as progress:
            runs.append(learn(agent, train, held_out, training, progress=progress))
    return report.line(
        kind,
        [run.measures for run in runs],
        held_out.column("episode"),
        seconds=sum(run.seconds for run in runs) / len(runs),
        parameters=runs[0].parameters,
    )


def _json(options: OfflineOptions, lines: list[report.Line]) -> str:
    about: dict[str, Any] = {
        "walks": {split: options.walks(split).to_json() for split in ("train", "held-out")},
        "epochs": options.epochs,
        "minibatches": options.minibatches,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
        "seeds": options.seeds,
        "agents": list(options.agents),
    }
    data = {"format": FORMAT, "question": about, "lines": [each.to_json() for each in lines]}
    return json.dumps(data, indent=1) + "\n"
