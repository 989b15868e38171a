"""Values as keys: arrays, maps and events frozen by content, and back again; all NaN are one key."""

from __future__ import annotations

import math

from cepbook.engine.rows.source import Source
from cepbook.lang.types import Type, is_hashable


class FrozenList(tuple[object, ...]):
    """A list as a key."""


class FrozenDict(tuple[object, ...]):
    """A map or event as a key: its items in order."""


def key_code(source: Source, code: str, type_: Type) -> str:
    """Code of the key that stands for the value of `code`."""
    if not is_hashable(type_):
        return f"{source.bind('_hashable', hashable)}({code})"
    if type_.name not in ("double", "float"):
        return code
    nan = source.bind("_one_nan", one_nan)
    return f"({code} if {code} == {code} else {nan}({code}))" if code.isidentifier() else f"{nan}({code})"


def one_nan(value: object) -> object:
    """`value`, the same object for any NaN: Python's dicts tell them apart."""
    return value if value == value else math.nan


def hashable(value: object) -> object:
    """A key with the same identity as `value`: arrays and maps by content."""
    if isinstance(value, float):
        return one_nan(value)
    if isinstance(value, list):
        return FrozenList(hashable(v) for v in value)
    if isinstance(value, dict):
        return FrozenDict((k, hashable(v)) for k, v in value.items())
    return value


def thawed(value: object) -> object:
    """The value that `hashable` made a key of."""
    if isinstance(value, FrozenList):
        return [thawed(v) for v in value]
    if isinstance(value, FrozenDict):
        return {k: thawed(v) for k, v in value}  # type: ignore[misc, has-type]
    return value
