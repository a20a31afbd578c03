"""`egomap evaluate`: trained agents and those without a network on the same layouts, each played exactly k times.

What comes in: runs or exported agents, names of scripted agents, and what to play. What goes out: one JSON object
with every layout's scores, a summary of each evaluation, and one of each group of runs that differ in their seed
alone. The same question gives the same object, byte for byte. Nothing is played before all of the input has been
found to be good.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from egomap.agents.agent import Agent
from egomap.agents.scripted import ScriptedKind, scripted_agent
from egomap.compute import torch_threads
from egomap.config import EnvSettings, TrainConfig, require
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds
from egomap.evaluation.explorer import ExplorerPlayer
from egomap.evaluation.lesions import INTACT, play_lesions, replacements
from egomap.evaluation.runner import EpisodeResult, Player, ScriptedPlayer, play
from egomap.evaluation.scores import layout_scores, summarise
from egomap.evaluation.tracks import Recorder
from egomap.evaluation.watching import NOBODY
from egomap.evaluation.worth import Scores, lesion_entry, lesions_of_group
from egomap.experiments.optimum import Bar, optima
from egomap.experiments.question import Question, parse_levels
from egomap.experiments.shapes import EVALUATION
from egomap.memory.lesions import lesioned_parts, parts_of, possible
from egomap.memory.protocol import has_map
from egomap.training.names import Source, find_source
from egomap.training.run import RunFolder, worlds_of
from egomap.training.sources import source_of
from egomap.training.trained import find_agent
from egomap.util.digest import canonical, sha256
from egomap.util.files import read_versioned, write_whole
from egomap.worlds.api import Simulated, WorldSpec

__all__ = ["Contestant", "Question", "contestants", "evaluate", "groups", "parse_levels", "read_evaluation"]

FORMAT = "egomap evaluation 1"


@dataclass(frozen=True)
class Contestant:
    """A player: a trained agent, or one without a network."""

    kind: str
    worlds: Any
    """What it plays on."""
    stage: TrainConfig
    """Whose worlds these are: its own settings, or those of the run that it shares them with."""
    spec: WorldSpec
    """What is known of them."""
    source: Source | None = None
    """Where its weights lie."""
    config: TrainConfig | None = None
    agent: Agent | None = None
    decisions: int | None = None
    """That it was trained for."""
    arena: float = 0.0
    """Side of the arenas that it was trained in, in map units."""

    @property
    def name(self) -> str:
        """The run or the exported agent as it was given, or the kind of one without a network."""
        return self.source.name if self.source is not None else self.kind

    def lesions(self, question: Question) -> list[str]:
        """Those of the lesions asked for that its memory has; none without a network."""
        return [] if self.agent is None else possible(self.agent.memory, question.lesions)


def contestants(
    runs: Sequence[str | os.PathLike[str]],
    agents: Sequence[ScriptedKind | Literal["explorer"]],
    question: Question,
    worlds: Worlds | None,
) -> list[Contestant]:
    """Everybody who plays, with what they play on: `worlds`, or else each run's own, which scripted agents share.

    Args:
        runs: Run folders, exported agents, names of released ones; see `egomap.training.names`.
        agents: Who plays besides.
        question: What is asked.
        worlds: What is played; None: what each run was trained for.

    Raises:
        ValueError: No run in a folder, no checkpoint or one of another agent, a run twice, a split without layouts.
    """
    question.validate()
    require(bool(runs or agents), "nobody is to be evaluated: give run folders, or --agents.")
    sources = [find_source(run) for run in runs]
    require(len({one.folder.resolve() for one in sources}) == len(runs), "a run folder is given twice.")
    found = []
    for run in runs:
        one = find_agent(run, which=question.checkpoint)
        config = one.config
        require(
            worlds is None or not config.env.id,
            f"{one.source.name} was trained in {config.env.id} and plays nothing else; name no scenario.",
        )
        own = worlds if worlds is not None else worlds_of(config, question.split)
        found.append(
            Contestant(
                config.agent.kind,
                own.first(question.layouts),
                config,
                one.spec,
                one.source,
                config,
                one.agent,
                one.decisions,
                one.extent,
            )
        )
    _require_lesions(found, question)
    places = [_ours(worlds)] if worlds is not None else [_shared(one) for one in found]
    require(bool(places) or not agents, "an agent without a run needs scenarios to play.")
    for kind in agents:
        seen: list[Any] = []
        for place, stage, spec in places:
            part = place.first(question.layouts)
            if part not in seen:
                seen.append(part)
                found.append(Contestant(kind, part, stage, spec))
        require(
            kind == "random" or all(world.layout is not None for one in seen for world in one),
            f"the {kind} needs the layout{' for its task' if kind == 'explorer' else ''}, and these scenario files "
            "come without one.",
        )
    return found


def _ours(worlds: Worlds) -> tuple[Any, TrainConfig, WorldSpec]:
    """Worlds of our own for an agent without a run, shown as by default."""
    return worlds, TrainConfig(), source_of(TrainConfig()).recall(worlds.extent, None)


def _shared(one: Contestant) -> tuple[Any, TrainConfig, WorldSpec]:
    """A run's worlds, for an agent without one; our own are shown to it as by default."""
    return (one.worlds, one.stage, one.spec) if one.stage.env.id else _ours(one.worlds)


