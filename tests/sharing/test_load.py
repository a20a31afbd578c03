"""Agents that are loaded: what they do, what is left untouched, and every way to name one."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import egomap
import egomap.envs
from egomap.cli import main
from egomap.config import Task
from egomap.envs.doom import DoomEnv
from egomap.scenarios.dataset import ScenarioSet
from egomap.sharing.index import entries, write_index
from egomap.training import names
from egomap.training.exported import FILES
from egomap.training.names import released, released_names
from egomap.training.trained import find_agent

from .hub import stand_in
from .test_export import ABSOLUTE, refused

pytestmark = pytest.mark.slow

Observation = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def seen(sets: dict[Task, ScenarioSet]) -> list[Observation]:
    """Sixteen observations of a walk in a real maze."""
    env = DoomEnv(scenarios=sets["labyrinth"], split="test", watchdog=120.0)
    try:
        observation, _ = env.reset(seed=0, options={"layout": 0})
        found = [observation]
        for step in range(15):
            observation, *_ = env.step((2, 2, 0, 3)[step % 4])
            found.append(observation)
        return found
    finally:
        env.close()


def actions(agent: Any, observations: list[Observation]) -> list[Any]:
    return [agent.act(observation) for observation in observations]


def together(*rows: Observation) -> Observation:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def test_a_run_and_its_export_act_alike(run: Path, exported: Path, seen: list[Observation]) -> None:
    first, second = egomap.load_agent(str(run)), egomap.load_agent(exported)
    found = actions(first, seen)
    assert found == actions(second, seen) and set(map(type, found)) == {int}
    assert (first.decisions, second.decisions, first.extent) == (96, 96, second.extent)
    assert first.card is None and second.card is not None and second.card["name"] == "tiny-egomap"
    # Other draws from the same policy, and its most probable actions.
    assert actions(egomap.load_agent(run, seed=1), seen) != found
    most = actions(egomap.load_agent(run, deterministic=True), seen)
    assert most == actions(egomap.load_agent(exported, deterministic=True, seed=5), seen)


def test_a_batch_is_so_many_agents(run: Path, seen: list[Observation]) -> None:
    """Two walks at once, the second of them the other way round: each has a memory of its own."""
    batch = egomap.load_agent(run, deterministic=True)
    found = np.array([batch.act(together(a, b)) for a, b in zip(seen, seen[::-1], strict=True)])
    assert found.shape == (16, 2) and found.dtype == np.int64
    one, other = (egomap.load_agent(run, deterministic=True) for _ in range(2))
    assert found[:, 0].tolist() == actions(one, seen) and found[:, 1].tolist() == actions(other, seen[::-1])
    # Drawn actions: the first row draws what a single agent draws.
    drawn = egomap.load_agent(run)
    rows = [drawn.act(together(a, b))[0] for a, b in zip(seen, seen[::-1], strict=True)]
    assert rows == actions(egomap.load_agent(run), seen)


def test_reset(run: Path, seen: list[Observation]) -> None:
    agent = egomap.load_agent(run, deterministic=True)
    state = agent.module.initial_state(1)
    actions(agent, seen)
    assert any(not bool((a == b).all()) for a, b in zip(agent._state or (), state, strict=True))
    fresh = egomap.load_agent(run, deterministic=True)
    agent.reset()
    assert actions(agent, seen) == actions(fresh, seen)
    for mine, theirs in zip(agent._state or (), fresh._state or (), strict=True):
        assert bool((mine == theirs).all())
    # Of a batch, where an episode begins; the other goes on.
    agent.reset()
    for observation in seen[:8]:
        agent.act(together(observation, observation))
    agent.reset(np.array([True, False]))
    agent.act(together(seen[8], seen[8]))
    fresh.reset()
    fresh.act(seen[8])
    (mine, theirs), rows = (agent._state or (), fresh._state or ()), range(len(fresh._state or ()))
    assert all(np.allclose(mine[row][0], theirs[row][0], atol=1e-5) for row in rows)
    assert not all(np.allclose(mine[row][1], theirs[row][0], atol=1e-5) for row in rows)


def test_what_an_agent_refuses(run: Path, seen: list[Observation]) -> None:
    agent = egomap.load_agent(run)
    agent.act(seen[0])
    with pytest.raises(ValueError, match="the memory is of 1 environments, and there are 2"):
        agent.act(together(seen[0], seen[1]))
    with pytest.raises(ValueError, match="the observation lacks depth"):
        agent.act({name: value for name, value in seen[0].items() if name != "depth"})
    with pytest.raises(ValueError, match=r"rgb must be \(3, H, W\)"):
        agent.act({**seen[0], "rgb": seen[0]["rgb"][0]})
    with pytest.raises(ValueError, match="begin must be 1 bools"):
        agent.reset(np.array([True, False]))


def test_which_is_what_it_says(run: Path, exported: Path) -> None:
    first, last = (egomap.load_agent(run, which) for which in ("first", "last"))  # type: ignore[arg-type]
    assert (first.decisions, last.decisions, first.which) == (64, 96, "first")
    with pytest.raises(ValueError, match="which must be first, last or best; got 'middle'"):
        egomap.load_agent(run, "middle")  # type: ignore[arg-type]
    assert egomap.load_agent(exported).which == "last"
    with pytest.raises(ValueError, match="holds one agent, the last of its run, and not the best"):
        egomap.load_agent(exported, "best")


def test_a_folder_is_only_read(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No lock, no folder, no file; root may write anywhere, so for root the listing is what tells."""
    closed = Path(shutil.copytree(run, tmp_path / "closed"))
    shutil.rmtree(closed / "evaluation")
    (closed / ".lock").unlink(missing_ok=True)
    everything = sorted(closed.rglob("*"))
    for path in (*everything, closed):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o555)
    try:
        assert egomap.load_agent(closed).decisions == 96
        out = tmp_path / "scores.json"
        assert main(["evaluate", str(closed), "--layouts", "1", "--out", str(out)]) == 0
        assert sorted(closed.rglob("*")) == everything
        if os.geteuid() != 0:
            assert "cannot be written to; give a file by --out" in refused(capsys, "evaluate", closed)
    finally:
        for path in (closed, *everything):
            path.chmod(0o755)


