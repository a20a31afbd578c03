"""Plain data of anybody: what does not have the shape that is asked for is named."""

from __future__ import annotations

import math
from typing import Any

import pytest

from egomap.util.reading import require_like

LIKE = {
    "name": str,
    "place": [float, float],
    "scores": [(float, None)],
    "kind": frozenset({"a", "b"}),
    "more": ({"count": int, "done": bool}, None),
}
GOOD: dict[str, Any] = {
    "name": "x",
    "place": [1, 2.5],
    "scores": [None, 3.0, 4],
    "kind": "a",
    "more": {"count": 3, "done": True},
    "other": object,
}


def test_what_fits() -> None:
    require_like(GOOD, LIKE, "it")
    require_like({**GOOD, "more": None}, LIKE, "it")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": 3}, "it.name is 3 instead of a str"),
        ({"name": None}, "it.name is None instead of a str"),
        ({"place": [1.0]}, "it.place has 1 entries, not 2"),
        ({"place": [1.0, math.nan]}, "it.place is nan, which is no figure"),
        ({"place": [1.0, True]}, "it.place is True instead of a float"),
        (
            {"place": [10**400, 0.0]},
            "it.place is 1000000000000000000000000000000000000000, which is no figure",
        ),
        ({"scores": []}, "it.scores is not a list, or empty"),
        ({"scores": {"a": 1}}, "it.scores is not a list, or empty"),
        ({"scores": ["1"]}, "it.scores is '1' instead of a float"),
        ({"kind": "c"}, "it.kind is 'c', which is not known"),
        ({"kind": ["a"]}, "it.kind is ['a'], which is not known"),
        ({"more": {"count": 3}}, "it.more has no 'done'"),
        ({"more": {"count": 3.0, "done": True}}, "it.more.count is 3.0 instead of a int"),
        ({"more": []}, "it.more is not a table"),
    ],
)
def test_what_does_not(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as caught:
        require_like({**GOOD, **change}, LIKE, "it")
    assert str(caught.value) == told
