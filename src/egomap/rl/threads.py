"""Several threads that compute a gradient together.

Input: a loss of some environments, which ones, the parameters. Output: the mean loss, and the
parameters' gradients. Torch's own threads divide one operation after the other and wait for each other after each;
with batches of this size two of them get hardly more done than one. Here each thread goes through the whole of its
share of the environments alone, and they meet once, to add up. The sum is the same but for rounding, and it is the
same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor, nn

from egomap.compute import torch_threads
from egomap.rl.terms import Loss


class Share(NamedTuple):
    """What one thread found."""

    weight: float
    """Its part of the environments."""
    loss: Loss
    gradients: tuple[Tensor | None, ...]


class GradientThreads:
    """Threads that compute gradients together; close them when they are no longer needed.

    Args:
        count: How many; 1 computes in the caller's thread, with torch's own threads.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        if count > 1:
            self._pool = ThreadPoolExecutor(count, "egomap-gradient", torch.set_num_threads, (1,))

    def differentiate(
        self, loss_of: Callable[[Tensor], Loss], envs: Tensor, parameters: Sequence[nn.Parameter]
    ) -> Loss:
        """Make every parameter's gradient that of the mean loss over `envs`.

        Args:
            loss_of: The loss of some environments (indices), a mean over them; called in several threads at once.
            envs: (B,) indices.
            parameters: What to differentiate by; one that the loss does not depend on gets no gradient.

        Returns:
            The mean loss, without gradient.
        """

        def share(part: Tensor) -> Share:
            loss = loss_of(part)
            gradients = torch.autograd.grad(loss.total, parameters, allow_unused=True)
            return Share(len(part) / len(envs), Loss(loss.total.detach(), loss.figures), gradients)

        if self._pool is None:
            shares = [share(envs)]
        else:
            with torch_threads(1):
                shares = list(self._pool.map(share, envs.chunk(self.count)))
        weights = [each.weight for each in shares]
        for i, parameter in enumerate(parameters):
            parameter.grad = _weighted_sum(weights, [each.gradients[i] for each in shares])
        return Loss(
            _mean(weights, [each.loss.total for each in shares]),
            {
                name: _mean(weights, [each.loss.figures[name] for each in shares])
                for name in shares[0].loss.figures
            },
        )

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _mean(weights: Sequence[float], values: Sequence[Tensor]) -> Tensor:
    return torch.stack([weight * value for weight, value in zip(weights, values, strict=True)]).sum()


def _weighted_sum(weights: Sequence[float], gradients: Sequence[Tensor | None]) -> Tensor | None:
    """The sum, in the first one's memory; None where there is nothing to add."""
    total: Tensor | None = None
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is None:
            continue
        total = gradient.mul_(weight) if total is None else total.add_(gradient, alpha=weight)
    return total
