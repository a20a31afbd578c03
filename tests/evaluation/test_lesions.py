"""Lesions on a task that needs memory: who remembers loses it, who does not loses nothing, in the same episodes."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.agents.agent import Agent
from egomap.config import MapSettings
from egomap.evaluation.lesions import INTACT, play_lesions, replacements
from egomap.evaluation.network import NetworkPlayer
from egomap.evaluation.runner import EpisodeResult, play
from egomap.evaluation.scores import layout_scores
from egomap.evaluation.worth import worth_of
from egomap.memory import (
    EgoMapMemory,
    FrameStackMemory,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    NeuralMapMemory,
    NoMemory,
    Part,
    RecurrentMemory,
    TensorSpec,
)
from egomap.memory.lesions import lesioned_parts, parts_of

from .cue_task import CAMERA, EXTENT, FEATURES, CueTask, cue_of, learn

pytestmark = pytest.mark.slow


class OwnMemory(nn.Module):
    """A user's: it adds up what it sees, and gives out the view and, if it is not forgetful, that sum."""

    def __init__(self, *, forgetful: bool) -> None:
        super().__init__()
        self.forgetful = forgetful
        self.output_size = 32
        self.reduce = nn.Linear(128, 16)
        self.recall = nn.Identity()
        self.lesions = {"sum": Part(state=(0,)), "recall": Part(module="recall")}

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec((16,), torch.float32),)

    def initial_state(self, n: int) -> MemoryState:
        return (torch.zeros(n, 16),)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        now = self.reduce(F.relu(inputs.features.flatten(-3)))
        total = state[0] + now
        recalled = self.recall(total)
        return torch.cat((now, 0 * recalled if self.forgetful else recalled), -1), (total,)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        outs = []
        for t in range(len(episode_start)):
            state = (state[0] * ~episode_start[t, :, None],)
            out, state = self.step(inputs.at(t), state)
            outs.append(out)
        return torch.stack(outs), state


@pytest.fixture(scope="module")
def gru() -> Agent:
    return learn(RecurrentMemory(FEATURES, hidden_size=32))


@pytest.fixture(scope="module")
def egomap() -> Agent:
    return learn(EgoMapMemory(CAMERA, MapSettings(map_size=12, extent=EXTENT), feature_shape=FEATURES))


@pytest.fixture(scope="module")
def stack() -> Agent:
    return learn(FrameStackMemory(FEATURES, hidden_size=32))


@pytest.fixture(scope="module")
def own() -> Agent:
    return learn(OwnMemory(forgetful=False))


def mean_return(episodes: list[EpisodeResult]) -> float:
    return sum(episode.total_reward for episode in episodes) / len(episodes)


def share_of_zeros(task: CueTask) -> float:
    return sum(cue_of(episode.seed) == 0 for episode in task.begun) / len(task.begun)


@pytest.mark.parametrize(
    ("name", "lesion"),
    [
        ("gru", "hidden"),
        ("gru", "all"),
        ("egomap", "all"),
        ("stack", "frames"),
        ("own", "sum"),
        ("own", "recall"),
    ],
)
def test_who_remembers_loses_what_it_has_learned(
    name: str, lesion: str, request: pytest.FixtureRequest
) -> None:
    """Whoever cannot tell the cues apart says the same in every episode, so it is right as often as that cue is."""
    agent, task = request.getfixturevalue(name), CueTask(5)
    found = play_lesions(task, agent, [lesion], deterministic=True)
    assert mean_return(found[INTACT]) == 1.0
    assert mean_return(found[lesion]) in (share_of_zeros(task), 1 - share_of_zeros(task))
    scores = [layout_scores(found[each]) for each in (INTACT, lesion)]
    gain = worth_of([scores[0]], [scores[1]])
    low, high = gain["interval_95"]
    assert gain["mean_return"] == gain["success"] == pytest.approx(1 - mean_return(found[lesion]))
    assert 0.2 < low < gain["mean_return"] < high <= 1.0


def test_who_does_not_remember_loses_nothing_episode_by_episode() -> None:
    agent, task = learn(OwnMemory(forgetful=True)), CueTask(5)
    found = play_lesions(task, agent, ["sum", "recall", "all"])
    assert mean_return(found[INTACT]) < 1.0
    for lesion in ("sum", "recall", "all"):
        assert found[lesion] == found[INTACT]  # sampled actions, and still every episode is the same
    scores = layout_scores(found[INTACT])
    assert worth_of([scores], [scores])["interval_95"] == [0.0, 0.0]


def test_the_same_episodes_with_the_same_seeds_are_played_each_time(gru: Agent) -> None:
    task = CueTask(5)
    found = play_lesions(task, gru, ["hidden"], seed=3)
    assert len(task.begun) == 2 * task.episodes_in_all
    assert set(Counter(task.begun).values()) == {2}
    for intact, lesioned in zip(found[INTACT], found["hidden"], strict=True):
        assert (intact.layout, intact.repeat) == (lesioned.layout, lesioned.repeat)


