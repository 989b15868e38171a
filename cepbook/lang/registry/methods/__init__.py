"""The methods that are called on values, ``receiver.method(…)``, by owner and name: ``array.where``."""

from __future__ import annotations

from collections.abc import Collection

from cepbook.lang.registry.methods.collections import CONTAINERS
from cepbook.lang.registry.methods.datetime import DATETIME
from cepbook.lang.registry.methods.enumeration import ENUMERATION
from cepbook.lang.registry.methods.method_row import MethodRow, ReceiverKind

METHODS: dict[str, MethodRow] = {row.name: row for row in (*ENUMERATION, *CONTAINERS, *DATETIME)}

_BY_SHORT: dict[str, tuple[MethodRow, ...]] = {}
for _row in METHODS.values():
    _BY_SHORT[_row.short.lower()] = (*_BY_SHORT.get(_row.short.lower(), ()), _row)

_ENUMERATING = frozenset(row.short.lower() for row in ENUMERATION)


def methods_named(name: str) -> tuple[MethodRow, ...]:
    """Return the methods of this name, in any case, for all kinds of receivers."""
    return _BY_SHORT.get(name.lower(), ())


def is_enumeration_method(name: str) -> bool:
    """Return whether a method of this name takes an array, so that a subquery before it returns all its rows."""
    return name.lower() in _ENUMERATING


def method_names_of(kinds: Collection[ReceiverKind]) -> list[str]:
    """Return the names of the methods for receivers of these kinds."""
    return [
        row.short for row in METHODS.values() if any(kind in form.receivers for form in row.forms for kind in kinds)
    ]


__all__ = ["METHODS", "MethodRow", "is_enumeration_method", "methods_named", "method_names_of"]
