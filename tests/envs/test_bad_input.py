"""Bad input: each with a ValueError of one clear sentence; never a hang, a crash or a silently different map.

What the engine would do with such files is worse than an error: it plays another map, spins for ever, or takes the
whole Python process with it. Those that could are tried in a process of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from egomap.config import ScenarioConfig, Task
from egomap.envs import DoomEnv, DoomVectorEnv
from egomap.envs.worlds import worlds_of_files
from egomap.scenarios.dataset import ScenarioSet, generate
from egomap.scenarios.wad import Lump, parse_wad, read_wad, write_wad

from .helpers import run_python

Sets = dict[Task, ScenarioSet]
MAKERS: dict[str, Callable[..., Any]] = {
    "single": DoomEnv,
    "vector": lambda **options: DoomVectorEnv(2, **options),
}


def one_sentence(error: BaseException) -> str:
    text = str(error)
    assert text.endswith((".", "why.")) and "\n" not in text and len(text) < 400, text
    return text


# ------------------------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"task": "labyrinth", "size": 2}, "size must be 3 to 21 cells; got 2."),
        ({"task": "labyrinth", "size": 22}, "size must be 3 to 21 cells; got 22."),
        ({"task": "ordered-items", "items": 9}, "items must be 2 to 8; got 9."),
        ({"task": "ordered-items", "items": 1}, "items must be 2 to 8; got 1."),
        ({"task": "chess"}, "task must be one of labyrinth, find-return, ordered-items; got 'chess'."),
        ({}, "give `config`, the .cfg file to play."),
        ({"config": "no/such.cfg"}, "cannot read the scenario file no/such.cfg: No such file or directory."),
        ({"config": "no/such/*.cfg"}, "no file matches 'no/such/*.cfg'."),
        ({"config": []}, "no .cfg file was given."),
        ({"config": "a.cfg", "size": 5}, "`config` goes with no other scenario option."),
        ({"scenarios": "no/such/folder"}, "no/such/folder"),
        ({"task": "labyrinth", "rendering": "640x480"}, "rendering must be one of 160x120-wide, "),
        ({"task": "labyrinth", "frame_skip": 0}, "frame-skip must be 1 to 35 tics; got 0."),
        ({"task": "labyrinth", "frame_skip": 2.5}, "frame-skip must be a whole number of tics; got 2.5."),
        (
            {"task": "labyrinth", "ego_motion_noise": 1.5},
            "ego-motion noise must be between 0 and 1; got 1.5.",
        ),
        (
            {"task": "labyrinth", "ego_motion_noise": float("nan")},
            "ego-motion noise must be between 0 and 1; got nan.",
        ),
        ({"task": "labyrinth", "watchdog": 0}, "watchdog must be a positive number of seconds; got 0."),
        (
            {"task": "labyrinth", "watchdog": float("nan")},
            "watchdog must be a positive number of seconds; got nan.",
        ),
    ],
)
def test_options_out_of_range(
    maker: str, options: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        MAKERS[maker](**options)
    one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"size": 2}, "size must be 3 to 21 cells; got 2."),
        ({"task": "ordered-items", "items": 9}, "items must be 2 to 8; got 9."),
        ({"wall_probability": 1.5}, "wall-probability must be between 0 and 1; got 1.5."),
    ],
)
def test_sets_out_of_range(settings: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        generate(ScenarioConfig(**settings), tmp_path / "set")
    one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_another_set(sets: Sets) -> None:
    with pytest.raises(ValueError, match="holds another scenario set; give a new or empty folder") as caught:
        generate(ScenarioConfig(size=3, train=1, test=1), sets["labyrinth"].folder)
    one_sentence(caught.value)


def test_a_set_of_another_task_or_without_that_split(sets: Sets, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"is of task find-return; this environment is labyrinth\."
    ) as caught:
        gymnasium.make("EgoMap/Labyrinth-v0", scenarios=sets["find-return"])
    one_sentence(caught.value)
    only = generate(ScenarioConfig(size=3, train=2, test=0), tmp_path / "set")
    for split in ("test", "validation"):
        with pytest.raises(
            ValueError, match=rf"has no layouts in split '{split}'; it has train \(2\)"
        ) as caught:
            DoomEnv(scenarios=only, split=split)
        one_sentence(caught.value)
    with pytest.raises(ValueError, match="`size` and `items` belong to the default set") as caught:
        DoomEnv(scenarios=only, size=3)
    one_sentence(caught.value)


@pytest.mark.parametrize("action", [5, -1, 1.0, "left", None, [0], np.array([0, 1])])
def test_wrong_actions_of_the_single_environment(action: Any, running: DoomEnv) -> None:
    with pytest.raises(ValueError, match=r"action must be 0 to 4; got") as caught:
        running.step(action)
    one_sentence(caught.value)


@pytest.fixture(scope="module")
def running(sets: Sets) -> Any:
    env = DoomEnv(scenarios=sets["labyrinth"])
    env.reset(seed=0)
    yield env
    env.close()


@pytest.mark.parametrize("layout", [16, -1, 1.5, "0", [0]])
def test_a_layout_that_is_not_there(layout: Any, running: DoomEnv) -> None:
    with pytest.raises(ValueError, match=r"layout must be 0 to 15; got") as caught:
        running.reset(options={"layout": layout})
    one_sentence(caught.value)


def test_calls_in_the_wrong_order(sets: Sets) -> None:
    env = DoomEnv(scenarios=sets["labyrinth"], frame_skip=35, render_mode="rgb_array")
    try:
        for call in (lambda: env.step(0), env.render, lambda: env.world):
            with pytest.raises(ValueError, match=r"no episode was begun: call reset\(\) first\."):
                call()
        env.reset(seed=0)
        while not any(env.step(0)[2:4]):
            pass
        with pytest.raises(ValueError, match=r"the episode is over .*: call reset\(\) first\."):
            env.step(0)
        env.close()
        with pytest.raises(ValueError, match=r"no episode was begun: call reset\(\) first\."):
            env.step(0)
        env.reset(seed=0)
    finally:
        env.close()
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array'; got 'human'"):
        DoomEnv(scenarios=sets["labyrinth"], render_mode="human")


# -------------------------------------------------------------------------------------------------------------- files


@pytest.fixture
def foreign(sets: Sets, tmp_path: Path) -> Callable[..., Path]:
    """foreign(wad=..., cfg=...): somebody's scenario, as far as it goes, from one of our maps."""
    good = sets["labyrinth"]
    lumps = read_wad(good.wad("train"))[:4]
    settings = good.cfg("train").read_text()

    def make(
        name: str = "theirs",
        *,
        wad: Callable[[bytes], bytes] = lambda data: data,
        textmap: Callable[[str], str] = lambda text: text,
        cfg: Callable[[str], str] = lambda text: text,
    ) -> Path:
        changed = [lumps[0], Lump("TEXTMAP", textmap(lumps[1].data.decode()).encode()), *lumps[2:]]
        (tmp_path / f"{name}.wad").write_bytes(wad(write_wad(changed)))
        path = tmp_path / f"{name}.cfg"
        path.write_text(cfg(settings.replace("train.wad", f"{name}.wad")))
        return path

    return make


