"""Placeholder."""

from __future__ import annotations
from typing import Any
from torch import Tensor


def enabled(t: Tensor) -> bool:
    return False


def attend(*a: Any) -> Any: ...
def write_and_read(*a: Any) -> Any: ...
