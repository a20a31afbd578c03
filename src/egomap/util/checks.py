"""Checks of numbers that a person gave; each raises a ValueError of one sentence."""

from __future__ import annotations

import math


def require(condition: bool, message: str) -> None:
    """Raise a ValueError with `message` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def require_whole(value: float, name: str) -> int:
    """A whole number that a person may write as 2e6, or a ValueError that names it."""
    require(math.isfinite(value) and value == int(value), f"{name} must be a whole number; got {value}.")
    return int(value)


def require_within(name: str, value: int, least: int, most: int) -> None:
    """Raise a ValueError that names the setting unless `value` is `least` to `most`.

    Upper bounds are where no machine could follow: beyond them there is an error of the memory, or no end.
    """
    require(value >= least, f"{name} must be {least} or more; got {value}.")
    require(value <= most, f"{name} must be {most} or less; got {value}.")


def require_seed(seed: int) -> None:
    """Raise a ValueError unless every generator of random numbers takes `seed`."""
    require(0 <= seed < 2**63, f"seed must be 0 to 2^63 - 1; got {seed}.")


def require_length(name: str, value: float) -> None:
    """Raise a ValueError that names the setting unless `value` is a length in map units."""
    require(0 < value < math.inf, f"{name} must be a length above 0 map units; got {value}.")


def as_float(value: float) -> float:
    """The number as a float; infinite if it is a whole number that no float can hold."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
