"""`egomap evaluate`: runs and agents without a network on the same layouts, each played exactly k times.

What comes in: run folders, names of scripted agents, and what to play. What goes out: one JSON object with every
layout's scores, a summary of each evaluation, and one of each group of runs that differ in their seed alone. The same
question gives the same object, byte for byte. Nothing is played before all of the input has been found to be good.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from egomap.agents.agent import Agent
from egomap.agents.scripted import ScriptedKind, scripted_agent
from egomap.config import EnvSettings, TrainConfig, require
from egomap.envs.vector import DoomVectorEnv
from egomap.envs.worlds import Worlds
from egomap.evaluation.network import NetworkPlayer
from egomap.evaluation.runner import EpisodeResult, ScriptedPlayer, play
from egomap.evaluation.scores import layout_scores, summarise
from egomap.experiments.optimum import Bar, optima
from egomap.kinds import KINDS
from egomap.rl.threads import torch_threads
from egomap.scenarios.layout import canonical, sha256
from egomap.training.files import read_versioned, write_whole
from egomap.training.run import RunFolder, load_agent, open_run, worlds_of

FORMAT = "egomap evaluation 1"


@dataclass(frozen=True)
class Question:
    """What is asked of every agent."""

    split: Literal["train", "test"] = "test"
    episodes_per_layout: int = 1
    layouts: int | None = None
    """Only the first so many layouts of the split; None for all."""
    argmax: bool = False
    """The most probable actions instead of sampled ones."""
    checkpoint: Literal["last", "best"] = "last"
    noise: tuple[float, ...] = ()
    """Levels of ego-motion noise; none: each run's own."""
    seed: int = 0
    num_envs: int = 16
    """Engines at once; agents without a network score the same with any number."""

    def validate(self) -> Question:
        """Return self, or raise a ValueError that says which value is out of range."""
        k = self.episodes_per_layout
        require(k >= 1, f"episodes-per-layout must be 1 or more; got {k}.")
        require(self.layouts is None or self.layouts >= 1, f"layouts must be 1 or more; got {self.layouts}.")
        require(self.num_envs >= 1, f"num-envs must be 1 or more; got {self.num_envs}.")
        require(self.seed >= 0, f"seed must be 0 or more; got {self.seed}.")
        for level in self.noise:
            EnvSettings(ego_motion_noise=level).validate()
        require(len(set(self.noise)) == len(self.noise), "a level of noise is given twice.")
        return self


@dataclass(frozen=True)
class Contestant:
    """Somebody who plays: an agent of a run, or one without a network."""

    kind: str
    worlds: Worlds
    run: Path | None = None
    config: TrainConfig | None = None
    agent: Agent | None = None
    decisions: int | None = None
    """That it was trained for."""
    arena: float = 0.0
    """Side of the arenas that it was trained in, in map units."""

    @property
    def name(self) -> str:
        """The run as it was given, or the agent's name."""
        return str(self.run) if self.run is not None else self.kind


def contestants(
    runs: Sequence[Path],
    agents: Sequence[ScriptedKind],
    question: Question,
    worlds: Worlds | None,
) -> list[Contestant]:
    """Everybody who plays, with what they play on: `worlds`, or else each run's own, which scripted agents share.

    Raises:
        ValueError: No run in a folder, no checkpoint or one of another agent, a run twice, a split without layouts.
    """
    question.validate()
    require(bool(runs or agents), "nobody is to be evaluated: give run folders, or --agents.")
    require(len({path.resolve() for path in runs}) == len(runs), "a run folder is given twice.")
    found = []
    for path in runs:
        agent, config, checkpoint = load_agent(path, which=question.checkpoint)
        own = worlds if worlds is not None else worlds_of(config, question.split)
        found.append(
            Contestant(
                config.agent.kind,
                _first(own, question.layouts),
                path,
                config,
                agent,
                int(checkpoint.data["counters"]["decisions"]),
                open_run(path)[2],
            )
        )
    places = [worlds] if worlds is not None else [one.worlds for one in found]
    require(bool(places) or not agents, "an agent without a run needs scenarios to play.")
    for kind in agents:
        seen: list[Worlds] = []
        for place in places:
            part = _first(place, question.layouts)
            if part not in seen:
                seen.append(part)
                found.append(Contestant(kind, part))
        require(
            kind != "planner" or all(world.layout is not None for one in seen for world in one),
            "the planner needs the layout, and these scenario files come without one.",
        )
    return found


def warnings(found: Sequence[Contestant]) -> list[str]:
    """What somebody should know before they read the scores."""
    return [
        f"{one.name} was trained in arenas of {one.arena:g} map units and has a map of that size; these are up to "
        f"{one.worlds.extent:g}: it will not remember what lies beyond."
        for one in found
        if one.config is not None and KINDS[one.config.agent.kind].has_map and one.worlds.extent > one.arena
    ]


