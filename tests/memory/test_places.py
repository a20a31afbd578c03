"""Place planes: values worked out by hand, views, resets, and that every path to them is the same."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from egomap.config import Camera, PlaceSettings
from egomap.memory.native import available, use_kernels
from egomap.memory.places import PLANES, WAYS, PlaceRead, Places, PlacesMemory, PlaceState
from egomap.memory.protocol import MemoryInputs, reset_state
from egomap.memory.recurrent import RecurrentMemory

CAMERA = Camera.from_fov(112, 64, horizontal=math.radians(106.26), vertical=math.radians(64))
FREE, BLOCKED, RECENT, OLD = (PLANES.index(name) for name in ("free", "blocked", "recent", "old"))


def narrow(**changes: object) -> Places:
    """One ray straight ahead, over 8 x 8 cells of 32 units."""
    camera = Camera(width=1, height=3, fx=1.0, fy=1.0, cx=0.5, cy=1.5)
    return Places(camera, 256.0, PlaceSettings(rays=1, **changes))  # type: ignore[arg-type]


def seen(places: Places, depth: float, *poses: tuple[float, float, float]) -> PlaceState:
    """The state after these poses, with that depth ahead at each."""
    state = places.initial_state(1)
    for pose in poses:
        at = torch.tensor([pose])
        evidence = places.evidence(torch.full((1, 3, 1), depth), at)
        state = places.advance(state, evidence, at, torch.tensor([False]))
    return state


def marked(plane: Tensor) -> set[tuple[int, int]]:
    return {(int(row), int(column)) for row, column in plane.nonzero()}


def test_a_ray_frees_what_it_passes_and_blocks_where_it_ends() -> None:
    places = narrow()
    # From the middle of the cell in row 3, column 4, facing east; a wall 70 units ahead, at x = 86.
    planes = places.planes(seen(places, 70.0, (16.0, 16.0, 0.0)))[0]
    assert marked(planes[FREE]) == {
        (3, 4),
        (3, 5),
        (3, 6),
    }  # the ray is sampled at 16, 40, 64 and 88 - out of reach
    assert marked(planes[BLOCKED]) == {(3, 6)}  # 4 units into the wall, x = 90


@pytest.mark.parametrize(("depth", "free"), [(math.inf, True), (math.nan, False), (0.0, False)])
def test_unknown_depth_blocks_nothing(depth: float, free: bool) -> None:
    places = narrow()
    planes = places.planes(seen(places, depth, (16.0, 16.0, math.pi / 2)))[0]
    assert not planes[BLOCKED].any()
    # North of row 3 are rows 2, 1 and 0, and then the grid ends.
    assert marked(planes[FREE]) == ({(3, 4), (2, 4), (1, 4), (0, 4)} if free else set())


def test_a_negative_depth_is_refused() -> None:
    with pytest.raises(ValueError, match="depth"):
        seen(narrow(), -1.0, (0.0, 0.0, 0.0))


def test_the_trail_tells_how_recent_and_how_old_a_visit_is() -> None:
    places = narrow(fade=2.0)
    trail = [(16.0, 16.0, 0.0), (48.0, 16.0, 0.0), (80.0, 16.0, 0.0), (48.0, 16.0, 0.0)]
    planes = places.planes(seen(places, 10.0, *trail))[0]
    assert marked(planes[RECENT]) == marked(planes[OLD]) == {(3, 4), (3, 5), (3, 6)}
    # Steps 0 to 3. Latest visits at 0, 3 and 2; first visits at 0, 1 and 2; four steps so far.
    expected = torch.tensor([math.exp(-3 / 2), 1.0, math.exp(-1 / 2)])
    torch.testing.assert_close(planes[RECENT, 3, 4:7], expected)
    torch.testing.assert_close(planes[OLD, 3, 4:7], torch.tensor([1.0, 3 / 4, 2 / 4]))


def test_views_have_the_agent_in_the_centre_facing_up() -> None:
    places = narrow(window=13)
    state = seen(places, 64.0, (16.0, 16.0, 0.0))  # a wall in the cell two to the east
    for heading, (row, column) in {0.0: (4, 6), math.pi / 2: (6, 8), math.pi: (8, 6)}.items():
        near, _ = places.views(places.planes(state), torch.tensor([[16.0, 16.0, heading]]))
        assert near.shape == (1, len(PLANES), 13, 13)
        assert int(near[0, BLOCKED].argmax()) == row * 13 + column
        torch.testing.assert_close(near[0, BLOCKED].sum(), torch.tensor(1.0), atol=1e-4, rtol=0)


def test_the_far_view_shows_the_largest_of_its_cells() -> None:
    places = narrow(window=13, far_factor=3)
    # Eight cells a side: the far planes have three, of 96 units, the last ones beyond the grid. The wall at x = 84 is
    # in cell (3, 6), so in far cell (1, 2), whose centre is at x = -128 + 2.5 * 96 = 112, y = 128 - 1.5 * 96 = -16.
    state = seen(places, 64.0, (16.0, 16.0, 0.0))
    _, far = places.views(places.planes(state), torch.tensor([[112.0, -16.0, math.pi / 2]]))
    torch.testing.assert_close(far[0, BLOCKED, 6, 6], torch.tensor(1.0))
    torch.testing.assert_close(far[0, BLOCKED].sum(), torch.tensor(1.0))


def test_home_is_where_the_episode_began() -> None:
    places = narrow()
    home = places.home(torch.tensor([[300.0, 40.0]]), torch.tensor([[300.0, -560.0, 0.0]]))
    # Facing east, home is 600 units to the north: to the left.
    torch.testing.assert_close(home, torch.tensor([[-1.0, 0.0, -1.0, 0.0]]), atol=1e-6, rtol=0)
    at_home = places.home(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 1.0, 2.0]]))
    assert at_home.abs().max() == 0


def test_the_way_home_is_counted_along_the_trail() -> None:
    places = narrow(fade=2.0)
    trail = [(-80.0 + 32.0 * i, 16.0, 0.0) for i in range(5)]  # row 3, columns 1 to 5
    planes, own, _ = places.ways(seen(places, math.nan, *trail), torch.tensor([3 * 8 + 5]))
    assert own[0].tolist() == [4.0, 0.0]  # four steps home; beside the unknown already
    torch.testing.assert_close(planes[0, 0, 3, 1:6], torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]) / 8)
    assert planes[0, 0].count_nonzero() == 4 and not planes[0, 1].any()


def room(*, wall: bool) -> PlaceState:
    """Free cells but for two unknown columns in the east; with a wall in column 3 that has a gap in row 0."""
    state = narrow().initial_state(1)
    free, blocked = torch.ones(8, 8, dtype=torch.bool), torch.zeros(8, 8, dtype=torch.bool)
    free[:, 6:] = False
    blocked[1:, 3] = wall
    outside = torch.zeros(1, dtype=torch.bool)
    return state._replace(
        free=torch.cat((free.flatten(), outside))[None], blocked=torch.cat((blocked.flatten(), outside))[None]
    )


@pytest.mark.parametrize(("wall", "steps"), [(False, 4), (True, 7)])
def test_the_way_to_the_frontier_goes_around_walls(wall: bool, steps: int) -> None:
    planes, own, _ = narrow().ways(room(wall=wall), torch.tensor([3 * 8 + 1]))  # from row 3, column 1
    assert own[0, 1] == steps
    outward = planes[0, 1]
    assert outward[3, 1] == 0 and outward[0, 5] == min(steps / 8, 1.0)
    assert not outward[:, 6:].any()
    assert bool(outward[4, 3]) == (not wall)


def test_without_a_way_the_nearest_cell_stands_for_the_agents_own() -> None:
    state = room(wall=True)
    _, own, _ = narrow().ways(state, torch.tensor([3 * 8 + 3]))  # in the wall
    assert own[0, 1] == 0  # column 5 is two cells away
    state.free[:] = False
    _, own, _ = narrow().ways(state, torch.tensor([3 * 8 + 3]))
    assert own[0, 1] == -1
    _, own, _ = narrow().ways(room(wall=False), torch.tensor([64]))  # outside of the grid
    assert own[0].tolist() == [-1.0, -1.0]


def walk(steps: int, envs: int, seed: int) -> tuple[MemoryInputs, Tensor]:
    """Inputs of random walks (steps, envs, ...), and where their episodes start."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    depth = 500 * rand(steps, envs, 64, 112) + 1
    depth[rand(*depth.shape) < 0.05] = math.inf
    pose = torch.cat((1500 * rand(steps, envs, 2) - 750, 7 * rand(steps, envs, 1)), -1)
    inputs = MemoryInputs(
        rand(steps, envs, 16, 4, 10) - 0.5, depth, pose, rand(steps, envs, 3), rand(steps, envs) - 0.5
    )
    return inputs, rand(steps, envs) < 0.2


