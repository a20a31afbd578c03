"""The vector environment: the same play as single environments, whatever the threads do; every layout its share."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from egomap.config import Task
from egomap.envs import (
    IDS,
    DoomEnv,
    DoomVectorEnv,
    EachLayout,
    Episode,
    ShuffledEpisodes,
    Target,
    observation_arrays,
)
from egomap.envs.pool import ThreadPool, cores_to_bind
from egomap.envs.simulator import ObservationRow, Simulator
from egomap.scenarios.dataset import ScenarioSet
from egomap.util.cores import usable_cores

from .conftest import TASKS
from .helpers import random_actions, same, shortened

Make = Callable[..., DoomVectorEnv]
Sets = dict[Task, ScenarioSet]


def actions_for(num_envs: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.array([random_actions(seed + i, steps) for i in range(num_envs)]).T


def row(arrays: dict[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    return {name: array[index] for name, array in arrays.items()}


@pytest.fixture(scope="module")
def quick(sets: Sets, tmp_path_factory: pytest.TempPathFactory) -> ScenarioSet:
    """The labyrinths with a time-out of 30 decisions, so that episodes end often."""
    return shortened(sets["labyrinth"], tmp_path_factory.mktemp("quick") / "set", 120)


@pytest.fixture(scope="module")
def shared(sets: Sets) -> Iterator[DoomVectorEnv]:
    """Three environments for tests that leave them as they are."""
    env = DoomVectorEnv(3, scenarios=sets["labyrinth"])
    yield env
    env.close()


# ---------------------------------------------------------------------------------------------- Gymnasium's contract


@pytest.mark.parametrize("name", sorted(IDS))
def test_make_vec_gives_the_threaded_environment(name: str, sets: Sets) -> None:
    task = IDS[name].get("task")
    options = {"scenarios": sets[task]} if task else {"config": sets["labyrinth"].cfg("train")}
    env = gymnasium.make_vec(name, num_envs=2, **options)
    try:
        assert isinstance(env, DoomVectorEnv)
        assert isinstance(env, VectorEnv)
        assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        assert env.spec is not None and env.spec.id == name
        observation, info = env.reset(seed=1)
        assert env.observation_space.contains(observation)
        assert {name: value.shape for name, value in observation.items()} == {
            "rgb": (2, 3, 64, 112),
            "depth": (2, 64, 112),
            "pose": (2, 3),
            "ego_motion": (2, 3),
            "reward": (2,),
        }
        assert info["layout"].shape == (2,) and info["_layout"].all()
        np.testing.assert_array_equal(observation["reward"], 0.0)
        observation, rewards, terminated, truncated, info = env.step(env.action_space.sample())
        assert not (terminated | truncated).any()
        np.testing.assert_allclose(observation["reward"], rewards, rtol=1e-6)
        assert env.observation_space.contains(observation)
        np.testing.assert_allclose(rewards, -0.0004)
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
        assert not terminated.any() and not truncated.any() and info == {}
    finally:
        env.close()


def test_gymnasiums_own_vectorisers_work_too(sets: Sets) -> None:
    """Sync, and async with its forked processes, step the same episodes."""
    seen = []
    for mode in ("sync", "async"):
        env = gymnasium.make_vec(
            "EgoMap/Labyrinth-v0", num_envs=2, vectorization_mode=mode, scenarios=sets["labyrinth"]
        )
        try:
            first, _ = env.reset(seed=3)
            second, *_ = env.step(np.array([2, 0]))
            seen.append([{name: value.copy() for name, value in part.items()} for part in (first, second)])
        finally:
            env.close()
    assert all(map(same, *seen))


# ------------------------------------------------------------------------------------------- equal to the plain loop


def plain_loop(
    env: DoomVectorEnv, actions: np.ndarray, seed: int
) -> Iterator[tuple[list[dict[str, np.ndarray]], list[tuple[float, bool, bool]]]]:
    """N simulators, one after the other, in one thread: what the vector environment must equal."""
    stream = ShuffledEpisodes(len(env.worlds), seed)
    simulators = [Simulator(env.worlds, env.settings) for _ in range(env.num_envs)]
    arrays = [observation_arrays() for _ in simulators]
    rows = [ObservationRow(**{**a, "rgb": np.moveaxis(a["rgb"], 0, -1)}) for a in arrays]
    try:
        for simulator, place in zip(simulators, rows, strict=True):
            simulator.reset(stream.next(), place)
        queued = [stream.next() for _ in simulators]
        yield arrays, []
        for chosen in actions.tolist():
            outcomes = []
            for i, simulator in enumerate(simulators):
                outcome = simulator.step(chosen[i], rows[i])
                outcomes.append(tuple(outcome))
                if outcome.terminated or outcome.truncated:
                    simulator.reset(queued[i], rows[i])
            for i, (_, terminated, truncated) in enumerate(outcomes):
                if terminated or truncated:
                    queued[i] = stream.next()
            yield arrays, outcomes
    finally:
        for simulator in simulators:
            simulator.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_it_equals_a_plain_loop_over_single_environments(
    threads: int, quick: ScenarioSet, vector: Make
) -> None:
    env = vector("labyrinth", 3, scenarios=quick, threads=threads, ego_motion_noise=0.2)
    actions = actions_for(3, 75)
    plain = plain_loop(env, actions, seed=7)
    expected, _ = next(plain)
    observation, _ = env.reset(seed=7)
    ends = 0
    for i in range(3):
        assert same(row(observation, i), expected[i])
    for chosen, (expected, outcomes) in zip(actions, plain, strict=True):
        observation, rewards, terminated, truncated, _ = env.step(chosen)
        for i, (reward, over, timed_out) in enumerate(outcomes):
            assert same(row(observation, i), expected[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, over, timed_out)
            ends += over or timed_out
    assert ends >= 6


@pytest.mark.parametrize("task", TASKS)
def test_same_seed_and_actions_give_the_same_bytes(task: Task, vector: Make) -> None:
    actions = actions_for(2, 40)

    def play(env: DoomVectorEnv) -> list[dict[str, np.ndarray]]:
        seen = [env.reset(seed=5)[0]]
        for chosen in actions:
            observation, rewards, *_ = env.step(chosen)
            seen.append({**observation, "rewards": rewards})
        return seen

    first, second = vector(task, 2, threads=2), vector(task, 2, threads=1)
    second.reset(seed=99)
    ours, theirs = play(first), play(second)
    assert all(map(same, ours, theirs)), "another number of threads, and after other episodes"
    assert all(map(same, ours, play(first))), "once more"
    assert not same(ours[0], first.reset(seed=6)[0])


# ------------------------------------------------------------------------------------------------- ends of episodes


def test_an_end_shows_the_next_episode_and_keeps_the_last_observation(
    quick: ScenarioSet, vector: Make
) -> None:
    env = vector("labyrinth", 3, scenarios=quick)
    _, info = env.reset(seed=1)
    begun = info["layout"].tolist()
    before = None
    for decision in range(1, 31):
        observation, _, terminated, truncated, info = env.step(np.zeros(3, int))
        if decision < 30:
            assert not (terminated | truncated).any() and info == {}
            before = observation
    assert before is not None
    assert truncated.all() and not terminated.any()
    assert set(info) == {"final_obs", "_final_obs", "final_info", "_final_info"}
    assert info["_final_obs"].all() and info["_final_info"].all()
    final = info["final_info"]
    assert final["layout"].tolist() == begun
    assert final["decisions"].tolist() == [30] * 3 and final["frames"].tolist() == [120] * 3
    np.testing.assert_allclose(final["return"], -0.012)
    assert not final["success"].any() and not final["interrupted"].any()
    for i in range(3):
        assert same(info["final_obs"][i], row(before, i)), "the engine shows nothing at the end"
        assert not same(info["final_obs"][i], row(observation, i))
        assert (observation["ego_motion"][i] == 0).all(), "the first observation of the next episode"
        assert env.info(i)["decisions"] == 0
        assert env.episode(i).layout == env.info(i)["layout"]
        np.testing.assert_allclose(observation["pose"][i], env.true_pose(i), rtol=1e-6)


def test_only_the_environment_that_ended_has_a_final_entry(quick: ScenarioSet, vector: Make) -> None:
    env = vector("labyrinth", 2, scenarios=quick)
    env.reset(seed=1)
    env._simulators[0].reset(Episode(0, 0), env._target.rows[0])  # type: ignore[union-attr]
    for _ in range(29):
        env.step(np.zeros(2, int))
    env._simulators[1].reset(Episode(1, 1), env._target.rows[1])  # type: ignore[union-attr]
    *_, truncated, info = env.step(np.zeros(2, int))
    assert truncated.tolist() == info["_final_obs"].tolist() == [True, False]
    assert info["final_obs"][1] is None


# ---------------------------------------------------------------------------------------------------- in-place arrays


def test_copies_do_not_change_and_shared_arrays_do(vector: Make) -> None:
    copying, sharing = vector("labyrinth", 2), vector("labyrinth", 2, copy=False)
    first, _ = copying.reset(seed=2)
    kept = {name: value.copy() for name, value in first.items()}
    copying.step(np.array([2, 2]))
    assert same(first, kept)
    first, _ = sharing.reset(seed=2)
    assert same(first, kept)
    second, *_ = sharing.step(np.array([2, 2]))
    assert all(second[name] is first[name] for name in first)
    assert not same(first, kept)


def test_write_to_fills_the_rows_of_a_rollout(quick: ScenarioSet, vector: Make) -> None:
    """A learner's (T + 1, N, ...) arrays, one row per step, with nothing copied in between."""
    env, plain = vector("labyrinth", 2, scenarios=quick, copy=False), vector("labyrinth", 2, scenarios=quick)
    steps = 40
    rollout = observation_arrays(steps + 1, 2)
    targets = [Target.of({name: array[t] for name, array in rollout.items()}) for t in range(steps + 1)]
    actions = actions_for(2, steps)
    env.write_to(targets[0])
    env.reset(seed=4)
    expected = [plain.reset(seed=4)[0]]
    finals = []
    for t, chosen in enumerate(actions):
        env.write_to(targets[t + 1])
        observation, *_, info = env.step(chosen)
        assert observation["rgb"] is targets[t + 1].arrays["rgb"]
        observation, *_, plain_info = plain.step(chosen)
        expected.append(observation)
        if info:
            finals += zip(info["final_obs"], plain_info["final_obs"], strict=True)
    for t, observation in enumerate(expected):
        assert same({name: array[t] for name, array in rollout.items()}, observation)
    assert len(finals) == 2 and all(same(ours, theirs) for ours, theirs in finals)


