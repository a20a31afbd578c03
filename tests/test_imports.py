"""The import rule: a module imports only from its own line of the list below, or a line above it.

One direction through the package keeps every part usable without what is built on top of it: worlds without
torch, memories without a simulator, algorithms without a command line.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import egomap

LINES = (
    ("util",),
    ("kinds",),
    ("config", "presets", "flags"),
    ("compute",),
    ("worlds",),
    ("scenarios",),
    ("envs",),
    ("geometry", "ways"),
    ("simulators",),
    ("memory",),
    ("agents",),
    ("zoo",),
    ("rl",),
    ("evaluation",),
    ("mazes",),
    ("training",),
    ("experiments",),
    ("sharing",),
    ("analysis",),
    ("inspector",),
    ("offline",),
    ("bench",),
    ("commands",),
    ("api",),
    ("cli",),
    ("__main__",),
)
LINE_OF = {name: number for number, line in enumerate(LINES) for name in line}

OF_THE_PACKAGE = {"api"}
"""What egomap's own __init__ tells type checkers of, and imports when somebody asks for it."""

WORLDS = {"scenarios", "envs", "simulators"}
WITHOUT_TORCH = {"util", "config", "worlds", *WORLDS}
WITHOUT_WORLDS = {"geometry", "ways", "memory", "agents"}
"""These work on any source of images and poses..."""
WITH_WORLDS = {"agents.planner", "agents.scripted"}
"""...but for the agents that look at the layout itself."""

OF_OUR_MAZES = {*WORLDS, "mazes", "vizdoom"}
BEHIND_THE_SEAM = {"worlds", "rl", "evaluation", "training", "experiments"}
"""These know a simulator by `egomap.worlds.api` alone: neither Doom, nor its mazes..."""
ROWS = {"training.sources", "training.teachers", "experiments.sets"}
"""...but for the rows of tables, each of which imports its simulator when it is asked for, and for the module that
makes a campaign's sets."""

ROOT = Path(egomap.__file__).parent


