"""How fast each part of an agent learns: what the memory says of it, and what the optimiser makes of that."""

from __future__ import annotations

from typing import ClassVar

import pytest

from egomap.agents import Agent, Perception
from egomap.config import LearnerSettings
from egomap.memory import RecurrentMemory
from egomap.memory.protocol import ParameterGroups, Rate
from egomap.rl.update import make_optimizer


class _Rated(RecurrentMemory):
    """A user's own memory whose first layer learns slowly, and its GRU like a read."""

    rates: ClassVar[dict[str, Rate]] = {"reduce": 0.25, "core": "read"}

    def parameter_groups(self) -> ParameterGroups:
        return {"reduce": tuple(self.reduce.parameters()), "core": tuple(self.core.parameters())}


def test_a_memory_says_how_fast_its_parts_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(Perception(), _Rated())
    optimizer = make_optimizer(agent, LearnerSettings(learning_rate=1e-2, read_rate=0.5))
    found = {id(each): group["lr"] for group in optimizer.param_groups for each in group["params"]}
    assert {found[id(each)] for each in agent.memory.reduce.parameters()} == {2.5e-3}
    assert {found[id(each)] for each in agent.memory.core.parameters()} == {5e-3}
    assert found[id(agent.heads.policy.weight)] == 1e-2
    for wrong, message in (
        ({"reduce": "fast"}, "rates are perception, read or numbers; got 'fast'"),
        ({"reduce": 0.0}, "rates must be above 0; got 0.0"),
        ({"slots": 1.0}, "_Rated has rates for slots, which are not its groups"),
    ):
        monkeypatch.setattr(_Rated, "rates", wrong)
        with pytest.raises(ValueError, match=message):
            make_optimizer(agent, LearnerSettings())
