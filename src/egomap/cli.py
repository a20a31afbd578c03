"""The command line: one function for each command; heavy parts are imported by the command that needs them.

Whatever is wrong with the input ends with one sentence on stderr and exit code 2; Ctrl-C with exit code 130.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from egomap.config import EnvSettings, ScenarioConfig, Task, require

if TYPE_CHECKING:
    from collections.abc import Callable

    from egomap.envs.worlds import Worlds

INPUT_ERRORS = (ValueError, OSError, RuntimeError)
"""What our own code raises with a sentence that a person can act upon."""

Positional = tyro.conf.Positional


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    commands: dict[str, Callable[..., int]] = {
        "doctor": doctor,
        "generate": generate,
        "evaluate": evaluate,
        "bench": bench,
    }
    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="egomap",
            description="Projective mapping and structured egocentric memory for reinforcement learning.",
            args=arguments,
        )
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # e.g. `egomap ... | head`
        return 141
    except INPUT_ERRORS as error:
        print(f"egomap: {sentence(error)}", file=sys.stderr)
        return 2


def sentence(error: BaseException) -> str:
    """What a person needs to know of `error`."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    return str(error) or type(error).__name__


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, so that stdout stays clean; call the function with (done, in all)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def doctor() -> int:
    """Check this machine: versions, an engine, its depth calibration, its speed limits.

    Example: egomap doctor
    """
    from egomap.envs.doctor import checks

    found = checks()
    for check in found:
        print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
    failed = sum(not check.ok for check in found)
    print("Everything works." if not failed else f"{failed} of {len(found)} checks failed.")
    return 0 if not failed else 2


def generate(
    task: Positional[Task],
    *,
    size: int | None = None,
    items: int = ScenarioConfig.items,
    cell: int | None = None,
    wall_probability: float = ScenarioConfig.wall_probability,
    train: int = ScenarioConfig.train,
    test: int = ScenarioConfig.test,
    seed: int = ScenarioConfig.seed,
    out: Path | None = None,
) -> int:
    """Make a set of mazes: training and held-out layouts as WAD, cfg, JSON manifest and a picture.

    Example: egomap generate find-return --size 9 --train 256 --test 64 --seed 0 --out mazes

    Args:
        task: Family of tasks.
        size: Cells along each side, 3 to 21 (labyrinth and find-return: 9; ordered-items: 5).
        items: Items to collect, 2 to 8 (ordered-items).
        cell: Side of a cell in map units, 96 to 512 (128; ordered-items: 160).
        wall_probability: Probability of a wall before the paths are carved, 0 to 1.
        train: Training layouts.
        test: Held-out layouts, none of them among the training ones.
        seed: The same seed gives the same bytes on any machine.
        out: Folder to write to (default: TASK-SIZE).
    """
    from egomap.scenarios import dataset

    default = ScenarioConfig.default(task)
    config = ScenarioConfig(
        task=task,
        size=default.size if size is None else size,
        items=items,
        cell=default.cell if cell is None else cell,
        wall_probability=wall_probability,
        train=train,
        test=test,
        seed=seed,
    ).validate()
    folder = out or Path(f"{task}-{config.size}")
    with progress_bar("layouts") as progress:
        made = dataset.generate(config, folder, progress=progress)
    counts = ", ".join(f"{len(layouts)} {split}" for split, layouts in made.layouts.items())
    print(f"{made.folder}: {counts} layouts of {task}, {config.size} x {config.size} cells.")
    print(f"See {made.folder / dataset.PICTURE}. Play: egomap evaluate --agents planner --scenarios {folder}")
    return 0


def evaluate(
    *,
    agents: tuple[Literal["random", "planner"], ...] = ("random", "planner"),
    scenario: Task | None = None,
    size: int | None = None,
    items: int | None = None,
    scenarios: tuple[str, ...] = (),
    split: Literal["train", "test"] = "test",
    episodes_per_layout: int = 1,
    num_envs: int = 16,
    seed: int = 0,
    noise: float = EnvSettings.ego_motion_noise,
    out: Path | None = None,
) -> int:
    """Score agents on every layout of a split, each played equally often.

    Example: egomap evaluate --agents random planner --scenario find-return --size 9

    Args:
        agents: Who plays.
        scenario: Family whose default set is played (made once and kept).
        size: Cells along each side of the default set.
        items: Items of the default ordered-items set.
        scenarios: A folder of `egomap generate`, or any .cfg files (a glob pattern too), instead.
        split: Which layouts of the set.
        episodes_per_layout: How often each layout is played.
        num_envs: Engines at once.
        seed: The same seed gives the same episodes.
        noise: Ego-motion noise, standard deviation of a factor on each reading.
        out: JSON file for the results of every episode.
    """
    from egomap.agents.scripted import scripted_agent
    from egomap.envs.vector import DoomVectorEnv
    from egomap.evaluation.runner import ScriptedPlayer, play
    from egomap.evaluation.tables import print_scores, scores_json

    require(out is None or not out.exists(), f"{out} exists already; give another name.")
    worlds = _worlds(scenario, size, items, scenarios, split)
    results = {}
    for name in agents:
        env = DoomVectorEnv(
            min(num_envs, len(worlds) * episodes_per_layout),
            worlds=worlds,
            ego_motion_noise=noise,
            episodes_per_layout=episodes_per_layout,
            copy=False,
        )
        try:
            with progress_bar(f"{name:8}") as progress:
                player = ScriptedPlayer(scripted_agent(name), env)
                results[name] = play(env, player, seed=seed, progress=progress)
        finally:
            env.close()
    print_scores(results)
    if out is not None:
        out.write_text(json.dumps(scores_json(results), indent=1) + "\n")
        print(f"Every episode: {out}")
    return 0


def bench(
    *,
    parts: tuple[Literal["engines", "memory"], ...] = ("engines", "memory"),
    print_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Measure this machine's throughput: each part against its ceiling, in one run, as ratios.

    Let nothing else run meanwhile. Example: egomap bench --parts engines --json

    Args:
        parts: What to measure.
        print_json: Print one flat JSON object of names and figures, and nothing else, on stdout.
    """
    from egomap.bench import measure, show

    with progress_bar("bench") as progress:
        figures = measure(parts, progress=progress)
    if print_json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0


def _worlds(
    task: Task | None, size: int | None, items: int | None, scenarios: tuple[str, ...], split: str
) -> Worlds:
    """The worlds that the scenario options of a command name."""
    from egomap.envs.doom import find_worlds

    if not scenarios:
        return find_worlds(task=task or "labyrinth", size=size, items=items, split=split)
    require(
        size is None and items is None, "--size and --items belong to --scenario; --scenarios has its own."
    )
    if len(scenarios) == 1 and Path(scenarios[0]).is_dir():
        return find_worlds(task=task, scenarios=scenarios[0], split=split)
    return find_worlds(config=scenarios)
