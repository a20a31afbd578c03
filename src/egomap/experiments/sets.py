"""The scenario sets of campaigns: the one place here that knows how worlds are made.

What comes in: a scenario. What goes out: a folder of mazes, as `egomap generate` makes it.
"""

from __future__ import annotations

from egomap.scenarios.dataset import generate

__all__ = ["generate"]
