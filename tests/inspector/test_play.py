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

pytestmark = pytest.mark.slow


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
import time
from egomap.config import EnvSettings
from egomap.envs.doom import doom_spec
from egomap.envs.worlds import worlds_of_set
from egomap.inspector import play
from egomap.inspector.mind import Mind
from egomap.inspector.record import Stage
from egomap.inspector.subject import untrained
from egomap.config import AgentConfig
from egomap.scenarios.dataset import load
from pathlib import Path

script = [step.split() for step in sys.argv[2].split(",")]

class Scripted(play.Window):
    # A finger: the next keys of the script after each picture, each when the window has taken in the one before.
    def show(self, moment):
        super().show(moment)
        self.root.focus_force()
        for key in script.pop(0):
            name = key.strip("+-")
            if name == "Escape":
                self.root.event_generate("<Escape>")
                return
            self.root.event_generate(f"<{'KeyRelease' if key.startswith('-') else 'KeyPress'}-{name}>")
            while (play.KEYS[name] in self.held) == key.startswith("-"):
                self.root.update()
                time.sleep(0.001)

play.Window = Scripted
worlds = worlds_of_set(load(Path(sys.argv[1])), "test")
mind = Mind(untrained(AgentConfig(kind=sys.argv[3]), doom_spec(EnvSettings(), worlds.extent), 0))
with Stage(worlds) as stage:
    found = play.play(stage, 0, mind=mind, name="untrained", split="test", seed=0, speed=10)
assert (found.map is None) == (sys.argv[3] == "places")
assert (found.planes is None) == (sys.argv[3] == "egomap")
assert all(len(part.features if part is found.map else part.levels) == found.action.size
           for part in (found.map, found.planes) if part is not None)
print(found.outcome, *found.action.tolist())
"""


@pytest.mark.parametrize(
    ("kind", "keys", "actions"),
    [
        # Forward; forward and left; the left key is let go; so is the other, and right is pressed.
        ("egomap", "+Up, +Left, -Left, -Up +Right, Escape", "2 3 2 1"),
        # A key that was pressed and let go between two decisions counts for the next one, and for it alone.
        ("egomap-places", "+Left -Left, +Up, +Right -Right, -Up +Left -Left, Escape", "0 2 4 0"),
        # Left and right between two decisions are neither, and the one that is pressed afterwards turns.
        ("places", "+Left -Left +Right -Right +Right, -Right +Left, Escape", "1 0"),
    ],
)
def test_a_person_plays(
    screen: str, sets: dict[Task, ScenarioSet], kind: str, keys: str, actions: str
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PLAYER, str(sets["find-return"].folder), keys, kind],
        env={**os.environ, "DISPLAY": screen},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["stopped", *actions.split()]


def test_no_screen_is_one_sentence(sets: dict[Task, ScenarioSet]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    command = [sys.executable, "-m", "egomap", "play", "--scenarios", str(sets["find-return"].folder)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2
    assert "egomap: `egomap play` needs" in found.stderr and "Traceback" not in found.stderr
