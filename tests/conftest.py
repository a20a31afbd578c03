"""One hypothesis profile for the whole suite: the same examples in every run, no time limit per example.

A busy machine must not fail a test, and a failure must come back when the test is run again.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")
