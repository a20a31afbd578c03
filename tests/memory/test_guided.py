"""Guides beside a memory: steps equal sequences, with notes and without; whom it follows; what is lesioned."""

from __future__ import annotations

import math
from typing import cast

import pytest
import torch
from torch import Tensor

from egomap.agents.agent import Agent, build_agent
from egomap.config import AgentConfig, Camera, MapSettings
from egomap.memory.guided import NOBODY, Following, GuidedMemory, still_followed
from egomap.memory.protocol import NOTE, PAID_AT, MemoryInputs
from egomap.memory.reads import PointRead
from egomap.ways.guides import NO_WAY, NUM_ACTIONS

CAMERA = Camera.from_fov(112, 64, horizontal=math.radians(106.26), vertical=math.radians(64))
T, N = 12, 3


def agent_of(kind: str) -> Agent:
    torch.manual_seed(0)
    config = AgentConfig(kind=kind, use_reward=True, map=MapSettings(map_size=12))
    return build_agent(config, CAMERA, 480.0, auxiliary_size=2).requires_grad_(True)


def observations(seed: int = 0) -> dict[str, Tensor]:
    """A walk of small steps in each environment, through a world of random depths; something is paid now and then."""
    g = torch.Generator().manual_seed(seed)
    motion = torch.rand(T, N, 3, generator=g) * torch.tensor([0.0, 20.0, 0.4])
    return {
        "rgb": torch.randint(0, 256, (T, N, 3, 64, 112), dtype=torch.uint8, generator=g),
        "depth": torch.rand(T, N, 64, 112, generator=g) * 300 + 30,
        "pose": motion.cumsum(0) * torch.tensor([1.0, 1.0, 1.0]),
        "ego_motion": motion,
        "reward": (torch.rand(T, N, generator=g) > 0.9).float() * 0.5,
    }


def noted(notes: dict[str, Tensor]) -> dict[str, Tensor]:
    """Notes as they lie among observations."""
    return {NOTE + name: note for name, note in notes.items()}


def starts() -> Tensor:
    start = torch.zeros(T, N, dtype=torch.bool)
    start[0], start[5, 1] = True, True
    return start


