"""Progress on stderr, so that stdout stays clean; in a notebook, in the output of the cell. And where tables go.

A notebook's display is updated through IPython alone: it needs no widgets, so it looks the same in JupyterLab, in
editors and in a saved notebook.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

DRAW_EVERY = 0.25
"""Seconds between two updates of a display."""


FILE_WIDTH = 160
"""Columns of a table that is written to a file or a pipe, which have no width of their own."""


def table_console() -> Console:
    """Standard output for tables: as wide as the terminal, else as COLUMNS says, else wide enough for ours."""
    from rich.console import Console

    console = Console()
    fixed = console.is_terminal or console.is_jupyter or "COLUMNS" in os.environ
    return console if fixed else Console(width=FILE_WIDTH)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    from rich.console import Console

    return Console().is_jupyter


@contextmanager
def live(console: Console, first: Any) -> Iterator[Callable[[Any], None]]:
    """Show something that changes: `first`, then whatever the function that this yields is called with.

    Args:
        console: A terminal, on which each state is drawn over the one before; in a notebook the cell is used instead.
        first: A renderable of rich, as are all that follow.
    """
    if not in_notebook():
        from rich.live import Live

        with Live(first, console=console, refresh_per_second=round(1 / DRAW_EVERY)) as drawing:
            yield drawing.update
        return
    from IPython.display import display

    handle = display(first, display_id=True)
    latest, drawn = first, time.monotonic()

    def update(state: Any) -> None:
        nonlocal latest, drawn
        latest = state
        if time.monotonic() - drawn >= DRAW_EVERY:
            drawn = time.monotonic()
            handle.update(state)

    try:
        yield update
    finally:
        handle.update(latest)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar; call the function with (done, in all)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(what, total=None)

    def advance(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)

    if not in_notebook():
        with bar:
            yield advance
        return
    with live(bar.console, bar.make_tasks_table(bar.tasks)) as show:

        def advance_and_show(done: int, total: int) -> None:
            advance(done, total)
            show(bar.make_tasks_table(bar.tasks))

        yield advance_and_show


@contextmanager
def no_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Nothing; takes the place of `progress_bar`."""
    yield lambda done, total: None
