"""Throughput of each part against the ceilings of this machine, in one run and as ratios."""

from egomap.bench.report import measure, show

__all__ = ["measure", "show"]
