"""Importing what only an extra installs, and saying in a sentence what is missing.

What comes in: what is to be tried. What goes out: its result, or a ValueError that names the extra and the packages
of the system. Graphics are drawn without a screen, by EGL.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

SYSTEM = "apt install libegl1 libgl1 libglu1-mesa libgl1-mesa-dri"
"""What Debian and Ubuntu lack for drawing without a screen."""


def without_screen() -> None:
    """Let graphics be drawn by EGL, in software by no threads of its own: processes share out the cores already."""
    os.environ.setdefault("LP_NUM_THREADS", "0")
    os.environ.setdefault("EGL_PLATFORM", "surfaceless")
    os.environ.setdefault("MUJOCO_GL", "egl")


def need(module: str, extra: str) -> ModuleType:
    """Import `module`, which the extra brings.

    Raises:
        ValueError: It is not installed, or a library of the system is missing.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is not installed: pip install 'egomap[{extra}]'.") from error
    except Exception as error:  # the graphics libraries raise errors of many kinds
        told = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ValueError(
            f"{module} cannot draw here ({told:.200}); on Debian and Ubuntu: {SYSTEM}."
        ) from error
