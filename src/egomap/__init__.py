"""EgoMap: projective mapping and structured egocentric memory for deep reinforcement learning.

The way of one observation: `scenarios` make worlds, `envs` serve them, `geometry` and `memory` map what is
seen, `agents` act on it, `rl` and `training` learn, `evaluation` and `analysis` measure and show.

`egomap.train`, `evaluate`, `load_agent` and `inspect` do what the commands of these names do. They are imported when
they are first used, so that `import egomap` is quick and needs neither torch nor an engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egomap.api import evaluate as evaluate
    from egomap.api import inspect as inspect
    from egomap.api import load_agent as load_agent
    from egomap.api import train as train

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "inspect", "load_agent", "train"]


def __getattr__(name: str) -> Any:
    """The functions of `egomap.api`, when they are asked for."""
    if name in __all__:
        return getattr(import_module("egomap.api"), name)
    raise AttributeError(f"module 'egomap' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, and what is there when it is asked for."""
    return sorted({*globals(), *__all__})
