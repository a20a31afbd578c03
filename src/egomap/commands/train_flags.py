"""The flags of `egomap train`: settings of a run under short names, with the defaults of a preset.

What comes in: arguments. What goes out: a `TrainConfig` that is checked. A setting becomes a flag by a row of
`SETTINGS`: its type, its words and its default are those of the config.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from egomap.config import ScenarioConfig, TrainConfig, require, require_whole
from egomap.kinds import CHOICES
from egomap.presets import preset

SETTINGS: dict[str, str] = {
    "agent": "agent.kind",
    "settings": "agent.settings",
    "scenario": "scenario.task",
    "items": "scenario.items",
    "world": "env.world",
    "env": "env.id",
    "env_fov": "env.fov",
    "env_extent": "env.extent",
    "env_unit": "env.unit",
    "env_depth_range": "env.depth_range",
    "env_held_out": "env.held_out",
    "env_workers": "env.workers",
    "budget": "budget",
    "seed": "seed",
    "noise": "env.ego_motion_noise",
    "curriculum_bar": "curriculum_bar",
    "evaluate_every": "evaluate_every",
    "evaluation_episodes": "evaluation_episodes",
    "checkpoint_every": "checkpoint_every",
    "reset_every_update": "reset_every_update",
    "imitate": "imitate",
    "standardise": "agent.standardise",
    "value_gain": "agent.value_gain",
    "stack_size": "agent.stack_size",
    "hidden_size": "agent.hidden_size",
    "use_reward": "agent.use_reward",
    "device": "device",
    "precision": "precision",
    "rendering": "env.rendering",
    "frame_skip": "env.frame_skip",
    "map": "agent.map",
    "places": "agent.places",
    "learner": "learner",
}
"""Flags that are settings, and where the config has each."""
COUNTS = ("budget", "evaluate_every", "checkpoint_every")
"""Whole numbers that a person may write as 2e6."""
WRITTEN: dict[str, dict[str, Any]] = {
    "agent": {
        "metavar": f"{CHOICES}|random|planner",
        "help": "Who learns: a memory by its name, or package.module:Class of one of your own; random and planner "
        "learn nothing and are only scored.",
    },
    "settings": {"name": "agent.settings", "metavar": "[NAME=VALUE [NAME=VALUE ...]]"},
    "env": {
        "help": "Any Gymnasium environment that gives rgb, depth and pose, instead of our mazes: package:EnvId or "
        "package.module:function (docs/extending.md).",
    },
    "budget": {"help": "Decisions in all, e.g. 2e6."},
    "map": {"help": "EgoMap's map and reads; the paper's ablations are here."},
}
"""What is written otherwise than a setting's name, type and words give."""


