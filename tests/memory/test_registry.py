"""From names to memories: rows, anybody's class, its settings, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from egomap import kinds
from egomap.config import AgentConfig, Camera, TrainConfig
from egomap.memory.protocol import Fitting
from egomap.memory.registry import build_memory, complete, find
from egomap.util.named import require_outside

FITTING = Fitting(
    Camera.from_fov(112, 64, horizontal=1.85, vertical=1.2), (16, 4, 10), (8, 4, 3), (4, 2, 1), 768.0
)
OWN = '''
from dataclasses import dataclass, field

import torch
from torch import nn

from egomap.config import PlaceSettings


@dataclass(frozen=True)
class Settings:
    values: int = 8
    gain: float = 0.5
    name: str = "mean"
    leaky: bool = False
    planes: PlaceSettings = field(default_factory=PlaceSettings)

    def validate(self):
        if self.values < 1:
            raise ValueError(f"values must be 1 or more; got {self.values}.")


class LastView(nn.Module):
    """The mean of each channel through one layer; it remembers nothing."""

    Settings = Settings
    state_spec = ()

    def __init__(self, channels, settings):
        super().__init__()
        self.settings, self.output_size = settings, settings.values
        self.layer = nn.Linear(channels, settings.values)

    @classmethod
    def build(cls, config, fitting, settings):
        return cls(fitting.feature_shape[0], settings)

    def initial_state(self, n):
        return ()

    def step(self, inputs, state, *, trace=None):
        return self.layer(inputs.features.mean((-2, -1))), state

    def unroll(self, inputs, state, episode_start):
        return self.step(inputs, state)


class Half(nn.Module):
    @classmethod
    def build(cls, config, fitting):
        return cls()

    def initial_state(self, n):
        return ()


class Sizeless(LastView):
    Settings = None

    @classmethod
    def build(cls, config, fitting):
        memory = LastView(fitting.feature_shape[0], Settings())
        memory.output_size = None
        return memory


def function(config, fitting):
    return None
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that somebody else wrote."""
    (tmp_path / "somebodys_memories.py").write_text(OWN)
    (tmp_path / "broken_memories.py").write_text("import no_such_package_anywhere\n")
    (tmp_path / "worse_memories.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "somebodys_memories"
    for name in ("somebodys_memories", "broken_memories", "worse_memories"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", list(kinds.KINDS))
def test_every_row_is_built_and_keeps_no_settings_of_its_own_that_its_row_denies(kind: str) -> None:
    torch.manual_seed(0)
    memory = build_memory(AgentConfig(kind=kind), FITTING)
    assert memory.output_size > 0
    assert kinds.kind_of(kind).has_settings or getattr(find(kind), "Settings", None) is None


def test_a_class_by_its_address(own: str) -> None:
    config = AgentConfig(kind=f"{own}:LastView").validate()
    memory = build_memory(config, FITTING)
    assert memory.output_size == 8 and type(memory).__name__ == "LastView"
    row = kinds.kind_of(config.kind)
    assert row.label == "LastView" and row.colour in kinds.OTHERS
    assert row.colour == kinds.colour_of("LastView")
    assert kinds.file_name(config.kind) == "somebodys_memories.LastView"


def test_a_class_has_settings_of_its_own(own: str) -> None:
    given = ("values=5", "gain=2", "name=3", "leaky=True", "planes.window=20")
    config = AgentConfig(kind=f"{own}:LastView", settings=given).validate()
    settings = build_memory(config, FITTING).settings
    assert (settings.values, settings.gain, settings.name, settings.leaky) == (5, 2.0, "3", True)
    assert isinstance(settings.gain, float) and settings.planes.window == 20


def test_a_run_keeps_all_settings_and_gives_them_back(own: str) -> None:
    asked = AgentConfig(kind=f"{own}:LastView", settings=("values=5",))
    whole = complete(asked)
    assert whole.settings[:4] == ("values=5", "gain=0.5", "name=mean", "leaky=false")
    assert complete(whole) == whole
    kept = TrainConfig(agent=whole)
    assert TrainConfig.from_json(kept.to_json()) == kept
    assert build_memory(whole, FITTING).settings == build_memory(asked, FITTING).settings
    assert complete(AgentConfig(kind="gru")) == AgentConfig(kind="gru")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("no_such_module_at_all:Memory", (), "there is no module no_such_module_at_all; install it"),
        ("egomap.no_such_module:Memory", (), "there is no module egomap.no_such_module; install it"),
        ("somebodys_memories:Nothing", (), "somebodys_memories has no 'Nothing'."),
        ("somebodys_memories:Half", (), "is not a memory: it lacks state_spec, step, unroll."),
        ("somebodys_memories:function", (), "it must be a class derived from torch.nn.Module."),
        ("somebodys_memories:Settings", (), "it must be a class derived from torch.nn.Module."),
        ("somebodys_memories:Sizeless", (), "output_size must be a whole number of 1 or more; got None."),
        ("broken_memories:Memory", (), "cannot be imported: No module named 'no_such_package_anywhere'."),
        ("worse_memories:Memory", (), "cannot be imported: ZeroDivisionError: division by zero."),
        ("antigravity:geohash", (), "antigravity belongs to Python itself; give a module of your own."),
        (
            "somebodys_memories:LastView",
            ("size=3",),
            "has no setting 'size'; it has values, gain, name, leaky",
        ),
        ("somebodys_memories:LastView", ("values=many",), "values must be of type int; got 'many'."),
        ("somebodys_memories:LastView", ("values=0",), "values must be 1 or more; got 0."),
        ("somebodys_memories:LastView", ("planes.cell=a",), "planes.cell must be of type float"),
        ("gru", ("values=3",), "gru has no settings of its own; got values=3."),
    ],
)
def test_what_is_refused(own: str, kind: str, given: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        build_memory(AgentConfig(kind=kind, settings=given).validate(), FITTING)
    assert message in str(raised.value)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (AgentConfig(kind="one:two:three"), "kind must be one of"),
        (AgentConfig(kind="../one:Two"), "kind must be one of"),
        (AgentConfig(kind=":Two"), "kind must be one of"),
        (AgentConfig(kind=f"{'a' * 300}:Two"), "kind must be one of"),
        (AgentConfig(kind="one:Two", settings=("values",)), "settings must be NAME=VALUE; got 'values'."),
        (AgentConfig(kind="one:Two", settings=(3,)), "settings must be NAME=VALUE; got 3."),  # type: ignore[arg-type]
        (AgentConfig(kind="one:Two", settings=("a=1", "a=2")), "a setting is given twice: a."),
    ],
)
def test_forms_that_are_refused_before_anything_is_imported(agent: AgentConfig, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        agent.validate()
    assert message in str(raised.value)


def test_nothing_is_imported_from_the_folder_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module, a package and a namespace package that lie in the folder itself, with the folder on the path."""
    (tmp_path / "bait_module.py").write_text("raise SystemExit('this ran')\n")
    for folder in ("bait_package", "bait_space"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "inner.py").write_text("raise SystemExit('this ran')\n")
    (tmp_path / "bait_package" / "__init__.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind in (
        "bait_module:Memory",
        "bait_package:Memory",
        "bait_package.inner:Memory",
        "bait_space.inner:M",
    ):
        with pytest.raises(ValueError, match="would be imported from that folder"):
            require_outside(kind, tmp_path)
        require_outside(kind, tmp_path / "runs" / "a")  # found, and not in there
    assert not {"bait_module", "bait_package", "bait_space"} & set(sys.modules)
    for kind in ("no_such_module_at_all:Memory", "__main__:Memory", "egomap.memory.floors:NoMemory"):
        require_outside(kind, tmp_path)
