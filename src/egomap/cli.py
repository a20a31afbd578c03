"""The command line: one function for each command; heavy parts are imported by the command that needs them.

Whatever is wrong with the input ends with one sentence on stderr and exit code 2; Ctrl-C with exit code 130.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from egomap import __version__
from egomap.api import as_trained, named_worlds
from egomap.config import (
    AgentConfig,
    DeviceKind,
    EnvSettings,
    LearnerSettings,
    MapSettings,
    PlaceSettings,
    Precision,
    ScenarioConfig,
    Task,
    TeacherKind,
    TrainConfig,
    require,
    require_whole,
)
from egomap.inspector.options import InspectOptions, PlayOptions, ProbeOptions
from egomap.kinds import CHOICES, file_name, require_kind
from egomap.offline.options import OfflineOptions
from egomap.sharing.commands import agents, export, push
from egomap.util.bars import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from egomap.agents.agent import Agent
    from egomap.envs.vector import DoomVectorEnv
    from egomap.evaluation.runner import EpisodeResult, Player
    from egomap.training.counters import Counters

INPUT_ERRORS = (ValueError, OSError, RuntimeError)
"""What our own code raises with a sentence that a person can act upon."""
LONGEST = 1500
"""Characters of such a sentence: it may quote a file, which may be anything."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    # Read by OpenMP when torch loads it: threads that wait must not spin while engines want the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    commands: dict[str, Callable[..., int]] = {
        "doctor": doctor,
        "generate": generate,
        "train": train,
        "evaluate": evaluate,
        "bench": bench,
        "reproduce": reproduce,
        "inspect": inspect,
        "play": play,
        "probe": probe,
        "offline": offline,
        "agents": agents,
        "export": export,
        "push": push,
    }
    try:
        if given == ["--version"]:
            print(f"egomap {__version__}")
            return 0
        if given[:1] == ["train"]:  # the defaults of its flags come from the preset
            flags = tyro.cli(
                TrainFlags, prog="egomap train", args=given[1:], default=TrainFlags.of(given[1:])
            )
            return train(flags)
        if given[:1] == ["reproduce"]:
            return _reproduce(given[1:])
        return tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="egomap",
            description="Projective mapping and structured egocentric memory for reinforcement learning.",
            args=given,
        )
    except SystemExit as left:  # flags that nobody knows; they are shown already
        if left.code == 2:
            _tell_torchrun("the flags are not understood; what is wrong with them is shown further up.")
        raise
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # e.g. `egomap ... | head`
        return 141
    except ImportError as error:  # a package that is missing or broken
        return _refuse(f"{error}; install egomap again, with all that it needs.")
    except MemoryError:
        return _refuse("there is not enough memory for this; ask for less at once.")
    except INPUT_ERRORS as error:
        return _refuse(sentence(error))


def _refuse(told: str) -> int:
    """Tell a person why nothing is done, and return the exit code for it.

    Of several ranks, which mostly say the same, the first alone says it here; torchrun shows the others'.
    """
    _tell_torchrun(told)
    if "TORCHELASTIC_ERROR_FILE" not in os.environ or os.environ.get("RANK", "0") == "0":
        print(f"egomap: {told}", file=sys.stderr)
    return 2


def _tell_torchrun(told: str) -> None:
    """Under torchrun, which shows forty lines of its own when a rank fails: let `told` be at their end."""
    report = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if report:
        about = {"message": told, "errorCode": 2, "extraInfo": {"timestamp": str(int(time.time()))}}
        with suppress(OSError):
            Path(report).write_text(json.dumps({"message": about}))


def sentence(error: BaseException) -> str:
    """What a person needs to know of `error`."""
    if "can't allocate memory" in str(error):  # torch's own words for it go on for lines
        return "there is not enough memory for this; ask for less at once."
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    return " ".join(str(error).split())[:LONGEST] or type(error).__name__


def doctor() -> int:
    """Check this machine: versions, an engine, its depth calibration, memory, processor, the speed to expect.

    Example: egomap doctor
    """
    from egomap.bench.machine import machine_checks
    from egomap.envs.doctor import Check, checks

    found: list[Check] = []
    for check in itertools.chain(
        checks(), machine_checks(sound=lambda: not any(one.failed for one in found))
    ):
        mark = "ok  " if check.ok else "FAIL" if check.needed else "none"
        print(f"{mark}  {check.name}: {check.detail}", flush=True)
        found.append(check)
    failed = sum(check.failed for check in found)
    print("Everything works." if not failed else f"{failed} of {len(found)} checks failed.")
    return 0 if not failed else 2


