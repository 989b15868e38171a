"""Methods of arrays and maps as in Java's collections: ``xs.size()``, ``xs.get(0)``, ``m.containsKey('a')``."""

from __future__ import annotations

from cepbook.lang import types as t
from cepbook.lang.registry.methods.method_row import (
    MethodParameter,
    MethodRow,
    MethodSignature,
    ReceiverKind,
    always,
    element,
)

_INDEX = MethodParameter("index", "integer")
_KEY = MethodParameter("key")
_ARRAY: tuple[ReceiverKind, ...] = ("events", "values")
_MAP: tuple[ReceiverKind, ...] = ("map",)
_PLAIN = (MethodSignature((), _MAP),)
_KEYED = (MethodSignature((_KEY,), _MAP),)
_EXAMPLE = "window(*).groupBy(e => e.symbol)"


CONTAINERS = (
    MethodRow(
        "array.size", (MethodSignature((), _ARRAY),), always(t.INT), "number of elements", "window(*).size()", len
    ),
    MethodRow(
        "array.get",
        (MethodSignature((_INDEX,), _ARRAY),),
        element,
        "the element at an index, null beyond the array",
        "window(*).get(0)",
        lambda items, i: None if i is None or not 0 <= i < len(items) else items[i],
    ),
    MethodRow("map.size", _PLAIN, always(t.INT), "number of keys", f"{_EXAMPLE}.size()", len),
    MethodRow(
        "map.isEmpty", _PLAIN, always(t.BOOLEAN), "whether it is empty", f"{_EXAMPLE}.isEmpty()", lambda m: not m
    ),
    MethodRow("map.get", _KEYED, always(t.OBJECT), "the value of a key, or null", f"{_EXAMPLE}.get('a')", dict.get),
    MethodRow(
        "map.containsKey",
        _KEYED,
        always(t.BOOLEAN),
        "whether it has the key",
        f"{_EXAMPLE}.containsKey('a')",
        lambda m, key: key in m,
    ),
    MethodRow("map.keySet", _PLAIN, always(t.array_of(t.OBJECT)), "its keys", f"{_EXAMPLE}.keySet()", list),
    MethodRow(
        "map.values",
        _PLAIN,
        always(t.array_of(t.OBJECT)),
        "its values",
        f"{_EXAMPLE}.values()",
        lambda m: list(m.values()),
    ),
)
