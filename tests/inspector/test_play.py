"""The window: real Tk on a real (virtual) screen, real key events; and what is said where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from egomap.config import Task
from egomap.inspector.play import action_of
from egomap.scenarios.dataset import ScenarioSet


@pytest.mark.parametrize(
    ("held", "action"),
    [
        (set(), None),
        ({"left"}, 0),
        ({"right"}, 1),
        ({"up"}, 2),
        ({"up", "left"}, 3),
        ({"up", "right"}, 4),
        ({"left", "right"}, None),
        ({"up", "left", "right"}, 2),
    ],
)
def test_keys_that_are_held(held: set[str], action: int | None) -> None:
    assert action_of(held) == action


@pytest.fixture
def screen() -> Iterator[str]:
    """A virtual screen."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no virtual screen is installed (Debian: apt-get install xvfb)")
    pytest.importorskip("tkinter")
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1400x900x24", "-nolisten", "tcp"],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    try:
        number = b""
        while not number.endswith(b"\n"):
            part = os.read(reader, 16)
            if not part:
                pytest.skip("the virtual screen did not start")
            number += part
        yield f":{number.decode().strip()}"
    finally:
        os.close(reader)
        server.terminate()
        server.wait()


PLAYER = """
import sys
from egomap.config import EnvSettings
from egomap.envs.worlds import worlds_of_set
from egomap.inspector import play
from egomap.inspector.mind import Mind
from egomap.inspector.record import Stage
from egomap.inspector.subject import untrained
from egomap.config import AgentConfig
from egomap.scenarios.dataset import load
from pathlib import Path

script = [("KeyPress", "Up"), ("KeyPress", "Left"), ("KeyRelease", "Left"), ("KeyRelease", "Up"),
          ("KeyPress", "Right"), ("KeyRelease", "Right"), ("KeyPress", "Escape")]

class Scripted(play.Window):
    # A finger: the next key of the script after each picture.
    def show(self, moment):
        super().show(moment)
        if script and not self.closed:
            kind, key = script.pop(0)
            self.root.focus_force()
            self.root.event_generate(f"<{kind}-{key}>" if key != "Escape" else "<Escape>")
            if kind == "KeyRelease":
                self.root.after(play.BOUNCE + 30, lambda: None)

play.Window = Scripted
worlds = worlds_of_set(load(Path(sys.argv[1])), "test")
mind = Mind(untrained(AgentConfig(), EnvSettings(), worlds.extent, 0))
with Stage(worlds) as stage:
    found = play.play(stage, 0, mind=mind, name="egomap, untrained", split="test", seed=0, speed=10)
print(found.outcome, found.action.tolist(), found.map.features.shape[0])
"""


def test_a_person_plays(screen: str, sets: dict[Task, ScenarioSet]) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PLAYER, str(sets["find-return"].folder)],
        env={**os.environ, "DISPLAY": screen},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    outcome, told = found.stdout.strip().split(" ", 1)
    assert outcome == "stopped"
    actions = told[: told.index("]") + 1]
    # Forward, then forward and left; when both were let go, a tap to the right; Escape ends it.
    assert actions.startswith("[2, 3") and "1" in actions


def test_no_screen_is_one_sentence(sets: dict[Task, ScenarioSet]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    command = [sys.executable, "-m", "egomap", "play", "--scenarios", str(sets["find-return"].folder)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2
    assert "egomap: `egomap play` needs" in found.stderr and "Traceback" not in found.stderr
