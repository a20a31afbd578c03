"""The data of an experiment as Markdown and CSV: ours beside the paper's, with both budgets.

What comes in: what `gather` made. What goes out: text. Pure functions.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from egomap.config import FRAME_SKIP
from egomap.experiments.render_memory import legs_table, lesions_table

MISSING = "-"


def markdown(data: dict[str, Any]) -> str:
    """Title and budgets, the command, and the table."""
    return f"**{data['title']}.** {table(data)}"


def table(data: dict[str, Any]) -> str:
    """The same without the title."""
    lines = [budgets(data), "", f"`{data['command']}`", ""]
    heads = ["task", "mazes", "agent", "frames, ours / paper", "train, ours", "train, paper", "test, ours"]
    heads += ["95 % interval", "IQM", "test, paper", "solved", "share of optimum"]
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(_cells(row, data))} |" for row in data["rows"]]
    return "\n".join([*lines, *legs_table(data), *lesions_table(data)]) + "\n"


def budgets(data: dict[str, Any]) -> str:
    """One or two sentences: how long ours and the paper's agents were trained, on how many mazes they are scored."""
    layouts = f"Scores on {data['test_layouts']} held-out and {data['train_layouts']} training mazes"
    if not any(row["decisions"] for row in data["rows"]):
        return f"{layouts}; nothing is trained here."
    frames = data["budget"] * FRAME_SKIP
    return (
        f"{layouts}; mean ± deviation over {data['seeds']} seed{'s' * (data['seeds'] > 1)}. Ours: "
        f"{short(frames)} frames ({short(data['budget'])} decisions) for each run, preset `{data['preset']}`. The "
        f"paper: {short(data['paper_frames'])} frames, {times_as_many(data)}, three runs."
    )


def times_as_many(data: dict[str, Any]) -> str:
    """How many frames the paper's runs had for each one of ours."""
    times = data["paper_frames"] / (data["budget"] * FRAME_SKIP)
    return f"{times:,.0f} times as many" if times >= 10 else f"{times:.2g} times as many"


def _cells(row: dict[str, Any], data: dict[str, Any]) -> list[str]:
    test, train = row["ours"]["test"], row["ours"]["train"]
    frames = MISSING
    if row["decisions"] is not None and row["paper_frames"] is not None:
        frames = f"{short(row['decisions'] * FRAME_SKIP)} / {short(row['paper_frames'])}"
    return [
        row["task"],
        f"{row['size']} x {row['size']}",
        row["agent"],
        frames,
        ours(train, data["seeds"]),
        of_paper(row["paper"]["train"]),
        ours(test, data["seeds"]),
        MISSING if test is None else f"{test['interval_95'][0]:.3f} to {test['interval_95'][1]:.3f}",
        MISSING if test is None else f"{test['iqm_return']:.3f}",
        of_paper(row["paper"]["test"]),
        MISSING if test is None else f"{round(test['success'] * test['episodes'])} of {test['episodes']}",
        MISSING if test is None or test["share_of_optimum"] is None else f"{test['share_of_optimum']:.0%}",
    ]


def ours(summary: dict[str, Any] | None, seeds: int) -> str:
    """Mean ± deviation over seeds, where there is one; it says so if some of them are not finished."""
    if summary is None:
        return MISSING
    deviation = "" if summary["std_over_seeds"] is None else f" ± {summary['std_over_seeds']:.3f}"
    of = "" if summary["runs"] == seeds else f" ({summary['runs']} of {seeds} seeds)"
    return f"{summary['mean_return']:.3f}{deviation}{of}"


def of_paper(value: dict[str, Any] | None) -> str:
    """The same for a figure of the paper."""
    if value is None:
        return MISSING
    return f"{value['mean']:.3f}" + ("" if value["std"] is None else f" ± {value['std']:.3f}")


def short(count: float) -> str:
    """A large number as people say it: 1.2 billion, 1.6 million, 80 000."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:,.0f}".replace(",", " ")


CSV_COLUMNS = (
    *(
        "experiment",
        "task",
        "size",
        "agent",
        "noise",
        "preset",
        "seeds",
        "decisions",
        "frames",
        "paper_frames",
    ),
    *("train_mean", "train_std", "paper_train_mean", "paper_train_std"),
    *("test_mean", "test_std", "test_low", "test_high", "test_iqm", "paper_test_mean", "paper_test_std"),
    *("test_success", "test_median_decisions", "test_share_of_optimum", "hours_per_run"),
)


def table_csv(data: dict[str, Any]) -> str:
    """One line for each row; empty where there is no figure."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in data["rows"]:
        test, train = row["ours"]["test"] or {}, row["ours"]["train"] or {}
        paper_train, paper_test = row["paper"]["train"] or {}, row["paper"]["test"] or {}
        low, high = test.get("interval_95", (None, None))
        decisions, hours = row["decisions"], [each for each in row["hours"] or () if each]
        values = (
            *(data["experiment"], row["task"], row["size"], row["agent"], row["noise"], data["preset"]),
            *(test.get("runs", 0), decisions, decisions and decisions * FRAME_SKIP, row["paper_frames"]),
            *(train.get("mean_return"), train.get("std_over_seeds")),
            *(paper_train.get("mean"), paper_train.get("std")),
            *(test.get("mean_return"), test.get("std_over_seeds"), low, high, test.get("iqm_return")),
            *(paper_test.get("mean"), paper_test.get("std"), test.get("success")),
            *(test.get("median_decisions_to_success"), test.get("share_of_optimum")),
            sum(hours) / len(hours) if hours else None,  # of those that have begun
        )
        writer.writerow(
            {
                name: f"{value:.6g}" if isinstance(value, float) else value
                for name, value in zip(CSV_COLUMNS, values, strict=True)
            }
        )
    return text.getvalue()
