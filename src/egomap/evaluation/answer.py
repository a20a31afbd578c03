"""The answer of an evaluation as plain data: its groups of runs, its text, and the file that is read again.

What comes in: the scores of each evaluation. What goes out: a summary of each group of runs that differ in their seed
alone; a JSON file. A file that is damaged, or was edited, is refused when it is read and not somewhere in a table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egomap.evaluation.scores import summarise
from egomap.evaluation.worth import lesions_of_group
from egomap.util.digest import canonical, sha256
from egomap.util.files import read_versioned

FORMAT = "egomap evaluation 1"
EVALUATION: dict[str, Any] = {
    "evaluations": [
        {
            "layouts": [
                {
                    "layout_id": str,
                    "returns": [float],
                    "success": [(bool, None)],
                    "decisions_to_success": [(float, None)],
                    "share_of_optimum": ([float], None),
                }
            ]
        }
    ]
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


def as_text(answer: dict[str, Any]) -> str:
    """The answer as the text of a JSON file."""
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def read_evaluation(path: Path) -> dict[str, Any]:
    """An answer that was written; a ValueError if the file is something else."""
    return read_versioned(path, FORMAT, "an evaluation", EVALUATION)
