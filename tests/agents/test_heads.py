from __future__ import annotations

import math

import pytest
import torch

from egomap.agents.heads import STAY, Heads, choice_of, choose, entropy, joint, log_prob, of_actions, taken


def test_sizes_and_initialisation():
    torch.manual_seed(0)
    heads = Heads(146, 5)
    logits, value = heads(torch.randn(3, 2, 146))
    assert logits.shape == (3, 2, 5) and value.shape == (3, 2)
    weight = heads.policy.weight
    torch.testing.assert_close(weight @ weight.t(), torch.eye(5) * 1e-4, atol=1e-9, rtol=1e-3)
    torch.testing.assert_close(heads.value.weight.norm(), torch.tensor(1.0))
    torch.testing.assert_close(Heads(146, 5, value_gain=0.01).value.weight.norm(), torch.tensor(0.01))
    assert not heads.policy.bias.any() and not heads.value.bias.any()


def test_log_prob_and_entropy_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)], [5.0, 5.0]])  # probabilities 1/4, 3/4 and 1/2, 1/2
    torch.testing.assert_close(
        log_prob(logits, torch.tensor([1, 0])), torch.tensor([math.log(0.75), math.log(0.5)])
    )
    first = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    torch.testing.assert_close(entropy(logits), torch.tensor([first, math.log(2.0)]))


def test_argmax_and_sampling():
    logits = torch.tensor([0.0, math.log(3.0)]).expand(20_000, 2)
    action, probability = choose(logits, deterministic=True)
    assert (action == 1).all()
    torch.testing.assert_close(probability.exp(), torch.full((20_000,), 0.75))
    sampled, logp = choose(logits, generator=torch.Generator().manual_seed(0))
    assert abs(sampled.double().mean() - 0.75) < 0.02
    torch.testing.assert_close(logp, log_prob(logits, sampled))
    again, _ = choose(logits, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sampled, again)


def test_following_and_acting_make_one_table():
    follow = torch.tensor([0.0, math.log(3.0)])  # itself 1/4, the guide 3/4
    own = torch.tensor([0.0, 0.0])
    votes = torch.tensor([[0.0, 1.0]])
    table = joint(follow, own, votes, torch.tensor(-1)).exp()
    torch.testing.assert_close(table, torch.tensor([0.125, 0.125, 0.0, 0.75]))
    torch.testing.assert_close(of_actions(table.log(), 2).exp(), torch.tensor([0.125, 0.875]))
    assert taken(torch.tensor([0, 1, 2, 3]), 2).tolist() == [0, 1, 0, 1]


def test_the_likeliest_choice_of_an_action():
    table = torch.tensor(
        [[0.1, 0.3, 0.2, 0.4], [0.4, 0.3, 0.2, 0.1]]
    ).log()  # itself and a guide, two actions
    assert choice_of(table, torch.tensor([0, 1]), 2).tolist() == [2, 1]


def test_whoever_is_followed_is_followed_on():
    follow, own, votes = torch.zeros(2), torch.zeros(2), torch.tensor([[1.0, 0.0]])
    kept = joint(follow, own, votes, torch.tensor(1)).exp()
    assert float(kept[2]) == pytest.approx(math.exp(STAY) / (math.exp(STAY) + 1))
    kept = joint(follow, own, votes, torch.tensor(0)).exp()
    assert float(kept[:2].sum()) == pytest.approx(math.exp(STAY) / (math.exp(STAY) + 1))


def test_nobody_follows_a_guide_that_knows_no_way():
    follow = torch.tensor([0.0, 5.0, 0.0])
    votes = torch.tensor([[0.0, 0.0], [0.5, 0.5]])
    table = joint(follow, torch.zeros(2), votes, torch.tensor(1)).exp()  # not even if it was followed before
    torch.testing.assert_close(table, torch.tensor([0.25, 0.25, 0.0, 0.0, 0.25, 0.25]))


def test_following_a_guide_costs_no_entropy_of_ones_own_actions():
    """By hand: 1/4 itself, with two even actions; a guide that is followed more has none of its own."""
    own, votes = torch.zeros(2), torch.tensor([[1.0, 0.0]])
    for share in (0.25, 0.01):
        table = joint(torch.tensor([math.log(share), math.log(1 - share)]), own, votes, torch.tensor(-1))
        whom = -share * math.log(share) - (1 - share) * math.log(1 - share)
        assert float(entropy(table, 2)) == pytest.approx(whom + math.log(2), abs=1e-4)
    plain = torch.tensor([0.25, 0.75]).log()
    assert torch.equal(entropy(plain, 2), entropy(plain))


def test_what_cannot_be_chosen_adds_no_entropy_and_no_gradient_of_nan():
    follow = torch.zeros(3, 2, requires_grad=True)
    own = torch.zeros(3, 4, requires_grad=True)
    votes = torch.eye(4)[:3].unsqueeze(1)
    logits = joint(follow, own, votes, torch.tensor([-1, 0, 1]))
    spread = entropy(logits)
    assert float(spread[0].detach()) == pytest.approx(math.log(2) + 0.5 * math.log(4), abs=1e-4)
    (spread + entropy(logits, 4)).sum().backward()
    assert torch.isfinite(follow.grad).all() and torch.isfinite(own.grad).all()


def test_new_heads_trust_their_guides_as_they_are_told():
    heads = Heads(10 + 2 * 3 + 2, 3, votes=(0.7, -0.5))
    x = torch.zeros(1, 18)
    x[:, 10], x[:, 14], x[:, 16] = 1.0, 1.0, -1.0
    logits, value = heads(x)
    shares = logits.exp().unflatten(-1, (3, 3)).sum(-1)[0]
    torch.testing.assert_close(shares, torch.tensor([0.0, 0.7, -0.5]).softmax(-1), atol=0.05, rtol=0)
    assert value.shape == (1,)
