"""`egomap train`: begin a run, resume it, and what is said at its end.

What comes in: `TrainFlags`. What goes out: a run folder.
"""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from egomap.commands.train_flags import TrainFlags, all_flags
from egomap.config import (
    TrainConfig,
    require,
    require_whole,
)
from egomap.flags import FLAGS
from egomap.kinds import file_name
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    from egomap.agents.agent import Agent
    from egomap.evaluation.runner import EpisodeResult, Player
    from egomap.training.counters import Counters
    from egomap.worlds.api import Simulated


def main(arguments: list[str]) -> int:
    """Parse the flags, whose defaults come from the preset that they name, and train."""
    flags = tyro.cli(
        all_flags(),
        prog="egomap train",
        args=arguments,
        default=TrainFlags.of(arguments),
        registry=FLAGS,
    )
    return train(flags)


def train(flags: TrainFlags) -> int:
    """Train an agent, or continue a run.

    Example: egomap train --preset fast --agent egomap --scenario find-return --size 5 --budget 2e6 --run runs/a
    """
    if flags.agent == "random" or flags.agent == "planner":
        require(
            not flags.env,
            f"{flags.agent} learns nothing; score random beside a run: egomap evaluate RUN --agents random.",
        )
        print(f"{flags.agent} learns nothing; this is how it scores.")
        from egomap.commands.evaluate import EvaluateOptions, evaluate

        options = EvaluateOptions(agents=(flags.agent,), seed=flags.seed, world=flags.world)
        if flags.scenarios is not None:
            return evaluate(replace(options, scenarios=(flags.scenarios,)))
        return evaluate(replace(options, scenario=flags.scenario, size=flags.size, items=flags.items))
    require(not flags.resume or flags.run is not None, "--resume needs --run, the folder to continue.")
    given = [
        name for name in flags.changed() if name not in ("run", "resume", "auto_resume", "budget", "device")
    ]
    require(
        not flags.resume or not given,
        f"--resume keeps the run's own settings; leave out --{', --'.join(given).replace('_', '-')}.",
    )
    config = None if flags.resume else flags.config()
    _check_places(flags)
    from egomap.memory.registry import complete  # only now, for these bring torch along
    from egomap.training.command import train as run_training

    if config is None:
        assert flags.run is not None
        moved = flags.device if "device" in flags.changed() else None
        budget = None if math.isnan(flags.budget) else require_whole(flags.budget, "budget")
        _end(flags.run, run_training(None, flags.run, resume=True, budget=budget, device=moved))
        return 0
    init = None
    if flags.init is not None:
        from egomap.training.initial import with_settings_of
        from egomap.training.trained import find_agent

        init = find_agent(flags.init)
        config = with_settings_of(config, init, TrainFlags.of(["--preset", flags.preset]).config())
    config = replace(config, agent=complete(config.agent))
    path = flags.run or Path("runs") / f"{file_name(config.agent.kind)}-{config.place}-s{config.seed}"
    begun = flags.auto_resume and (path / "config.json").exists()
    counters = run_training(config, path, resume=begun, init=init)
    if (
        flags.preset == "quick"
        and not flags.env
        and counters.decisions >= config.budget
        and os.environ.get("RANK", "0") == "0"
    ):
        _show_off(path, config)
    else:
        _end(path, counters)
    return 0


def _check_places(flags: TrainFlags) -> None:
    """Raise a ValueError for a rank without its group and for folders that hold no run, before torch is loaded."""
    from egomap.training.names import find_source, require_run_folder
    from egomap.training.place import own_place

    own_place()
    if flags.resume and flags.run is not None:
        require_run_folder(flags.run)
    if flags.init is not None:
        find_source(flags.init)


def _end(path: Path, counters: Counters) -> None:
    """The end of every training: where the run is, and what to try next. Rank 0 alone says it."""
    from egomap.training.run import open_run

    if os.environ.get("RANK", "0") != "0":
        return
    budget, run = open_run(path)[1].budget, shlex.quote(str(path))
    print(f"The run: {path}, {counters.decisions:,} of {budget:,} decisions")
    if counters.decisions >= budget:
        print(f"Next: egomap evaluate {run}, or look into its memory: egomap inspect {run}")
    else:
        print(f"Go on: egomap train --run {run} --resume")


def _show_off(path: Path, config: TrainConfig) -> None:
    """The end of the main job: the trained agent beside Random and the Planner, the curve, and what to do next."""
    from egomap.analysis.curves import plot_run
    from egomap.evaluation.runner import play
    from egomap.evaluation.tables import print_scores, summary
    from egomap.training.run import load_agent, run_spec, worlds_of
    from egomap.training.sources import source_of

    worlds = worlds_of(config, "test")
    results: dict[str, list[EpisodeResult]] = {}
    agent, _, _ = load_agent(path)
    for name in ("random", config.agent.kind, "planner"):
        env = source_of(config).open(run_spec(path), worlds, min(16, len(worlds)), episodes_per_layout=1)
        try:
            with progress_bar(f"{name:8}") as progress:
                results[name] = play(env, _player(name, env, agent), seed=config.seed, progress=progress)
        finally:
            env.close()
    scenario = config.scenario
    print(f"{len(worlds)} held-out mazes, {scenario.task} of {scenario.size} x {scenario.size} cells:")
    print_scores(results)
    levels = {name: summary(results[name])["mean_return"] for name in ("planner", "random")}
    title = f"{config.agent.kind} on {scenario.task}, size {scenario.size}"
    print(f"The run: {path}")
    print(f"The curve: {plot_run(path, title=title, levels=levels)}")
    print(
        "Next: egomap train --agent egomap --scenario find-return --size 5 --budget 2e6 --run runs/find-return"
    )


def _player(name: str, env: Simulated, agent: Agent | None) -> Player:
    """The player of that name; every other name is the trained agent."""
    from egomap.agents.scripted import scripted_agent
    from egomap.evaluation.network import NetworkPlayer
    from egomap.evaluation.runner import ScriptedPlayer

    if name == "random":
        return ScriptedPlayer(scripted_agent("random"), env)
    if name == "planner":
        return ScriptedPlayer(scripted_agent("planner"), env)
    assert agent is not None
    return NetworkPlayer(agent, env.num_envs)
