"""The EgoMap memory by hand: where a view is written, what is read of it, what gradients see, what is refused."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from allocations import large_allocations
from egomaps import ABLATIONS, CAMERA, at, never, one_pixel, one_pixel_inputs, small
from replay import loop_of_steps, random_inputs, random_state

from egomap.config import MapSettings
from egomap.geometry import compose
from egomap.memory import EgoMapMemory, MemoryInputs, RecurrentMemory, native, reset_state
from egomap.memory.egomap import EgoMapState

NORTH, EAST, WEST = math.pi / 2, 0.0, math.pi
BACKENDS = ["torch", *(["numba"] if native.available() else [])]


def written_cells(state) -> list[int]:
    return EgoMapState(*state).known[0].nonzero().flatten().tolist()


# -- sizes --------------------------------------------------------------------------------------------------


def test_sizes_of_the_paper():
    memory = EgoMapMemory(CAMERA)
    assert memory.reduce.in_features == 640 + 32 == 672
    assert memory.context_read.query.out_features == 17 and memory.context_read.output_size == 18
    assert memory.output_size == 128 + 18 == 146
    assert [spec.shape for spec in memory.state_spec] == [(576, 16), (576,), (128,), (), (3,)]


@pytest.mark.parametrize("name", ABLATIONS)
def test_sizes_of_the_ablations(name):
    memory = small(**ABLATIONS[name])
    switches = memory.settings
    assert memory.reduce.in_features == 640 + 32 * switches.use_global_read + 4 * switches.use_ego_motion
    context = (16 + 2 * switches.use_query_position) * switches.use_query
    out, state = memory.step(at(random_inputs(1, 3, 0), 0), memory.initial_state(3))
    assert out.shape == (3, memory.output_size) == (3, 8 + context)
    for tensor, fresh, spec in zip(state, memory.initial_state(3), memory.state_spec, strict=True):
        assert tensor.shape == fresh.shape == (3, *spec.shape) and tensor.dtype == fresh.dtype == spec.dtype


def test_any_camera_and_convolutions():
    """Padding, odd kernels, another picture: the feature grid follows."""
    camera = dataclasses.replace(CAMERA, width=40, height=30)
    settings = MapSettings(channels=3, map_size=13, extent=50.0)
    memory = EgoMapMemory(
        camera,
        settings,
        feature_shape=(3, 8, 10),
        kernels=(5, 3),
        strides=(2, 2),
        paddings=(2, 1),
        hidden_size=6,
    )
    inputs = MemoryInputs(
        torch.randn(2, 3, 8, 10), torch.rand(2, 30, 40) * 20 + 1, torch.zeros(2, 3), torch.zeros(2, 3)
    )
    out, state = memory.step(inputs, memory.initial_state(2))
    assert out.shape == (2, 6 + 5) and state[1].any()


# -- writing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pose", "cell"),
    [
        ((5.0, 5.0, NORTH), (1, 6)),  # 40 ahead of the cell in row 5, column 6: four rows up
        ((5.0, 5.0, EAST), (5, 10)),
        ((5.0, 5.0, WEST), (5, 2)),
        ((5.0, 5.0, -NORTH), (9, 6)),
        ((-35.0, 15.0, math.pi / 4), (1, 5)),  # 28.3 east and 28.3 north of (-35, 15): (-6.7, 43.3)
    ],
)
def test_the_centre_pixel_is_written_straight_ahead_at_its_depth(pose, cell):
    memory = one_pixel()
    inputs = one_pixel_inputs([3.0], [40.0], [pose])
    _, state = memory.step(at(inputs, 0), memory.initial_state(1))
    index = cell[0] * 12 + cell[1]
    assert written_cells(state) == [index]
    assert state[0][0, index] == 3.0 and state[0].abs().sum() == 3.0


def test_each_feature_is_written_where_its_own_pixels_see():
    """Every place of the 4 x 10 grid alone: its depth is read at its centre, its column gives its direction."""
    memory = small(map_size=40, extent=400.0, channels=16).double()
    for row, column, distance in ((0, 0, 150.0), (1, 4, 90.0), (2, 5, 60.0), (3, 9, 120.0), (0, 7, 33.0)):
        depth = torch.full((1, 64, 112), math.inf, dtype=torch.float64)
        depth[0, 17 + 8 * row, 18 + 8 * column] = distance  # one of the four pixels around its centre
        features = torch.zeros(1, 16, 4, 10, dtype=torch.float64)
        features[0, :, row, column] = torch.arange(1.0, 17.0)
        pose = torch.tensor([[0.0, 0.0, NORTH]], dtype=torch.float64)
        _, state = memory.step(MemoryInputs(features, depth, pose, pose * 0), memory.initial_state(1))
        right = distance * (18 + 8 * column - 56) / CAMERA.fx
        cell = math.floor(20 - distance / 10) * 40 + math.floor(20 + right / 10)
        assert written_cells(state) == [cell]
        assert state[0][0, cell].tolist() == list(range(1, 17))


def test_a_wall_ahead_is_a_line_in_the_map():
    """One depth all over the view, facing east: the cells of one column, symmetric about the agent."""
    memory = small(map_size=24, extent=240.0).double()
    depth = torch.full((1, 64, 112), 75.0, dtype=torch.float64)
    pose = torch.tensor([[5.0, 5.0, EAST]], dtype=torch.float64)
    features = torch.ones(1, 16, 4, 10, dtype=torch.float64)
    _, state = memory.step(MemoryInputs(features, depth, pose, pose * 0), memory.initial_state(1))
    known = EgoMapState(*state).known[0].view(24, 24)
    assert known.any(0).nonzero().flatten().tolist() == [20]  # x = 80
    rows = known[:, 20].nonzero().flatten()
    assert rows.min() < 11 < rows.max()
    assert (state[0][0][known.flatten()] == 1).all()  # the mean of equal features


@pytest.mark.parametrize("unknown", [0.0, math.inf, math.nan])
def test_unknown_depth_is_not_written(unknown):
    memory = one_pixel()
    inputs = one_pixel_inputs([3.0, 4.0], [unknown, 20.0], [(5.0, 5.0, NORTH)] * 2)
    _, state = memory.step(at(inputs, 0), memory.initial_state(1))
    assert written_cells(state) == [] and (state[0] == 0).all()
    _, state = memory.step(at(inputs, 1), state)
    assert written_cells(state) == [3 * 12 + 6]


def test_what_lies_beyond_the_map_is_dropped():
    memory = one_pixel()
    inputs = one_pixel_inputs([3.0], [70.0], [(5.0, 5.0, NORTH)])
    _, state = memory.step(at(inputs, 0), memory.initial_state(1))
    assert written_cells(state) == [] and (state[0] == 0).all()


@pytest.mark.parametrize("anchor", ["world", "start"])
def test_a_landmark_from_three_poses_falls_into_one_cell(anchor):
    """Seen from the south, the west and the north-east: one cell, blended twice."""
    landmark = (17.0, 23.0)
    poses, depths = [], []
    for x, y in ((17.0, -14.0), (-21.0, 23.0), (40.0, 46.0)):
        poses.append((x, y, math.atan2(landmark[1] - y, landmark[0] - x)))
        depths.append(math.dist((x, y), landmark))
    # From its start a landmark straight ahead lies on the middle line, which runs through cells of an odd map.
    memory = one_pixel() if anchor == "world" else one_pixel(anchor="start", map_size=13, extent=130.0)
    inputs = one_pixel_inputs([1.0, 2.0, 5.0], depths, poses)
    _, state = memory.unroll(inputs, memory.initial_state(1), never(3, 1))
    (cell,) = written_cells(state)
    if anchor == "world":
        assert cell == 3 * 12 + 7  # row: (60 - 23) / 10; column: (17 + 60) / 10
    else:
        assert cell == 2 * 13 + 6  # 37 ahead of the first pose, which stood facing it
    expected = 0.9 * (0.9 * 1 + 0.1 * 2) + 0.1 * 5
    torch.testing.assert_close(state[0][0, cell, 0], torch.tensor(expected, dtype=torch.float64))


def test_the_three_cases_of_eta():
    """Only the new; both; only the old (it looks elsewhere)."""
    memory = one_pixel(alpha=0.75)
    here, there = (5.0, 5.0, NORTH), (5.0, 5.0, WEST)
    inputs = one_pixel_inputs([8.0, 4.0, 1.0], [20.0] * 3, [here, here, there])
    cell, values, state = 3 * 12 + 6, [], memory.initial_state(1)
    for t in range(3):
        _, state = memory.step(at(inputs, t), state)
        values.append(float(state[0][0, cell, 0]))
    assert values == [8.0, 0.75 * 8 + 0.25 * 4, 7.0]
    assert len(written_cells(state)) == 2


def test_features_are_mapped_before_their_relu():
    memory = one_pixel()
    _, state = memory.step(
        at(one_pixel_inputs([-3.0], [20.0], [(5.0, 5.0, NORTH)]), 0), memory.initial_state(1)
    )
    assert state[0].sum() == -3.0


# -- reading ------------------------------------------------------------------------------------------------


def middle_of(map_ego: torch.Tensor) -> tuple[float, float]:
    """Centre of mass of a map (size, size) of side 120: to the right and ahead, map units."""
    at_cell = (torch.arange(12, dtype=torch.float64) + 0.5) * 10 - 60
    mass = map_ego / map_ego.sum()
    return float((mass.sum(0) * at_cell).sum()), float(-(mass.sum(1) * at_cell).sum())


def test_a_landmark_is_seen_ahead_wherever_the_agent_faces_it():
    memory = one_pixel()
    poses = [(15.0, -25.0, NORTH), (-15.0, 5.0, EAST), (45.0, 5.0, WEST), (15.0, 35.0, -NORTH)]
    inputs = one_pixel_inputs([1.0] * 4, [30.0] * 4, poses)  # all look at (15, 5)
    state = memory.initial_state(1)
    for t in range(4):
        trace: dict[str, torch.Tensor] = {}
        _, state = memory.step(at(inputs, t), state, trace=trace)
        assert middle_of(trace["map_ego"][0, 0]) == pytest.approx((0.0, 30.0), abs=1e-9)
    assert written_cells(state) == [5 * 12 + 7]


def test_a_landmark_moves_to_the_other_side_as_the_agent_turns():
    """It is ahead; the agent turns left, and it is on the right; walks on, and it is behind on the right."""
    memory = one_pixel()
    poses = [(5.0, -25.0, NORTH), (5.0, -25.0, WEST), (-15.0, -25.0, WEST)]
    inputs = one_pixel_inputs([1.0, 0.0, 0.0], [30.0, 0.0, 0.0], poses)
    state, seen = memory.initial_state(1), []
    for t in range(3):
        trace: dict[str, torch.Tensor] = {}
        _, state = memory.step(at(inputs, t), state, trace=trace)
        seen.append(middle_of(trace["map_ego"][0, 0]))
    assert [pytest.approx(place, abs=1e-9) for place in seen] == [(0.0, 30.0), (30.0, 0.0), (30.0, -20.0)]


def test_the_query_finds_the_landmark():
    """The read context says what it is and where, from the agent: 30 ahead of a map that reaches 60."""
    memory = one_pixel(channels=3)
    with torch.no_grad():
        memory.context_read.query.weight.zero_()
        memory.context_read.query.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 200.0]))
    pose = torch.tensor([[10.0, -20.0, NORTH]], dtype=torch.float64)
    state = EgoMapState(*memory.initial_state(1))
    for row, column in ((4, 6), (4, 7), (5, 6), (5, 7)):  # the four cells around (10, 10)
        state.map[0, row * 12 + column] = torch.tensor([7.0, 0.0, 0.0])
        state.known[0, row * 12 + column] = True
    state.map[0, 100] = torch.tensor([0.0, 5.0, 0.0])  # something else
    view = MemoryInputs(
        torch.zeros(1, 3, 1, 1, dtype=torch.float64),
        torch.zeros(1, 1, 1, dtype=torch.float64),
        pose,
        pose * 0,
    )
    out, _ = memory.step(view, state)
    torch.testing.assert_close(
        out[0, 4:], torch.tensor([7.0, 0.0, 0.0, 0.0, 0.5], dtype=torch.float64), rtol=0, atol=2e-3
    )


def test_the_view_counts_only_after_its_relu():
    memory = small(use_global_read=False, use_query=False)
    view = at(random_inputs(1, 2, 0), 0)
    expected, _ = memory.step(view, memory.initial_state(2))
    lower = view._replace(features=torch.where(view.features < 0, view.features - 3, view.features))
    assert torch.equal(memory.step(lower, memory.initial_state(2))[0], expected)


def test_ego_motion_reaches_the_recurrent_layer_only_if_it_is_let():
    view = at(random_inputs(1, 2, 0), 0)
    moved = view._replace(ego_motion=view.ego_motion + 1.0)
    for use_ego_motion in (False, True):
        memory = small(use_ego_motion=use_ego_motion)
        out, state = memory.step(view, memory.initial_state(2))
        out_moved, state_moved = memory.step(moved, memory.initial_state(2))
        assert torch.equal(out, out_moved) != use_ego_motion
        assert torch.equal(state[0], state_moved[0])  # the map lies where the pose says
    baseline = RecurrentMemory(hidden_size=8)
    assert memory.reduce.in_features == baseline.reduce.in_features + memory.global_read.output_size


def test_normalised_vectors_in_the_map():
    memory = small(normalise=True).double()
    view = at(random_inputs(1, 2, 0, dtype=torch.float64), 0)
    _, state = memory.step(view, memory.initial_state(2))
    # A cell that one feature alone fell into holds that vector; those of several are averages, so smaller.
    written = state.map[state.known]
    torch.testing.assert_close(
        written.mean(-1), torch.zeros(len(written), dtype=torch.float64), atol=1e-6, rtol=0
    )
    sizes = written.square().mean(-1).sqrt()
    assert sizes.max() < 1 + 1e-6 and (sizes > 0.99).any()


# -- invariances --------------------------------------------------------------------------------------------


def test_normalised_the_size_of_features_does_not_matter_to_the_map():
    torch.manual_seed(0)
    memory = small(normalise=True).double()
    inputs, begin = random_inputs(4, 2, 0, dtype=torch.float64), never(4, 2)
    _, state = memory.unroll(inputs, memory.initial_state(2), begin)
    larger = inputs._replace(features=100 * inputs.features + 7)
    torch.testing.assert_close(
        memory.unroll(larger, memory.initial_state(2), begin)[1].map, state.map, atol=1e-3, rtol=0
    )
    plain = small().double()
    assert not torch.allclose(plain.unroll(larger, plain.initial_state(2), begin)[1].map, state.map, atol=1)


def test_anchored_at_the_start_the_world_does_not_matter():
    """Turn and move the whole world: an agent that knows only its own start cannot tell."""
    torch.manual_seed(0)
    memory = small(anchor="start").double()
    inputs, begin = random_inputs(6, 2, 0, dtype=torch.float64), never(6, 2)
    begin[3, 1] = True
    expected, _ = memory.unroll(inputs, memory.initial_state(2), begin)
    moved = compose(torch.tensor([400.0, -900.0, 2.2], dtype=torch.float64), inputs.pose)
    # compose() takes a motion: the pose as seen from an agent at the origin that faces north.
    turned = moved.clone()
    turned[..., 2] = inputs.pose[..., 2] + 2.2 - NORTH
    out, _ = memory.unroll(inputs._replace(pose=turned), memory.initial_state(2), begin)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    # The world-anchored map, though, is another one.
    world = small().double()
    world.load_state_dict(memory.state_dict())
    first, _ = world.unroll(inputs, world.initial_state(2), begin)
    second, _ = world.unroll(inputs._replace(pose=turned), world.initial_state(2), begin)
    assert not torch.allclose(first, second)


def test_the_world_anchored_map_is_the_one_anchored_at_a_start_in_the_middle():
    torch.manual_seed(0)
    world, start = small().double(), small(anchor="start").double()
    start.load_state_dict(world.state_dict())
    inputs = random_inputs(5, 1, 0, dtype=torch.float64)
    inputs.pose[0] = torch.tensor([0.0, 0.0, NORTH], dtype=torch.float64)
    first, _ = world.unroll(inputs, world.initial_state(1), never(5, 1))
    second, _ = start.unroll(inputs, start.initial_state(1), never(5, 1))
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


def test_naive_and_world_maps_agree_on_whole_cells_and_quarter_turns():
    """Where nothing is interpolated, warping the map at every step and reading a world map are the same."""
    torch.manual_seed(0)
    world, naive = small(map_size=24).double(), small(map_size=24, map_frame="ego").double()
    naive.load_state_dict(world.state_dict())
    cell, g = 100 / 24, torch.Generator().manual_seed(4)
    unit = torch.tensor([cell, cell, NORTH], dtype=torch.float64)
    motion = torch.randint(-1, 2, (12, 2, 3), generator=g) * unit
    motion[0] = 0.0
    pose = [torch.tensor([[0.0, 0.0, NORTH]] * 2, dtype=torch.float64)]
    for step in motion[1:]:
        pose.append(compose(pose[-1], step))
    inputs = random_inputs(12, 2, 0, dtype=torch.float64)
    # Nothing farther than 20: in twelve steps nothing leaves the naive map, which forgets what does.
    inputs = MemoryInputs(inputs.features, inputs.depth.clamp(max=20), torch.stack(pose), motion)
    assert inputs.pose[..., :2].abs().max() > 3 * cell  # they do walk
    for memory in (world, naive):
        memory.requires_grad_(False)
    first, state = world.unroll(inputs, world.initial_state(2), never(12, 2))
    second, naive_state = naive.unroll(inputs, naive.initial_state(2), never(12, 2))
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)
    assert EgoMapState(*state).known.sum() == EgoMapState(*naive_state).known.sum() > 50


# -- the naive map ------------------------------------------------------------------------------------------


def test_the_naive_map_of_a_still_agent_stays_as_it_is():
    """Rounding must not let known cells grow into their neighbours: those would be blended with nothing."""
    for dtype in (torch.float32, torch.float64):
        memory = one_pixel(map_frame="ego").to(dtype)
        state = EgoMapState(*memory.initial_state(1))
        state.known[0, [30, 31, 77]] = True
        state.map[0, [30, 31, 77]] = 1.0
        view = at(one_pixel_inputs([0.0], [0.0], [(0, 0, 0)]), 0).each(lambda x, dtype=dtype: x.to(dtype))
        after = state
        for _ in range(5):
            _, after = memory.step(view, after)
        assert written_cells(after) == [30, 31, 77]
        torch.testing.assert_close(after[0], state.map, rtol=0, atol=1e-4)


def test_the_naive_map_follows_the_motion():
    """One cell ahead: what was there comes one row down; a quarter turn to the left: it goes to the right."""
    memory = one_pixel(map_frame="ego")
    state = EgoMapState(*memory.initial_state(1))
    state.known[0, 2 * 12 + 7], state.map[0, 2 * 12 + 7] = True, 1.0
    blind = at(one_pixel_inputs([0.0], [0.0], [(0, 0, 0)]), 0)
    ahead = torch.tensor([[0.0, 10.0, 0.0]], dtype=torch.float64)
    _, after = memory.step(blind._replace(ego_motion=ahead), state)
    assert written_cells(after) == [3 * 12 + 7]
    left = torch.tensor([[0.0, 0.0, NORTH]], dtype=torch.float64)
    _, after = memory.step(blind._replace(ego_motion=left), state)
    assert written_cells(after) == [
        7 * 12 + 9
    ]  # ahead (row 2 of 12) becomes right (column 9), right becomes behind


def turned_around(map_frame: str, degrees: float = 2.0, steps: int = 180) -> torch.Tensor:
    """The agent's map (size, size) after turning on the spot with closed eyes; it began with one landmark."""
    memory = one_pixel(map_frame=map_frame, map_size=24, extent=240.0)
    state = EgoMapState(*memory.initial_state(1))
    state.known[0, 5 * 24 + 15], state.map[0, 5 * 24 + 15] = True, 1.0
    turn = math.radians(degrees)
    trace: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for step in range(1, steps + 1):
            view = at(one_pixel_inputs([0.0], [0.0], [(0.0, 0.0, NORTH + step * turn)]), 0)
            motion = torch.tensor([[0.0, 0.0, turn]], dtype=torch.float64)
            _, state = memory.step(view._replace(ego_motion=motion), state, trace=trace)
    return trace["map_ego"][0, 0]


