"""Scenarios: seeded mazes with a task, written as maps that any ViZDoom program can load.

What comes in: a `ScenarioConfig`. What goes out: a `ScenarioSet`, its layouts and its files. Pure Python and
numpy: no torch, no engine.
"""

from egomap.scenarios.dataset import ScenarioSet, default_set, generate, load
from egomap.scenarios.layout import Cell, Layout, Wall

__all__ = ["Cell", "Layout", "ScenarioSet", "Wall", "default_set", "generate", "load"]