@pytest.mark.parametrize("num_envs", [1, 5])
def test_the_intact_agent_is_not_touched(num_envs: int, own: Agent) -> None:
    """Written down or not, its episodes are those of a plain evaluation; and no hook stays behind."""
    task = CueTask(num_envs)
    found = play_lesions(task, own, ["all"], by="shuffle", seed=7)
    assert found[INTACT] == play(task, NetworkPlayer(own, num_envs), seed=7)
    assert all(not module._forward_hooks for module in own.modules())


def test_shuffled_it_does_what_another_episode_wants(gru: Agent, own: Agent) -> None:
    """The memory of a donor at the same step: the agent does what the donor should have done."""
    task = CueTask(4, layouts=2, episodes_per_layout=6)
    for agent, lesion in ((gru, "hidden"), (own, "sum"), (own, "recall")):
        task.begun.clear()
        found = play_lesions(task, agent, [lesion], by="shuffle", deterministic=True, seed=2)
        cues = {(episode.layout, episode.repeat): cue_of(episode.seed) for episode in task.begun}
        for episode in found[lesion]:
            donor = cues[1 - episode.layout, 0]  # of the other layout's first episode
            assert episode.success == (cues[episode.layout, episode.repeat] == donor)
        assert 0 < mean_return(found[lesion]) < 1


def test_zero_and_mean_take_the_places_that_they_name(own: Agent) -> None:
    """By hand: what the module gives out under each lesion, seen behind the tap."""
    seen: list[Tensor] = []
    task = CueTask(3)
    for by in ("zero", "mean"):
        seen.clear()
        handle = own.heads.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0][:, 16:].clone()))
        try:
            play_lesions(task, own, ["recall"], by=by)  # type: ignore[arg-type]
        finally:
            handle.remove()
        half = len(seen) // 2
        intact, lesioned = torch.cat(seen[:half]), torch.cat(seen[half:])
        expected = torch.zeros(16) if by == "zero" else intact.double().mean(0).float()
        # 24 episodes of 3 environments: nobody is ever idle, so every row counts.
        torch.testing.assert_close(lesioned, expected.expand_as(lesioned), rtol=0, atol=1e-6)


def test_what_each_memory_names() -> None:
    map_settings = MapSettings(map_size=12, extent=EXTENT)
    egomap = EgoMapMemory(CAMERA, map_settings, feature_shape=FEATURES)
    assert list(parts_of(egomap)) == ["global-read", "context", "map", "hidden"]
    blind = MapSettings(map_size=12, extent=EXTENT, use_global_read=False, use_query=False)
    assert list(parts_of(EgoMapMemory(CAMERA, blind, feature_shape=FEATURES))) == ["map", "hidden"]
    assert list(parts_of(FrameStackMemory(FEATURES))) == ["frames"] and parts_of(NoMemory(FEATURES)) == {}
    assert parts_of(RecurrentMemory(FEATURES, cell="lstm"))["hidden"].state == (0, 1)
    neural_map = NeuralMapMemory(EXTENT, feature_shape=FEATURES)
    assert list(parts_of(neural_map)) == ["global-read", "context", "write"]
    assert replacements(neural_map, "all") == {"global-read": "mean", "context": "mean", "write": "zero"}
    assert replacements(egomap, "map+context", "shuffle") == {"map": "shuffle", "context": "shuffle"}


@pytest.mark.parametrize("lesion", ["global-read", "context", "write", "all"])
@pytest.mark.parametrize("by", ["mean", "zero", "shuffle"])
def test_every_part_of_a_neural_map_is_reached(lesion: str, by: str) -> None:
    torch.manual_seed(0)
    agent = learn(NeuralMapMemory(EXTENT, feature_shape=FEATURES, channels=8, map_size=12), updates=0)
    task = CueTask(4, layouts=3)
    outputs: list[Tensor] = []
    handle = agent.heads.register_forward_hook(lambda _, inputs, __: outputs.append(inputs[0].clone()))
    try:
        play_lesions(task, agent, [lesion], by=by, deterministic=True)  # type: ignore[arg-type]
    finally:
        handle.remove()
    half = len(outputs) // 2
    assert not torch.equal(torch.cat(outputs[:half]), torch.cat(outputs[half:]))


def test_bad_names(gru: Agent) -> None:
    with pytest.raises(ValueError, match=r"RecurrentMemory has no part 'map' .* it has hidden, all"):
        lesioned_parts(gru.memory, "hidden+map")
    with pytest.raises(ValueError, match="NoMemory names no parts that can be lesioned"):
        lesioned_parts(NoMemory(FEATURES), "all")
    with pytest.raises(ValueError, match="there is only one"):
        play_lesions(CueTask(2, layouts=1), gru, ["hidden"], by="shuffle")


class Pair(nn.Module):
    """A submodule that gives two tensors."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def test_a_part_must_be_one_tensor(own: Agent) -> None:
    memory = OwnMemory(forgetful=False)
    memory.recall = Pair()  # type: ignore[assignment]
    agent = learn(OwnMemory(forgetful=False), updates=0)
    agent.memory = memory  # type: ignore[assignment]
    with pytest.raises(ValueError, match="'recall' must be a submodule that gives one tensor; got tuple"):
        play_lesions(CueTask(2), agent, ["recall"])