def broken_targets() -> list[tuple[str, dict[str, np.ndarray]]]:
    good = observation_arrays(2)
    locked = good["pose"].copy()
    locked.flags.writeable = False
    return [
        ("rgb", {**good, "rgb": np.ascontiguousarray(good["rgb"])}),
        ("rgb", {**good, "rgb": good["rgb"].astype(np.float32)}),
        ("rgb", {**good, "rgb": good["rgb"][:, :, ::2]}),
        ("depth", {**good, "depth": good["depth"].astype(np.float64)}),
        ("depth", {**good, "depth": np.zeros((2, 112, 64), np.float32).transpose(0, 2, 1)}),
        ("pose", {**good, "pose": locked}),
        ("ego_motion", {**good, "ego_motion": np.zeros((3, 3), np.float32)}),
    ]


@pytest.mark.parametrize(("name", "arrays"), broken_targets())
def test_arrays_that_engines_could_not_write_into_are_refused(
    name: str, arrays: dict[str, np.ndarray]
) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is not laid out for writing; make the arrays with"):
        Target.of(arrays)


def test_a_target_of_another_size_is_refused(shared: DoomVectorEnv) -> None:
    with pytest.raises(ValueError, match="the target has 2 rows; 3 needed"):
        shared.write_to(Target.of(observation_arrays(2)))


# ------------------------------------------------------------------------------------------------ which layouts when


@pytest.mark.parametrize("seed", range(3))
def test_the_shuffle_gives_every_layout_its_turn(seed: int) -> None:
    stream = ShuffledEpisodes(7, seed)
    rounds = [[stream.next() for _ in range(7)] for _ in range(4)]
    for number, episodes in enumerate(rounds):
        assert sorted(episode.layout for episode in episodes) == list(range(7))
        assert {episode.repeat for episode in episodes} == {number}
    assert len({tuple(episode.layout for episode in episodes) for episodes in rounds}) == 4
    assert len({episode.seed for episodes in rounds for episode in episodes}) == 28
    again = ShuffledEpisodes(7, seed, position=10)
    assert [again.next() for _ in range(18)] == [episode for episodes in rounds for episode in episodes][10:]
    assert [ShuffledEpisodes(7, seed + 1).next() for _ in range(7)] != rounds[0]


def test_each_layout_comes_exactly_k_times() -> None:
    stream = EachLayout(5, 3, seed=2)
    episodes = [stream.next() for _ in range(len(stream))]
    assert stream.next() is None and len(episodes) == 15
    assert Counter(episode.layout for episode in episodes if episode) == dict.fromkeys(range(5), 3)
    assert len({episode.seed for episode in episodes if episode}) == 15
    again = EachLayout(5, 3, seed=2, position=11)
    assert [again.next() for _ in range(5)] == [*episodes[11:], None]
    # What is played does not depend on how many layouts come after it.
    assert EachLayout(50, 3, seed=2).next() == episodes[0]


