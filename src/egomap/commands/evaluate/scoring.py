"""The entries play the same layouts, each exactly k times.

What comes in: entries, and what is asked of them. What goes out: one JSON object with every layout's scores, a
summary of each evaluation and of each group of runs that differ in their seed alone. The same question gives the same
object, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from egomap.agents.scripted import scripted_agent
from egomap.commands.evaluate.entries import Entry
from egomap.commands.evaluate.question import Question
from egomap.compute import torch_threads
from egomap.config import EnvSettings
from egomap.evaluation.answer import FORMAT, as_text, groups
from egomap.evaluation.lesions import INTACT, play_lesions, replacements
from egomap.evaluation.runner import EpisodeResult, Player, ScriptedPlayer, play
from egomap.evaluation.scores import layout_scores, summarise
from egomap.evaluation.worth import Scores, lesion_entry
from egomap.mazes.explorer import ExplorerPlayer
from egomap.mazes.optimum import Bar, optima
from egomap.mazes.tracks import Recorder
from egomap.training.run import RunFolder
from egomap.training.sources import source_of
from egomap.util.digest import canonical, sha256
from egomap.util.files import write_whole
from egomap.worlds.api import Simulated


def evaluate(found: Sequence[Entry], question: Question, bar: Bar) -> dict[str, Any]:
    """Let everybody play; the answer as plain data."""
    played = [
        (one, level, _play(one, level, question, bar)) for one in found for level in _levels(one, question)
    ]
    answers = []
    for one, level, results in played:
        skip = one.config.env.frame_skip if one.config is not None else EnvSettings.frame_skip
        best = optima(one.worlds, bar, frame_skip=skip)
        scores = {name: layout_scores(episodes, best) for name, episodes in results.items()}
        answer = {
            **_description(one, level),
            "summary": summarise([scores[INTACT]]),
            "layouts": scores.pop(INTACT),
        }
        if scores:
            answer["lesions"] = _lesions(one, question, answer["layouts"], scores)
        answers.append(answer)
    # Lesions are left out where there are none, so that files of other questions keep their names.
    silent = {"num_envs"} if question.lesions else {"num_envs", "lesions", "lesion_by"}
    silent |= {"world"} if question.world is None else set()
    return {
        "format": FORMAT,
        "question": {name: value for name, value in asdict(question).items() if name not in silent},
        "evaluations": answers,
        "groups": groups(answers, same_decisions=question.checkpoint == "last"),
    }


def write_results(found: Sequence[Entry], answer: dict[str, Any]) -> list[Path]:
    """Each agent's part of an answer, in a file whose name stands for the question.

    A run's goes to its folder, an exported agent's to the folder that the command was given in.
    """
    paths = []
    for source in dict.fromkeys(one.source for one in found if one.source is not None):
        parts = [one for one in answer["evaluations"] if one["run"] == source.name]
        key = [answer["question"], parts[0]["scenarios"]]
        name = (
            f"{answer['question']['split']}-{parts[0]['trained_decisions']:012d}-{sha256(canonical(key))[:8]}"
        )
        if source.is_run:
            RunFolder(source.folder).make()
            path = RunFolder(source.folder).evaluation / f"{name}.json"
        else:
            path = source.results / f"{source.stem}-{name}.json"
        write_whole(path, as_text({**answer, "evaluations": parts, "groups": []}))
        paths.append(path)
    return paths


def _scripted(kind: str, env: Simulated) -> Player:
    """The player of a kind that has no network."""
    if kind == "explorer":
        return ExplorerPlayer(env.num_envs, env.world_spec.camera)
    actions = env.world_spec.num_actions
    agent = scripted_agent("random" if kind == "random" else "planner", num_actions=actions)
    return ScriptedPlayer(agent, env)


def _play(one: Entry, level: float, question: Question, bar: Bar) -> dict[str, list[EpisodeResult]]:
    """The episodes of "intact", and of each lesion."""
    title = _title(one, level, question)
    env = source_of(one.stage).open(
        one.spec,
        one.worlds,
        min(question.num_envs, len(one.worlds) * question.episodes_per_layout),
        episodes_per_layout=question.episodes_per_layout,
        noise=level,
    )
    watcher = Recorder(env, one.stage.env.frame_skip)
    try:
        if one.agent is None:
            with bar(title) as progress:
                player = _scripted(one.kind, env)
                found = play(env, player, seed=question.seed, progress=progress, watcher=watcher)
                return {INTACT: found}
        with torch_threads(1):  # a pool of threads would fight the engines for the cores
            return play_lesions(
                env,
                one.agent,
                one.lesions(question),
                by=question.lesion_by,
                seed=question.seed,
                deterministic=question.argmax,
                bar=lambda name: bar(title if name == INTACT else f"{title} without {name}"),
                watcher=watcher,
            )
    finally:
        env.close()


def _lesions(
    one: Entry, question: Question, intact: Scores, lesioned: Mapping[str, Scores]
) -> list[dict[str, Any]]:
    assert one.agent is not None
    by = {name: replacements(one.agent.memory, name, question.lesion_by) for name in lesioned}
    return [
        {**lesion_entry(name, by[name], [intact], [scores]), "layouts": scores}
        for name, scores in lesioned.items()
    ]


def _description(one: Entry, level: float) -> dict[str, Any]:
    layout = one.worlds[0].layout
    config = None if one.config is None else replace(one.config, seed=0).to_json()
    return {
        "agent": one.kind,
        "run": None if one.source is None else one.source.name,
        "trained_decisions": one.decisions,
        "train_seed": None if one.config is None else one.config.seed,
        "noise": level,
        "config": config,
        "scenarios": {
            "task": None if layout is None else layout.task,
            "size": None if layout is None else layout.size,
            "goals": None if layout is None else len(layout.goals),
            **({"env": one.stage.env.id} if one.stage.env.id else {}),
            **({"world": one.stage.env.world} if one.stage.env.world != "doom" else {}),
            "layouts": len(one.worlds),
            "digest": sha256(canonical([world.id for world in one.worlds]))[:12],
        },
    }


def _levels(one: Entry, question: Question) -> tuple[float, ...]:
    """The levels of noise that it plays with; agents without a network know the true pose, so one is enough."""
    if one.config is None:
        return (0.0,)
    return question.noise or (one.config.env.ego_motion_noise,)


def _title(one: Entry, level: float, question: Question) -> str:
    return f"{one.name:8}" if len(_levels(one, question)) == 1 else f"{one.name:8} noise {level:g}"
