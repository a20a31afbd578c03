"""Settings as plain data: what a JSON file holds, and NAME=VALUE for settings of classes that are not ours.

What comes in: a dataclass, or data that may be of another version or damaged. What goes out: the other one of the
two, or a ValueError of one sentence.
"""

from __future__ import annotations

import json
from dataclasses import field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from egomap.util.checks import as_float, require

_Value = TypeVar("_Value")


def later(default: _Value) -> _Value:
    """The default of a setting that came after the first release.

    While it has this value, settings count as the same with and without it (`distinctive`).
    """
    return field(default=default, metadata={"later": True})


def distinctive(settings: Any) -> dict[str, Any]:
    """The settings as plain data, without those that came `later` and have their default.

    So what was made before such a setting existed is known as made with today's settings.
    """
    found = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if not (entry.metadata.get("later") and value == entry.default):
            found[entry.name] = distinctive(value) if is_dataclass(value) else value
    return found


def require_pairs(pairs: tuple[str, ...]) -> None:
    """Raise a ValueError unless each of `pairs` is NAME=VALUE, or PART.NAME=VALUE, and no name comes twice."""
    names = []
    for pair in pairs:
        require(isinstance(pair, str), f"settings must be NAME=VALUE; got {pair!r:.80}.")
        name, equals, _ = pair.partition("=")
        good = bool(equals) and all(part.isidentifier() for part in name.split("."))
        require(good, f"settings must be NAME=VALUE; got {pair!r:.80}.")
        names.append(name)
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, f"a setting is given twice: {', '.join(twice)}.")


def to_pairs(data: dict[str, Any], where: str = "") -> tuple[str, ...]:
    """Plain data as NAME=VALUE; values that are not strings as JSON, nested tables as PART.NAME=VALUE."""
    found: list[str] = []
    for name, value in data.items():
        if isinstance(value, dict):
            found += to_pairs(value, f"{where}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            found.append(f"{where}{name}={text}")
    return tuple(found)


def from_pairs(kind: type, pairs: tuple[str, ...], where: str) -> Any:
    """The dataclass that `to_pairs` took apart; what is not given has its default.

    A value is read by the type of its default: a string is taken as it stands, everything else as JSON, where True,
    False and None may be written as in Python.

    Raises:
        ValueError: A name that the class does not have, or a value of another type.
    """
    require_pairs(pairs)
    plain: dict[str, Any] = {}
    default, known = kind(), [entry.name for entry in fields(kind)]
    for pair in pairs:
        name, _, text = pair.partition("=")
        require(
            name.split(".")[0] in known,
            f"{where} has no setting {name!r:.80}; it has {', '.join(known) or 'none'}.",
        )
        table, like = plain, default
        *parts, last = name.split(".")
        for part in parts:
            like = getattr(like, part, None)
            table = table.setdefault(part, {})
        table[last] = text if isinstance(getattr(like, last, None), str) else _json_or_text(text)
    return from_plain(kind, plain, where)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


def from_plain(kind: type, data: Any, where: str) -> Any:
    """A dataclass from plain data; nested dataclasses and tuples are made again."""
    require(isinstance(data, dict), f"{where} is not a table of settings.")
    known = {entry.name: entry for entry in fields(kind)}
    unknown = sorted(set(data) - set(known))
    require(not unknown, f"{where} has settings that this version does not know: {', '.join(unknown)}.")
    default = kind()
    values = {}
    for name, value in data.items():
        like = getattr(default, name)
        if is_dataclass(like):
            value = from_plain(type(like), value, f"{where}.{name}")
        elif isinstance(like, tuple):
            require(isinstance(value, list | tuple), f"{where}.{name} is not a list.")
            value = tuple(value)
        elif isinstance(like, float) and isinstance(value, int) and not isinstance(value, bool):
            value = as_float(value)
        elif like is None:
            allowed = get_args(get_type_hints(kind)[name])
            require(type(value) in allowed, f"{where}.{name} cannot be {value!r:.80}.")
        elif type(value) is not type(like):
            raise ValueError(f"{where}.{name} must be of type {type(like).__name__}; got {value!r:.80}.")
        values[name] = value
    return kind(**values)
