"""Methods of arrays (Esper reference, chapter "EPL Reference: Enumeration Methods"), with what recorded cases tell.

A null condition counts as true where elements are taken (`where`, `countOf`, `firstOf`, `takeWhile` …) and as false
where one is asked for (`anyOf`, `allOf`). Null values count for nothing in sums and extremes, and are a key like any
other for distinctOf, groupBy and mostFrequent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from cepbook.lang import types as t
from cepbook.lang.java.numbers import wrap
from cepbook.lang.java.sizes import united
from cepbook.lang.registry.methods.method_row import (
    CallTypes,
    MethodParameter,
    MethodRow,
    MethodSignature,
    ReceiverKind,
    ResultRule,
    ValueKind,
    always,
    array_of_last,
    element,
    last,
    same,
)
from cepbook.lang.types import Type

Items = Sequence[Any]

_CONDITION = MethodParameter("condition", "boolean", "each")
_FROM_END = MethodParameter("condition", "boolean", "each", backwards=True)
_KEY = MethodParameter("key", "any", "each")
_VALUE = MethodParameter("value", "any", "each")
_COUNT = MethodParameter("count", "number")
_OTHER = MethodParameter("collection", "collection")
_EITHER: tuple[ReceiverKind, ...] = ("events", "values")


def equality_key(value: Any) -> Hashable:
    """A key that equal values have in common: lists and maps by what is in them, NaN like NaN."""
    if isinstance(value, dict):
        return frozenset((name, equality_key(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(map(equality_key, value))
    return math.nan if value != value else value


def _where(items: Items, holds: Iterable[Any]) -> list[Any]:
    return [item for item, true in zip(items, holds, strict=True) if true is not False]


def _take(items: Items, count: float | None) -> list[Any] | None:
    return None if count is None else list(items[: max(int(count), 0)])


def _take_last(items: Items, count: float | None) -> list[Any] | None:
    return None if count is None else list(items[max(len(items) - max(int(count), 0), 0) :])


def _leading(holds: Iterable[Any]) -> int:
    """Return how many values come before the first that is false."""
    count = 0
    for true in holds:
        if true is False:
            break
        count += 1
    return count


def _distinct(items: Items, keys: Iterable[Any] | None = None) -> list[Any]:
    firsts: dict[Hashable, Any] = {}
    for item, key in zip(items, items if keys is None else keys, strict=True):
        firsts.setdefault(equality_key(key), item)
    return list(firsts.values())


def _first(items: Items, holds: Iterable[Any] | None = None) -> Any:
    if holds is None:
        return items[0] if items else None
    return next((item for item, true in zip(items, holds, strict=True) if true is not False), None)


def _last(items: Items, holds: Iterable[Any] | None = None) -> Any:
    if holds is None:
        return items[-1] if items else None
    last = None
    for item, true in zip(items, holds, strict=True):
        if true is not False:
            last = item
    return last


def _sorted(items: Items, keys: Iterable[Any] | None = None, *, descending: bool = False) -> list[Any]:
    """Stable; null is the smallest, NaN the largest."""
    pairs = list(zip(items, items if keys is None else keys, strict=True))
    known = [pair for pair in pairs if pair[1] is not None and pair[1] == pair[1]]
    known.sort(key=lambda pair: pair[1], reverse=descending)
    nulls = [pair for pair in pairs if pair[1] is None]
    nans = [pair for pair in pairs if pair[1] is not None and pair[1] != pair[1]]
    ends = (nans, nulls) if descending else (nulls, nans)
    return [item for item, _ in (*ends[0], *known, *ends[1])]


def _array(items: Items, values: Iterable[Any] | None = None) -> list[Any]:
    return list(items if values is None else values)


def _group(items: Items, keys: Iterable[Any], values: Iterable[Any] | None = None) -> dict[Any, list[Any]]:
    groups: dict[Hashable, tuple[Any, list[Any]]] = {}
    for key, value in zip(keys, items if values is None else values, strict=True):
        groups.setdefault(equality_key(key), (key, []))[1].append(value)
    return {_as_key(key): group for key, group in groups.values()}


def _map(items: Items, keys: Iterable[Any], values: Iterable[Any]) -> dict[Any, Any]:
    return {_as_key(key): value for key, value in zip(keys, values, strict=True)}


def _as_key(value: Any) -> Any:
    """Return the key of a value in a map. The content stands for lists and maps, which cannot be keys themselves."""
    return equality_key(value) if isinstance(value, (list, dict)) else value


def _intersect(items: Items, others: Items | None) -> list[Any]:
    """The left side for an empty or null right side (recorded: scalar_set_methods_between_properties)."""
    other_keys = {equality_key(other) for other in others or ()}
    return [item for item in items if not other_keys or equality_key(item) in other_keys]


def _except(items: Items, others: Items | None) -> list[Any]:
    other_keys = {equality_key(other) for other in others or ()}
    return [item for item in items if equality_key(item) not in other_keys]


def _sequence_equal(items: Items, others: Items | None) -> bool:
    return others is not None and len(items) == len(others) and all(map(_equal, items, others))


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


def _count(items: Items, holds: Iterable[Any] | None = None) -> int:
    return len(items) if holds is None else sum(1 for true in holds if true is not False)


def _any(items: Items, holds: Iterable[Any]) -> bool:
    return any(true is True for true in holds)


def _all(items: Items, holds: Iterable[Any]) -> bool:
    return all(true is True for true in holds)


def _sum(items: Items, *more: Any) -> Any:
    values, type_ = (items, more[0]) if len(more) == 1 else more
    known = [value for value in values if value is not None]
    if not known:
        return None
    total = sum(known)
    bits = t.BITS.get(type_.name)
    if bits is not None:
        return wrap(total, bits)
    return float(total) if type_ == t.DOUBLE else total


def _average(items: Items, *more: Any) -> Any:
    values, type_ = (items, more[0]) if len(more) == 1 else more
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(map(Decimal, known)) / len(known) if type_ == t.BIGDECIMAL else sum(map(float, known)) / len(known)


def _extreme(better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def value(items: Items, values: Iterable[Any] | None = None) -> Any:
        best = None
        for candidate in items if values is None else values:
            if candidate is not None and (best is None or better(candidate, best)):
                best = candidate
        return best

    return value


def _extreme_by(better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def item(items: Items, keys: Iterable[Any]) -> Any:
        best_item = best = None
        for candidate, key in zip(items, keys, strict=True):
            if key is not None and (best is None or better(key, best)):
                best, best_item = key, candidate
        return best_item

    return item


def _less(one: Any, other: Any) -> bool:
    return bool(one < other or (other != other and one == one))


def _greater(one: Any, other: Any) -> bool:
    return bool(one > other or (one != one and other == other))


def _frequent(pick: Callable[..., Any]) -> Callable[..., Any]:
    def value(items: Items, values: Iterable[Any] | None = None) -> Any:
        counts: dict[Hashable, list[Any]] = {}
        for candidate in items if values is None else values:
            counts.setdefault(equality_key(candidate), [candidate, 0])[1] += 1
        return pick(counts.values(), key=lambda pair: pair[1], default=(None,))[0]

    return value


def _aggregate(items: Items, start: Any, fold: tuple[Any, ...]) -> Any:
    step, *columns = fold
    result = start
    for values in zip(*columns, strict=False):
        result = step(result, *values)
    return result


def _summed(given: CallTypes) -> Type:
    if given.last in (t.FLOAT, t.DOUBLE):
        return t.DOUBLE
    return t.INT if given.last in (t.BYTE, t.SHORT) else given.last


def _row(
    name: str,
    result: ResultRule,
    doc: str,
    example: str,
    py: Callable[..., object],
    *forms: MethodSignature,
    typed: bool = False,
) -> MethodRow:
    return MethodRow(f"array.{name}", forms, result, doc, f"window(*).{example}", py, typed)


def _plain(elements: ValueKind = "any", receivers: tuple[ReceiverKind, ...] = ("values",)) -> MethodSignature:
    return MethodSignature((), receivers, elements)


def _each(parameter: MethodParameter) -> MethodSignature:
    return MethodSignature((parameter,))


def _by(kind: ValueKind, name: str = "value") -> MethodSignature:
    return MethodSignature((MethodParameter(name, kind, "each"),))


_ALL = _plain(receivers=_EITHER)

ENUMERATION = (
    _row("where", same, "the elements that fit a condition", "where(e => e.price > 10)", _where, _each(_CONDITION)),
    _row(
        "selectFrom",
        array_of_last,
        "an expression of each element, without those that are null",
        "selectFrom(e => e.price * e.volume)",
        lambda _, values: [value for value in values if value is not None],
        _each(_VALUE),
    ),
    _row(
        "arrayOf",
        array_of_last,
        "the elements, or an expression of each, nulls included, as an array",
        "arrayOf(e => e.price)",
        _array,
        _ALL,
        _each(_VALUE),
    ),
    _row(
        "countOf",
        always(t.INT),
        "number of elements, or of those that fit a condition",
        "countOf(e => e.price > 10)",
        _count,
        _ALL,
        _each(_CONDITION),
    ),
    _row(
        "firstOf",
        element,
        "the first element, or the first that fits a condition; null when there is none",
        "firstOf(e => e.price > 10)",
        _first,
        _ALL,
        _each(_CONDITION),
    ),
    _row(
        "lastOf",
        element,
        "the last element, or the last that fits a condition; null when there is none",
        "lastOf(e => e.price > 10)",
        _last,
        _ALL,
        _each(_CONDITION),
    ),
    _row("anyOf", always(t.BOOLEAN), "whether one fits", "anyOf(e => e.price > 10)", _any, _each(_CONDITION)),
    _row("allOf", always(t.BOOLEAN), "whether all fit", "allOf(e => e.price > 10)", _all, _each(_CONDITION)),
    _row(
        "sumOf",
        _summed,
        "sum of the numbers, or of an expression of each element; null when there is none",
        "sumOf(e => e.price * e.volume)",
        _sum,
        _plain("number"),
        _by("number"),
        typed=True,
    ),
    _row(
        "average",
        lambda given: t.BIGDECIMAL if given.last in (t.BIGDECIMAL, t.BIGINTEGER) else t.DOUBLE,
        "mean of the numbers, or of an expression of each element; null when there is none",
        "average(e => e.price)",
        _average,
        _plain("number"),
        _by("number"),
        typed=True,
    ),
    _row(
        "min",
        last,
        "the smallest value, or that of an expression of each element",
        "min(e => e.price)",
        _extreme(_less),
        _plain("ordered"),
        _by("ordered"),
    ),
    _row(
        "max",
        last,
        "the largest value, or that of an expression of each element",
        "max(e => e.price)",
        _extreme(_greater),
        _plain("ordered"),
        _by("ordered"),
    ),
    _row(
        "minBy",
        element,
        "the first element with the smallest key",
        "minBy(e => e.price)",
        _extreme_by(_less),
        _by("ordered", "key"),
    ),
    _row(
        "maxBy",
        element,
        "the first element with the largest key",
        "maxBy(e => e.price)",
        _extreme_by(_greater),
        _by("ordered", "key"),
    ),
    _row(
        "orderBy",
        same,
        "the elements in ascending order of themselves or of a key; equal ones as they were",
        "orderBy(e => e.price)",
        _sorted,
        _plain("ordered"),
        _by("ordered", "key"),
    ),
    _row(
        "orderByDesc",
        same,
        "the elements in descending order of themselves or of a key; equal ones as they were",
        "orderByDesc(e => e.price)",
        lambda items, keys=None: _sorted(items, keys, descending=True),
        _plain("ordered"),
        _by("ordered", "key"),
    ),
    _row("reverse", same, "the elements from the last to the first", "reverse()", lambda items: items[::-1], _ALL),
    _row("take", same, "the first elements, as many as told", "take(2)", _take, MethodSignature((_COUNT,))),
    _row("takeLast", same, "the last elements, as many as told", "takeLast(2)", _take_last, MethodSignature((_COUNT,))),
    _row(
        "takeWhile",
        same,
        "the elements before the first that does not fit",
        "takeWhile(e => e.price > 10)",
        lambda items, holds: list(items[: _leading(holds)]),
        _each(_CONDITION),
    ),
    _row(
        "takeWhileLast",
        same,
        "the elements behind the last that does not fit; the index counts from the end",
        "takeWhileLast(e => e.price > 10)",
        lambda items, holds: list(items[len(items) - _leading(holds) :]),
        _each(_FROM_END),
    ),
    _row(
        "distinctOf",
        same,
        "the first element of each value or key",
        "distinctOf(e => e.symbol)",
        _distinct,
        _plain(),
        _each(_KEY),
    ),
    _row(
        "mostFrequent",
        last,
        "the most frequent value, or that of an expression; of several the one seen first",
        "mostFrequent(e => e.symbol)",
        _frequent(max),
        _plain(),
        _each(_VALUE),
    ),
    _row(
        "leastFrequent",
        last,
        "the least frequent value, or that of an expression; of several the one seen first",
        "leastFrequent(e => e.symbol)",
        _frequent(min),
        _plain(),
        _each(_VALUE),
    ),
    _row(
        "groupBy",
        always(t.MAP),
        "a map of keys to arrays of elements, or of an expression of each",
        "groupBy(e => e.symbol, e => e.price)",
        _group,
        _each(_KEY),
        MethodSignature((_KEY, _VALUE)),
    ),
    _row(
        "toMap",
        always(t.MAP),
        "a map of keys to values; of equal keys the last counts",
        "toMap(e => e.symbol, e => e.price)",
        _map,
        MethodSignature((_KEY, _VALUE)),
    ),
    _row(
        "aggregate",
        lambda given: given.args[0],
        "a start value, combined with one element after the other",
        "aggregate(0.0, (result, e) => result + e.price)",
        _aggregate,
        MethodSignature((MethodParameter("start value"), MethodParameter("next result", "any", "fold"))),
    ),
    _row(
        "union",
        same,
        "the elements of both arrays, duplicates included",
        "union(window(*).take(1))",
        united,
        MethodSignature((_OTHER,)),
    ),
    _row(
        "intersect",
        same,
        "the elements that are in the other array, too; all if that is empty",
        "intersect(window(*).take(1))",
        _intersect,
        MethodSignature((_OTHER,)),
    ),
    _row(
        "except",
        same,
        "the elements that are not in the other array",
        "except(window(*).take(1))",
        _except,
        MethodSignature((_OTHER,)),
    ),
    _row(
        "sequenceEqual",
        always(t.BOOLEAN),
        "whether both arrays have equal elements in the same order",
        "selectFrom(e => e.price).sequenceEqual({1.0, 2.0})",
        _sequence_equal,
        MethodSignature((_OTHER,), ("values",)),
    ),
)