@pytest.mark.parametrize("kind", ["guided", "egomap+"])
def test_what_was_chosen_is_replayed_from_the_notes(kind: str) -> None:
    """A rollout that follows guides has the same log-probabilities when the learner unrolls it with its notes."""
    agent, seen, start = agent_of(kind), observations(), starts()
    state, logits, values, notes, chosen = agent.initial_state(N), [], [], [], []
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for t in range(T):
            row = {name: part[t] for name, part in seen.items()}
            step = agent.step(row, state, start[t], generator=generator)
            state = agent.commit(step.state, step.action)
            logits.append(step.logits), values.append(step.value), notes.append(step.notes)
            chosen.append(step.action // NUM_ACTIONS)
    assert step.notes is not None
    assert {int(whom) for row in chosen for whom in row} >= {0, 1, 2}  # guides were followed
    whole = {name: torch.stack([cast(dict, each)[name] for each in notes]) for name in step.notes}
    assert bool((whole["running"] > 0).any())
    with torch.no_grad():
        again = agent.unroll({**seen, **noted(whole)}, agent.initial_state(N), start)
    # Probabilities: a logit of -10000 has no digits to spare.
    torch.testing.assert_close(
        again.logits.softmax(-1), torch.stack(logits).softmax(-1), atol=2e-5, rtol=2e-4
    )
    torch.testing.assert_close(again.value, torch.stack(values), atol=2e-5, rtol=2e-4)


@pytest.mark.parametrize("kind", ["guided", "egomap+"])
def test_a_sequence_equals_its_steps(kind: str) -> None:
    """Without notes, both compute the ways themselves, and nobody but the policy itself is followed."""
    agent, seen, start = agent_of(kind), observations(1), starts()
    state, logits = agent.initial_state(N), []
    with torch.no_grad():
        for t in range(T):
            step = agent.step({name: part[t] for name, part in seen.items()}, state, start[t])
            state = step.state
            logits.append(step.logits)
        whole = agent.unroll(seen, agent.initial_state(N), start)
    torch.testing.assert_close(
        whole.logits.softmax(-1), torch.stack(logits).softmax(-1), atol=2e-5, rtol=2e-4
    )
    for last, expected in zip(whole.state, state, strict=True):
        assert last.dtype == expected.dtype
        torch.testing.assert_close(last, expected, atol=2e-4, rtol=2e-4)


def test_every_parameter_learns_from_an_action() -> None:
    agent, seen = agent_of("egomap+"), observations(2)
    out = agent.unroll(seen, agent.initial_state(N), starts())
    probabilities = out.logits.softmax(-1).unflatten(-1, (-1, NUM_ACTIONS))
    assert out.auxiliary is not None
    pointed = probabilities[..., -1, 0].log().sum()  # the pointer's vote for the first action
    (pointed + out.value.sum() + out.auxiliary.sum()).backward()
    assert [name for name, p in agent.named_parameters() if p.grad is None] == []
    point = dict(agent.named_parameters())["memory.point.query.weight"].grad
    assert point is not None and bool(point.abs().sum() > 0)


def test_whom_one_follows_ends_with_the_way_a_payment_or_the_episode() -> None:
    whom = torch.tensor([1, 1, 2, 0, 3, 2])
    action = torch.full((6, 2), 2)
    action[1, 0] = NO_WAY  # the first guide has lost its way
    paid = torch.tensor([False, False, True, False, False, False])
    start = torch.tensor([False, False, False, False, False, True])
    after = still_followed(Following(whom, torch.ones(6, dtype=torch.bool)), action, paid, start)
    assert after.now.tolist() == [True, False, False, True, True, False]
    assert after.whom.tolist() == [1, 1, 2, 0, 3, 0]


def test_the_log_tells_whom_it_follows() -> None:
    agent, seen = agent_of("egomap+"), {name: part[0] for name, part in observations().items()}
    with torch.no_grad():
        step = agent.step(seen, agent.initial_state(N), torch.ones(N, dtype=torch.bool))
    told = agent.following(step, torch.tensor([0, 4, 7, 11]))  # itself twice, outward, homeward
    entropy = told.pop("follow_entropy")
    assert told == {
        "follow_itself": 0.5, "follow_outward": 0.25, "follow_homeward": 0.25, "follow_pointer": 0.0
    }  # fmt: skip
    whom = agent.whom(step)
    assert torch.allclose(whom.sum(1), torch.ones(N, dtype=whom.dtype)) and 0 < entropy < 1
    assert bool((whom[:, 2] == 0).all())  # at home no way leads home
    assert entropy == pytest.approx(float(torch.special.entr(whom).sum(1).mean()) / math.log(4))


def test_the_state_is_told_what_was_chosen() -> None:
    memory = agent_of("guided").memory
    assert isinstance(memory, GuidedMemory)
    state = memory.commit(memory.initial_state(2), torch.tensor([2 * NUM_ACTIONS + 3, 4]))
    _, _, following, _ = memory._divide(state)
    assert following.whom.tolist() == [2, 0]
    inputs = MemoryInputs(
        torch.zeros(1, 2, 16, 4, 10), *(part[:1, :2] for part in list(observations().values())[1:])
    )
    notes, _ = memory.note(inputs, state, torch.tensor([[True, False]]))
    assert notes["running"].tolist() == [[NOBODY, NOBODY]]  # both begin


@pytest.mark.parametrize(
    ("kind", "parts"), [("guided", {"hidden", "ways", "earned"}), ("egomap+", {"pointer", "map"})]
)
def test_its_parts_can_be_lesioned(kind: str, parts: set[str]) -> None:
    memory = agent_of(kind).memory
    assert isinstance(memory, GuidedMemory) and set(memory.lesions) >= parts
    kept = [memory.state_spec[place] for place in memory.lesions["ways"].state]
    assert kept == list(memory.guides.state_spec)
    whom = [memory.state_spec[place] for place in memory.lesions["following"].state]
    assert [spec.dtype for spec in whom] == [torch.int64, torch.bool]


def test_a_cell_speaks_for_the_action_that_begins_its_way() -> None:
    """Two cells that are like the query, one not, one without a way."""
    read = PointRead(4, 2, 2, 3)
    with torch.no_grad():
        read.query.weight.zero_()
        read.query.bias.copy_(torch.tensor([1.0, 0.0, math.log(math.expm1(2.0)), -30.0]))  # beta 3, near 0
    cells = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0], [3.0, 0.0]])
    image = cells.t().reshape(1, 2, 2, 2)
    begins = torch.tensor([[[0, 1], [2, 3]]], dtype=torch.int8)
    lengths = torch.tensor([[[1.0, 2.0], [4.0, 8.0]]])
    found = read(torch.zeros(1, 4), image, begins, lengths)
    like, unlike = math.exp(3.0), 1.0
    a, b = like / (2 * like + unlike), unlike / (2 * like + unlike)
    # The cells' centres are half of the map's half side off the agent: ahead left, ahead right, behind left.
    told = [a / 2 - (a + b) / 2, (a + a - b) / 2, 2 * a, a + 2 * a + 4 * b]
    expected = torch.tensor([[a, a, b, *told, 0.0]])
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)  # the cosine's epsilon
    nowhere = read(torch.zeros(1, 4), image, torch.full((1, 2, 2), 3), lengths)
    torch.testing.assert_close(nowhere, torch.zeros(1, 3 + 4 + 1))


