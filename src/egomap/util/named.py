"""Things of other people by their address, `package.module:Name`: a memory, a term of the loss, a bonus.

What comes in: an address. What goes out: the object, imported from where Python finds it, as any import does. Whoever
loads a folder that came from elsewhere asks `require_outside` first: code that lies in such a folder must not run.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

LONGEST = 200


def is_address(name: object) -> bool:
    """Whether a name has the form `package.module:Name`."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return False
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def import_named(address: str) -> Any:
    """The object at an address.

    Raises:
        ValueError: No such module, one that cannot be imported, or nothing of that name in it; one sentence.
    """
    module_name, _, name = address.partition(":")
    found = getattr(_imported(module_name), name, None)
    if found is None:
        raise ValueError(f"{module_name} has no {name!r}.")
    return found


def require_outside(address: str, folder: Path) -> None:
    """Raise a ValueError if the module of an address would be imported from within `folder`.

    Only its top-level package is looked for, so nothing is imported.
    """
    top = address.partition(":")[0].partition(".")[0]
    spec = importlib.util.find_spec(top) if top != "__main__" else None
    if spec is None:
        return  # importing it will say so
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
    if any(place and Path(place).resolve().is_relative_to(folder.resolve()) for place in places):
        raise ValueError(
            f"{folder} names {address}, and {top} would be imported from that folder, which may be anybody's; "
            "install the module, or put the folder that it lies in on PYTHONPATH."
        )


def _imported(name: str) -> Any:
    """The module of that name, imported; a ValueError of one sentence if it cannot be."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        raise ValueError(f"{name} belongs to Python itself; give a module of your own.")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ValueError(f"{name} cannot be imported: {error}.") from error
        raise ValueError(
            f"there is no module {name}; install it, or put the folder that it lies in on PYTHONPATH."
        ) from error
    except Exception as error:  # a user's module may raise anything
        raise ValueError(f"{name} cannot be imported: {type(error).__name__}: {error}.") from error