@pytest.mark.skipif(not available(), reason="numba is not installed")
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), cell=st.sampled_from([20.0, 32.0, 50.0]), factor=st.integers(2, 4))
def test_the_kernel_equals_plain_torch(seed: int, cell: float, factor: int) -> None:
    places = Places(CAMERA, 1382.4, PlaceSettings(cell=cell, far_factor=factor, rays=9, compass=True))
    inputs, start = walk(6, 3, seed)
    found = []
    for backend in ("torch", "numba"):
        with use_kernels(backend):  # type: ignore[arg-type]
            found.append(places.follow(inputs.depth, inputs.pose, places.initial_state(3), start))
    (views, state), (fast_views, fast_state) = found
    for plain, fast in zip(state, fast_state, strict=True):
        assert torch.equal(plain, fast)
    for plain, fast in zip(views, fast_views, strict=True):
        # A place within the grid is a number of up to a hundred cells: its rounding is a part of a cell's value.
        torch.testing.assert_close(fast, plain, atol=200 * torch.finfo(torch.float32).eps, rtol=0)


def memory(*, use_reward: bool = True, places: PlaceSettings | None = None) -> PlacesMemory:
    torch.manual_seed(0)
    inner = RecurrentMemory(use_reward=use_reward)
    return PlacesMemory(inner, CAMERA, 1382.4, places, use_reward=use_reward)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("compass", [False, True])