def test_the_unbroken_file_plays(foreign: Callable[..., Path]) -> None:
    """What the following tests break is otherwise sound."""
    env = DoomEnv(config=foreign())
    env.reset(seed=0)
    env.step(0)
    env.close()


NO_START = re.compile(r"type=1;")
FILES: dict[str, tuple[dict[str, Any], str]] = {
    "truncated WAD": ({"wad": lambda data: data[: len(data) // 2]}, r"theirs\.wad"),
    "WAD cut in its directory": ({"wad": lambda data: data[:-7]}, r"theirs\.wad"),
    "empty WAD": ({"wad": lambda data: b""}, r"theirs\.wad"),
    "random bytes": ({"wad": lambda data: np.random.default_rng(0).bytes(4000)}, r"theirs\.wad"),
    "random bytes after PWAD": (
        {"wad": lambda data: b"PWAD" + np.random.default_rng(0).bytes(4000)},
        r"theirs\.wad",
    ),
    "no player start": ({"textmap": lambda text: NO_START.sub("type=3004;", text)}, "no start for player 1"),
    "malformed TEXTMAP": ({"textmap": lambda text: text[: len(text) // 2]}, r"MAP01 of .*theirs\.wad"),
    "line to a missing vertex": (
        {"textmap": lambda text: text.replace("v1=0;", "v1=9999;", 1)},
        "vertex 9999, which does not exist",
    ),
    "map not in the WAD": (
        {"cfg": lambda text: text.replace("doom_map = MAP01", "doom_map = MAP77")},
        "has no map 'MAP77'; it has MAP01",
    ),
    "WAD not there": (
        {"cfg": lambda text: text.replace("theirs.wad", "gone.wad")},
        r"gone\.wad does not exist",
    ),
    "cfg without a WAD": (
        {"cfg": lambda text: re.sub("doom_scenario_path.*", "", text)},
        "names no doom_scenario_path",
    ),
    "unknown setting": (
        {"cfg": lambda text: text + "livng_reward = 3\n"},
        "'livng_reward', which ViZDoom does not",
    ),
    "binary cfg": ({"cfg": lambda text: "\x00\x01\x02"}, "is not a ViZDoom .cfg"),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("fault", FILES)
def test_broken_files_are_refused_before_an_engine_sees_them(
    fault: str, maker: str, foreign: Callable[..., Path]
) -> None:
    changes, sentence = FILES[fault]
    path = foreign(**changes)
    with pytest.raises(ValueError, match=sentence) as caught:
        MAKERS[maker](config=path)
    one_sentence(caught.value)


CRASHING: dict[str, Callable[[str], str]] = {
    "walls without a room": lambda text: re.sub(r"(vertex\{x=[-\d.]+;y=)[-\d.]+", r"\g<1>0.0", text),
    "an open room": lambda text: re.sub(r"linedef\{[^}]*\}\n", "", text, count=5),
}


@pytest.mark.parametrize("fault", CRASHING)
def test_maps_that_crash_the_engine_do_not_crash_python(fault: str, foreign: Callable[..., Path]) -> None:
    path = foreign(textmap=CRASHING[fault])
    code = """
import sys
from egomap.envs import DoomEnv
try:
    DoomEnv(config=sys.argv[1]).reset(seed=0)
except ValueError as error:
    print(error)
"""
    found = run_python(code, str(path), cwd=path.parent)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.strip() == (
        f"The Doom engine cannot play MAP01 of {path.parent}/theirs.wad: "
        "You need to fix these lines to play this map."
    )


def test_of_several_files_only_the_maps_that_are_played_are_looked_into(foreign: Callable[..., Path]) -> None:
    def with_a_broken_second_map(data: bytes) -> bytes:
        lumps = parse_wad(data, "theirs")
        return write_wad([*lumps, Lump("MAP02", b""), Lump("TEXTMAP", b"broken {"), Lump("ENDMAP", b"")])

    paths = [foreign(name, wad=with_a_broken_second_map) for name in ("one", "two")]
    assert [world.map_name for world in worlds_of_files(paths)] == ["MAP01", "MAP01"]
    with pytest.raises(ValueError, match="MAP02"):
        worlds_of_files(paths[0])


def test_files_with_different_rules_play_by_their_own(foreign: Callable[..., Path]) -> None:
    paths = [
        foreign(f"{tics}", cfg=lambda text, tics=tics: text.replace("timeout = 2100", f"timeout = {tics}"))
        for tics in (40, 80)
    ]
    env = DoomEnv(config=paths)
    try:
        for layout, decisions in ((0, 10), (1, 20), (0, 10)):
            _, info = env.reset(seed=0, options={"layout": layout})
            assert info["layout_id"] == f"{paths[layout].stem}:MAP01"
            for decision in range(1, decisions + 1):
                *_, truncated, info = env.step(0)
                assert truncated == (decision == decisions)
            assert info["engine_restarts"] == 0
    finally:
        env.close()
