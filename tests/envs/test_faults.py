"""Engines that are killed, stuck, or cannot start; parents that are killed, forked or interrupted.

Nothing here is a mock: real engines get real signals.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vizdoom as vzd

from egomap.config import Task
from egomap.envs import DoomEnv, DoomVectorEnv, _guard_process
from egomap.envs.guard import guard
from egomap.envs.vector import Arrays
from egomap.envs.worlds import World
from egomap.evaluation.runner import play as play_all
from egomap.scenarios.dataset import ScenarioSet
from egomap.worlds.episodes import Episode

from .helpers import alive, all_same, eventually, play, random_actions, run_python, shortened

pytestmark = pytest.mark.slow

Make = Callable[..., DoomEnv]
MakeVector = Callable[..., DoomVectorEnv]
Sets = dict[Task, ScenarioSet]
NOOP = 0


def shared_memory_of(instance: str) -> list[str]:
    return [name for name in os.listdir("/dev/shm") if name.startswith("ViZDoom") and name.endswith(instance)]


# ---------------------------------------------------------------------------------------------------- engines killed


def test_twenty_engines_killed_at_random_during_4000_steps(
    sets: Sets, vector: MakeVector, tmp_path: Path
) -> None:
    """No exception; every episode but the killed ones is whole; the counter says 20."""
    num_envs, steps, kills, tics = 4, 4000, 20, 60
    quick = shortened(sets["labyrinth"], tmp_path / "set", tics)
    env = vector("labyrinth", num_envs, scenarios=quick, frame_skip=1, copy=False)
    rng = np.random.default_rng(0)
    victims = dict(
        zip(
            np.sort(rng.choice(steps - 100, kills, replace=False)).tolist(),
            rng.integers(num_envs, size=kills).tolist(),
            strict=True,
        )
    )
    env.reset(seed=0)
    length = np.zeros(num_envs, int)
    interrupted = whole = 0
    for step in range(steps):
        if step in victims:
            os.kill(env.engine_pids[victims[step]], signal.SIGKILL)
        _, rewards, terminated, truncated, info = env.step(rng.integers(5, size=num_envs))
        length += 1
        for i in np.flatnonzero(terminated | truncated).tolist():
            final = {name: value[i] for name, value in info["final_info"].items()}
            assert final["decisions"] == length[i]
            if final["interrupted"]:
                assert (truncated[i], terminated[i], rewards[i]) == (True, False, 0.0)
                assert victims[step] == i, "in the very step after the kill"
                interrupted += 1
            else:
                assert final["success"] == terminated[i]
                assert terminated[i] or length[i] == tics, "time-outs come at their time"
                expected = -0.0001 * length[i] + (1.0 if terminated[i] else 0.0)
                assert final["return"] == pytest.approx(expected, abs=0.0005)
                whole += 1
            length[i] = 0
    assert interrupted == env.engine_restarts == kills
    assert whole > 200
    assert len(env.engine_pids) == num_envs and all(map(alive, env.engine_pids))


def test_after_a_kill_the_next_episode_is_the_same_as_on_an_old_engine(doom: Make) -> None:
    env, actions = doom("find-return"), random_actions(1, 25)
    wanted = {"seed": 5, "options": {"layout": 3}}
    expected = play(env, actions, **wanted)
    before, _ = env.reset(seed=1)
    pid = env.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    observation, reward, terminated, truncated, info = env.step(NOOP)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["interrupted"], info["success"], info["engine_restarts"]) == (True, False, 1)
    np.testing.assert_array_equal(observation["rgb"], before["rgb"])
    assert all_same(play(env, actions, **wanted), expected)
    assert env.engine_pid != pid and not alive(pid)


def test_an_engine_killed_between_episodes_is_replaced_by_reset(doom: Make) -> None:
    env = doom("labyrinth")
    expected, _ = env.reset(seed=5)
    assert env.engine_pid is not None
    os.kill(env.engine_pid, signal.SIGKILL)
    observation, info = env.reset(seed=5)
    assert info["engine_restarts"] == 1 and info["interrupted"] is False
    np.testing.assert_array_equal(observation["rgb"], expected["rgb"])


def test_in_evaluation_a_killed_episode_is_played_again(vector: MakeVector) -> None:
    env = vector("labyrinth", 2, split="test", episodes_per_layout=1, frame_skip=35, copy=False)
    env.reset(seed=1)
    os.kill(env.engine_pids[1], signal.SIGKILL)
    ended = []
    while not env.exhausted:
        *_, info = env.step(np.zeros(2, int))
        for i in np.flatnonzero(info.get("_final_info", [])):
            final = info["final_info"]
            ended.append((int(final["layout"][i]), bool(final["interrupted"][i]), int(final["decisions"][i])))
    assert sorted(ended) == sorted([(layout, False, 60) for layout in range(4)] + [(1, True, 1)])


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_whatever_ends_an_engine(how: str, doom: Make) -> None:
    env = doom("labyrinth")
    env.reset(seed=1)
    assert env.engine_pid is not None
    os.kill(env.engine_pid, getattr(signal, how))
    assert eventually(lambda: not alive(env.engine_pid or 0), 10)
    *_, truncated, info = env.step(NOOP)
    assert truncated and info["engine_restarts"] == 1
    env.reset(seed=1)
    assert env.step(NOOP)[-1]["decisions"] == 1


# ----------------------------------------------------------------------------------------------------- engines stuck


def test_an_engine_that_starts_slowly_is_waited_for(
    doom: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with far more to do than it has cores; the watchdog is for engines that have started."""
    slow = tmp_path / "slow engine"
    slow.write_text(f'#!/bin/sh\nsleep 6\nexec "{vzd.exe_path}" "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(vzd, "exe_path", str(slow))
    env = doom("labyrinth", watchdog=1.0)
    env.reset(seed=1)
    monkeypatch.undo()
    assert env.step(NOOP)[-1]["engine_restarts"] == 0


@pytest.mark.parametrize("during", ["step", "reset"])
def test_a_stopped_engine_is_replaced_by_the_watchdog(during: str, doom: Make) -> None:
    env = doom("labyrinth", watchdog=1.0)
    env.reset(seed=1)
    pid = env.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    if during == "step":
        *_, truncated, info = env.step(NOOP)
        assert truncated and info["interrupted"]
        env.reset(seed=1)
    else:
        _, info = env.reset(seed=1)
    assert info["engine_restarts"] == 1
    assert eventually(lambda: not alive(pid), 5)
    assert env.step(NOOP)[-1]["decisions"] == 1


def test_an_evaluation_ends_where_an_episode_always_kills_its_engine(vector: MakeVector) -> None:
    env = vector("labyrinth", 2, episodes_per_layout=1, split="test")

    class Killer:
        """Ends the engine of one layout in each of its episodes."""

        begun = 0

        def begin(self, index: int, world: World, episode: Episode) -> None:
            if episode.layout == 2:
                self.begun += 1
                os.kill(env.engine_pids[index], signal.SIGKILL)

        def act(self, observation: Arrays, playing: np.ndarray) -> np.ndarray:
            return np.full(2, 2)

    killer = Killer()
    with pytest.raises(
        ValueError, match=r"cannot play MAP03 of .*test\.wad: it died in the same episode 5 times\."
    ):
        play_all(env, killer)
    assert killer.begun == 5


def test_the_guard_meets_an_engine_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux then opens the command line and fails to read it."""
    process = subprocess.Popen([sys.executable, "-c", "input()", "instance"], stdin=subprocess.PIPE)

    def slow_open(path: str, mode: str) -> Any:
        file = open(path, mode)  # noqa: SIM115 - the caller closes it
        process.kill()
        process.wait()
        return file

    monkeypatch.setattr(_guard_process, "open", slow_open, raising=False)
    _guard_process.kill_engine(process.pid, "instance")
    assert process.returncode == -signal.SIGKILL


def test_a_stopped_engine_holds_up_nobody_elses_episode(vector: MakeVector) -> None:
    env = vector("labyrinth", 3, watchdog=1.0, threads=1)
    env.reset(seed=1)
    pids = env.engine_pids
    os.kill(pids[0], signal.SIGSTOP)
    _, _, _, truncated, _ = env.step(np.zeros(3, int))
    assert truncated.tolist() == [True, False, False]
    assert env.engine_restarts == 1 and env.engine_pids[1:] == pids[1:]


def test_an_idle_engine_is_left_alone(doom: Make) -> None:
    env = doom("labyrinth", watchdog=0.2)
    env.reset(seed=1)
    pid = env.engine_pid
    time.sleep(1.0)  # the guard looks four times a second
    *_, truncated, info = env.step(NOOP)
    assert not truncated and info["engine_restarts"] == 0 and env.engine_pid == pid


def test_a_stopped_engine_can_be_closed(doom: Make) -> None:
    env = doom("labyrinth", watchdog=0.5)
    env.reset(seed=1)
    pid = env.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    env.close()
    assert eventually(lambda: not alive(pid), 5)


# ------------------------------------------------------------------------------------------------- what is left over


HOLDER = """
import os, sys, time
import numpy as np
from egomap.envs import DoomVectorEnv
env = DoomVectorEnv(3, config=sys.argv[1], copy=False)
env.reset(seed=0)
from egomap.envs.guard import guard
names = [simulator.engine._berth.instance for simulator in env._simulators]
print(os.getcwd(), guard().folder, *env.engine_pids, *names, sep="\\n", flush=True)
{then}
"""
STEP_FOREVER = "while True: env.step(np.full(3, 2))"
SLEEP = "time.sleep(600)"


class Holder:
    """A Python process that holds three engines."""

    def __init__(self, cfg: Path, cwd: Path, then: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER.format(then=then), str(cfg)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline().strip() for _ in range(8)]
        self.folder = Path(lines[1])
        self.engines = [int(line) for line in lines[2:5]]
        self.instances = lines[5:]

    def has_left_nothing(self) -> bool:
        return (
            not any(map(alive, self.engines))
            and not any(map(shared_memory_of, self.instances))
            and not self.folder.exists()
        )


@pytest.mark.parametrize("then", [STEP_FOREVER, SLEEP], ids=["stepping", "idle"])
def test_sigkill_of_the_parent_leaves_no_engine_and_no_shared_memory(
    then: str, sets: Sets, tmp_path: Path
) -> None:
    holder = Holder(sets["labyrinth"].cfg("train"), tmp_path, then)
    assert all(map(alive, holder.engines)) and all(map(shared_memory_of, holder.instances))
    assert holder.folder.exists()
    holder.process.kill()
    assert eventually(holder.has_left_nothing, 3.0)
    assert list(tmp_path.iterdir()) == [], "nothing is written into the working directory"
    # Whoever waits for the end of a process's output would wait for an engine that holds it open.
    holder.process.communicate(timeout=5)


def test_sigkill_while_engines_are_starting(sets: Sets, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom egomap.envs import DoomVectorEnv\nprint('go', flush=True)\n"
        "DoomVectorEnv(8, config=sys.argv[1])"
    )
    for delay in (0.15, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(sets["labyrinth"].cfg("train"))],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.wait()

        def engines() -> list[str]:
            found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
            return [line for line in found.splitlines() if str(tmp_path) in line]

        assert eventually(lambda: not engines() and not list(tmp_path.iterdir()), 5.0), engines()


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("pass", 0),
        ("env.close()", 0),
        ("sys.exit(3)", 3),
        ("env.step_async(np.zeros(3, int))", 0),
        ("raise KeyError('a fault of the user')", 1),
        ("import threading; threading.Thread(target=lambda: env.step(np.zeros(3, int))).start()", 0),
        (
            "import threading\ndef run():\n  while True: env.step(np.zeros(3, int))\n"
            "threading.Thread(target=run, daemon=True).start(); time.sleep(0.2)",
            0,
        ),
    ],
    ids=["forgotten", "closed", "sys.exit", "in mid-step", "exception", "thread", "daemon thread"],
)
def test_however_python_ends_nothing_is_left(then: str, code: int, sets: Sets, tmp_path: Path) -> None:
    holder = Holder(sets["labyrinth"].cfg("train"), tmp_path, then)
    _, errors = holder.process.communicate(timeout=30)
    assert holder.process.returncode == code, errors
    if "daemon" not in then:  # the thread is told that its environment is closed
        assert "Exception ignored" not in errors and ("Traceback" in errors) == (code == 1)
    assert eventually(holder.has_left_nothing, 3.0)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_the_terminal_reaches_python_but_no_engine(sets: Sets, tmp_path: Path) -> None:
    """A terminal sends SIGINT to the whole process group."""
    then = """
while True:
    try:
        env.step(np.full(3, 2))
    except KeyboardInterrupt:
        break
before = env.engine_pids
env.reset(seed=1)
for _ in range(5):
    env.step(np.full(3, 2))
assert env.engine_pids == before and env.engine_restarts == 0 and env.info(0)["decisions"] == 5
print("went on")
"""
    holder = Holder(sets["labyrinth"].cfg("train"), tmp_path, then)
    time.sleep(0.3)
    os.killpg(holder.process.pid, signal.SIGINT)
    try:
        output, errors = holder.process.communicate(timeout=30)
    finally:
        holder.process.kill()  # whatever happened: it would step for ever beside the other tests
    assert (holder.process.returncode, output.strip()) == (0, "went on"), errors
    assert eventually(holder.has_left_nothing, 3.0)


def test_an_interrupted_step_can_be_waited_for(vector: MakeVector) -> None:
    """Ctrl-C in mid-step, in this process: the step is neither lost nor made twice."""
    env = vector("labyrinth", 2, watchdog=20.0)
    env.reset(seed=1)
    os.kill(env.engine_pids[0], signal.SIGSTOP)  # so that the step lasts
    stopped = env.engine_pids[0]
    threading.Timer(
        0.3, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    ).start()
    with pytest.raises(KeyboardInterrupt):
        env.step(np.full(2, 2))
    with pytest.raises(ValueError, match="the engines are stepping already: call step_wait"):
        env.step(np.full(2, 2))
    os.kill(stopped, signal.SIGCONT)
    _, _, _, truncated, _ = env.step_wait()
    assert not truncated.any() and env.engine_restarts == 0
    assert [env.info(i)["decisions"] for i in range(2)] == [1, 1]
    env.step(np.full(2, 2))


def test_environments_that_are_dropped_end_their_engines(sets: Sets) -> None:
    single = DoomEnv(scenarios=sets["labyrinth"])
    single.reset(seed=0)
    several = DoomVectorEnv(2, scenarios=sets["labyrinth"])
    several.reset(seed=0)
    several.step(np.zeros(2, int))
    pids = [single.engine_pid or 0, *several.engine_pids]
    threads = threading.active_count()
    assert all(map(alive, pids))
    del single, several
    gc.collect()
    assert eventually(lambda: not any(map(alive, pids)), 5)
    assert threading.active_count() < threads


def test_a_killed_guard_is_replaced_with_the_next_engine(doom: Make) -> None:
    env = doom("labyrinth", watchdog=0.5)
    env.reset(seed=0)
    process = guard()._process
    process.kill()
    process.wait()
    other = doom("labyrinth", watchdog=0.5)
    other.reset(seed=0)
    assert guard()._process.poll() is None
    assert env.engine_pid is not None
    os.kill(env.engine_pid, signal.SIGSTOP)
    assert env.step(NOOP)[3], "the new guard watches the old engines too"


# -------------------------------------------------------------------------------------------------------------- forks


FORK = """
import os, sys
import numpy as np
from egomap.envs import DoomEnv, DoomVectorEnv
single, several = DoomEnv(config=sys.argv[1]), DoomVectorEnv(2, config=sys.argv[1])
single.reset(seed=0); several.reset(seed=0)
pids = [single.engine_pid, *several.engine_pids]
child = os.fork()
if child == 0:
    for call in (lambda: single.step(0), lambda: single.reset(), lambda: several.step([0, 0]), several.reset):
        try:
            call()
        except ValueError as error:
            assert "belong to the parent process" in str(error), error
        else:
            raise AssertionError("the parent's engine was used")
    own = DoomEnv(config=sys.argv[1])
    own.reset(seed=0)
    assert own.engine_pid not in pids
    own.step(0)
    own.close()
    single.close(); several.close()
    del single, several
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
for _ in range(3):
    assert not single.step(0)[3] and not several.step([0, 0])[3].any()
assert [single.engine_pid, *several.engine_pids] == pids and several.engine_restarts == 0
print("parent went on")
"""


def test_a_forked_child_leaves_the_parents_engines_alone_and_has_its_own(sets: Sets, tmp_path: Path) -> None:
    found = run_python(FORK, str(sets["labyrinth"].cfg("train")), cwd=tmp_path)
    assert (found.returncode, found.stdout.strip(), found.stderr) == (0, "parent went on", "")


def test_a_forked_child_does_not_keep_the_parents_engines_alive(sets: Sets, tmp_path: Path) -> None:
    """The guard waits for the end of a pipe, and a child would hold it open."""
    then = (
        "child = os.fork()\nif child == 0:\n    time.sleep(20); os._exit(0)\n"
        "print(child, flush=True)\ntime.sleep(600)"
    )
    holder = Holder(sets["labyrinth"].cfg("train"), tmp_path, then)
    assert holder.process.stdout is not None
    child = int(holder.process.stdout.readline())
    holder.process.kill()
    try:
        assert eventually(holder.has_left_nothing, 3.0)
        assert alive(child)
    finally:
        os.kill(child, signal.SIGKILL)
        holder.process.communicate(timeout=5)
