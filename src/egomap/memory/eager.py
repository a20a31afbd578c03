"""Functions that torch.compile leaves as they are, without loading the compiler where nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def eager(function: Function) -> Function:
    """`function`, run as it stands within compiled code.

    `torch.compiler.disable` loads the compiler at once, which takes longer than everything else that a command
    imports; so it is called when something is compiled first. What is traced meets a compiler that is loaded.
    """
    disabled: Any = None

    def run(*arguments: Any) -> Any:
        nonlocal disabled
        if disabled is None:
            if not torch.compiler.is_compiling():
                return function(*arguments)
            disabled = torch.compiler.disable(function)
        return disabled(*arguments)

    return run  # type: ignore[return-value]
