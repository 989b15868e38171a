"""Every method that is called on a value, ``receiver.method(…)``, by its owner and name: ``array.where``.

A new one is a row here, with the function that calculates it.
"""

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
    """The methods of a name, in any case of letters, whatever they are called on."""
    return _BY_SHORT.get(name.lower(), ())


def is_enumeration_method(name: str) -> bool:
    """Whether a method of this name takes an array: a subquery before it gives all its rows."""
    return name.lower() in _ENUMERATING


def method_names_of(kinds: Collection[ReceiverKind]) -> list[str]:
    """The names of the methods of receivers of these kinds."""
    return [
        row.short for row in METHODS.values() if any(kind in form.receivers for form in row.forms for kind in kinds)
    ]


__all__ = ["METHODS", "MethodRow", "is_enumeration_method", "methods_named", "method_names_of"]
