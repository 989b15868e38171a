"""Plain values: what enters the engine has Python's own classes, and a bounded depth.

A subclass of ``str``, ``int``, ``float``, a date, a list or a dict may define ``__hash__``, ``__eq__`` or ``__iter__``
of its own. The engine hashes and compares values in windows, groups and indexes, so a method that raises there would
break statements far from the property that held the value. `plain_value` makes a value of the base class, and calls no
method of the subclass.

Values nested in each other are copied, shown and saved by recursion; `MAX_DEPTH` keeps that within Python's limit.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from cepbook.errors import UsageError

MAX_DEPTH = 64
TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"

EXACT = frozenset((type(None), bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta))
"""Classes of scalars that are plain already."""


class NestedTooDeep(UsageError):
    """A list or dict holds others more than `MAX_DEPTH` levels deep, or itself."""

    def __init__(self) -> None:
        super().__init__(f"a value {TOO_DEEP}")


_WHOLE = slice(None)
_SCALARS: dict[type, Callable[[Any], Any]] = {
    str: lambda value: str.__getitem__(value, _WHOLE),
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, _WHOLE),
    Decimal: lambda value: Decimal(Decimal.__str__(value)),
    datetime: lambda value: datetime(*datetime.__reduce_ex__(value, 4)[1]),  # protocol 4 keeps the fold
    date: lambda value: date(*date.__reduce__(value)[1]),
    time: lambda value: time(*time.__reduce_ex__(value, 4)[1]),
    timedelta: lambda value: timedelta(*timedelta.__reduce__(value)[1]),
}
_FOREIGN = ("pandas", "numpy", "cepbook")  # their values have rules of their own


def plain_value(value: Any, depth: int = 0) -> Any:
    """Return a scalar, list, tuple or dict as a value of exactly this class, its elements likewise.

    Values of other classes are returned as they are. Errors: NestedTooDeep.
    """
    kind = type(value)
    if kind in EXACT:
        return value
    if depth > MAX_DEPTH:
        raise NestedTooDeep
    if kind is list or kind is tuple:
        return kind([plain_value(element, depth + 1) for element in value])
    if kind is dict:
        return {plain_value(name, depth + 1): plain_value(element, depth + 1) for name, element in value.items()}
    if kind.__module__.partition(".")[0] in _FOREIGN:
        return value
    for base in kind.__mro__[1:]:
        if base in _SCALARS:
            return _SCALARS[base](value)
        if base is list or base is tuple:
            return plain_value(base(base.__iter__(value)), depth)
        if base is dict:
            return plain_value(dict(dict.items(value)), depth)
    return value
