"""Settings of the algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from egomap.config.plain import later
from egomap.util.checks import require, require_within
from egomap.util.named import is_address

MOST_ROLLED_OUT = 2**20
"""Decisions between two updates; each keeps 50 kB of observations."""
CHOSEN = ("algorithm", "optimizer", "learning-rate-decay")
SHARES = (
    *("discount", "trace-decay", "coverage-decay", "imitation-decay", "teacher-share"),
    *("head-start", "head-start-decay"),
)
ABOVE_ZERO = ("learning-rate", "read-rate", "perception-rate", "max-gradient-norm", "clip", "coverage-cell")
ZERO_OR_MORE = (
    *("entropy-weight", "value-weight", "coverage-bonus", "imitation-weight", "auxiliary-weight"),
    "hindsight-weight",
)
"""What values the settings of the learner may have, by their flags."""
AUXILIARIES = ("home", "paid")
"""What an auxiliary head can learn to tell; `egomap.rl.auxiliary` has a class for each."""


def _field(name: str) -> str:
    return name.replace("-", "_")


def weighted(text: str, name: str) -> tuple[str, float]:
    """The address and the weight in package.module:NAME=WEIGHT; a ValueError that names the setting otherwise."""
    address, _, weight = text.partition("=") if isinstance(text, str) else ("", "", "")
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    require(
        is_address(address) and math.isfinite(value),
        f"{name} must be package.module:NAME=WEIGHT, such as my_losses:calm=0.1; got {text!r:.80}.",
    )
    return address, value


@dataclass(frozen=True)
class LearnerSettings:
    """How the weights follow the rewards. The defaults are the paper's A2C."""

    algorithm: Literal["a2c", "ppo"] = "a2c"
    """a2c: one pass over each rollout (the paper); ppo: several, clipped."""
    rollout_steps: int = 128
    """Decisions of each environment between two updates (paper: 128)."""
    num_envs: int = 16
    """Environments of each rank (paper: 16)."""
    discount: float = 0.99
    """Gamma (paper: 0.99)."""
    trace_decay: float = 1.0
    """Lambda of the generalised advantages; 1 gives plain discounted returns (paper)."""
    bootstrap_timeouts: bool = False
    """Whether the value stands in for what a time-out cut off; otherwise it counts as an end (paper)."""
    entropy_weight: float = 0.001
    """Weight of the policy's entropy (paper: 0.001)."""
    value_weight: float = 0.5
    """Weight of the value loss (paper: 0.5)."""
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """rmsprop (alpha 0.99, eps 1e-5; paper) or adam (eps 1e-5)."""
    learning_rate: float = 7e-4
    """At the start (paper: 7e-4)."""
    read_rate: float = 1.0
    """The learning rate of the reads of a map, as a part of `learning_rate`, above 0 (paper: 1)."""
    perception_rate: float = 1.0
    """The learning rate of perception, as a part of `learning_rate`, above 0 (paper: 1)."""
    learning_rate_decay: Literal["none", "linear"] = "none"
    """linear: down to 0 at the end of the budget."""
    max_gradient_norm: float = 0.5
    """Gradients are scaled down to this norm (paper: 0.5)."""
    epochs: int = 1
    """Passes over each rollout (ppo)."""
    minibatches: int = 1
    """Parts, along the environment axis, of each pass (ppo)."""
    clip: float = 0.2
    """How far the ratio of the probabilities may count (ppo)."""
    normalise_advantages: bool = False
    """Whether advantages are brought to mean 0, and to deviation 1 as seen over the latest rollouts."""
    coverage_bonus: float = later(0.0)
    """Intrinsic reward for each cell that is visited for the first time in an episode; 0: none (paper)."""
    coverage_decay: float = later(0.5)
    """Share of the budget over which the coverage bonus falls linearly to 0; 0: it does not fall."""
    coverage_cell: float = later(64.0)
    """Side of the coverage bonus's cells in map units, above 0."""
    imitation_weight: float = later(1.0)
    """Weight of the imitation term at the start: the cross-entropy of what the teacher would do (--imitate)."""
    imitation_decay: float = later(0.8)
    """Share of the budget over which that weight falls linearly to 0; 0: it does not fall."""
    teacher_share: float = later(0.25)
    """Share of the environments in which the teacher acts at the start; it falls linearly to 0 over half of
    imitation-decay (--imitate)."""

    head_start: float = later(0.0)
    """Share of the environments in which, at the start of training, the Explorer walks to an episode's first goal and
    the agent goes on from there, with all of it in its memory; 0: none (paper). Its actions are not learned from."""
    head_start_decay: float = later(0.5)
    """Share of the budget over which head-start falls linearly to 0; 0: it does not fall."""
    auxiliary_weight: float = later(0.0)
    """Weight of an auxiliary term: a linear head on the memory's output learns to tell --learner.auxiliary; 0: none
    (paper)."""
    auxiliary: str = later("home")
    """What it learns to tell: home, where the episode began, seen from the agent; paid, where it is paid next; or
    package.module:Class of your own."""
    hindsight_weight: float = later(0.0)
    """Weight of hindsight: when something was paid, the pointer at earlier decisions of the episode learns to point
    to where; 0: none (paper). For agents with a pointer into their map (egomap+), others ignore it."""
    terms: tuple[str, ...] = later(())
    """Terms of the loss of your own, package.module:function=WEIGHT each."""
    bonuses: tuple[str, ...] = later(())
    """Intrinsic rewards of your own, package.module:Class=WEIGHT each."""

    def validate(self) -> LearnerSettings:
        """Return self, or raise a ValueError that says which value is out of range."""
        for name, count, most in (
            ("rollout-steps", self.rollout_steps, MOST_ROLLED_OUT),
            ("num-envs", self.num_envs, MOST_ROLLED_OUT),
            ("epochs", self.epochs, 1000),
            ("minibatches", self.minibatches, MOST_ROLLED_OUT),
        ):
            require_within(name, count, 1, most)
        require_within("rollout-steps x num-envs", self.rollout_steps * self.num_envs, 1, MOST_ROLLED_OUT)
        require(
            self.num_envs % self.minibatches == 0,
            f"minibatches must divide num-envs; got {self.minibatches} and {self.num_envs}.",
        )
        for name in CHOSEN:
            chosen, allowed = self._given(name), get_args(get_type_hints(LearnerSettings)[_field(name)])
            require(chosen in allowed, f"{name} must be one of {', '.join(allowed)}; got {chosen!r:.80}.")
        for name in SHARES:
            share = self._given(name)
            require(0.0 <= share <= 1.0, f"{name} must be between 0 and 1; got {share}.")
        for name in ABOVE_ZERO:
            value = self._given(name)
            require(0.0 < value < math.inf, f"{name} must be above 0; got {value}.")
        for name in ZERO_OR_MORE:
            value = self._given(name)
            require(0.0 <= value < math.inf, f"{name} must be 0 or more; got {value}.")
        require(
            self.algorithm == "ppo" or self.epochs == self.minibatches == 1,
            "a2c makes one pass over each rollout: epochs and minibatches must be 1.",
        )
        require(
            self.auxiliary in AUXILIARIES or is_address(self.auxiliary),
            f"auxiliary must be {', '.join(AUXILIARIES)} or package.module:Class of your own; got "
            f"{self.auxiliary!r:.80}.",
        )
        for name, given in (("terms", self.terms), ("bonuses", self.bonuses)):
            addresses = [weighted(each, name)[0] for each in given]
            require(len(set(addresses)) == len(addresses), f"{name} has the same address twice.")
        return self

    def _given(self, name: str) -> Any:
        """The value of a setting, by its flag."""
        return getattr(self, _field(name))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Everything of somebody else's that these settings name."""
        own = (self.auxiliary,) if self.auxiliary_weight and self.auxiliary not in AUXILIARIES else ()
        return (*own, *(weighted(each, "terms")[0] for each in (*self.terms, *self.bonuses)))
