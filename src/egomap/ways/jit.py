"""Plain loops over grids, compiled where numba is installed (the extra `kernels`).

Input: a function on numpy arrays and numbers. Output: the same function, compiled once and kept on the
disk, or the function itself where numba is missing: slower, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

numba: Any
try:
    import numba
except ImportError:  # optional; one that is installed may also refuse a newer numpy
    numba = None


def compiled(function: Function) -> Function:
    """`function`, compiled if that is possible here; the original is then its attribute `py_func`."""
    if numba is None:
        return function
    try:
        fast: Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no place to keep it
        fast = numba.njit(nogil=True, error_model="numpy")(function)
    return fast
