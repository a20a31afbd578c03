"""What `egomap doctor` reports of a machine besides its engine: processor, optional programs, the speed to expect.

Input: nothing. Output: checks like those of `egomap.envs.doctor`, one after the other, the measured
one last. Torch and what needs it is imported by the checks themselves, so that a broken installation fails the checks
that need it and the others still run.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from egomap.config import LearnerSettings
from egomap.envs.doctor import Check, check
from egomap.presets import QUICK

CPU_INFO = Path("/proc/cpuinfo")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox", "xdg-open")
BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Names, in the kernel's list of a processor's features, of arithmetic on bf16 (x86 and ARM)."""
MARGIN = 0.25
"""Choice: the share by which a long training may be slower or faster than three updates just measured."""


def machine_checks(
    *, learner: LearnerSettings = QUICK.learner, sound: Callable[[], bool] = lambda: True
) -> Iterator[Check]:
    """Processor, threads and optional programs; then the speed of a short training with `learner`.

    The training takes a while and needs all that egomap needs: it is left out unless `sound` says, after the other
    checks, that nothing is broken.
    """
    yield check("cpu", _cpu)
    yield check("instructions", _instructions)
    yield check("threads", _threads)
    for name, look in (("numba", _numba), ("ffmpeg", _ffmpeg), ("browser", _browser), ("screen", _screen)):
        yield check(name, look, needed=False)
    if sound():
        yield check("speed", lambda: _speed(learner))
    else:
        yield Check("speed", False, "not measured, for a check has failed.", needed=False)


def features(text: str) -> tuple[str, set[str]]:
    """Model name and features of the first processor in the text of /proc/cpuinfo; empty where there is none."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields.get("model name", ""), set(fields.get("flags", fields.get("Features", "")).split())


def expected_speeds(measured: list[float]) -> tuple[int, int]:
    """The range of decisions a second to expect after these were measured, rounded to two digits."""
    low, high = min(measured) * (1 - MARGIN), max(measured) * (1 + MARGIN)
    return int(float(f"{low:.2g}")), int(float(f"{high:.2g}"))


def _cpu_info() -> tuple[str, set[str]]:
    try:
        return features(CPU_INFO.read_text(errors="replace"))
    except OSError:  # only Linux has it
        return "", set()


def _cpu() -> str:
    model = _cpu_info()[0] or platform.processor() or "unknown model"
    return f"{model} ({platform.machine()}), {os.cpu_count()} cores"


def _instructions() -> str:
    import torch

    flags = _cpu_info()[1]
    if not flags:
        bf16 = "whether it computes in bf16 is unknown"
    else:
        bf16 = "native bf16" if flags & BF16_FLAGS else "no native bf16 (emulated, and slow)"
    return f"torch uses {torch.backends.cpu.get_cpu_capability()}, {bf16}"


def _threads() -> str:
    import torch

    set_by = os.environ.get("OMP_NUM_THREADS")
    source = f"OMP_NUM_THREADS={set_by}" if set_by else "its default"
    return f"torch computes with {torch.get_num_threads()} ({source})"


def _numba() -> str:
    from egomap.memory import native

    if not native.available():
        raise ValueError("cannot be imported; trainings are slower. Run `pip install 'egomap[kernels]'`.")
    return f"{importlib.metadata.version('numba')}, the memories' native kernels are used"


def _ffmpeg() -> str:
    from egomap.inspector.video import find_ffmpeg

    return find_ffmpeg()


def _browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise ValueError(
            "found none; the pages of `egomap inspect` are single files that open on another machine."
        )
    return found


def _screen() -> str:
    try:
        import tkinter
    except ImportError as error:
        raise ValueError(f"not looked for ({error}); only `egomap play` needs one.") from None
    try:
        root = tkinter.Tk()
    except tkinter.TclError as error:
        raise ValueError(f"found none ({error}); only `egomap play` needs one.") from None
    root.withdraw()
    size = f"{root.winfo_screenwidth()} x {root.winfo_screenheight()}"
    root.destroy()
    return f"{size} pixels, for `egomap play`"


def _speed(learner: LearnerSettings) -> str:
    from egomap.bench.engines import LAYOUTS
    from egomap.bench.training import measure_learning
    from egomap.config import ScenarioConfig
    from egomap.envs.worlds import worlds_of_set
    from egomap.scenarios.dataset import generate

    with tempfile.TemporaryDirectory(prefix="egomap-doctor-") as folder:
        made = generate(
            ScenarioConfig(task="labyrinth", size=5, train=LAYOUTS, test=0), Path(folder) / "mazes"
        )
        turns = measure_learning(worlds_of_set(made, "train"), QUICK.agent, learner)
    low, high = expected_speeds([1 / turn.whole for turn in turns])
    minutes = [QUICK.budget / speed / 60 for speed in (high, low)]
    return (
        f"expect {low:,} to {high:,} decisions/s of EgoMap with PPO if nothing else runs, so `make train` learns for "
        f"{minutes[0]:.0f} to {minutes[1]:.0f} minutes ({len(turns)} updates were measured)"
    )