def generate(
    task: tyro.conf.Positional[Task],
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


@dataclass(frozen=True)
class TrainFlags:
    """Train an agent, or go on with a run.

    Example: egomap train --preset fast --agent egomap --scenario find-return --size 5 --budget 2e6 --run runs/a

    Go on after a stop or a kill: egomap train --run runs/a --resume. Many ranks: torchrun --nproc-per-node 2 -m
    egomap train ... Nearly every setting of the preset can be changed, e.g. --learner.learning-rate 1e-4.
    """

    preset: str = "fast"
    """Where all other defaults come from: paper, fast, quick or full."""
    run: Annotated[Path | None, tyro.conf.arg(aliases=["--folder"])] = None
    """Run folder (default: runs/AGENT-SCENARIO-SIZE-sSEED). Under torchrun say --folder: it takes --run for an
    abbreviation of an option of its own."""
    resume: bool = False
    """Go on with the run from its last checkpoint, with its own settings; --budget may be larger than before."""
    init: str | None = None
    """Begin with the weights of a trained agent, to fine-tune it: a run folder, an exported agent, or the name of a
    released one (egomap agents). It keeps its own settings and pictures; --agent must name its kind."""
    auto_resume: bool = False
    """Go on if the folder holds this very run already, begin it otherwise: for jobs that may be started again."""
    agent: Annotated[str, tyro.conf.arg(metavar=f"{CHOICES}|random|planner")] = "egomap"
    """Who learns: a memory by its name, or package.module:Class of one of your own; random and planner learn nothing
    and are only scored."""
    settings: Annotated[
        tuple[str, ...], tyro.conf.arg(name="agent.settings", metavar="[NAME=VALUE [NAME=VALUE ...]]")
    ] = ()
    """Settings of the memory's own class, where it has any."""
    scenario: Task = "labyrinth"
    """Family of tasks."""
    size: int | None = None
    """Cells along each side of the mazes."""
    items: int = ScenarioConfig.items
    """Items of ordered-items."""
    scenarios: str | None = None
    """Folder of a set made by `egomap generate`, instead of the default set; or anybody's .cfg file, a pattern, or a
    folder of them, which are played in training and evaluation alike."""
    env: str = ""
    """Any Gymnasium environment that gives rgb, depth and pose, instead of our mazes: package:EnvId or
    package.module:function (docs/extending.md)."""
    env_fov: float = EnvSettings.fov
    """Vertical opening angle of its camera in degrees, unless it tells itself."""
    env_extent: tuple[float, ...] = ()
    """Its arena in its own lengths, unless it tells itself: SIDE, around the origin, or WEST SOUTH EAST NORTH."""
    env_unit: float = EnvSettings.unit
    """Map units in one of its lengths (default: so many that the arena's side is 640 map units)."""
    env_depth_range: float = EnvSettings.depth_range
    """In its own lengths: from there on depth counts as unknown."""
    env_held_out: int = EnvSettings.held_out
    """Episodes, each with a seed of its own, that it is evaluated in."""
    env_workers: int | None = None
    """Processes that step it (default: one for each core); 0: none but this one, for light environments."""
    budget: float = 2e6
    """Decisions in all, e.g. 2e6."""
    seed: int = 0
    """Of weights, actions and the order of episodes."""
    noise: float = 0.0
    """Ego-motion noise, standard deviation of a factor on each reading."""
    curriculum: str = ""
    """Maze sizes to learn one after the other, e.g. 3,5,7,9."""
    curriculum_bar: float = TrainConfig.curriculum_bar
    """Mean return at which the next size begins."""
    evaluate_every: float = TrainConfig.evaluate_every
    """Decisions between evaluations on held-out mazes; 0: only at the end."""
    checkpoint_every: float = TrainConfig.checkpoint_every
    """Decisions between checkpoints."""
    reset_every_update: bool = False
    """Begin new episodes at each update, so that a resumed run equals an unbroken one bit for bit."""
    imitate: TeacherKind = "none"
    """Also imitate a teacher, which is asked in the agent's own states what it would do: explorer, which knows only
    what the agent has seen. See --learner.imitation-weight, --learner.imitation-decay, --learner.teacher-share."""
    standardise: bool = True
    """Standardise the input by fixed constants; the paper does not."""
    value_gain: float = AgentConfig.value_gain
    """Size of the value head's first weights."""
    stack_size: int = AgentConfig.stack_size
    """Observations that a frame stack holds."""
    use_reward: bool = AgentConfig.use_reward
    """Tell the memory what each decision brought (not in the paper)."""
    device: DeviceKind = "auto"
    """Where perception, memory and heads compute and learn; simulators stay on the CPU. A run that is resumed may be
    moved to another."""
    precision: Precision = "float32"
    """Of convolutions and matrix products; bfloat16 keeps weights, poses, depth and maps in float32. auto: the faster
    one, by a short measurement when the run begins."""
    rendering: str = EnvSettings.rendering
    """Size of the engine's picture, before it is resized to 112x64: 160x120-wide, 200x150-wide, 160x120, 256x144 or
    320x180 (the paper's)."""
    map: MapSettings = field(default_factory=MapSettings)
    """EgoMap's map and reads; the paper's ablations are here."""
    places: PlaceSettings = field(default_factory=PlaceSettings)
    """Place planes of the agents places and egomap-places."""
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    """The algorithm."""

    @staticmethod
    def of(arguments: list[str]) -> TrainFlags:
        """The flags with the defaults of the preset that `arguments` names."""
        from egomap.presets import preset

        name = TrainFlags.preset
        for given, following in zip(arguments, [*arguments[1:], ""], strict=False):
            if given == "--preset":
                name = following
            elif given.startswith("--preset="):
                name = given.removeprefix("--preset=")
        config = preset(name)
        return TrainFlags(
            preset=name,
            agent=config.agent.kind,
            settings=config.agent.settings,
            scenario=config.scenario.task,
            size=None if config.scenario == ScenarioConfig() else config.scenario.size,
            # A run that goes on has a budget of its own: only one that is given here is asked for.
            budget=math.nan if "--resume" in arguments else float(config.budget),
            curriculum=",".join(map(str, config.curriculum)),
            evaluate_every=float(config.evaluate_every),
            checkpoint_every=float(config.checkpoint_every),
            standardise=config.agent.standardise,
            value_gain=config.agent.value_gain,
            stack_size=config.agent.stack_size,
            use_reward=config.agent.use_reward,
            rendering=config.env.rendering,
            map=config.agent.map,
            places=config.agent.places,
            learner=config.learner,
        )

    def changed(self) -> list[str]:
        """Names of the flags that are not as the preset has them, and of the preset itself."""
        default = TrainFlags.of(["--preset", self.preset])
        names = [
            each.name for each in fields(self) if getattr(self, each.name) != getattr(default, each.name)
        ]
        return names if self.preset == TrainFlags.preset else ["preset", *names]

    def config(self) -> TrainConfig:
        """The config that these flags describe."""
        from egomap.envs.rendering import render_mode
        from egomap.presets import preset

        base = preset(self.preset)
        require(
            self.map.extent == base.agent.map.extent,
            "the mazes say what the map must cover; leave out --map.extent.",
        )
        if self.agent == "random" or self.agent == "planner":
            raise ValueError(f"{self.agent} learns nothing.")
        ours = [name for name in ("size", "scenarios", "curriculum", "rendering") if name in self.changed()]
        require(
            not self.env or not ours,
            f"--{', --'.join(ours)} of our mazes and --env do not go together; leave one of them out.",
        )
        scenario = ScenarioConfig.default(self.scenario, size=self.size, items=self.items)
        from egomap.envs.doom import is_set

        files = self.scenarios is not None and not is_set(self.scenarios)
        if self.scenarios is not None and not files:
            from egomap.scenarios.dataset import load

            scenario = load(Path(self.scenarios)).config
        try:
            curriculum = tuple(int(size) for size in self.curriculum.split(",") if size)
        except ValueError:
            raise ValueError(f"curriculum must be sizes like 3,5,7,9; got {self.curriculum!r}.") from None
        return replace(
            base,
            agent=replace(
                base.agent,
                kind=self.agent,
                settings=self.settings,
                standardise=self.standardise,
                value_gain=self.value_gain,
                stack_size=self.stack_size,
                use_reward=self.use_reward,
                unknown_depth=render_mode(self.rendering).unknown_depth,
                map=self.map,
                places=self.places,
            ),
            scenario=scenario,
            scenarios=None if self.scenarios is None or files else str(Path(self.scenarios).resolve()),
            files=str(Path(self.scenarios).resolve()) if self.scenarios and files else "",
            env=self._env(base.env),
            learner=self.learner,
            budget=require_whole(self.budget, "budget"),
            seed=self.seed,
            curriculum=curriculum,
            curriculum_bar=self.curriculum_bar,
            evaluate_every=require_whole(self.evaluate_every, "evaluate-every"),
            checkpoint_every=require_whole(self.checkpoint_every, "checkpoint-every"),
            reset_every_update=self.reset_every_update,
            imitate=self.imitate,
            device=self.device,
            precision=self.precision,
        ).validate()

    def _env(self, base: EnvSettings) -> EnvSettings:
        """How the worlds are shown: ours, or somebody's environment."""
        return replace(
            base,
            rendering=self.rendering,
            ego_motion_noise=self.noise,
            frame_skip=1 if self.env else base.frame_skip,  # it skips frames itself, if it does
            id=self.env,
            fov=self.env_fov,
            extent=self.env_extent,
            unit=self.env_unit,
            depth_range=self.env_depth_range,
            held_out=self.env_held_out,
            workers=self.env_workers,
        )


def train(flags: TrainFlags) -> int:
    """Train an agent, or go on with a run.

    Example: egomap train --preset fast --agent egomap --scenario find-return --size 5 --budget 2e6 --run runs/a
    """
    if flags.agent == "random" or flags.agent == "planner":
        require(
            not flags.env,
            f"{flags.agent} learns nothing; score random beside a run: egomap evaluate RUN --agents random.",
        )
        print(f"{flags.agent} learns nothing; this is how it scores.")
        chosen: dict[str, Any] = {"scenario": flags.scenario, "size": flags.size, "items": flags.items}
        if flags.scenarios is not None:
            chosen = {"scenarios": (flags.scenarios,)}
        scripted: Literal["random", "planner"] = "random" if flags.agent == "random" else "planner"
        return evaluate(agents=(scripted,), seed=flags.seed, **chosen)
    require(not flags.resume or flags.run is not None, "--resume needs --run, the folder to go on with.")
    given = [
        name for name in flags.changed() if name not in ("run", "resume", "auto_resume", "budget", "device")
    ]
    require(
        not flags.resume or not given,
        f"--resume goes on with the run's own settings; leave out --{', --'.join(given).replace('_', '-')}.",
    )
    config = None if flags.resume else flags.config()
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
    from egomap.envs.vector import DoomVectorEnv
    from egomap.evaluation.runner import play
    from egomap.evaluation.tables import print_scores, summary
    from egomap.training.run import load_agent, worlds_of

    worlds = worlds_of(config, "test")
    results: dict[str, list[EpisodeResult]] = {}
    agent, _, _ = load_agent(path)
    for name in ("random", config.agent.kind, "planner"):
        env = DoomVectorEnv(
            min(16, len(worlds)),
            worlds=worlds,
            rendering=config.env.rendering,
            frame_skip=config.env.frame_skip,
            ego_motion_noise=config.env.ego_motion_noise,
            watchdog=config.env.watchdog,
            episodes_per_layout=1,
            copy=False,
        )
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


def evaluate(
    runs: tyro.conf.Positional[tuple[Path, ...]] = (),
    *,
    agents: Annotated[
        tuple[Literal["random", "planner", "explorer"], ...] | None, tyro.conf.arg(aliases=["--agent"])
    ] = None,
    scenario: Task | None = None,
    size: int | None = None,
    items: int | None = None,
    scenarios: tuple[str, ...] = (),
    split: Literal["train", "test"] = "test",
    episodes_per_layout: int = 1,
    layouts: int | None = None,
    argmax: bool = False,
    checkpoint: Literal["last", "best"] = "last",
    noise: str = "",
    lesion: tuple[str, ...] = (),
    lesion_by: Literal["mean", "zero", "shuffle"] | None = None,
    num_envs: int = 16,
    seed: int = 0,
    out: Path | None = None,
    print_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Score runs, and agents that need none, on every layout of a split, each played equally often.

    Example: egomap evaluate runs/a runs/b --agents random planner --noise 0,0.1,0.2

    A run plays the mazes that it was trained for, unless others are named. Its scores go to a JSON file in its
    folder (an exported agent's to this one), or all together to --out.

    Args:
        runs: Run folders, exported agents, or names of released ones (egomap agents); runs that differ in their seed
            alone are also summed up together.
        agents: Who plays besides: random, planner, explorer (with no runs: both, or random where there is no layout).
        scenario: Family whose default set is played (made once and kept); with runs and --size or --items: theirs.
        size: Cells along each side of the default set.
        items: Items of the default ordered-items set.
        scenarios: A folder of `egomap generate` or of .cfg files, or any .cfg files (a glob pattern too), instead.
        split: Which layouts of the set.
        episodes_per_layout: How often each layout is played.
        layouts: Only the first so many layouts of the split.
        argmax: Take the most probable action instead of a sampled one.
        checkpoint: Which of a run's agents: the last, or the best on held-out mazes.
        noise: Ego-motion noise, standard deviation of a factor on each reading; one or more levels, such as
            0,0.02,...,0.2 (default: what each run was trained with).
        lesion: Play the same episodes again without a part of the memory, once for each name given: global-read,
            context, map, hidden, ... as the memory names them, several at once joined by +, or all.
        lesion_by: What takes the part's place: its mean over intact episodes, zeros, or the same part from another
            episode at the same step (default: the mean for reads, zeros for what is kept).
        num_envs: Engines at once.
        seed: The same seed gives the same episodes and the same JSON.
        out: JSON file for all scores; it must not exist.
        print_json: Print the JSON, and nothing else, on stdout.
    """
    from egomap.experiments.question import Question, parse_levels
    from egomap.training.names import find_source

    question = Question(
        split,
        episodes_per_layout,
        layouts,
        argmax,
        checkpoint,
        parse_levels(noise),
        seed,
        num_envs,
        lesion,
        lesion_by,
    ).validate()
    if out is not None:  # before anything is played, lest the results find no place
        require(not out.exists(), f"{out} exists already; give another name.")
        require(out.resolve().parent.is_dir(), f"{out} cannot be written: {out.parent} is not a folder.")
    for run in runs:
        source = find_source(run)
        require(
            out is not None or os.access(source.results, os.W_OK),
            f"{source.results} cannot be written to; give a file by --out.",
        )
    named = bool(scenarios) or any(option is not None for option in (scenario, size, items))
    if runs and named and not scenarios and scenario is None:
        scenario, size, items = as_trained(runs, size, items)
    worlds = named_worlds(scenario, size, items, scenarios, split) if named or not runs else None

    # Only now, for it brings torch along: bad input is told at once.
    from egomap.evaluation.tables import print_evaluations
    from egomap.experiments import evaluate as evaluation
    from egomap.util.files import write_whole

    asked = agents if agents is not None else ()
    if agents is None and not runs:  # the planner knows the way only where there is a layout
        known = worlds is not None and all(world.layout is not None for world in worlds)
        asked = ("random", "planner") if known else ("random",)
    found = evaluation.contestants(runs, asked, question, worlds)
    for warning in (*evaluation.warnings(found), *evaluation.left_out(found, question)):
        print(f"Note: {warning}", file=sys.stderr)
    answer = evaluation.evaluate(found, question, progress_bar)
    written = [] if out is not None else evaluation.write_results(found, answer)
    if out is not None:
        write_whole(out, evaluation.as_text(answer))
        written = [out]
    if print_json:
        print(evaluation.as_text(answer), end="")
        return 0
    print_evaluations(answer)
    for path in written:
        print(f"Every layout: {path}")
    return 0


def bench(
    *,
    parts: tuple[Literal["engines", "memory", "training"], ...] = ("engines", "memory", "training"),
    agents: Annotated[tuple[str, ...], tyro.conf.arg(metavar=f"{CHOICES} ...")] = (),
    print_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Measure this machine's throughput: each part against its ceiling, in one run, as ratios.

    Let nothing else run meanwhile. Example: egomap bench --parts engines --json

    Args:
        parts: What to measure.
        agents: Memories to measure beside gru, neural-map and egomap.
        print_json: Print one flat JSON object of names and figures, and nothing else, on stdout.
    """
    for kind in agents:
        require_kind(kind)
    from egomap.bench import measure, show

    with progress_bar("bench") as progress:
        figures = measure(parts, others=agents, progress=progress)
    if print_json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0


def _player(name: str, env: DoomVectorEnv, agent: Agent | None) -> Player:
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


def reproduce() -> int:
    """Make the paper's tables and figures again: results, ablation, noise, curves, smear; report writes the page.

    Example: egomap reproduce ablation --budget 20000 --seeds 1
    """
    return main(["reproduce", "--help"])


def smear(*, out: Path = Path("out/smear")) -> int:
    """The figure of what resampling a map at every step does to it; no training, a few seconds.

    Example: egomap reproduce smear --out out/smear

    Args:
        out: Folder to write to; it must hold nothing but an earlier run of the same.
    """
    from egomap.analysis.smear import FILES, STEPS, reproduce_smear

    others = sorted({path.name for path in out.iterdir()} - set(FILES)) if out.exists() else []
    require(not others, f"{out} holds other files ({', '.join(others[:3])}); give another folder.")
    left = reproduce_smear(out).peak_left
    print("\n".join(str(out / name) for name in FILES))
    world, naive = (float(left["turns", method][-1].mean()) for method in ("world", "naive"))
    print(f"After {STEPS} turns of two degrees the world map keeps {world:.1%} of a landmark's peak,")
    print(f"the naive map {naive:.1%}.")
    return 0


def inspect(options: tyro.conf.OmitArgPrefixes[InspectOptions]) -> int:
    """Look into an agent's memory: a page, a figure, a video or a Rerun file of an episode.

    Example: egomap inspect runs/a --layout 3 --out episode.html
    """
    options.validate()  # before torch is loaded
    from egomap.inspector.command import inspect as run

    for path in run(options, progress_bar):
        print(path)
    return 0


def play(options: tyro.conf.OmitArgPrefixes[PlayOptions]) -> int:
    """Play a layout yourself in a window, with the map of an agent's memory beside it.

    Example: egomap play runs/a --layout 3
    """
    options.validate()  # before torch is loaded
    from egomap.inspector.command import play as run

    recording, files = run(options)
    print(f"{recording.outcome}: return {recording.total_reward:.3f} in {len(recording)} decisions.")
    print("".join(f"{path}\n" for path in files), end="")
    return 0


def probe(options: tyro.conf.OmitArgPrefixes[ProbeOptions]) -> int:
    """How much an agent's memory knows: linear probes of its map and state, against an untrained agent.

    Example: egomap probe runs/a --layouts 32
    """
    options.validate()
    from egomap.inspector.command import probe as run
    from egomap.inspector.probe_report import print_table

    result, files = run(options, progress_bar)
    print_table(result)
    print("\n".join(map(str, files)))
    return 0


def offline(options: Annotated[OfflineOptions, tyro.conf.arg(name="")]) -> int:
    """Which memory can learn, with dense labels and without RL, what an explorer needs to know?

    Example: egomap offline --agents none gru egomap --out offline.json
    """
    options.validate()  # before torch is loaded
    from egomap.offline.command import offline as run
    from egomap.offline.report import print_table

    answer = run(options, progress_bar)
    mazes = options.walks("held-out").scenario
    title = f"{answer.decisions:,} decisions in {answer.episodes} episodes of the third split"
    print_table(answer.lines, f"{mazes.task}, size {mazes.size}: {title}")
    print(
        "action, seen: share told right; way, home, goal: mean squared error; ± standard error over episodes."
    )
    print("".join(f"{path}\n" for path in answer.written), end="")
    return 0


def _reproduce(given: list[str]) -> int:
    """The commands below `reproduce`: each campaign is a dataclass of its options that can `run`."""
    from egomap.experiments import command
    from egomap.experiments.report import Report

    chosen = tyro.extras.subcommand_cli_from_dict(
        {
            "results": command.Results,
            "ablation": command.Ablation,
            "noise": command.Noise,
            "curves": command.Curves,
            "smear": smear,
            "report": Report,
        },
        prog="egomap reproduce",
        description=(reproduce.__doc__ or "").replace("\n    ", "\n"),
        args=given,
    )
    return chosen if isinstance(chosen, int) else chosen.run()
