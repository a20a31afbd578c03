"""One update of the weights from a rollout: A2C (one pass) or PPO (several passes over parts of it).

Input: a filled rollout, an agent, an optimiser, settings. Output: changed weights and figures. The
agent's `unroll` sees whole sequences from the memory state that the rollout began with; what a state is made of
does not matter here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from egomap.agents.agent import Agent, AgentOutput
from egomap.compute import Compute
from egomap.config import LearnerSettings, require
from egomap.memory.protocol import ParameterGroups, Rate
from egomap.rl.returns import RunningScale, following_values, generalised_advantages
from egomap.rl.rollout import Rollout
from egomap.rl.terms import Loss, for_the_log, loss_of
from egomap.rl.threads import GradientThreads

Unroll = Callable[[Mapping[str, Tensor], tuple[Tensor, ...], Tensor], AgentOutput]
Figures = dict[str, float]


class Diverged(RuntimeError):
    """The loss or the gradient is not finite; the weights were not changed by it."""


RATES: dict[str, Callable[[LearnerSettings], float]] = {
    "perception": lambda settings: settings.perception_rate,
    "read": lambda settings: settings.read_rate,
}
"""Classes of rates, as parts of the learning rate; which group has which, an agent and its memory say
(`Agent.rates`). All others have all of it."""


def make_optimizer(agent: Agent, settings: LearnerSettings) -> torch.optim.Optimizer:
    """The optimiser that the settings name, of all the agent's parameters, each with its part of the rate."""
    parts = dict.fromkeys(agent.parameters(), 1.0)
    groups_by_name = agent.parameter_groups()
    for name, rate in agent.rates().items():
        part = _part(rate, settings)
        parts.update(dict.fromkeys(groups_by_name[name], part))
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter, its in parts.items() if its == part], "part": part}
        for part in dict.fromkeys(parts.values())
    ]
    optimizer: torch.optim.Optimizer
    if settings.optimizer == "rmsprop":
        optimizer = torch.optim.RMSprop(groups, alpha=0.99, eps=1e-5)
    else:
        optimizer = torch.optim.Adam(groups, eps=1e-5)
    set_learning_rate(optimizer, settings.learning_rate)
    return optimizer


def _part(rate: Rate, settings: LearnerSettings) -> float:
    """The part of the learning rate that a rate is: one of `RATES`, or a number."""
    if isinstance(rate, str):
        require(rate in RATES, f"a memory's rates are {', '.join(RATES)} or numbers; got {rate!r:.80}.")
        return RATES[rate](settings)
    require(0.0 < rate < math.inf, f"a memory's rates must be above 0; got {rate!r:.80}.")
    return float(rate)


def prepare(rollout: Rollout, settings: LearnerSettings) -> None:
    """Fill in advantages and value targets."""
    following = following_values(
        rollout.value,
        rollout.next_value,
        rollout.terminated,
        rollout.truncated,
        bootstrap_timeouts=settings.bootstrap_timeouts,
    )
    rollout.advantage = generalised_advantages(
        rollout.reward + rollout.bonus,
        rollout.value,
        following,
        rollout.terminated | rollout.truncated,
        discount=settings.discount,
        trace_decay=settings.trace_decay,
    )
    rollout.target = rollout.advantage + rollout.value