def play_on(env: DoomVectorEnv, steps: int, seed: int = 0) -> list[tuple[int, int]]:
    """The (layout, repeat) of the episodes that ended, in order."""
    ended = []
    for chosen in actions_for(env.num_envs, steps, seed):
        *_, info = env.step(chosen)
        if info:
            final = info["final_info"]
            ended += [
                (int(final["layout"][i]), int(final["repeat"][i]))
                for i in np.flatnonzero(info["_final_info"])
            ]
    return ended


def test_training_plays_all_layouts_equally_often(quick: ScenarioSet, vector: Make) -> None:
    env = vector("labyrinth", 4, scenarios=quick, copy=False)
    env.reset(seed=3)
    begun = [env.episode(i) for i in range(4)]
    stream = ShuffledEpisodes(16, 3)
    assert begun == [stream.next() for _ in range(4)]
    ended = play_on(env, 250)
    counts = Counter(layout for layout, _ in ended)
    assert len(ended) >= 32 and set(counts) == set(range(16))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_run_goes_on_at_its_position(quick: ScenarioSet, vector: Make) -> None:
    env, other = vector("labyrinth", 2, scenarios=quick), vector("labyrinth", 2, scenarios=quick)
    assert env.episodes_begun == 0
    env.reset(seed=3)
    assert env.episodes_begun == 2
    ended = play_on(env, 65)
    position = env.episodes_begun
    assert position == len(ended) + 2
    other.reset(seed=3, options={"position": position})
    stream = ShuffledEpisodes(16, 3, position)
    assert [other.episode(i) for i in range(2)] == [stream.next(), stream.next()]
    assert other.episodes_begun == position + 2


def test_reset_without_a_seed_goes_on_in_the_stream(shared: DoomVectorEnv) -> None:
    shared.reset(seed=3)
    shared.reset()
    stream = ShuffledEpisodes(16, 3)
    episodes = [stream.next() for _ in range(9)]
    assert [shared.episode(i) for i in range(3)] == episodes[3:6]
    assert shared.episodes_begun == 6
    shared.reset()
    assert [shared.episode(i) for i in range(3)] == episodes[6:]
    assert shared.episodes_begun == 9


def test_without_any_seed_two_environments_play_different_episodes(vector: Make) -> None:
    first, second = vector("labyrinth", 2), vector("labyrinth", 2, threads=1)
    first.reset()
    second.reset()
    assert [first.episode(i) for i in range(2)] != [second.episode(i) for i in range(2)]


def test_layouts_can_be_chosen(shared: DoomVectorEnv) -> None:
    for chosen in ([5, 5, 11], np.array([0, 1, 2]), (15, 14, 13)):
        _, info = shared.reset(seed=1, options={"layout": chosen})
        assert info["layout"].tolist() == list(chosen)


@pytest.mark.parametrize(("num_envs", "repeats"), [(3, 2), (5, 1)])
def test_evaluation_plays_each_layout_exactly_k_times(
    num_envs: int, repeats: int, sets: Sets, vector: Make, tmp_path: Path
) -> None:
    """Episodes of very different lengths: some are solved at once, others time out."""
    scenarios = shortened(sets["labyrinth"], tmp_path / "set", 160, split="test")
    env = vector(
        "labyrinth", num_envs, scenarios=scenarios, split="test", episodes_per_layout=repeats, copy=False
    )
    assert env.episodes_in_all == 4 * repeats
    for seed in (1, 2):
        env.reset(seed=seed)
        assert env.idle.sum() == max(0, num_envs - 4 * repeats)
        ended, steps = [], 0
        while not env.exhausted:
            ended += play_on(env, 1, seed=steps)
            steps += 1
            assert steps < 400
        assert sorted(ended) == [(layout, repeat) for layout in range(4) for repeat in range(repeats)]
        _, rewards, terminated, truncated, info = env.step(np.zeros(num_envs, int))
        assert not rewards.any() and not (terminated | truncated).any() and info == {}