def module_name(path: Path) -> str:
    """The dotted name below `egomap`: "memory.scan", "memory" for its __init__, "" for egomap's own."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def imports(source: str, module: str, *, package: bool) -> Iterator[tuple[int, str]]:
    """(line number, dotted name) of every import in `source`, wherever it stands; relative ones resolved.

    `from a import b` gives "a.b" too, for b may be a module.
    """
    here = ["egomap", *module.split(".")] if module else ["egomap"]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = node.level - 1 if package else node.level
            base = ".".join([*here[: len(here) - up], *filter(None, [node.module])])
            base = base if node.level else str(node.module)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def faults(source: str, module: str, *, package: bool = False) -> list[str]:
    """The imports of `source` that break the rule, each with its line."""
    own = module.split(".")[0]
    if own and own not in LINE_OF:
        return [f"{module}: '{own}' has no line in LINES; add it where it belongs"]
    found = []
    for number, name in imports(source, module, package=package):
        top, *rest = name.split(".")
        if "vizdoom" in (top, *rest) and own in BEHIND_THE_SEAM:
            found.append(f"{module}:{number} imports vizdoom")
        if own in WITHOUT_TORCH and top == "torch":
            found.append(f"{module}:{number} imports torch")
        if top != "egomap" or not rest:
            continue
        target = rest[0]
        if not own and target in OF_THE_PACKAGE:
            continue
        if target not in LINE_OF:
            if target != "__version__":
                found.append(f"{module}:{number} imports {name}, which has no line in LINES")
        elif LINE_OF[target] > LINE_OF.get(own, -1):
            found.append(f"{module}:{number} imports {name}, from a line below its own")
        elif target in OF_OUR_MAZES and own in BEHIND_THE_SEAM and module not in ROWS:
            found.append(f"{module}:{number} imports {name}; what it needs of a world is in worlds.api")
        elif own in WITHOUT_WORLDS and target in WORLDS and module not in WITH_WORLDS:
            found.append(f"{module}:{number} imports {name}; {own} must work without these worlds")
    return found


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: module_name(path) or "egomap")
def test_module_imports_only_from_its_line_or_above(path):
    assert faults(path.read_text(), module_name(path), package=path.name == "__init__.py") == []


def test_all_modules_are_looked_at():
    names = {module_name(path) for path in MODULES}
    assert {"", "config", "memory", "memory.scan", "envs.doom", "cli", "__main__"} <= names


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("memory.scan", "from egomap.agents import Agent"),
        ("memory.scan", "import egomap.training.trainer"),
        ("memory.scan", "from egomap import training"),
        ("memory.scan", "from ..agents.agent import Agent"),
        ("memory.scan", "from .. import agents"),
        ("memory.scan", "def f():\n    import egomap.cli"),
        ("memory.scan", "from egomap.envs import DoomEnv"),
        ("rl.collect", "from egomap.envs.vector import DoomVectorEnv"),
        ("evaluation.runner", "def f():\n    from egomap.scenarios.layout import Layout"),
        ("training.trainer", "from egomap.envs import DoomEnv"),
        ("training.command", "import vizdoom"),
        ("experiments.plan", "def f():\n    from egomap.mazes.optimum import optima"),
        ("worlds.vector", "import torch"),
        ("worlds.api", "from egomap.envs.worlds import World"),
        ("agents.agent", "from egomap.scenarios.layout import Layout"),
        ("envs.doom", "from egomap.geometry import warp"),
        ("envs.doom", "import torch.nn"),
        ("scenarios.maze", "def f():\n    from torch import Tensor"),
        ("config", "from egomap.scenarios import maze"),
        ("util.files", "from egomap.config import require"),
        ("", "from egomap.memory import EgoMapMemory"),
        ("gadgets.one", ""),
    ],
)
def test_the_rule_can_be_broken(module, source):
    assert len(faults(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "package", "source"),
    [
        (
            "memory.scan",
            False,
            "from egomap.geometry import warp\nfrom egomap.memory import native\nimport torch",
        ),
        ("memory.scan", False, "from . import native\nfrom ..geometry import warp"),
        ("memory", True, "from .scan import Writes\nfrom ..geometry import warp"),
        (
            "agents.planner",
            False,
            "from egomap.scenarios.layout import Layout\nfrom egomap.envs import DoomEnv",
        ),
        ("training.sources", False, "def f():\n    from egomap.envs.source import DoomSource"),
        ("training.trainer", False, "from egomap.worlds.api import Source\nfrom egomap import __version__"),
        ("config", False, "from egomap import presets"),
    ],
)
def test_the_rule_can_be_kept(module, package, source):
    assert faults(source, module, package=package) == []


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("egomap", ["torch", "numpy", "gymnasium", "vizdoom", "egomap.api"]),
        ("egomap.api", ["torch", "numpy", "gymnasium", "vizdoom"]),
        ("egomap.training.names", ["torch", "gymnasium", "vizdoom", "huggingface_hub"]),
        ("egomap.config", ["torch", "numpy", "gymnasium", "vizdoom"]),
        ("egomap.kinds", ["torch", "numpy", "gymnasium", "vizdoom"]),
        ("egomap.scenarios.dataset", ["torch", "vizdoom"]),
        ("egomap.envs", ["torch"]),
        ("egomap.worlds.api", ["torch", "gymnasium", "vizdoom", "egomap.envs", "egomap.scenarios"]),
        ("egomap.rl.collect", ["vizdoom", "egomap.envs", "egomap.scenarios"]),
        ("egomap.evaluation.network", ["vizdoom", "egomap.envs", "egomap.scenarios"]),
        ("egomap.evaluation.answer", ["vizdoom", "egomap.envs", "egomap.scenarios"]),
        ("egomap.training.command", ["vizdoom", "egomap.envs", "egomap.scenarios"]),
        ("egomap.experiments.state", ["vizdoom", "egomap.envs", "egomap.mazes"]),
        ("egomap.cli", ["torch", "numpy", "gymnasium", "vizdoom"]),
        ("egomap.memory", ["gymnasium", "vizdoom", "cv2", "egomap.envs", "egomap.scenarios"]),
    ],
)
def test_import_in_a_fresh_process_loads_nothing_unwanted(module, unwanted):
    code = f"import sys, {module}; print([name for name in {unwanted!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