def update(
    unroll: Unroll,
    rollout: Rollout,
    optimizer: torch.optim.Optimizer,
    settings: LearnerSettings,
    *,
    generator: torch.Generator,
    spent: float = 0.0,
    threads: GradientThreads | None = None,
    scale: RunningScale | None = None,
    average: Callable[[list[nn.Parameter]], None] | None = None,
    mean_over_ranks: Callable[[float], float] = float,
    groups: ParameterGroups | None = None,
    compute: Compute | None = None,
) -> Figures:
    """Learn from one rollout.

    Args:
        unroll: The agent's.
        rollout: Filled.
        optimizer: Of the agent's parameters.
        settings: The algorithm.
        generator: Divides the environments into mini-batches.
        spent: Share of the budget that was spent before this rollout; weights of the loss's terms may depend on it.
        threads: Share out the environments of each mini-batch.
        scale: Of the advantages of the rollouts so far, if they are normalised; it takes this one in.
        average: Makes the gradients those of all ranks, before they are scaled.
        mean_over_ranks: Makes a number the mean over all ranks.
        groups: Parameters whose gradient norm is logged as gradient_NAME, before clipping.
        compute: Where the agent is; by default on the CPU.

    Raises:
        Diverged: The loss or a gradient became NaN or infinite.
    """
    prepare(rollout, settings)
    _normalise(rollout, settings, scale, mean_over_ranks)
    losses: list[Loss] = []
    by_name = {f"gradient_{name}": group for name, group in (groups or {}).items() if group}
    norms: dict[str, list[Tensor]] = {name: [] for name in ("gradient_norm", *by_name)}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    threads = threads or GradientThreads()

    def loss_in(envs: Tensor) -> Loss:
        batch = rollout.batch(envs if len(envs) < rollout.num_envs else None).on(compute or Compute())
        return loss_of(unroll(batch.observations, batch.state, batch.episode_start), batch, settings, spent)

    for envs in _parts(rollout.num_envs, settings, generator):
        loss = threads.differentiate(loss_in, envs, parameters)
        if average is not None:
            average(parameters)
        for name, group in by_name.items():
            norms[name].append(_gradient_norm(group))
        norm = nn.utils.clip_grad_norm_(parameters, settings.max_gradient_norm)
        _require_finite(loss, norm)
        optimizer.step()
        losses.append(loss)
        norms["gradient_norm"].append(norm)
    told = {name: _mean([loss.figures[name] for loss in losses]) for name in losses[0].figures}
    means = {name: _mean(found) for name, found in norms.items()}
    return {**for_the_log(told), **means, "explained_variance": _explained(rollout)}


def _require_finite(loss: Loss, norm: Tensor) -> None:
    if not bool(torch.isfinite(loss.total)) or not bool(torch.isfinite(norm)):
        raise Diverged(
            f"the loss is {loss.total.item():.4g} and its gradient's norm {norm.item():.4g}: training cannot "
            "continue. Try a lower learning rate."
        )


def _mean(values: list[Tensor]) -> float:
    return float(torch.stack(values).mean())


def _explained(rollout: Rollout) -> float:
    """How much of the targets' variance the values explain; 0 where there is none."""
    spread = rollout.target.var(correction=0)
    unexplained = (rollout.target - rollout.value).var(correction=0)
    return float(1 - unexplained / spread) if spread > 0 else 0.0


def _gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return nn.utils.get_total_norm(gradients)


def _normalise(
    rollout: Rollout,
    settings: LearnerSettings,
    scale: RunningScale | None,
    mean_over_ranks: Callable[[float], float],
) -> None:
    """Bring the advantages of the policy's own actions to mean 0, and to deviation 1 as seen over many rollouts."""
    if not settings.normalise_advantages:
        return
    scale, advantage = scale or RunningScale(), rollout.advantage
    own = ~rollout.driven if rollout.taught and not rollout.driven.all() else slice(None)
    centred = advantage - mean_over_ranks(float(advantage[own].mean()))
    scale.add(mean_over_ranks(float(centred[own].square().mean())))
    rollout.advantage = centred / (scale.deviation + 1e-8)


def _parts(num_envs: int, settings: LearnerSettings, generator: torch.Generator) -> Iterator[Tensor]:
    """Which environments each step learns from, pass by pass: all, or a random division into equal parts."""
    for _ in range(settings.epochs):
        if settings.minibatches == 1:
            yield torch.arange(num_envs)
        else:
            yield from torch.randperm(num_envs, generator=generator).chunk(settings.minibatches)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of all parameters from now on; each group has its part of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["part"]
