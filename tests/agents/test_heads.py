from __future__ import annotations

import math

import torch

from egomap.agents.heads import Heads, choose, entropy, log_prob


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
