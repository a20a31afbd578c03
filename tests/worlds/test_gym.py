"""Any Gymnasium environment behind the seam: read by hand, refused in a sentence, the same in workers and without."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rooms

from egomap.config import EnvSettings
from egomap.worlds.api import Arrays, Target, WorldSpec, observation_arrays
from egomap.worlds.gym import RawRow, Reader, describe, examine
from egomap.worlds.seeds import SeededWorlds
from egomap.worlds.vector import GymVectorEnv

SETTINGS = EnvSettings(id="rooms:Room")


@pytest.fixture(scope="module")
def spec() -> WorldSpec:
    return examine(SETTINGS)


@pytest.fixture
def env(spec: WorldSpec) -> Iterator[GymVectorEnv]:
    made = GymVectorEnv(spec, 3)
    yield made
    made.close()


def copied(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


def test_the_example_is_described(spec: WorldSpec) -> None:
    assert (spec.camera.width, spec.camera.height, spec.num_actions) == (96, 96, 7)
    assert spec.camera.fy == pytest.approx(48 / math.tan(math.radians(40))) == spec.camera.fx
    assert (spec.extent, spec.unit, spec.center) == (640.0, 80.0, (0.0, 0.0))
    assert spec.actions[4] == "turn left"
    assert spec.statistics is not None
    assert 0 < spec.statistics.mean[3] < 640 and spec.statistics.deviation[3] > 50
    assert len(rooms.EXAMPLE.splitlines()) < 60


def test_a_spec_is_plain_data(spec: WorldSpec) -> None:
    assert WorldSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    for name, value in (("extent", -1), ("actions", []), ("unit", "x"), ("statistics", {"mean": [1]})):
        with pytest.raises(ValueError, match="the description of the world is damaged"):
            WorldSpec.from_json({**spec.to_json(), name: value})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("NoDepth", "and no depth; add it to its observations"),
        ("NoPose", "and no pose; add it"),
        ("Pictures", "observes a Box; give it a dictionary with rgb, depth and pose"),
        ("FloatColours", "must be uint8 of shape"),
        ("SmallDepth", "must be of shape"),
        ("FlatPose", r"must be \(x, y, phi\)"),
        ("Continuous", "actions of a Box space; .* give it a Discrete space"),
        ("NoCamera", "does not tell its camera: give the vertical opening angle by --env-fov DEGREES"),
        ("NoArena", "does not tell its arena: give it by --env-extent"),
        ("Unknown", "what is not known; it may tell camera, fov, extent"),
        ("Unnamed", "has 7 actions and names 2"),
        ("Blind", "depth of rooms:Blind is the same everywhere"),
        ("no_env", "gives str, not a gymnasium.Env"),
        ("Missing-v0", "has no function and registers no id Missing-v0"),
    ],
)
def test_what_lacks_something_is_refused_in_a_sentence(name: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        examine(EnvSettings(id=f"rooms:{name}"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"id": "rooms"}, "named package:EnvId or package.module:function; got 'rooms'"),
        ({"id": "no_such_rooms:Room"}, "no_such_rooms cannot be imported"),
        ({"id": "rooms:Room", "extent": (2.0,)}, "outside of its arena of 2 around"),
        ({"id": "rooms:Room", "fov": 180.0}, "above 0 and below 180 degrees"),
        ({"id": "rooms:Room", "extent": (1.0, 0.0, 0.0, 1.0)}, "an arena cannot be"),
    ],
)
def test_settings_that_do_not_fit(settings: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        examine(EnvSettings(**settings))


def test_an_observation_by_hand() -> None:
    settings = EnvSettings(id="rooms:Room", extent=(-4.0, -4.0, 12.0, 4.0), unit=10.0, depth_range=3.0)
    spec = describe(rooms.Room(), settings)
    assert (spec.extent, spec.center, spec.depth_range) == (160.0, (4.0, 0.0), 30.0)
    row = RawRow.blank(spec)
    depth = np.full((96, 96, 1), 2.0)
    depth[0, :5, 0] = (3.0, 0.0, -1.0, np.nan, np.inf)
    rgb = np.arange(96 * 96 * 3).reshape(96, 96, 3).astype(np.uint8)
    Reader(spec).read({"rgb": rgb, "depth": depth, "pose": (5.0, -2.0, 3 * math.pi)}, row)
    np.testing.assert_array_equal(row.depth[0, :6], [np.inf] * 5 + [20.0])
    np.testing.assert_array_equal(row.rgb, rgb)
    np.testing.assert_allclose(row.pose, [10.0, -20.0, math.pi])
    with pytest.raises(ValueError, match="its spaces said 96 x 96 pixels"):
        Reader(spec).read({"rgb": rgb[:50], "depth": depth, "pose": (0, 0, 0)}, row)
    with pytest.raises(ValueError, match="its pose is"):
        Reader(spec).read({"rgb": rgb, "depth": depth, "pose": (0, math.nan, 0)}, row)


def test_the_same_room_in_other_words_is_the_same(spec: WorldSpec) -> None:
    """Lengths, origin, order of channels and numbers of actions are the environment's own business."""
    other = examine(EnvSettings(id="rooms:InCentimetres"))
    assert (other.unit, other.center) == (0.8, (400.0, 400.0))
    assert spec.statistics is not None and other.statistics is not None
    np.testing.assert_allclose(other.statistics, spec.statistics, rtol=1e-3)
    seen = []
    for each in (spec, other):
        env = GymVectorEnv(each, 2)
        first = copied(env.reset(seed=4)[0])
        seen.append((first, copied(env.step(np.array([0, 4]))[0])))
        env.close()
    for mine, theirs in zip(*seen, strict=True):
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-4, atol=1e-3)