def test_three_lines_to_a_playing_agent(exported: Path) -> None:
    """As docs/agents.md has them."""
    agent = egomap.load_agent(exported)
    env = gymnasium.make("EgoMap/Labyrinth-v0", size=3, split="test", frame_skip=20, watchdog=120.0)
    observation, _ = env.reset(seed=0, options={"layout": 3})
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(agent.act(observation))
        total, ended = total + float(reward), terminated or truncated
    env.close()
    assert -1.0 < total <= 1.0


def test_its_own_environment(run: Path, sets: dict[Task, ScenarioSet]) -> None:
    env = egomap.load_agent(run).make_env(split="train")
    try:
        assert [world.id for world in env.worlds] == [e.hash for e in sets["labyrinth"].layouts["train"]]
        assert env.settings.frame_skip == 20
    finally:
        env.close()


@pytest.fixture
def own_release(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of released agents with one in it, in place of the package's."""
    root = tmp_path / "released"
    shutil.copytree(exported, root / "labyrinth-5" / "egomap")
    write_index(root)
    monkeypatch.setattr(names, "RELEASED", root)
    return root


def test_released_agents_by_name(
    own_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Listed, loaded, scored and looked into by name; the package's folder stays as it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["agents"]) == 0
    told = capsys.readouterr().out
    card = json.loads((own_release / "labyrinth-5" / "egomap" / "card.json").read_text())
    row = next(line for line in told.splitlines() if "labyrinth-5/egomap" in line)
    assert "labyrinth, size 5" in row and f"{card['scores'][0]['mean_return']:.3f}" in row
    assert egomap.load_agent("labyrinth-5/egomap").decisions == 96
    before = sorted(own_release.rglob("*"))
    name = "labyrinth-5/egomap"
    assert main(["evaluate", name, "--layouts", "1"]) == 0
    (written,) = tmp_path.glob("*.json")
    assert written.name.startswith("labyrinth-5-egomap-test-000000000096-")
    assert json.loads(written.read_text())["evaluations"][0]["run"] == name
    assert f"Every layout: {written.name}" in capsys.readouterr().out
    assert main(["inspect", name, "--driver", "planner", "--out", "episode.html"]) == 0
    page = (tmp_path / "episode.html").read_text()
    assert "egomap after 96 decisions" in page and "labyrinth-5-egomap" in page
    assert sorted(own_release.rglob("*")) == before


def test_the_released_agents_are_what_the_index_says() -> None:
    """Of the package: every one loads, is as its card says, fits into the package and tells no path."""
    assert released() == entries(names.RELEASED)
    assert sum(entry["bytes"] for entry in released()) <= 12_000_000
    for name in released_names():
        folder = names.RELEASED / name
        assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
        assert find_agent(name).card["name"] == name  # type: ignore[index]
        for file in ("config.json", "card.json"):
            assert not ABSOLUTE.search((folder / file).read_bytes())


def test_names_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    told = refused(capsys, "evaluate", "labyrinth-5/nobody")
    assert told.startswith(
        "labyrinth-5/nobody holds no run, for there is no such folder; nor is it a released"
    )
    (tmp_path / "empty").mkdir()
    assert refused(capsys, "inspect", "empty") == "empty holds no run: it has no config.json."
    assert refused(capsys, "evaluate", "hub:nobody") == "hub:nobody must be hub:OWNER/NAME."
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    told = refused(capsys, "evaluate", "hub:somebody/agent")
    assert told == "a hub needs huggingface_hub: pip install 'egomap[hub]'."
    for name in ("../released", "/etc", "."):
        with pytest.raises(ValueError, match="holds no run"):
            find_agent(name)


def test_a_hub(run: Path, tmp_path: Path, seen: list[Observation]) -> None:
    """Pushed and loaded by the hub's own library, against a stand-in on this machine, file by file."""
    pytest.importorskip("huggingface_hub")
    play = (
        "import egomap, json, sys; agent = egomap.load_agent('hub:somebody/agent', deterministic=True);"
        "print(agent.decisions, agent.card['name'], agent.module.heads.policy.bias.tolist())"
    )

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    with stand_in() as hub:
        environment = hub.environment(tmp_path / "home")
        pushed = call("-m", "egomap", "push", str(run), "somebody/agent")
        assert pushed.returncode == 0, pushed.stderr
        assert "egomap.load_agent('hub:somebody/agent')" in pushed.stdout
        assert sorted(hub.files) == sorted(FILES)
        assert not any(ABSOLUTE.search(hub.files[name]) for name in ("config.json", "card.json"))
        hub.files["more.bin"] = b"is not asked for"
        loaded = call("-c", play)
        assert loaded.returncode == 0, loaded.stderr
        assert not any("more.bin" in asked for asked in hub.asked)
    bias = egomap.load_agent(run).module.heads.policy.bias.tolist()
    assert loaded.stdout.strip() == f"96 hub:somebody/agent {bias}"
    # The stand-in is gone: what was loaded once is in the library's cache.
    assert call("-c", play).stdout == loaded.stdout
    gone = call("-m", "egomap", "evaluate", "hub:somebody/other")
    assert gone.returncode == 2 and "hub:somebody/other cannot be downloaded: " in gone.stderr
    assert "Traceback" not in gone.stderr