def evaluate(found: Sequence[Contestant], question: Question, bar: Bar) -> dict[str, Any]:
    """Let everybody play; the answer as plain data."""
    played = []
    for one in found:
        for level in _levels(one, question):
            with bar(_title(one, level, question)) as progress:
                played.append((one, level, _play(one, level, question, progress)))
    answers = []
    for one, level, episodes in played:
        skip = one.config.env.frame_skip if one.config is not None else EnvSettings.frame_skip
        scores = layout_scores(episodes, optima(one.worlds, bar, frame_skip=skip))
        answers.append({**_description(one, level), "summary": summarise([scores]), "layouts": scores})
    return {
        "format": FORMAT,
        "question": {name: value for name, value in asdict(question).items() if name != "num_envs"},
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
        }
        for members in found.values()
        if len({member["train_seed"] for member in members}) == len(members) > 1
    ]


def write_into_runs(answer: dict[str, Any]) -> list[Path]:
    """Each run's part of an answer, in a file of the run folder whose name stands for the question."""
    paths = []
    for run in dict.fromkeys(one["run"] for one in answer["evaluations"] if one["run"] is not None):
        parts = [one for one in answer["evaluations"] if one["run"] == run]
        key = [answer["question"], parts[0]["scenarios"]]
        name = (
            f"{answer['question']['split']}-{parts[0]['trained_decisions']:012d}-{sha256(canonical(key))[:8]}"
        )
        path = RunFolder(Path(run)).evaluation / f"{name}.json"
        write_whole(path, as_text({**answer, "evaluations": parts, "groups": []}))
        paths.append(path)
    return paths


def as_text(answer: dict[str, Any]) -> str:
    """The answer as the text of a JSON file."""
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def read_evaluation(path: Path) -> dict[str, Any]:
    """An answer that was written; a ValueError if the file is something else."""
    return read_versioned(path, FORMAT, "an evaluation")


def parse_levels(text: str) -> tuple[float, ...]:
    """Noise levels from text: "0,0.1,0.2", where "0,0.02,...,0.2" goes on in equal steps.

    Raises:
        ValueError: It is no such list.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    try:
        if "..." not in parts:
            return tuple(float(part) for part in parts)
        dots = parts.index("...")
        first, second, last = float(parts[dots - 2]), float(parts[dots - 1]), float(parts[dots + 1])
        steps = round((last - first) / (second - first))
        require(dots >= 2 and steps >= 2 and abs(first + steps * (second - first) - last) < 1e-9, text)
        # Rounded, so that the levels are the numbers that a person would write.
        between = [round(first + step * (second - first), 9) for step in range(steps + 1)]
        before, after = parts[: dots - 2], parts[dots + 2 :]
        return (*map(float, before), *between, *map(float, after))
    except (ValueError, IndexError, ArithmeticError):
        raise ValueError(f"noise must be levels like 0,0.1,0.2 or 0,0.02,...,0.2; got {text!r}.") from None


def _play(
    one: Contestant, level: float, question: Question, progress: Callable[[int, int], None]
) -> list[EpisodeResult]:
    settings = one.config.env if one.config is not None else EnvSettings()
    env = DoomVectorEnv(
        min(question.num_envs, len(one.worlds) * question.episodes_per_layout),
        worlds=one.worlds,
        rendering=settings.rendering,
        frame_skip=settings.frame_skip,
        ego_motion_noise=level,
        watchdog=settings.watchdog,
        episodes_per_layout=question.episodes_per_layout,
        copy=False,
    )
    try:
        if one.agent is None:
            scripted = scripted_agent("random" if one.kind == "random" else "planner")
            return play(env, ScriptedPlayer(scripted, env), seed=question.seed, progress=progress)
        player = NetworkPlayer(one.agent, env.num_envs, deterministic=question.argmax)
        with torch_threads(1):  # a pool of threads would fight the engines for the cores
            return play(env, player, seed=question.seed, progress=progress)
    finally:
        env.close()


def _description(one: Contestant, level: float) -> dict[str, Any]:
    layout = one.worlds[0].layout
    config = None if one.config is None else replace(one.config, seed=0).to_json()
    return {
        "agent": one.kind,
        "run": None if one.run is None else str(one.run),
        "trained_decisions": one.decisions,
        "train_seed": None if one.config is None else one.config.seed,
        "noise": level,
        "config": config,
        "scenarios": {
            "task": None if layout is None else layout.task,
            "size": None if layout is None else layout.size,
            "goals": None if layout is None else len(layout.goals),
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


def _first(worlds: Worlds, count: int | None) -> Worlds:
    return worlds if count is None else Worlds(worlds.worlds[:count])