def test_evaluation_does_not_depend_on_the_number_of_environments(quick: ScenarioSet, vector: Make) -> None:
    def ends(num_envs: int) -> dict[tuple[int, int], list[float]]:
        """Where each episode ended, by layout and repeat."""
        env = vector("labyrinth", num_envs, scenarios=quick, split="test", episodes_per_layout=2, copy=False)
        env.reset(seed=1)
        found = {}
        while not env.exhausted:
            *_, info = env.step(np.full(num_envs, 3))
            for i in np.flatnonzero(info.get("_final_info", [])):
                final = info["final_info"]
                found[int(final["layout"][i]), int(final["repeat"][i])] = final["true_pose"][i].tolist()
        return found

    one = ends(1)
    assert len(one) == 8 and ends(3) == one


def test_idle_environments_repeat_their_last_observation_in_every_target(
    quick: ScenarioSet, vector: Make
) -> None:
    env = vector("labyrinth", 3, scenarios=quick, split="test", episodes_per_layout=1, copy=False)
    env.reset(seed=1)
    targets = [Target.of(observation_arrays(3)) for _ in range(2)]
    idle_since: dict[int, dict[str, np.ndarray]] = {}
    for step in range(70):
        env.write_to(targets[step % 2])
        observation, *_ = env.step(np.zeros(3, int))
        for i in np.flatnonzero(env.idle).tolist():
            seen = {name: value.copy() for name, value in row(observation, i).items()}
            assert same(idle_since.setdefault(i, seen), seen)
            assert seen["rgb"].any()
    assert len(idle_since) == 3


# ------------------------------------------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize(
    "actions",
    [
        [0, 1],
        [0, 1, 2, 3],
        [[0], [1], [2]],
        [0, 1, 5],
        [0, 1, -1],
        [0.0, 1.0, 2.0],
        [0, 1, np.nan],
        [True, False, True],
        ["left", "left", "left"],
        7,
        None,
        [],
    ],
)
def test_wrong_actions_are_refused_and_nothing_moves(actions: Any, shared: DoomVectorEnv) -> None:
    env = shared
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must be 3 integers from 0 to 4; got"):
        env.step(actions)
    assert env.info(0)["decisions"] == 0
    env.step([np.int32(0), 1, 2])
    assert env.info(0)["decisions"] == 1


def test_calls_in_the_wrong_order_say_so(vector: Make) -> None:
    env = vector("labyrinth", 1)
    noop = np.zeros(1, int)
    with pytest.raises(ValueError, match="no episode was begun: call reset"):
        env.step(noop)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="step_wait without step_async"):
        env.step_wait()
    env.step_async(noop)
    with pytest.raises(ValueError, match="the engines are stepping already: call step_wait"):
        env.step_async(noop)
    with pytest.raises(ValueError, match="the engines are stepping: call step_wait"):
        env.write_to(Target.of(observation_arrays(1)))
    env.step_wait()
    env.step_async(noop)
    env.reset(seed=0)  # instead of waiting
    assert env.info(0)["decisions"] == 0
    env.step(noop)
    assert env.info(0)["decisions"] == 1
    env.step_async(noop)
    env.close()
    env.close()
    for call in (lambda: env.step(noop), env.reset, lambda: env.info(0)):
        with pytest.raises(ValueError, match="this environment is closed"):
            call()