def test_unroll_equals_a_loop_of_steps(backend: str, compass: bool) -> None:
    if backend == "numba" and not available():
        pytest.skip("numba is not installed")
    both, (inputs, start) = memory(places=PlaceSettings(compass=compass)), walk(7, 3, 1)
    weights = torch.randn(7, 3, both.output_size)
    gradients = []
    with use_kernels(backend):  # type: ignore[arg-type]
        whole, last = both.unroll(inputs, both.initial_state(3), start)
        gradients.append(torch.autograd.grad((whole * weights).sum(), tuple(both.parameters())))
        state, outputs = both.initial_state(3), []
        for t in range(7):
            state = reset_state(both, state, start[t])
            out, state = both.step(inputs.at(t), state)
            outputs.append(out)
        gradients.append(
            torch.autograd.grad((torch.stack(outputs) * weights).sum(), tuple(both.parameters()))
        )
    torch.testing.assert_close(whole, torch.stack(outputs), atol=1e-5, rtol=1e-5)
    for one, other in zip(last, state, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_what_was_earned_is_the_sum_of_rewards_above_zero() -> None:
    both, (inputs, _) = memory(), walk(5, 2, 2)
    reward = torch.tensor([[0.0, 0.0], [0.5, -0.1], [-0.2, 0.3], [0.5, 0.0], [0.25, 1.0]])
    start = torch.zeros(5, 2, dtype=torch.bool)
    start[3, 1] = True
    _, state = both.unroll(inputs._replace(reward=reward), both.initial_state(2), start)
    torch.testing.assert_close(state[-1], torch.tensor([1.25, 1.0]))


def test_rewards_that_are_not_told_are_not_looked_at() -> None:
    deaf, (inputs, start) = memory(use_reward=False), walk(4, 2, 3)
    told, _ = deaf.unroll(inputs, deaf.initial_state(2), start)
    untold, _ = deaf.unroll(inputs._replace(reward=None), deaf.initial_state(2), start)
    assert torch.equal(told, untold)


def test_lesions_name_the_places_and_the_inner_parts() -> None:
    both = memory()
    assert set(both.lesions) == {"hidden", "place-read", "places", "earned"}
    spec = both.state_spec
    assert [spec[i].dtype for i in both.lesions["places"].state] == [s.dtype for s in both.places.state_spec]
    assert both.lesions["earned"].state == (len(spec) - 1,)
    both.get_submodule(both.lesions["place-read"].module)


def test_the_read_is_differentiable() -> None:
    read = PlaceRead(12, len(PLANES) + len(WAYS), output_size=3).double()
    torch.manual_seed(0)
    shapes = ((2, len(PLANES) + len(WAYS), 12, 12), (2, len(PLANES), 12, 12), (2, 4 + len(WAYS)))
    views = [torch.rand(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert read(*views).shape == (2, 3)
    assert torch.autograd.gradcheck(read, views)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"cell": 0.0}, "cell"),
        ({"window": 8}, "window"),
        ({"far_factor": 1}, "far-factor"),
        ({"rays": 0}, "rays"),
    ],
)
def test_settings_out_of_range_are_refused(setting: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PlaceSettings(**setting).validate()  # type: ignore[arg-type]


@pytest.mark.parametrize(("wall", "to"), [(False, (5.5, 3.5)), (True, (2.5, 0.5))])
def test_the_compass_points_along_the_ways(wall: bool, to: tuple[float, float]) -> None:
    places, state = narrow(compass=True), room(wall=wall)
    state = state._replace(home=torch.tensor([7 * 8 + 1]))
    here = torch.tensor([3 * 8 + 1])
    _, own, aims = places.ways(state, here)
    # Four steps along the way to the frontier: its last cell is in column 5, and the unknown is east of it; around
    # the wall the way goes north first, then east. Home is four cells to the south.
    assert aims[0, 0].tolist() == [1.5, 7.5]
    assert aims[0, 1].tolist() == [to[0] + (not wall), to[1]]
    pose = torch.tensor([[-80.0, 16.0, 0.0]])  # the middle of that cell, facing east
    told = places.directions(aims, own, pose)
    ahead, right = (1.0, 0.0) if not wall else (1 / math.sqrt(10), -3 / math.sqrt(10))
    torch.testing.assert_close(told, torch.tensor([[1.0, 0.0, right, ahead]]))
    assert not places.directions(aims, torch.full_like(own, -1.0), pose).any()


def test_the_compass_is_told_next_to_what_is_read() -> None:
    plain, told = memory(), memory(places=PlaceSettings(compass=True))
    assert told.join.in_features == plain.join.in_features + 10
    views = Places(CAMERA, 1382.4, PlaceSettings(compass=True))
    inputs, start = walk(3, 2, 5)
    seen, _ = views.follow(inputs.depth, inputs.pose, views.initial_state(2), start)
    assert seen.told.shape == (6, views.told_size) == (6, 10)
    with pytest.raises(ValueError, match=r"needs places\.ways"):
        PlaceSettings(compass=True, ways=False).validate()
