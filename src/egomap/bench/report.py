"""Run the parts of the benchmark and show what they found beside its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egomap.util.bars import table_console

Progress = Callable[[int, int], None]


def measure(
    parts: Sequence[str], *, others: Sequence[str] = (), progress: Progress | None = None
) -> dict[str, float]:
    """The figures of `parts`, flat: `engines.vector_over_bare`, `memory.steps_over_unroll`, ...

    Args:
        parts: What to measure.
        others: Memories to measure besides, in the parts memory and training.
        progress: Called with (done, in all).
    """
    from egomap.bench.engines import measure_engines
    from egomap.bench.memory import make_agent, measure_memory
    from egomap.bench.training import KINDS, measure_training

    others = [kind for kind in dict.fromkeys(others) if kind not in KINDS]
    for kind in others:
        make_agent(kind)  # a memory that cannot be built is refused before anything is measured
    runs: dict[str, Callable[[], dict[str, float]]] = {
        "engines": measure_engines,
        "memory": lambda: measure_memory(others=others),
        "training": lambda: measure_training(others=others),
    }
    figures: dict[str, float] = {}
    for done, part in enumerate(parts):
        if progress is not None:
            progress(done, len(parts))
        figures |= runs[part]()
    if progress is not None:
        progress(len(parts), len(parts))
    return figures


def bars() -> dict[str, str]:
    """What the figures that have a bar should be."""
    from egomap.bench import engines, memory, training

    parts = (engines, memory, training)
    least = {name: f">= {bar:g}" for part in parts for name, bar in part.AT_LEAST.items()}
    most = {name: f"<= {bar:g}" for part in parts for name, bar in part.AT_MOST.items()}
    return least | most


def show(figures: dict[str, float]) -> None:
    """Print the figures as a table."""
    from rich.table import Table

    table, wanted = Table("figure", "value", "bar"), bars()
    for name, value in figures.items():
        shown = f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
        table.add_row(name, shown, wanted.get(name, ""))
    table_console().print(table)