def test_the_share_of_attention_near_a_place_by_hand() -> None:
    """A row of four cells ahead, seen evenly; a place counts with the cells around it to which a way is known."""
    read = PointRead(4, 2, 4, 2)
    with torch.no_grad():
        read.query.weight.zero_()
        read.query.bias.zero_()
    begins = torch.full((1, 4, 4), 2)
    begins[0, 0] = 0
    image, lengths, latent = torch.zeros(5, 2, 4, 4), torch.zeros(5, 4, 4), torch.zeros(5, 4)
    # Centres at -0.75, -0.25, 0.25, 0.75; 1.5 cells are 0.75.
    place = torch.tensor([[-0.75, 0.75], [0.0, 0.75], [0.0, -0.75], [math.nan, math.nan], [0.7, 0.1]])
    share = read(latent, image, begins.expand(5, 4, 4), lengths, place=place)[:, -1]
    expected = torch.tensor(
        [2 / 4, 4 / 4, 1.0, 1.0, 2 / 4]
    )  # no way leads near the third; 1: nothing to learn
    torch.testing.assert_close(share.exp(), expected)


def test_hindsight_teaches_the_pointer_alone_where_a_place_is_known() -> None:
    agent, seen = agent_of("egomap+"), observations(3)
    nothing = torch.full((T, N, 2), torch.nan)
    notes, _ = agent.memory.note(agent._inputs(seen, axes=2), agent.initial_state(N), starts())
    ahead = nothing.clone()
    ahead[:, 0] = torch.tensor([0.0, 60.0])
    for place, learns in ((nothing, False), (ahead, True)):
        agent.zero_grad()
        share = agent.unroll(
            {**seen, **noted({**notes, PAID_AT: place})}, agent.initial_state(N), starts()
        ).output[..., -1]
        assert bool((share[:, 1:] == 0).all())
        assert bool((share[:, 0] < 0).any()) is learns
        share.sum().backward()
        query, view = agent.memory.point.query.weight.grad, agent.perception.conv1.weight.grad
        for gradient in (query, view):
            assert gradient is not None and bool(gradient.abs().sum() > 0) is learns


def test_what_hindsight_tells_is_no_input_of_the_heads() -> None:
    agent, seen = agent_of("egomap+"), observations(4)
    notes, _ = agent.memory.note(agent._inputs(seen, axes=2), agent.initial_state(N), starts())
    with torch.no_grad():
        told = {**seen, **noted({**notes, PAID_AT: torch.full((T, N, 2), 30.0)})}
        with_it = agent.unroll(told, agent.initial_state(N), starts())
        without = agent.unroll({**seen, **noted(notes)}, agent.initial_state(N), starts())
    assert torch.equal(with_it.logits, without.logits) and torch.equal(with_it.value, without.value)
    assert with_it.auxiliary is not None and torch.equal(with_it.auxiliary, cast(Tensor, without.auxiliary))


def test_nearer_cells_are_preferred_as_far_as_learned() -> None:
    read = PointRead(4, 2, 2, 2)
    with torch.no_grad():
        read.query.weight.zero_()
        read.query.bias.copy_(torch.tensor([0.0, 0.0, 0.0, math.log(math.expm1(1.5))]))
    lengths = torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
    vote = read(torch.zeros(1, 4), torch.zeros(1, 2, 2, 2), torch.tensor([[[0, 1], [2, 2]]]), lengths)[:, :2]
    torch.testing.assert_close(vote, torch.softmax(torch.tensor([[0.0, -3.0]]), -1))


def test_the_pointers_gradient() -> None:
    torch.manual_seed(0)
    read = PointRead(3, 2, 2, 3).double()
    begins = torch.tensor([[[0, 1], [2, 3]], [[1, 1], [3, 0]]], dtype=torch.int8)
    lengths = torch.rand(2, 2, 2, dtype=torch.float64)
    latent = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    image = torch.randn(2, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    place = torch.tensor([[0.0, 0.5], [0.5, -0.5]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: read(a, b, begins, lengths, place=place), (latent, image))


def test_guides_speak_of_five_actions() -> None:
    with pytest.raises(ValueError, match="5 actions of the mazes, and this world has 7"):
        build_agent(AgentConfig(kind="guided"), CAMERA, 480.0, num_actions=7)


def test_an_observation_of_another_name_is_no_note() -> None:
    agent, seen = agent_of("guided"), observations()
    row = {name: part[0] for name, part in seen.items()}
    start = torch.ones(N, dtype=torch.bool)
    state = agent.initial_state(N)
    with_it = agent.step({**row, "action": torch.zeros(N)}, state, start, deterministic=True)
    assert torch.equal(with_it.logits, agent.step(row, state, start, deterministic=True).logits)


def test_a_memory_that_is_told_no_reward_follows_on_when_something_is_paid() -> None:
    torch.manual_seed(0)
    agent = build_agent(AgentConfig(kind="guided"), CAMERA, 480.0)
    seen = observations()
    row, start = {name: part[0] for name, part in seen.items()}, torch.zeros(N, dtype=torch.bool)
    state = agent.initial_state(N)
    logits = [
        agent.step({**row, "reward": torch.full((N,), reward)}, state, start, deterministic=True).logits
        for reward in (0.0, 1.0)
    ]
    assert torch.equal(*logits)