def warnings(found: Sequence[Contestant]) -> list[str]:
    """What a reader of the scores should know."""
    return [
        f"{one.name} was trained in arenas of {one.arena:g} map units and has a map of that size; these are up to "
        f"{one.worlds.extent:g}: it will not remember what lies beyond."
        for one in found
        if one.agent is not None
        and not one.stage.env.id
        and has_map(one.agent.memory)
        and one.worlds.extent > one.arena
    ]


def left_out(found: Sequence[Contestant], question: Question) -> list[str]:
    """Lesions that are left out for an agent, because its memory has no such part."""
    return [
        f"{one.name} plays without a lesion of {', '.join(missing)}; its memory names "
        f"{', '.join(parts_of(one.agent.memory)) or 'nothing'}."
        for one in found
        if one.agent is not None
        and (missing := [name for name in question.lesions if name not in one.lesions(question)])
    ]


def evaluate(found: Sequence[Contestant], question: Question, bar: Bar) -> dict[str, Any]:
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
    return {
        "format": FORMAT,
        "question": {name: value for name, value in asdict(question).items() if name not in silent},
        "evaluations": answers,
        "groups": groups(answers, same_decisions=question.checkpoint == "last"),
    }


def groups(answers: Sequence[dict[str, Any]], *, same_decisions: bool = True) -> list[dict[str, Any]]:
    """Summaries of evaluations that differ in the training seed alone, where there are two or more of them.

    The best checkpoints of runs are of different moments, so for them `same_decisions` is False. Two runs of one seed
    are no sample of seeds: such a group is left out.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for answer in answers:
        if answer["run"] is not None:
            decisions = answer["trained_decisions"] if same_decisions else None
            key = [answer["config"], decisions, answer["noise"], answer["scenarios"]]
            found.setdefault(sha256(canonical(key)), []).append(answer)
    return [
        {
            "agent": members[0]["agent"],
            "runs": [member["run"] for member in members],
            "noise": members[0]["noise"],
            "summary": summarise([member["layouts"] for member in members]),
            **({"lesions": lesions_of_group(members)} if "lesions" in members[0] else {}),
        }
        for members in found.values()
        if len({member["train_seed"] for member in members}) == len(members) > 1
    ]


def write_results(found: Sequence[Contestant], answer: dict[str, Any]) -> list[Path]:
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


def as_text(answer: dict[str, Any]) -> str:
    """The answer as the text of a JSON file."""
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def read_evaluation(path: Path) -> dict[str, Any]:
    """An answer that was written; a ValueError if the file is something else."""
    return read_versioned(path, FORMAT, "an evaluation", EVALUATION)


def _scripted(kind: str, env: Simulated) -> Player:
    """The player of a kind that has no network."""
    if kind == "explorer":
        return ExplorerPlayer(env.num_envs, env.world_spec.camera)
    actions = env.world_spec.num_actions
    agent = scripted_agent("random" if kind == "random" else "planner", num_actions=actions)
    return ScriptedPlayer(agent, env)


def _play(one: Contestant, level: float, question: Question, bar: Bar) -> dict[str, list[EpisodeResult]]:
    """The episodes of "intact", and of each lesion."""
    title = _title(one, level, question)
    env = source_of(one.stage).open(
        one.spec,
        one.worlds,
        min(question.num_envs, len(one.worlds) * question.episodes_per_layout),
        episodes_per_layout=question.episodes_per_layout,
        noise=level,
    )
    watcher = Recorder(env) if isinstance(env, DoomVectorEnv) else NOBODY
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
    one: Contestant, question: Question, intact: Scores, lesioned: Mapping[str, Scores]
) -> list[dict[str, Any]]:
    assert one.agent is not None
    by = {name: replacements(one.agent.memory, name, question.lesion_by) for name in lesioned}
    return [
        {**lesion_entry(name, by[name], [intact], [scores]), "layouts": scores}
        for name, scores in lesioned.items()
    ]


def _require_lesions(found: Sequence[Contestant], question: Question) -> None:
    """At least one agent must have each part that is to be lesioned; otherwise the name is wrong."""
    require(bool(found) or not question.lesions, "lesions are of a run's memory; give a run folder.")
    for lesion in question.lesions:
        if not any(lesion in one.lesions(question) for one in found):
            lesioned_parts(cast(Agent, found[0].agent).memory, lesion)  # its sentence says what there is


def _description(one: Contestant, level: float) -> dict[str, Any]:
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
            "layouts": len(one.worlds),
            "digest": sha256(canonical([world.id for world in one.worlds]))[:12],
        },
    }


def _levels(one: Contestant, question: Question) -> tuple[float, ...]:
    """The levels of noise that it plays with; agents without a network know the true pose, so one is enough."""
    if one.config is None:
        return (0.0,)
    return question.noise or (one.config.env.ego_motion_noise,)


def _title(one: Contestant, level: float, question: Question) -> str:
    return f"{one.name:8}" if len(_levels(one, question)) == 1 else f"{one.name:8} noise {level:g}"
