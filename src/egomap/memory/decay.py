"""Linear recurrences with a fixed complex decay, for all steps of a sequence at once, with resets anywhere.

Input: what is added at each step, the decay of each unit, where episodes start. Output: the states
h_t = decay h_{t-1} + x_t of all steps. `lru` and `ffm` remember this way. The sum over the past is made by
doubling: after k rounds h_t holds its latest 2^k inputs, so T steps take log2(T) rounds and no loop over time. Only
powers decay^(2^k) with |decay| <= 1 are ever formed, so nothing overflows, however long the sequence. A reset does
not multiply by zero: what lies before it is left out, even if it is NaN.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from egomap.memory.eager import eager
from egomap.memory.front import steps_since_start


def decayed_sum(x: Tensor, decay: Tensor, state: Tensor, episode_start: Tensor) -> Tensor:
    """The states of a linear recurrence that is set to 0 before each step at which an episode starts.

    Args:
        x: (T, N, *S) complex, what is added at each step.
        decay: (*S) complex, of absolute value 1 or less.
        state: (N, *S) complex, before the first step.
        episode_start: (T, N) bool.

    Returns:
        (T, N, *S) complex: h_t = decay * h_{t-1} + x_t.
    """
    return cast(Tensor, _decayed_sum(x, decay, state, episode_start))


def as_complex(pairs: Tensor) -> Tensor:
    """Complex numbers (...) from (..., 2) real and imaginary parts, which is how a state keeps them."""
    return torch.view_as_complex(pairs.contiguous())


def _wide(flags: Tensor, like: Tensor) -> Tensor:
    """Flags (...) with as many axes behind them as `like` has more."""
    return flags.view(*flags.shape, *(1,) * (like.dim() - flags.dim()))


def _double(x: Tensor, decay: Tensor, age: Tensor) -> Tensor:
    """Decayed sums of x (T, N, *S), in place, over the inputs of each step's own episode: `age` (T, N) before it."""
    reach, power = 1, decay
    while reach < len(x):
        earlier = power * x[:-reach]
        x[reach:] += earlier.masked_fill_(_wide(age[reach:] < reach, earlier), 0)
        reach, power = 2 * reach, power * power
    return x


class _DecayedSum(torch.autograd.Function):
    """The recurrence; its gradient is the same recurrence backwards in time, with the conjugate decay."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, decay: Tensor, state: Tensor, episode_start: Tensor) -> Tensor:
        """Takes x (T, N, *S), decay (*S), state (N, *S), episode_start (T, N): (T, N, *S)."""
        states = x.clone(memory_format=torch.contiguous_format)
        first = _wide(episode_start[0], state)
        states[0] += (decay * state).masked_fill_(first, 0)
        _double(states, decay, steps_since_start(episode_start, otherwise=len(x)))
        ctx.save_for_backward(states, decay, state, episode_start)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, decay, state and (none) episode_start."""
        states, decay, state, episode_start = ctx.saved_tensors
        conjugate = decay.conj().resolve_conj()
        # Backwards, a step is cut off from the one before it where, forwards, the one after it began an episode.
        cut = torch.cat((torch.zeros_like(episode_start[:1]), episode_start[1:].flip(0)))
        grad = _double(grad_states.flip(0), conjugate, steps_since_start(cut, otherwise=len(cut))).flip(0)
        before = torch.cat((state[None], states[:-1])).masked_fill_(_wide(episode_start, states), 0)
        grad_decay = (before.conj() * grad).sum((0, 1))
        grad_state = (conjugate * grad[0]).masked_fill_(_wide(episode_start[0], state), 0)
        return grad, grad_decay, grad_state, None


_decayed_sum = eager(_DecayedSum.apply)
