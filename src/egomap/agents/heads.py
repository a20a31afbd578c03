"""Policy and value heads, and the few formulas of a categorical policy.

Input: the memory's output (..., size). Output: logits (..., actions) and value (...). Paper:
appendix "Architectures", f_pi and f_v: one linear layer each. Initialised orthogonally, the policy's with gain
0.01, so that a new agent acts almost uniformly. No distribution objects: they cost more than the network here.

A memory may have votes: distributions over the actions, proposed by guides (not in the paper). The policy then first
selects a guide, or itself, and then an action: an entry of a table of selections times actions. Logits are of that
whole table, flat, and a choice drawn from them is one of its entries; `taken` gives the action itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

QUICK = 5.0
"""Factor of the selection's logits: Adam moves no weight by more than its rate in a step, and the selection depends
on a few inputs, where the actions depend on hundreds."""
STAY = 3.0
"""Added to the logit of the current selection, which is then kept for about ten decisions by default. The effect of a
single decision is too small to be distinguished from noise."""
NEVER = -1e4
"""Used as the log-probability of what cannot be chosen: finite, so that its entropy is 0 and not NaN."""


class Heads(nn.Module):
    """Linear policy and value; shapes: (..., input_size) -> logits (..., num_actions), value (...).

    Args:
        input_size: Of the memory's output, votes and all.
        num_actions: Discrete actions.
        value_gain: Gain of the value head's initialisation.
        votes: For each of K guides the initial logit of selecting it; that of the policy itself is 0. The input then
            ends with their votes, K * num_actions, the current selection (-1: none), and a value that is not for the
            heads.
    """

    def __init__(
        self, input_size: int, num_actions: int, *, value_gain: float = 1.0, votes: Sequence[float] = ()
    ):
        super().__init__()
        if num_actions < 1:
            raise ValueError(f"num_actions must be 1 or more; got {num_actions}.")
        self.num_actions, self.votes = num_actions, len(votes)
        input_size -= self.votes * num_actions + 2 * (self.votes > 0)
        self.own_size = input_size
        """Size of the part of the input that layers may read; votes, and a value for a term of the loss, follow
        it."""
        self.policy = nn.Linear(input_size, num_actions)
        self.follow = nn.Linear(input_size, 1 + self.votes) if votes else None
        self.value = nn.Linear(input_size, 1)
        for layer, gain in ((self.policy, 0.01), (self.value, value_gain), (self.follow, 0.01)):
            if layer is not None:
                nn.init.orthogonal_(layer.weight, gain)
                nn.init.zeros_(layer.bias)
        if self.follow is not None:
            with torch.no_grad():
                self.follow.bias[1:] = torch.tensor(votes) / QUICK

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and value."""
        own = x[..., : self.own_size]
        logits, value = self.policy(own), self.value(own).squeeze(-1)
        if self.follow is not None:
            votes, running, _ = x[..., self.own_size :].split((self.votes * self.num_actions, 1, 1), -1)
            votes = votes.unflatten(-1, (self.votes, self.num_actions))
            logits = joint(QUICK * self.follow(own), logits, votes, running[..., 0].long())
        return logits, value


def joint(follow: Tensor, own: Tensor, votes: Tensor, running: Tensor) -> Tensor:
    """Log-probabilities of the table of selections times actions.

    Args:
        follow: (..., 1 + K) logits of the selection: the policy itself, or one of K guides.
        own: (..., actions) logits of the policy's own actions.
        votes: (..., K, actions) distributions over the actions; all 0 for a guide without a path, which cannot be
            selected.
        running: (...) int64 the current selection, 0 for the policy itself, -1 for none.

    Returns:
        (..., (1 + K) * actions).
    """
    kept = F.one_hot(running.clamp(min=0), follow.shape[-1]) * (running >= 0)[..., None]
    leads = F.pad(votes.sum(-1) > 0, (1, 0), value=True)  # the policy itself can always be selected
    whom = torch.where(leads, follow + STAY * kept, NEVER).log_softmax(-1)
    voted = votes.clamp(min=torch.finfo(votes.dtype).tiny).log().clamp(min=NEVER)
    voted = torch.where(votes > 0, voted, NEVER)
    actions = torch.cat((own.log_softmax(-1).unsqueeze(-2), voted.to(own.dtype)), -2)
    return (whom.unsqueeze(-1) + actions).flatten(-2)


def taken(choice: Tensor, num_actions: int) -> Tensor:
    """The action of an entry of the table."""
    return choice % num_actions


def choice_of(logits: Tensor, action: Tensor, num_actions: int) -> Tensor:
    """The most probable entry of the table (..., n * actions) in which an action (...) is taken."""
    whom = logits.unflatten(-1, (-1, num_actions)).movedim(-1, 0)
    index = action.expand(whom.shape[1:-1])[None, ..., None].expand(1, *whom.shape[1:])
    return whom.gather(0, index)[0].argmax(-1) * num_actions + action


def of_actions(logits: Tensor, num_actions: int) -> Tensor:
    """Marginal logits of the actions, over selections: (..., n * actions) -> (..., actions)."""
    if logits.shape[-1] == num_actions:
        return logits
    return logits.unflatten(-1, (-1, num_actions)).logsumexp(-2)


def of_guides(logits: Tensor, num_actions: int) -> Tensor:
    """Marginal log-probabilities of the selections, over actions: (..., n * actions) -> (..., n)."""
    return logits.log_softmax(-1).unflatten(-1, (-1, num_actions)).logsumexp(-1)


def entropy(logits: Tensor, num_actions: int | None = None) -> Tensor:
    """Entropy of the policy in nats: logits (..., actions) -> (...).

    Of a table of choices, given `num_actions`: the entropy of the selection plus the whole entropy of the policy's
    own actions. The table's own entropy weighs the latter by the probability of selecting the policy itself, so that
    an entropy bonus would penalise every guide.
    """
    if num_actions is None or logits.shape[-1] == num_actions:
        log_probs = logits.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)
    own = logits[..., :num_actions]
    return entropy(of_guides(logits, num_actions)) + entropy(own)


def log_prob(logits: Tensor, action: Tensor) -> Tensor:
    """Log-probability of the actions taken: logits (..., actions), action (...) int64 -> (...)."""
    return logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)


def choose(
    logits: Tensor, *, deterministic: bool = False, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """An action per row and its log-probability: sampled, or the most probable one.

    Args:
        logits: (N, actions).
        deterministic: Take the arg-max (the first of equals).
        generator: Source of randomness, on the logits' device; torch's global one if not given.

    Returns:
        action (N,) int64, log_prob (N,).
    """
    log_probs = logits.log_softmax(-1)
    if deterministic:
        action = log_probs.argmax(-1, keepdim=True)
    else:
        action = torch.multinomial(log_probs.exp(), 1, generator=generator)
    return action.squeeze(-1), log_probs.gather(-1, action).squeeze(-1)
