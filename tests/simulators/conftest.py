"""Simulators beside Doom are extras: where one is not installed, or cannot draw, its tests skip and say why."""

from __future__ import annotations

import pytest

from egomap.simulators.doctor import SIMULATORS


def _works(name: str) -> None:
    try:
        SIMULATORS[name]()
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def memory_maze() -> None:
    """Memory Maze is installed and draws."""
    _works("memory maze")


@pytest.fixture(scope="session")
def miniworld() -> None:
    """MiniWorld is installed and draws."""
    _works("miniworld")
