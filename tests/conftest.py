"""What all tests share: one hypothesis profile, a cache of their own, and small scenario sets.

The profile gives the same examples in every run and no time limit for each: a busy machine must not fail a test,
and a failure must come back when the test is run again.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from egomap.config import ScenarioConfig, Task
from egomap.scenarios.dataset import ScenarioSet, generate
from egomap.util.cores import usable_cores

# What a shell runs in its background ignores Ctrl-C, and so do its children; the tests send it to both.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Under nohup the same holds for a lost connection. Caught here, it does no harm and children have the default again.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# Read by OpenMP when torch loads it: threads that wait must not spin while other processes want the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# The authors' own files are not part of this project; where they lie beside it, they are tested against.
_AUTHORS = Path(__file__).resolve().parents[2] / "shared" / "reference-scenarios"
if _AUTHORS.is_dir():
    os.environ.setdefault("EGOMAP_REFERENCE_SCENARIOS", str(_AUTHORS))
settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more process than cores, for many a slow test waits for engines and processes of its own; four at most."""
    waits = config.getoption("markexpr") != "not slow"
    return min(len(usable_cores()) + waits, 4)


def seconds_of(item: pytest.Item) -> float:
    """Roughly what a test takes: what `slow(seconds=...)` says, a few seconds if it does not, else next to none."""
    slow = item.get_closest_marker("slow")
    return 0.1 if slow is None else slow.kwargs.get("seconds", 3.0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest first: no process is left with one at the end."""
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += seconds_of(item)
    items.sort(key=lambda item: -seconds[item.path])


TASKS: tuple[Task, ...] = ("labyrinth", "find-return", "ordered-items")


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, ScenarioSet]:
    """A set of 16 + 4 layouts of each task, in a folder whose name has a blank."""
    folder = tmp_path_factory.mktemp("scenario sets")
    return {
        task: generate(
            ScenarioConfig(
                task=task,
                size=5,
                items=4,
                cell=160 if task == "ordered-items" else 128,
                train=16,
                test=4,
                seed=5,
            ),
            folder / task,
        )
        for task in TASKS
    }


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Default sets and merged files go to a folder of this test run."""
    before = os.environ.get("EGOMAP_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["EGOMAP_CACHE"] = str(folder)
    yield folder
    os.environ.pop("EGOMAP_CACHE")
    if before is not None:
        os.environ["EGOMAP_CACHE"] = before
