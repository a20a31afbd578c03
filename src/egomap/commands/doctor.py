"""`egomap doctor`: what works on this machine."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def doctor() -> int:
    """Check this machine: versions, an engine, its depth calibration, memory, processor, the speed to expect.

    Example: egomap doctor
    """
    from egomap.bench.machine import machine_checks
    from egomap.envs.doctor import Check, checks
    from egomap.simulators.doctor import checks as simulator_checks

    found: list[Check] = []
    for check in itertools.chain(
        checks(), simulator_checks(), machine_checks(sound=lambda: not any(one.failed for one in found))
    ):
        mark = "ok  " if check.ok else "FAIL" if check.needed else "none"
        print(f"{mark}  {check.name}: {check.detail}", flush=True)
        found.append(check)
    failed = sum(check.failed for check in found)
    print("Everything works." if not failed else f"{failed} of {len(found)} checks failed.")
    return 0 if not failed else 2
