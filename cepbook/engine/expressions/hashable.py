"""Values as dict keys: arrays, maps and events are frozen by content, and all NaN are one key."""

from __future__ import annotations

import math

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.lang.types import Type, is_hashable


class HashableList(tuple[object, ...]):
    """A list as a key."""


class HashableDict(tuple[object, ...]):
    """A map or event as a key: its items in order."""


def key_code(source: SourceWriter, code: str, type_: Type) -> str:
    """Return the code of the key for the value of `code`."""
    if not is_hashable(type_):
        return f"{source.bind('_hashable', hashable)}({code})"
    if type_.name not in ("double", "float"):
        return code
    nan = source.bind("_one_nan", canonical_nan)
    return f"({code} if {code} == {code} else {nan}({code}))" if code.isidentifier() else f"{nan}({code})"


def canonical_nan(value: object) -> object:
    """Return `value`, or the same NaN for every NaN: a Python dict tells NaN objects apart."""
    return value if value == value else math.nan


def hashable(value: object) -> object:
    """Return a key that is equal for equal values; arrays and maps count by content."""
    if isinstance(value, float):
        return canonical_nan(value)
    if isinstance(value, list):
        return HashableList(hashable(v) for v in value)
    if isinstance(value, dict):
        return HashableDict((k, hashable(v)) for k, v in value.items())
    return value


def unhashed(value: object) -> object:
    """Return the value of a key that `hashable` returned."""
    if isinstance(value, HashableList):
        return [unhashed(v) for v in value]
    if isinstance(value, HashableDict):
        return {k: unhashed(v) for k, v in value}  # type: ignore[misc, has-type]
    return value
