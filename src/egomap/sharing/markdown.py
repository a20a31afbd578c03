"""An agent's card as Markdown, with metadata in YAML for hubs.

Input: a card from `egomap.sharing.card`. Output: text. Every value in the head is written as JSON,
which is YAML as well, so that nothing in a name can be taken for syntax.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from egomap.sharing.card import headline

TAGS = ("reinforcement-learning", "egomap", "memory", "vizdoom")


def markdown(card: Mapping[str, Any]) -> str:
    """The card as the text of a README.md."""
    agent, task, training = card["agent"], card["task"], card["training"]
    mazes = task["task"] if task["size"] is None else f"{task['task']}, {task['size']} x {task['size']} cells"
    parts = [
        _head(card),
        f"# {card['name']}",
        f"{agent['label']} on {mazes}, trained with egomap {card['egomap']}.",
        "\n".join(
            [
                "```python",
                "import egomap",
                "",
                f'agent = egomap.load_agent("{card["name"]}")  # or the path of this folder',
                "env = agent.make_env()",
                "observation, info = env.reset(seed=0)",
                "observation, *_ = env.step(agent.act(observation))",
                "```",
            ]
        ),
        "## Agent",
        _table(("", ""), _agent_rows(card)),
        "## Training",
        _table(("", ""), _training_rows(training)),
        "## Scores",
        _scores(card["scores"]),
        "## Known limits",
        "\n".join(f"- {limit}" for limit in card["limits"]),
        "`card.json` holds all of this for programs, `config.json` every setting, `model.safetensors` the weights.",
    ]
    return "\n\n".join(parts) + "\n"


def _head(card: Mapping[str, Any]) -> str:
    score, task = headline(card), card["task"]
    head: dict[str, Any] = {
        "license": card["licence"].lower(),
        "library_name": "egomap",
        "pipeline_tag": "reinforcement-learning",
        "tags": [*TAGS, task["task"]],
    }
    if score is not None:
        dataset = {"name": f"{_mazes(task)}, held-out", "type": f"egomap-{task['task']}"}
        metrics = [{"type": "mean_reward", "name": "mean return", "value": round(score["mean_return"], 4)}]
        if score["success"] is not None:  # some simulators do not say
            metrics.append({"type": "success_rate", "name": "solved", "value": round(score["success"], 4)})
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement learning"},
            "dataset": dataset,
            "metrics": metrics,
        }
        head["model-index"] = [{"name": card["name"], "results": [result]}]
    return "\n".join(["---", *(f"{name}: {json.dumps(value)}" for name, value in head.items()), "---"])


def _agent_rows(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    agent, task, camera = card["agent"], card["task"], card["camera"]
    return [
        ("kind", f"`{agent['kind']}`, {agent['parameters']:,} parameters"),
        ("input", f"RGB and depth of {camera['width']} x {camera['height']}, pose, ego-motion"),
        ("camera", f"fx {camera['fx']:g}, fy {camera['fy']:g} pixels{_rendering(task)}"),
        ("actions", ", ".join(card["actions"])),
        ("one decision", f"{task['frame_skip']} frames"),
        ("arenas up to", f"{card['extent']:g} map units"),
        ("licence", card["licence"]),
    ]


def _rendering(task: Mapping[str, Any]) -> str:
    return "" if task["rendering"] is None else f"; rendering {task['rendering']}"


def _training_rows(training: Mapping[str, Any]) -> list[tuple[str, str]]:
    sizes = ", ".join(map(str, training["curriculum"]))
    imitated = training["imitate"]
    longer = ", ".join(f"{each['from']:,} to {each['to']:,}" for each in training["extensions"])
    return [
        ("decisions", f"{training['decisions']:,} of {training['budget']:,} ({training['frames']:,} frames)"),
        ("hours", f"{training['hours']:g}"),
        ("checkpoint", training["checkpoint"]),
        ("seed", str(training["seed"])),
        ("algorithm", training["algorithm"].upper()),
        (
            "learned from",
            "reward alone" if imitated == "none" else f"reward, and imitation of the {imitated}",
        ),
        *([("curriculum", f"sizes {sizes}")] if sizes else []),
        *([("began with", training["init"])] if training["init"] else []),
        *([("budget extended", longer)] if longer else []),
    ]


def _scores(scores: Sequence[Mapping[str, Any]]) -> str:
    if not scores:
        return "None yet."
    rows = [
        (
            f"{_mazes(score['scenarios'])}, {score['split']}",
            f"{score['noise']:g}",
            "most probable" if score["argmax"] else "sampled",
            f"{score['mean_return']:.3f}",
            _interval(score["interval_95"]),
            _share(score["success"], f" of {score['episodes']}"),
            _share(score["share_of_optimum"]),
        )
        for score in scores
    ]
    heads = ("mazes", "noise", "actions", "mean return", "95 % interval", "solved", "share of optimum")
    lesions = [
        (
            f"{_mazes(score['scenarios'])}, {score['split']}",
            each["lesion"],
            ", ".join(dict.fromkeys(each["by"].values())),
            f"{each['mean_return']:.3f}",
            f"{each['worth']:+.3f}",
            _interval(each["interval_95"], "+.3f"),
        )
        for score in scores
        for each in score["lesions"]
    ]
    table = _table(heads, rows)
    if not lesions:
        return table
    without = ("mazes", "without", "replaced by", "mean return", "worth", "95 % interval")
    told = "What parts of its memory are worth (the same episodes without them):"
    return f"{table}\n\n{told}\n\n{_table(without, lesions)}"


def _mazes(scenarios: Mapping[str, Any]) -> str:
    name = scenarios.get("env") or scenarios["task"]
    if name is None:
        return f"{scenarios['layouts']} other maps"
    return str(name) if scenarios["size"] is None else f"{name} {scenarios['size']}"


def _share(value: float | None, of: str = "") -> str:
    return "-" if value is None else f"{value:.1%}{of}"


def _interval(bounds: Sequence[float], form: str = ".3f") -> str:
    return f"{bounds[0]:{form}} to {bounds[1]:{form}}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