def test_the_world_map_does_not_smear():
    """The appendix: after 180 turns of two degrees the world map shows the landmark as it was, the naive does not."""
    world, naive = turned_around("global"), turned_around("ego")
    assert int(world.argmax()) == 5 * 24 + 15
    assert float(world.max()) >= 0.95
    assert float(naive.max()) < 0.5


# -- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_reach_a_view_written_100_steps_ago(backend):
    """Written once, then out of sight; what the query reads of it depends on it as on the first day."""
    memory = one_pixel(use_global_read=False)
    with torch.no_grad():
        memory.core.weight_hh.zero_()  # no other way back in time than the map: the GRU forgets at once
        memory.core.bias_ih[4:8] = -1000.0
    inputs = one_pixel_inputs([2.0] + [0.0] * 100, [20.0] + [0.0] * 100, [(5.0, 5.0, NORTH)] * 101)
    features = inputs.features.requires_grad_()
    with native.use_kernels(backend):
        out, _ = memory.unroll(inputs, memory.initial_state(1), never(101, 1))
        (gradient,) = torch.autograd.grad(out[100].sum(), features, retain_graph=True)
        (at_once,) = torch.autograd.grad(out[1].sum(), features)
    assert gradient[0].abs() > 1e-4
    assert (gradient[1:100] == 0).all()
    torch.testing.assert_close(gradient[0], at_once[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_feature_seen_over_again_weighs_alpha_to_the_k(backend):
    memory = one_pixel()
    inputs = one_pixel_inputs([1.0] * 101, [20.0] * 101, [(5.0, 5.0, NORTH)] * 101)
    features = inputs.features.requires_grad_()
    with native.use_kernels(backend):
        _, state = memory.unroll(inputs, memory.initial_state(1), never(101, 1))
        (gradient,) = torch.autograd.grad(state[0].sum(), features)
    weight = 0.1 * 0.9 ** torch.arange(100.0, -1.0, -1.0, dtype=torch.float64)
    weight[0] *= 10  # the first was alone
    torch.testing.assert_close(gradient.flatten(), weight, rtol=1e-10, atol=0)
    torch.testing.assert_close(weight.sum(), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("map_frame", ["global", "ego"])
@pytest.mark.parametrize(("every", "reached"), [(None, 0), (0, None), (1, 6), (2, 6), (3, 6), (4, 4), (5, 5)])
def test_how_far_back_a_write_gets_gradient(backend, map_frame, every, reached):
    """After writes 0 to 6: the gradient stops at the last cut, which comes before every k-th write."""
    memory = one_pixel(write_gradient_steps=every, map_frame=map_frame)
    inputs = one_pixel_inputs([1.0] * 7, [20.0] * 7, [(5.0, 5.0, NORTH)] * 7)
    features = inputs.features.requires_grad_()
    with native.use_kernels(backend):
        for run in (memory.unroll, lambda *arguments: loop_of_steps(memory, *arguments)):
            _, state = run(inputs, memory.initial_state(1), never(7, 1))
            if reached is None:
                assert not state[0].requires_grad
                continue
            (gradient,) = torch.autograd.grad(state[0].sum(), features)
            assert (gradient.flatten() != 0).nonzero().flatten().tolist() == list(range(reached, 7))


def test_the_values_do_not_depend_on_the_truncation():
    torch.manual_seed(0)
    inputs, weights, outputs = random_inputs(7, 2, 0, dtype=torch.float64), small().double().state_dict(), []
    for every in (None, 0, 1, 3):
        memory = small(write_gradient_steps=every).double()
        memory.load_state_dict(weights)
        outputs.append(memory.unroll(inputs, memory.initial_state(2), never(7, 2))[0])
    for out in outputs[1:]:
        torch.testing.assert_close(out, outputs[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["paper", "l1", "anchored at the start", "naive"])
def test_gradcheck_of_the_whole_way(backend, name):
    """From features, map and hidden state to the outputs, through write, warp, both reads and the GRU."""
    torch.manual_seed(1)
    memory = one_pixel(channels=3, **ABLATIONS[name])
    with torch.no_grad():
        for parameter in memory.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    start = EgoMapState(*random_state(memory, 2, 0))
    g = torch.Generator().manual_seed(0)
    pose = torch.randn(3, 2, 3, generator=g, dtype=torch.float64) * torch.tensor([20.0, 20.0, 2.0]).double()
    depth = torch.rand(3, 2, 1, 1, generator=g, dtype=torch.float64) * 40 + 5
    begin = torch.tensor([[False, False], [True, False], [False, False]])

    def run(features, map_prev, hidden):
        inputs = MemoryInputs(features, depth, pose, pose * 0.1)
        out, last = memory.unroll(inputs, start._replace(map=map_prev, hidden=hidden), begin)
        return out, last[0], last[2]

    features = torch.randn(3, 2, 3, 1, 1, generator=g, dtype=torch.float64)
    leaves = [leaf.clone().requires_grad_() for leaf in (features, start.map, start.hidden)]
    with native.use_kernels(backend):
        assert torch.autograd.gradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("map_frame", ["global", "ego"])
def test_poses_motions_and_depths_are_data(map_frame):
    memory = small(map_frame=map_frame, anchor="start")
    inputs = random_inputs(3, 2, 0).each(lambda x: x.requires_grad_())
    state = EgoMapState(*random_state(memory, 2, 0))
    state.origin.requires_grad_()
    data = (inputs.depth, inputs.pose, inputs.ego_motion, state.origin)
    for run in (memory.unroll, lambda *arguments: loop_of_steps(memory, *arguments)):
        out, _ = run(inputs, state, never(3, 2))
        assert torch.autograd.grad(out.sum(), data, allow_unused=True) == (None,) * 4


# -- what it takes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("similarity", ["cosine", "l1"])
def test_an_unroll_holds_one_map_per_step(backend, similarity):
    """Of T x N full maps: the one that is read, and in the backward pass one gradient from each of two readers."""
    torch.manual_seed(0)
    memory = small(similarity=similarity)
    inputs, state = random_inputs(128, 5, 0), memory.initial_state(5)
    inputs.features.requires_grad_()
    with native.use_kernels(backend):
        with large_allocations(128 * 5 * 144 * 16) as forward:
            out, _ = memory.unroll(inputs, state, never(128, 5))
        with large_allocations(128 * 5 * 144 * 16) as backward:
            out.sum().backward()
    assert len(forward) == 1, forward
    assert len(backward) == 2, backward


# -- what can be shown --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ABLATIONS)
def test_the_trace_costs_nothing_and_shows_all(name):
    torch.manual_seed(0)
    memory = small(**ABLATIONS[name])
    view, state = at(random_inputs(1, 3, 0), 0), random_state(memory, 3, 1)
    trace: dict[str, torch.Tensor] = {}
    out, after = memory.step(view, state, trace=trace)
    plain, _ = memory.step(view, state)
    assert torch.equal(out, plain)
    square, shapes = (3, 12, 12), {}
    shapes |= {"map_ego": (3, 16, 12, 12), "observed": square, "known": square, "known_ego": square}
    shapes["hidden"] = (3, memory.hidden_size)
    if memory.settings.map_frame == "global":
        shapes["map_world"] = (3, 16, 12, 12)
    if memory.settings.use_global_read:
        shapes["global_read"] = (3, 32)
    if memory.settings.use_query:
        shapes |= {"query": (3, 16), "beta": (3,), "attention": square, "query_position": (3, 2)}
    assert {key: tuple(value.shape) for key, value in trace.items()} == shapes
    assert not any(value.requires_grad for value in trace.values())
    assert torch.equal(trace["known"].flatten(1), EgoMapState(*after).known)
    assert torch.equal(trace["hidden"], EgoMapState(*after).hidden)
    if "map_world" in trace:
        assert torch.equal(trace["map_world"][1, :, 3, 4], after[0][1, 3 * 12 + 4])
    if "attention" in trace:
        torch.testing.assert_close(trace["attention"].sum((1, 2)), torch.ones(3))
        assert (trace["beta"] >= 1).all()


def test_a_reset_is_the_initial_state():
    memory = small()
    again = reset_state(memory, random_state(memory, 3, 0), torch.tensor([True, False, True]))
    fresh = memory.initial_state(3)
    for tensor, new in zip(again, fresh, strict=True):
        assert torch.equal(tensor[[0, 2]], new[[0, 2]])
    assert (again[0][1] != 0).any()


# -- wrong input --------------------------------------------------------------------------------------------


def poison(tensor: torch.Tensor, value: float) -> torch.Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[1] = value
    return tensor


INPUTS_SHAPES = [
    (lambda i: i._replace(features=i.features[..., :3]), r"features must have shape \(.*16, 4, 10\); got"),
    (lambda i: i._replace(features=i.features[..., :8, :, :]), r"features must have shape"),
    (lambda i: i._replace(depth=i.depth[..., :100]), r"depth must have shape \(.*64, 112\); got .*64, 100\)"),
    (lambda i: i._replace(depth=i.depth.unsqueeze(-3)), r"depth must have shape"),
    (lambda i: i._replace(pose=i.pose[..., :2]), r"pose must have shape \(.*3\); got"),
    (lambda i: i._replace(pose=i.pose[..., :1, :]), r"pose must have shape"),
    (lambda i: i._replace(ego_motion=i.ego_motion[..., :2]), r"ego_motion must have shape"),
    (lambda i: i._replace(pose=poison(i.pose, math.nan)), r"poses and motions must be finite.*got 1 that"),
    (lambda i: i._replace(pose=poison(i.pose, math.inf)), r"poses and motions must be finite"),
    (lambda i: i._replace(depth=-i.depth), r"depth must be a forward distance in map units.*got -\d"),
]


@pytest.mark.parametrize(("change", "message"), INPUTS_SHAPES)
def test_wrong_inputs_are_told(change, message):
    memory = small()
    inputs, state = random_inputs(3, 2, 0), memory.initial_state(2)
    memory.unroll(inputs, state, never(3, 2))
    with pytest.raises(ValueError, match=message):
        memory.unroll(change(inputs), state, never(3, 2))
    with pytest.raises(ValueError, match=message):
        memory.step(change(at(inputs, 0)), state)


def test_the_naive_map_needs_finite_motions():
    memory = small(map_frame="ego")
    inputs = random_inputs(3, 2, 0)
    wrong = inputs._replace(ego_motion=poison(inputs.ego_motion, math.nan))
    with pytest.raises(ValueError, match="poses and motions must be finite"):
        memory.unroll(wrong, memory.initial_state(2), never(3, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, s, e: (i, s, e[:1]), r"episode_start must be bool \(3, 2\).*got torch.bool \(1, 2\)"),
        (lambda i, s, e: (i, s, e.float()), r"episode_start must be bool .*got torch.float32"),
        (lambda i, s, e: (i, s[:4], e), "the state of 2 environments must be"),
        (lambda i, s, e: (i, tuple(t[:1] for t in s), e), "the state of 2 environments must be"),
        (lambda i, s, e: (i, (s[0][:, :100], *s[1:]), e), "the state of 2 environments must be"),
        (lambda i, s, e: (i, (s[0].double(), *s[1:]), e), r"the state of 2 environments must be.*float64"),
        (lambda i, s, e: (i, (s[0], s[1].float(), *s[2:]), e), "the state of 2 environments must be"),
        (lambda i, s, e: (i.each(lambda x: x[:0]), s, e[:0]), "one step at least; got 0"),
    ],
)
@pytest.mark.parametrize("map_frame", ["global", "ego"])
def test_wrong_sequences_are_told(map_frame, change, message):
    memory = small(map_frame=map_frame)
    arguments = (random_inputs(3, 2, 0), memory.initial_state(2), never(3, 2))
    with pytest.raises(ValueError, match=message):
        memory.unroll(*change(*arguments))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity": "dot"}, "similarity must be one of cosine, l1; got 'dot'"),
        ({"map_frame": "world"}, "map-frame must be one of global, ego; got 'world'"),
        ({"anchor": "here"}, "anchor must be one of world, start; got 'here'"),
        ({"alpha": 1.5}, "alpha must be between 0 and 1; got 1.5"),
        ({"extent": math.nan}, "extent must be a positive length; got nan"),
        ({"map_size": 8}, "map-size must be 12 or more"),
        ({"channels": 3}, r"feature_shape must be \(3, 4, 10\).*got \(16, 4, 10\)"),
        ({"write_gradient_steps": -1}, "write-gradient-steps must be 0 or more, or None; got -1"),
    ],
)
def test_wrong_settings_are_told(settings, message):
    with pytest.raises(ValueError, match=message):
        small(**settings)