def test_an_agent_sees_pictures_standardised_by_what_was_examined(spec: WorldSpec) -> None:
    import torch

    from egomap.agents.fitting import agent_for
    from egomap.config import AgentConfig

    features = []
    for name in ("Room", "InCentimetres"):
        described = examine(EnvSettings(id=f"rooms:{name}"))
        env = GymVectorEnv(described, 2)
        view = {key: torch.from_numpy(array) for key, array in env.reset(seed=4)[0].items()}
        torch.manual_seed(0)
        agent = agent_for(AgentConfig(kind="gru"), described)
        features.append(agent.perception(view["rgb"], view["depth"]).detach())
        assert agent.step(view, agent.initial_state(2), torch.ones(2, dtype=torch.bool)).logits.shape == (
            2,
            7,
        )
        env.close()
    torch.testing.assert_close(*features, rtol=1e-2, atol=1e-2)
    assert 0.1 < float(features[0].std()) < 10


def test_ego_motion_is_derived(env: GymVectorEnv) -> None:
    first = copied(env.reset(seed=0)[0])
    assert not first["ego_motion"].any()
    seen = env.step(np.array([0, 4, 6]))[0]
    ahead = np.linalg.norm(seen["pose"][0, :2] - first["pose"][0, :2])
    assert ahead > 0
    np.testing.assert_allclose(
        seen["ego_motion"][0, 1] ** 2 + seen["ego_motion"][0, 0] ** 2, ahead**2, rtol=1e-4
    )
    np.testing.assert_allclose(seen["ego_motion"][1], [0, 0, math.pi / 6], atol=1e-5)
    np.testing.assert_allclose(seen["ego_motion"][2], [0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(seen["reward"], [-0.01] * 3, atol=1e-6)


def test_rows_are_written_where_the_caller_wants(env: GymVectorEnv, spec: WorldSpec) -> None:
    target = Target.of(spec.arrays(3))
    env.reset(seed=0)
    env.write_to(target)
    observation = env.step(np.zeros(3, int))[0]
    assert observation is target.arrays and target.arrays["rgb"].any()
    with pytest.raises(ValueError, match="pictures"):
        env.write_to(Target.of(observation_arrays(3, height=40, width=40)))
    with pytest.raises(ValueError, match="3 integers from 0 to 6"):
        env.step(np.array([0, 7, 0]))


@pytest.mark.slow
def test_workers_give_what_one_process_gives(spec: WorldSpec) -> None:
    actions = np.random.default_rng(0).integers(7, size=(45, 5))
    played: list[list[Arrays]] = []
    for workers in (0, 2):
        env = GymVectorEnv(spec, 5, workers=workers)
        try:
            rows = [copied(env.reset(seed=3)[0])]
            for action in actions:
                observation, rewards, terminated, truncated, infos = env.step(action)
                rows.append(copied(observation) | {"paid": rewards, "over": terminated, "late": truncated})
                if infos:
                    ended = np.flatnonzero(terminated | truncated)
                    rows[-1] |= {"last": np.stack([infos["final_obs"][i]["rgb"] for i in ended])}
                    assert infos["final_info"]["success"][ended].tolist() == terminated[ended].tolist()
            assert env.episodes_begun > 5
            played.append(rows)
        finally:
            env.close()
    for mine, theirs in zip(*played, strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


def test_each_seed_is_played_exactly_k_times(spec: WorldSpec) -> None:
    env = GymVectorEnv(spec, 3, worlds=SeededWorlds("rooms:Room", 4), episodes_per_layout=2)
    env.reset(seed=1)
    found = []
    while not env.exhausted:
        *_, terminated, truncated, infos = env.step(np.full(3, 6))
        for row in np.flatnonzero(terminated | truncated).tolist():
            final = infos["final_info"]
            assert final["decisions"][row] == 20 and final["return"][row] == pytest.approx(-0.2)
            found.append((int(final["layout"][row]), int(final["repeat"][row])))
    env.close()
    assert sorted(found) == [(layout, repeat) for layout in range(4) for repeat in range(2)]


def test_a_stream_goes_on_where_it_stopped(env: GymVectorEnv, spec: WorldSpec) -> None:
    env.reset(seed=5)
    for _ in range(20):
        env.step(np.full(3, 6))
    assert env.episodes_begun == 6
    after = copied(env.reset(seed=5, options={"position": 3})[0])
    fresh = GymVectorEnv(spec, 6)
    np.testing.assert_array_equal(fresh.reset(seed=5)[0]["rgb"][3:], after["rgb"])
    fresh.close()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(spec: WorldSpec) -> None:
    env = GymVectorEnv(spec, 4, worlds=SeededWorlds(spec.name, 4), episodes_per_layout=1, workers=2)
    try:
        assert env._crew is not None
        env.reset(seed=0)
        victim = env._crew._workers[0]._process.pid  # type: ignore[union-attr]
        os.kill(victim, signal.SIGKILL)
        *_, truncated, infos = env.step(np.full(4, 6))
        assert truncated.tolist() == [True, False, True, False] and env.engine_restarts == 1
        assert infos["final_info"]["interrupted"].tolist() == [True, False, True, False]
        finished = []
        while not env.exhausted:
            *_, terminated, truncated, infos = env.step(np.full(4, 6))
            finished += infos["final_info"]["layout"][terminated | truncated].tolist() if infos else []
        assert sorted(finished) == [0, 1, 2, 3]
    finally:
        env.close()


@pytest.mark.slow
def test_an_error_of_the_environment_is_told() -> None:
    env = GymVectorEnv(examine(SETTINGS), 1)
    env.close()
    with pytest.raises(ValueError, match="closed"):
        env.reset(seed=0)
    broken = GymVectorEnv(
        WorldSpec.from_json({**examine(SETTINGS).to_json(), "name": "rooms:Broken"}), 2, workers=1
    )
    try:
        broken.reset(seed=0)
        with pytest.raises(ValueError, match="ZeroDivisionError: the room is broken"):
            for _ in range(3):
                broken.step(np.full(2, 6))
    finally:
        broken.close()


@pytest.mark.slow
def test_no_worker_outlives_its_trainer() -> None:
    code = (
        "import sys, time, rooms; from egomap.config import EnvSettings; from egomap.worlds.gym import examine\n"
        "from egomap.worlds.vector import GymVectorEnv\n"
        "env = GymVectorEnv(examine(EnvSettings(id='rooms:Room')), 2, workers=2); env.reset(seed=0)\n"
        "print(*(worker._process.pid for worker in env._crew._workers), flush=True); time.sleep(600)\n"
    )
    path = os.pathsep.join([str(Path(rooms.__file__).parent), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    ) as trainer:
        assert trainer.stdout is not None
        workers = [int(pid) for pid in trainer.stdout.readline().split()]
        assert len(workers) == 2 and all(_alive(pid) for pid in workers)
        trainer.kill()
    while any(_alive(pid) for pid in workers):  # the suite's time limit ends a wait in vain
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
