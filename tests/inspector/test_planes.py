"""Place planes in recordings: they are the memory's own, the inner memory is seen as well, and pictures are true."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from egomap.config import AgentConfig, EnvSettings, MapSettings, PlaceSettings, Task
from egomap.envs.doom import doom_spec
from egomap.envs.worlds import worlds_of_set
from egomap.inspector import frame
from egomap.inspector.figure import figure
from egomap.inspector.floor_plan import DARK, LIGHT, floor_plan
from egomap.inspector.frame import paint
from egomap.inspector.mind import Mind
from egomap.inspector.probe import sample
from egomap.inspector.record import Stage, driver_of
from egomap.inspector.recording import Recording, levels_of, values_of
from egomap.inspector.subject import untrained
from egomap.inspector.video import moments
from egomap.memory.places import PLANES, WAYS
from egomap.memory.shown import Shown, shown
from egomap.scenarios.dataset import ScenarioSet

from .conftest import MAP_SIZE, Recorder, small_agent
from .test_page import Parts, longer, page_of
from .test_pictures import basis_of

KINDS = ("egomap-places", "places")


def test_levels_of_planes_by_hand() -> None:
    planes = np.array([[[0.0, 1.0], [0.5, 0.002]], [[-1.0, 1.0], [0.0, 0.003]]], np.float32)
    levels = levels_of(planes, (False, True))
    assert levels.dtype == np.uint8
    assert levels.tolist() == [[[0, 255], [128, 1]], [[1, 255], [128, 128]]]
    # Half a level: a 510th of a plane from 0 to 1, a 254th of one from -1 to 1.
    assert np.abs(values_of(levels, (False, True)) - planes)[0].max() <= 1 / 510 + 1e-6
    assert np.abs(values_of(levels, (False, True)) - planes)[1].max() <= 1 / 254 + 1e-6


def test_a_memory_within_another_is_shown_with_it(sets: dict[Task, ScenarioSet]) -> None:
    worlds = worlds_of_set(sets["find-return"], "test")
    found = {kind: shown(small_agent(kind, worlds).memory) for kind in ("egomap", "gru", *KINDS)}
    assert found["gru"] == Shown()
    assert found["egomap-places"].map == found["egomap"].map is not None and found["egomap"].planes is None
    assert found["places"].map is None
    planes = found["places"].planes
    assert planes is not None and planes == found["egomap-places"].planes
    assert planes.names == PLANES + WAYS and planes.signed == (False,) * 4 + (True,) * 2
    assert planes.extent == 28 * 32.0
    assert list(found["egomap-places"].words) == ["map", "places"] and list(found["places"].words) == [
        "places"
    ]
    without = untrained(
        AgentConfig(kind="places", places=PlaceSettings(ways=False)),
        doom_spec(EnvSettings(), worlds.extent),
        seed=0,
    )
    told = shown(without.memory).planes
    assert told is not None and told.names == PLANES and not any(told.signed)


@pytest.fixture(scope="module", params=KINDS)
def watched(request: pytest.FixtureRequest, recorded: Recorder) -> Recording:
    return recorded("find-return", request.param, "planner")


@pytest.mark.slow
def test_recorded_planes_are_the_memory_s_trace(sets: dict[Task, ScenarioSet], watched: Recording) -> None:
    kind = watched.agent.split(",")[0]
    agent = small_agent(kind, worlds_of_set(sets["find-return"], "test"))
    track, mind = watched.planes, watched.mind
    assert track is not None and mind is not None and track.levels.dtype == np.uint8
    assert track.levels.shape == (len(watched), len(PLANES + WAYS), 28, 28)
    state = agent.initial_state(1)
    for t in range(len(watched)):
        trace: dict[str, torch.Tensor] = {}
        seen = {name: torch.from_numpy(array[None]) for name, array in watched.observation(t).items()}
        with torch.no_grad():
            state = agent.step(seen, state, torch.tensor([t == 0]), deterministic=True, trace=trace).state
        near = trace["place_near"][0].numpy()
        assert np.array_equal(track.levels[t], levels_of(near, track.signed))
        assert np.abs(track.at(t) - near).max() <= 1 / 254 + 1e-6
        assert mind.hidden is not None and np.array_equal(mind.hidden[t], trace["hidden"][0].numpy())
        if mind.map is not None:
            assert np.array_equal(mind.map.features[t], trace["map_ego"].numpy())
    assert (mind.map is not None) == (kind == "egomap-places")
    # The agent stands where it is free, and has just been there: the four cells around the centre.
    free, _, recent, _ = (track.levels[:, index, 13:15, 13:15].max((1, 2)) for index in range(4))
    assert (recent > 60).all() and (free[1:] > 0).all()


@pytest.mark.slow
def test_the_page_holds_the_planes(watched: Recording) -> None:
    track = watched.planes
    assert track is not None
    parts = Parts(page_of(watched))
    assert np.array_equal(parts.array("planes"), track.levels)
    assert parts.data["planes"] == {
        "names": [*PLANES, *WAYS], "signed": [False] * 4 + [True] * 2, "extent": 896.0, "size": 28,
    }  # fmt: skip


def test_recordings_without_planes_are_as_before(recorded: Recorder) -> None:
    recording = recorded("labyrinth", "gru", "planner")
    assert recording.planes is None
    data = Parts(page_of(recording)).data
    assert data["planes"] is None and "planes" not in data["arrays"]


@pytest.mark.slow
def test_planes_keep_the_page_small(recorded: Recorder) -> None:
    recording = longer(recorded("find-return", "egomap-places", "planner", layout=1, map_size=24), 525)
    assert recording.planes is not None and len(recording.planes.levels) == 525
    text = page_of(recording)
    assert len(text.encode()) <= 6_000_000
    share = len(Parts(text).scripts["part-planes"]) / len(text)
    assert share < 0.5, "planes alone do not double a page"


def test_a_floor_plan_by_hand() -> None:
    values = np.zeros((6, 1, 6), np.float32)
    free, blocked, recent, old = values[:4, 0]
    free[1:5] = 1
    blocked[2] = recent[3] = old[4] = 1
    blocked[5] = 0.5  # half of the cell is seen, all of that blocked
    plan = floor_plan(values, LIGHT)[0]
    wanted = [LIGHT.unknown, LIGHT.free, LIGHT.wall, LIGHT.recent, LIGHT.early]
    assert plan[:5].tolist() == [list(colour) for colour in wanted]
    between = (np.array(LIGHT.free) + LIGHT.wall) / 2
    assert plan[5] == pytest.approx((between + LIGHT.unknown) / 2, abs=0.51)


@pytest.mark.slow
def test_a_frame_and_a_figure_show_the_places(watched: Recording) -> None:
    track, basis = watched.planes, basis_of(watched)
    assert track is not None
    t = len(watched) // 2
    picture = np.asarray(paint(list(moments(watched, basis))[t]))
    left, top, width, _ = frame.MEMORY[0][0] if watched.map is None else frame.MEMORY[1][2]
    plan, cell = floor_plan(track.at(t), DARK), width / track.size
    for row, column in ((2, 3), (9, 14), (13, 9), (25, 20)):  # none of them below the agent
        assert np.array_equal(
            picture[int(top + (row + 0.5) * cell), int(left + (column + 0.5) * cell)], plan[row, column]
        )
    drawn = figure(watched, basis, [0, t], "svg").decode()
    assert ">places</text>" in drawn


@pytest.mark.slow
def test_a_probe_takes_what_these_agents_have(watched: Recording, sets: dict[Task, ScenarioSet]) -> None:
    mind = watched.mind
    assert mind is not None and mind.hidden is not None
    found = sample(watched, mind, np.random.default_rng(0))
    assert found.state.shape[1] == mind.hidden.shape[1] and len(found.state) == len(found.bearing) > 0
    assert (found.cells is None) == (mind.map is None)


@pytest.mark.slow
def test_a_mind_forgets_the_places_of_the_last_episode(sets: dict[Task, ScenarioSet]) -> None:
    worlds = worlds_of_set(sets["find-return"], "test")
    config = AgentConfig(kind="places", map=MapSettings(map_size=MAP_SIZE))
    mind = Mind(untrained(config, doom_spec(EnvSettings(), worlds.extent), seed=0))
    with Stage(worlds) as stage:
        one, again = (stage.play(0, driver_of("planner"), mind=mind) for _ in range(2))
    assert one.planes is not None and again.planes is not None
    assert np.array_equal(one.planes.levels, again.planes.levels)
