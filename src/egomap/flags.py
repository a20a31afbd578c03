"""How flags are read: whole numbers may be written as 4e6 wherever one is asked for.

What comes in: the text of a flag. What goes out: the number, or a ValueError that tyro shows with the flag's name.
What a number may be is checked by the settings, so that the sentence names them.
"""

from __future__ import annotations

from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from egomap.util.checks import require_whole

FLAGS = ConstructorRegistry()
"""Within `with FLAGS:` tyro reads flags so."""


def whole(text: str) -> int:
    """The whole number that is written as 4000000 or as 4e6."""
    try:
        return int(text)
    except ValueError:
        return require_whole(float(text), "it")


@FLAGS.primitive_rule
def _whole_numbers(about: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    if about.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda texts: whole(texts[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )
