"""An agent's card as plain data: what it is, how it was trained, how it scores, and what it cannot do.

Input: a trained agent, and the evaluations in its run folder. Output: a table for JSON, in which
every sentence follows from the settings and the scores. No path of this machine, no date: the same agent has the
same card. `egomap.sharing.markdown` writes it as a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egomap import __version__
from egomap.config import TrainConfig
from egomap.evaluation.answer import read_evaluation
from egomap.kinds import kind_of
from egomap.memory.protocol import has_map
from egomap.training.initial import extensions
from egomap.training.run import RunFolder
from egomap.training.trained import Trained
from egomap.util.reading import read_json

Table = dict[str, Any]

SUMMARY = (
    *("episodes", "layouts", "mean_return", "interval_95", "iqm_return", "success"),
    *("median_decisions_to_success", "share_of_optimum"),
)
"""What a card keeps of the summary of an evaluation."""


def card_of(trained: Trained, name: str, *, licence: str) -> Table:
    """The card of an agent, under the name that it is to have."""
    config = trained.config
    parameters = sum(parameter.numel() for parameter in trained.agent.parameters())
    scores = scores_of(trained)
    return {
        "name": name,
        "egomap": __version__,
        "licence": licence,
        "agent": {
            "kind": config.agent.kind,
            "label": kind_of(config.agent.kind).label,
            "parameters": parameters,
        },
        "task": _task(config),
        "camera": asdict(trained.spec.camera),
        "extent": trained.extent,
        "actions": list(trained.spec.actions),
        "training": _training(trained),
        "scores": scores,
        "limits": limits(trained, scores),
    }


def _task(config: TrainConfig) -> Table:
    scenario, env = config.scenario, config.env
    if env.id:
        names = dict.fromkeys(
            ("size", "items", "train_layouts", "test_layouts", "scenario_seed", "rendering")
        )
        return {
            **{"task": env.id, **names},
            **{"frame_skip": env.frame_skip, "ego_motion_noise": env.ego_motion_noise},
        }
    return {
        **({"world": env.world} if env.world != "doom" else {}),
        "task": scenario.task,
        "size": config.curriculum[-1] if config.curriculum else scenario.size,
        "items": scenario.items if scenario.task == "ordered-items" else None,
        "train_layouts": scenario.train,
        "test_layouts": scenario.test,
        "scenario_seed": scenario.seed,
        "rendering": env.rendering,
        "frame_skip": env.frame_skip,
        "ego_motion_noise": env.ego_motion_noise,
    }


def _training(trained: Trained) -> Table:
    config, data = trained.config, trained.weights.data
    return {
        "decisions": trained.decisions,
        "budget": config.budget,
        "frames": trained.decisions * config.env.frame_skip,
        "hours": round(data["counters"]["seconds"] / 3600, 2),
        "checkpoint": trained.which,
        "seed": config.seed,
        "algorithm": config.learner.algorithm,
        "curriculum": list(config.curriculum),
        "imitate": config.imitate,
        "init": config.init,
        "extensions": extensions(RunFolder(trained.source.folder)),
    }


def scores_of(trained: Trained) -> list[Table]:
    """What `egomap evaluate` has found of this very agent, from the files in its run folder; [] if nothing."""
    found = []
    for path in sorted(RunFolder(trained.source.folder).evaluation.glob("*.json")):
        try:
            answer = _evaluation(path)
            found += [
                _score(answer["question"], one)
                for one in answer["evaluations"]
                if one["run"] is not None and one["trained_decisions"] == trained.decisions
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is damaged, and no scores can be taken from it: {error!r:.80}."
            ) from error
    return found


def _evaluation(path: Path) -> Table:
    """What an evaluation's file holds; nothing of what the training itself wrote there."""
    data = read_json(path)
    if isinstance(data, dict) and "format" not in data:
        return {"question": {}, "evaluations": []}
    return read_evaluation(path)


def _score(question: Mapping[str, Any], one: Mapping[str, Any]) -> Table:
    return {
        "scenarios": one["scenarios"],
        "split": question["split"],
        "episodes_per_layout": question["episodes_per_layout"],
        "argmax": question["argmax"],
        "seed": question["seed"],
        "noise": one["noise"],
        **{name: one["summary"][name] for name in SUMMARY},
        "lesions": [
            {
                "lesion": lesion["lesion"],
                "by": lesion["by"],
                "mean_return": lesion["summary"]["mean_return"],
                "worth": lesion["worth"]["mean_return"],
                "interval_95": lesion["worth"]["interval_95"],
            }
            for lesion in one.get("lesions", ())
        ],
    }


def headline(card: Mapping[str, Any]) -> Table | None:
    """The representative score of an agent: held-out mazes of its task and size, sampled actions, its own noise."""
    task = card["task"]
    fitting = [
        score
        for score in card["scores"]
        if _played(score["scenarios"]) == (task["task"], task["size"], task.get("world"))
        and score["split"] == "test"
        and not score["argmax"]
        and score["noise"] == task["ego_motion_noise"]
    ]
    return max(fitting, key=lambda score: score["episodes"], default=None)


def _played(scenarios: Mapping[str, Any]) -> tuple[str | None, int | None, str | None]:
    """Task, size and simulator of what was played; of another environment its id, in Doom no simulator."""
    return scenarios.get("env") or scenarios["task"], scenarios["size"], scenarios.get("world")


def limits(trained: Trained, scores: list[Table]) -> list[str]:
    """Known limits, one sentence each."""
    config = trained.config
    drawn = {"doom": "ViZDoom", "miniworld": "MiniWorld"}[config.env.world]
    made = config.env.id or f"{drawn} with rendering {config.env.rendering}"
    found = [
        f"Trained with one seed ({config.seed}); agents of other seeds may score differently.",
        f"Made for {made} and a frame skip of {config.env.frame_skip}: other pictures, cameras or simulators are "
        "untested.",
    ]
    if has_map(trained.agent.memory):
        found.append(
            f"Its map covers arenas of up to {trained.extent:g} map units; it does not remember what lies beyond."
        )
    if not config.env.ego_motion_noise:
        found.append("Trained with exact ego-motion; noise is untested.")
    if config.imitate != "none":
        found.append(f"Not trained by reward alone: it imitated the {config.imitate}.")
    if trained.decisions < config.budget:
        found.append(f"Its training was not finished: {trained.decisions:,} of {config.budget:,} decisions.")
    if not scores:
        found.append("It has not been scored: its run folder holds no result of egomap evaluate.")
    return [*found, *_of_lesions(scores)]


def _of_lesions(scores: list[Table]) -> list[str]:
    """Which lesions cost it nothing that could be measured, and that none was tried."""
    lesions = [lesion for score in scores for lesion in score["lesions"]]
    if scores and not lesions:
        return ["It has not been shown to use its memory: no lesion was tried."]
    idle = [each["lesion"] for each in lesions if each["interval_95"][0] <= 0]
    names = ", ".join(dict.fromkeys(idle))
    return [f"It has not been shown to use these parts of its memory: {names}."] if names else []
