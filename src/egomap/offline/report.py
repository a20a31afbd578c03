"""The results of the offline test: figures with their errors, a table, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from egomap.offline.learn import Measures
from egomap.util.bars import table_console

COLUMNS = ("action", "way", "home", "goal", "seen")
"""The targets, in the order of the columns."""


class Figure(NamedTuple):
    """A mean over decisions, and its standard error."""

    value: float
    error: float | None
    """Over episodes, for decisions of one episode are alike; None with fewer than two episodes."""
    decisions: int


class Line(NamedTuple):
    """One line of the table."""

    name: str
    figures: dict[str, Figure]
    seconds: float | None = None
    parameters: int | None = None
    over_seeds: dict[str, list[float]] | None = None
    """By target, the value of each training."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "figures": {name: found._asdict() for name, found in self.figures.items()}}


def figure(values: np.ndarray, episode: np.ndarray) -> Figure | None:
    """The mean of `values` (T, N), leaving out NaN, and its standard error over episodes (T, N); None if all are NaN.

    The error is that of a mean over clusters of different sizes: the root of the summed squares of each episode's
    summed deviations, over the number of decisions.
    """
    known = np.isfinite(values)
    count = int(known.sum())
    if count == 0:
        return None
    mean = float(values[known].mean(dtype=np.float64))
    _, cluster = np.unique(episode[known], return_inverse=True)
    sums = np.bincount(cluster, values[known].astype(np.float64) - mean)
    clusters = len(sums)
    error = None
    if clusters > 1:
        error = float(np.sqrt(np.square(sums).sum() * clusters / (clusters - 1)) / count)
    return Figure(mean, error, count)


def figures(measures: Measures, episode: np.ndarray) -> dict[str, Figure]:
    """The figures of all targets that something is known of."""
    found = {name: figure(values, episode) for name, values in measures.items()}
    return {name: each for name, each in found.items() if each is not None}


def line(
    name: str, runs: Sequence[Measures], episode: np.ndarray, *, seconds: float, parameters: int
) -> Line:
    """The line of a memory that was trained once or several times: means over the trainings."""
    mean = {target: np.mean([run[target] for run in runs], 0) for target in runs[0]}
    each = {target: [float(np.nanmean(run[target])) for run in runs] for target in runs[0]}
    return Line(name, figures(mean, episode), seconds, parameters, each)


def rows(lines: Sequence[Line]) -> list[list[str]]:
    """The cells of the table, its head first."""
    table = [["memory", *COLUMNS, "seconds", "parameters"]]
    for each in lines:
        cells = [_cell(each.figures.get(target)) for target in COLUMNS]
        seconds = "-" if each.seconds is None else f"{each.seconds:.0f}"
        table.append([each.name, *cells, seconds, "-" if each.parameters is None else f"{each.parameters:,}"])
    return table


def markdown(lines: Sequence[Line]) -> str:
    """The table in Markdown."""
    head, *body = rows(lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body)) + "\n"


def print_table(lines: Sequence[Line], title: str) -> None:
    """The table, on stdout."""
    from rich.table import Table

    head, *body = rows(lines)
    console = table_console()
    padding = (0, 1) if console.width >= 110 else (0, 0)
    table = Table(title=title, title_justify="left", padding=padding)
    for name in head:
        table.add_column(name, no_wrap=name == head[0])
    for cells in body:
        table.add_row(*cells)
    console.print(table)


def _cell(found: Figure | None) -> str:
    if found is None:
        return "-"
    return f"{found.value:.3f}" if found.error is None else f"{found.value:.3f} ± {found.error:.3f}"
