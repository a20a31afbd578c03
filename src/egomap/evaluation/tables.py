"""Results as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from egomap.util.bars import table_console

if TYPE_CHECKING:  # for it brings torch along, and commands that only check their flags need none
    from egomap.evaluation.runner import EpisodeResult

Results = Mapping[str, Sequence["EpisodeResult"]]


def summary(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Mean return with its deviation over episodes, the share that was solved, and how long solving took."""
    rewards = np.array([result.total_reward for result in results])
    solved = [result.decisions for result in results if result.success]
    return {
        "episodes": len(results),
        "mean_return": float(rewards.mean()),
        "std_return": float(rewards.std()),
        "success": None if any(r.success is None for r in results) else len(solved) / len(results),
        "median_decisions_to_success": float(np.median(solved)) if solved else None,
    }


def print_scores(results: Results) -> None:
    """A table with one row for each agent."""
    from rich.table import Table

    table = Table("agent", "mean return", "std", "solved", "median decisions when solved")
    for name, episodes in results.items():
        found = summary(episodes)
        table.add_row(
            name,
            f"{found['mean_return']:.3f}",
            f"{found['std_return']:.3f}",
            _solved(found),
            _figure(found["median_decisions_to_success"], ".0f"),
        )
    table_console().print(table)


def print_evaluations(answer: Mapping[str, Any]) -> None:
    """A table with one row for each evaluation, and one over seeds if some runs differ in their seed alone."""
    evaluations, groups = answer["evaluations"], answer["groups"]
    ours = all(one["scenarios"]["task"] is not None for one in evaluations)
    title = f"{answer['question']['split']} layouts" if ours else "layouts"
    rows = [(one["run"] or one["agent"], one) for one in evaluations]
    _print_summaries(title, "agent or run", rows)
    if groups:
        _print_summaries(
            f"{title}, over seeds",
            "agent",
            [(f"{g['agent']}, {len(g['runs'])} seeds", g) for g in groups],
        )
    everybody = rows + [(f"{g['agent']}, {len(g['runs'])} seeds", g) for g in groups]
    _print_legs(everybody)
    _print_lesions([(name, one) for name, one in everybody if "lesions" in one])


def _print_legs(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    from rich.table import Table

    noisy = any(row["noise"] for _, row in rows)
    heads = ["agent or run", *(["noise"] if noisy else []), "leg", "finished", "decisions", "optimum"]
    heads += ["efficiency", "95 % interval", "revisited"]
    many = any(len(row["summary"].get("legs", ())) > 2 for _, row in rows)
    heads += ["since seen", "detour"] if many else []
    console = table_console()
    padding = (0, 1) if console.width >= 100 else (0, 0)
    table = Table(title="legs", title_justify="left", padding=padding)
    for head in heads:
        table.add_column(head, overflow="fold")
    for name, row in rows:
        lesioned = [(f"{name} without {each['lesion']}", each["summary"]) for each in row.get("lesions", ())]
        for who, summary in [(name, row["summary"]), *lesioned]:
            for leg in summary.get("legs", ()):
                table.add_row(
                    who, *([f"{row['noise']:g}"] if noisy else []), *leg_cells(leg)[: 9 if many else 7]
                )
    if table.row_count:
        console.print(table)


def leg_cells(leg: Mapping[str, Any]) -> list[str]:
    """The columns of a leg: its goal, finished, decisions, optimum, efficiency, interval, the rest."""
    interval = leg["interval_95"]
    return [
        f"{leg['leg']} {leg['goal']}",
        f"{leg['finished']} of {leg['in_time']}",
        _figure(leg["decisions"], ".0f"),
        _figure(leg["optimum"], ".0f"),
        _figure(leg["efficiency"], ".3f"),
        "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        _figure(leg["revisited"], ".0%"),
        _figure(leg["since_seen"], ".0f"),
        _figure(leg["detour"], ".2f"),
    ]


def _print_lesions(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    from rich.table import Table

    if not rows:
        return
    noisy = any(row["noise"] for _, row in rows)
    heads = ["agent or run", *(["noise"] if noisy else []), "without", "replaced by", "intact", "lesioned"]
    heads += ["intact - lesioned", "95 % interval", "solved intact", "solved lesioned"]
    table = Table(*heads, title="what memory is worth", title_justify="left")
    for name, row in rows:
        intact = row["summary"]
        for lesion in row["lesions"]:
            found, (low, high) = lesion["worth"], lesion["worth"]["interval_95"]
            table.add_row(
                name,
                *([f"{row['noise']:g}"] if noisy else []),
                lesion["lesion"],
                ", ".join(dict.fromkeys(lesion["by"].values())),
                f"{intact['mean_return']:.3f}",
                f"{lesion['summary']['mean_return']:.3f}",
                f"{found['mean_return']:+.3f}",
                f"{low:+.3f} to {high:+.3f}",
                *(_solved(each) for each in (intact, lesion["summary"])),
            )
    table_console().print(table)


def _print_summaries(title: str, who: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    from rich.table import Table

    noisy = any(row["noise"] for _, row in rows)
    seeds = any(row["summary"]["std_over_seeds"] is not None for _, row in rows)
    heads = [who, *(["noise"] if noisy else []), "mean return", *(["std of seeds"] if seeds else [])]
    heads += ["95 % interval", "IQM", "solved", "median decisions when solved", "share of optimum"]
    table = Table(*heads, title=title, title_justify="left")
    for name, row in rows:
        found = row["summary"]
        low, high = found["interval_95"]
        table.add_row(
            name,
            *([f"{row['noise']:g}"] if noisy else []),
            f"{found['mean_return']:.3f}",
            *([_figure(found["std_over_seeds"], ".3f")] if seeds else []),
            f"{low:.3f} to {high:.3f}",
            f"{found['iqm_return']:.3f}",
            _solved(found),
            _figure(found["median_decisions_to_success"], ".0f"),
            _figure(found["share_of_optimum"], ".1%"),
        )
    table_console().print(table)


def _solved(summary: Mapping[str, Any]) -> str:
    """How many episodes were solved; a dash where the simulator does not say."""
    if summary["success"] is None:
        return "-"
    return f"{round(summary['success'] * summary['episodes'])} of {summary['episodes']}"


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"
