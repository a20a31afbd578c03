"""Freed memory stays in the process after `keep_memory`; measured in processes of their own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from egomap.training import allocator

SCRIPT = """
import resource, sys, torch
from egomap.training.allocator import keep_memory
if sys.argv[1] == "keep":
    assert keep_memory()
def fill(times):
    for _ in range(times):
        torch.ones(40 << 20, dtype=torch.uint8)  # more than glibc ever keeps by itself
fill(20)  # glibc sets up to seven small remainders aside before it joins the free space around them
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
fill(3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> int:
    command = [sys.executable, "-c", SCRIPT, mode]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def glibc() -> bool:
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


@pytest.mark.slow
@pytest.mark.skipif(not glibc(), reason="the C library is not glibc")
def test_pages_are_used_again():
    assert page_faults("keep") < 100 < 1000 < page_faults("as it is")


def test_does_nothing_where_the_allocator_is_unknown(monkeypatch):
    class Other:  # a C library without these functions
        def __init__(self, name):
            pass

    monkeypatch.setattr(allocator.ctypes, "CDLL", Other)
    assert allocator.keep_memory() is False
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: (_ for _ in ()).throw(TypeError("Windows")))
    assert allocator.keep_memory() is False
