"""Policy and value heads, and the few formulas of a categorical policy.

What comes in: the memory's output (..., size). What goes out: logits (..., actions) and value (...). Paper:
appendix "Architectures", f_pi and f_v: one linear layer each. Initialised orthogonally, the policy's with gain
0.01, so that a new agent acts almost uniformly. No distribution objects: they cost more than the network here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Heads(nn.Module):
    """Linear policy and value; shapes: (..., input_size) -> logits (..., num_actions), value (...)."""

    def __init__(self, input_size: int, num_actions: int, *, value_gain: float = 1.0):
        super().__init__()
        if num_actions < 1:
            raise ValueError(f"num_actions must be 1 or more; got {num_actions}.")
        self.policy = nn.Linear(input_size, num_actions)
        self.value = nn.Linear(input_size, 1)
        for layer, gain in ((self.policy, 0.01), (self.value, value_gain)):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and value."""
        return self.policy(x), self.value(x).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the policy in nats: logits (..., actions) -> (...)."""
    log_probs = logits.log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)


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