@pytest.mark.parametrize(
    ("reset", "sentence"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"seed": 1.5}, r"seed must be an integer or None; got 1\.5"),
        ({"seed": [1, 2]}, r"seed must be an integer or None; got \[1, 2\]"),
        ({"seed": 1, "options": {"position": -3}}, "position.* must be a whole number of at least 0; got -3"),
        ({"options": {"position": 3}}, "position.* goes with a seed"),
        ({"seed": 1, "options": {"layout": [0, 1]}}, "layout.* must be 3 numbers from 0 to 15; got"),
        ({"seed": 1, "options": {"layout": [0, 1, 16]}}, "layout.* must be 3 numbers from 0 to 15; got"),
        ({"seed": 1, "options": {"layout": [0, 1, -1]}}, "layout.* must be 3 numbers from 0 to 15; got"),
        ({"seed": 1, "options": {"layout": 3}}, "layout.* must be 3 numbers from 0 to 15; got"),
        ({"seed": 1, "options": {"layout": [0.5, 1, 2]}}, "layout.* must be 3 numbers from 0 to 15; got"),
    ],
)
def test_wrong_resets_say_what_is_wrong(reset: dict[str, Any], sentence: str, shared: DoomVectorEnv) -> None:
    with pytest.raises(ValueError, match=sentence):
        shared.reset(**reset)
    shared.reset(seed=1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_envs": 0}, "num_envs must be a whole number from 1 to 4096; got 0"),
        ({"num_envs": 5000}, "num_envs must be a whole number from 1 to 4096; got 5000"),
        ({"num_envs": 2.5}, r"num_envs must be a whole number from 1 to 4096; got 2\.5"),
        ({"threads": 0}, "threads must be a whole number from 1; got 0"),
        ({"threads": -2}, "threads must be a whole number from 1; got -2"),
        ({"episodes_per_layout": 0}, "episodes_per_layout must be a whole number from 1; got 0"),
        ({"render_mode": "rgb_array"}, "render_mode must be None"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, Any], sentence: str, sets: Sets) -> None:
    with pytest.raises(ValueError, match=sentence):
        DoomVectorEnv(**{"num_envs": 2, "scenarios": sets["labyrinth"], **options})


def test_episodes_in_all_is_for_evaluation_only(shared: DoomVectorEnv) -> None:
    with pytest.raises(ValueError, match="without episodes_per_layout episodes never end"):
        _ = shared.episodes_in_all


def test_camera_and_extent_are_those_of_the_single_environment(
    vector: Make, doom: Callable[..., DoomEnv]
) -> None:
    env, single = vector("find-return", 1, rendering="160x120"), doom("find-return", rendering="160x120")
    assert env.camera == single.camera and env.extent == single.extent == 5 * 128


# ---------------------------------------------------------------------------------------------------------- the pool


def test_pool_calls_each_index_once_and_raises_after_all_have_ended() -> None:
    before = set(threading.enumerate())
    pool = ThreadPool(4)
    assert len(pool) == len(set(threading.enumerate()) - before) == 4
    done: list[int] = []

    def work(index: int) -> None:
        if index % 10 == 3:
            raise KeyError(index)
        done.append(index)

    with pytest.raises(KeyError):
        pool.run(work, range(40))
    assert sorted(done) == [i for i in range(40) if i % 10 != 3]
    done.clear()
    for _ in range(200):
        pool.run(done.append, range(5))
    assert Counter(done) == dict.fromkeys(range(5), 200)
    pool.run(done.append, [])
    pool.close()
    pool.close()
    assert set(threading.enumerate()) == before


needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system binds nothing to cores"
)


@needs_affinity
def test_bound_threads_run_on_their_cores_and_take_their_own_indices() -> None:
    cores = usable_cores()
    where: dict[int, set[int]] = {}
    pool = ThreadPool(2 * len(cores), cores)
    pool.run(lambda index: where.__setitem__(index, os.sched_getaffinity(0)), range(5 * len(cores)))
    pool.close()
    assert where == {index: {cores[index % len(cores)]} for index in range(5 * len(cores))}
    assert usable_cores() == cores, "the caller stays free"


@needs_affinity
def test_threads_are_bound_only_where_each_core_has_several() -> None:
    cores = usable_cores()
    assert cores_to_bind(2 * len(cores) - 1) == []
    assert sorted(cores_to_bind(2 * len(cores))) == cores


@needs_affinity
@pytest.mark.parametrize("bind", [True, False])
def test_an_engine_lives_on_the_core_of_its_thread_also_after_a_restart(sets: Sets, bind: bool) -> None:
    cores = usable_cores()
    if len(cores) > 8:
        pytest.skip("too many engines")
    count = 2 * len(cores)
    env = DoomVectorEnv(count, scenarios=sets["labyrinth"], threads=count, bind=bind)
    try:
        env.reset(seed=0)
        os.kill(env.engine_pids[0], 9)
        while not env.engine_restarts:
            env.step(np.full(count, 2))
        homes = [os.sched_getaffinity(pid) for pid in env.engine_pids]
    finally:
        env.close()
    if bind:
        assert Counter(core for home in homes for core in home) == dict.fromkeys(cores, 2)
    else:
        assert all(home == set(cores) for home in homes)