@dataclass(frozen=True)
class TrainFlags:
    """Train an agent, or continue a run.

    Example: egomap train --preset fast --agent egomap --scenario find-return --size 5 --budget 2e6 --run runs/a

    Continue after a stop or a kill: egomap train --run runs/a --resume. Many ranks: torchrun --nproc-per-node 2 -m
    egomap train ... Nearly every setting of the preset can be changed, e.g. --learner.learning-rate 1e-4.
    """

    preset: str = "fast"
    """Where all other defaults come from: paper, fast, quick or full."""
    run: Annotated[Path | None, tyro.conf.arg(aliases=["--folder"])] = None
    """Run folder (default: runs/AGENT-SCENARIO-SIZE-sSEED). Under torchrun say --folder: it takes --run for an
    abbreviation of an option of its own."""
    resume: bool = False
    """Continue the run from its last checkpoint, with its own settings; --budget may be larger than before."""
    init: str | None = None
    """Begin with the weights of a trained agent, to fine-tune it: a run folder, an exported agent, or the name of a
    released one (egomap agents). It keeps its own settings and pictures; --agent must name its kind."""
    auto_resume: bool = False
    """Continue if the folder already holds this run, begin it otherwise: for jobs that may be restarted."""
    size: int | None = None
    """Cells along each side of the mazes."""
    scenarios: str | None = None
    """Folder of a set made by `egomap generate`, instead of the default set; or any .cfg file, a pattern, or a
    folder of them, which are played in training and evaluation alike."""
    curriculum: str = ""
    """Maze sizes to learn one after the other, e.g. 3,5,7,9."""

    def __getattr__(self, name: str) -> Any:
        """The settings of the config; `all_flags` gives this class a field for each."""
        raise AttributeError(name)

    @staticmethod
    def of(arguments: list[str]) -> TrainFlags:
        """The flags with the defaults of the preset that `arguments` names."""
        name = TrainFlags.preset
        for given, following in zip(arguments, [*arguments[1:], ""], strict=False):
            if given == "--preset":
                name = following
            elif given.startswith("--preset="):
                name = given.removeprefix("--preset=")
        config = preset(name)
        values = {flag: setting(config, path) for flag, path in SETTINGS.items()}
        values |= {flag: float(values[flag]) for flag in COUNTS}
        if (
            "--resume" in arguments
        ):  # a run that goes on has a budget of its own: only one given here is asked for
            values["budget"] = math.nan
        made: TrainFlags = all_flags()(
            preset=name,
            size=None if config.scenario == ScenarioConfig() else config.scenario.size,
            curriculum=",".join(map(str, config.curriculum)),
            **values,
        )
        return made

    def changed(self) -> list[str]:
        """Names of the flags that are not as the preset has them, and of the preset itself."""
        default = TrainFlags.of(["--preset", self.preset])
        names = [
            each.name for each in fields(self) if getattr(self, each.name) != getattr(default, each.name)
        ]
        return names if self.preset == TrainFlags.preset else ["preset", *names]

    def config(self) -> TrainConfig:
        """The config that these flags describe."""
        config = preset(self.preset)
        require(
            self.map.extent == config.agent.map.extent,
            "the mazes say what the map must cover; leave out --map.extent.",
        )
        require(self.agent not in ("random", "planner"), f"{self.agent} learns nothing.")
        mine = ("size", "scenarios", "curriculum", "rendering", "frame_skip")
        ours = ", --".join(name.replace("_", "-") for name in mine if name in self.changed())
        require(
            not self.env or not ours,
            f"--{ours} of our mazes and --env do not go together; leave one of them out.",
        )
        config = replace(
            config,
            scenario=ScenarioConfig.default(self.scenario, size=self.size, items=self.items),
            curriculum=self._curriculum(),
        )
        for flag, path in SETTINGS.items():
            if not path.startswith("scenario."):
                value = getattr(self, flag)
                name = flag.replace("_", "-")
                config = changed(config, path, require_whole(value, name) if flag in COUNTS else value)
        if self.env:  # it skips frames itself, if it does
            config = changed(config, "env.frame_skip", 1)
        from egomap.envs.rendering import render_mode

        config = changed(config, "agent.unknown_depth", render_mode(self.rendering).unknown_depth)
        return self._with_scenarios(config).validate()

    def _curriculum(self) -> tuple[int, ...]:
        try:
            return tuple(int(size) for size in self.curriculum.split(",") if size)
        except ValueError:
            raise ValueError(f"curriculum must be sizes like 3,5,7,9; got {self.curriculum!r}.") from None

    def _with_scenarios(self, config: TrainConfig) -> TrainConfig:
        """The config with the set, or the files, that --scenarios names."""
        if self.scenarios is None:
            return config
        from egomap.envs.worlds import is_set
        from egomap.scenarios.dataset import load

        place = str(Path(self.scenarios).resolve())
        if not is_set(self.scenarios):
            return replace(config, files=place)
        return replace(config, scenario=load(Path(self.scenarios)).config, scenarios=place)


def setting(config: Any, path: str) -> Any:
    """What a config has at "part.name"."""
    return reduce(getattr, path.split("."), config)


def changed(config: Any, path: str, value: Any) -> Any:
    """The config with another value at "part.name"."""
    name, _, rest = path.partition(".")
    return replace(config, **{name: changed(getattr(config, name), rest, value) if rest else value})


@cache
def all_flags() -> type:
    """`TrainFlags` with a field for each of `SETTINGS`, as tyro reads it."""
    made = make_dataclass("TrainFlags", map(_field, SETTINGS), bases=(TrainFlags,), frozen=True)
    made.__doc__ = TrainFlags.__doc__
    return made


def _field(flag: str) -> tuple[str, Any, Any]:
    *parts, name = SETTINGS[flag].split(".")
    owner: Any = type(setting(TrainConfig(), ".".join(parts))) if parts else TrainConfig
    default = getattr(owner(), name)
    kind: Any = float if flag in COUNTS else get_type_hints(owner)[name]
    written = {"help": words_of(owner)[name], **WRITTEN.get(flag, {})}
    if is_dataclass(default):
        written = {}
    return flag, Annotated[kind, tyro.conf.arg(**written)], field(default=default)


@cache
def words_of(owner: type) -> dict[str, str]:
    """What is written below each field of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    return {
        entry.target.id: " ".join(str(below.value.value).split())
        for entry, below in zip(body.body, body.body[1:], strict=False)
        if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }
