"""The aggregation functions of EPL, one row each (Esper reference, section "Aggregation Functions")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cepbook.lang import types as t
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class AggregateRow:
    """One aggregate.

    `arity` counts the value parameters (``first(x, i)`` has its index apart). `result` gives the type of the value from
    that of the argument (None: it takes no argument or ``*``). `numeric` demands a number. `wildcard` allows ``f(*)``.
    `nulls`: ``ignored`` values do not count, ``kept`` ones do. `empty` is the value over no events. `needs_window`:
    ``f(*)`` is refused on an unbound stream; `needs_window_always`: every form is. `sorts`: parameters are criteria.
    """

    name: str
    result: Callable[[Type | None], Type]
    doc: str
    example: str
    arity: int = 1
    numeric: bool = False
    wildcard: bool = False
    nulls: str = "ignored"
    empty: object = None
    indexed: bool = False
    needs_window: bool = False
    needs_window_always: bool = False
    sorts: bool = False
    supported: bool = True


def _long(_: Type | None) -> Type:
    return t.LONG


def _boolean(_: Type | None) -> Type:
    return t.BOOLEAN


def _double(_: Type | None) -> Type:
    return t.DOUBLE


def _same(argument: Type | None) -> Type:
    return argument if argument is not None else t.OBJECT


def _array(argument: Type | None) -> Type:
    return t.array_of(_same(argument))


def _sum(argument: Type | None) -> Type:
    return t.INT if argument in (t.BYTE, t.SHORT) else _same(argument)


def _avg(argument: Type | None) -> Type:
    return t.BIGDECIMAL if argument in (t.BIGINTEGER, t.BIGDECIMAL) else t.DOUBLE


_ROWS = (
    AggregateRow(
        "count", _long, "number of events, or of events with a non-null value", "count(*)", wildcard=True, empty=0
    ),
    AggregateRow("sum", _sum, "sum in the type of the argument (int sums wrap around)", "sum(volume)", numeric=True),
    AggregateRow("avg", _avg, "sum divided by number of values", "avg(price)", numeric=True),
    AggregateRow("min", _same, "smallest value; over an unbound stream the smallest ever", "min(price)"),
    AggregateRow("max", _same, "largest value; over an unbound stream the largest ever", "max(price)"),
    AggregateRow(
        "first",
        _same,
        "value of the first event of the window; with an index of a later one",
        "first(price)",
        wildcard=True,
        nulls="kept",
        indexed=True,
        needs_window=True,
    ),
    AggregateRow(
        "last",
        _same,
        "value of the last event of the window; with an index of an earlier one",
        "last(price)",
        wildcard=True,
        nulls="kept",
        indexed=True,
        needs_window=True,
    ),
    AggregateRow(
        "window",
        _array,
        "all values of the window in arrival order; null when empty",
        "window(price)",
        wildcard=True,
        nulls="kept",
        needs_window=True,
        needs_window_always=True,
        supported=False,
    ),
    AggregateRow(
        "median", _double, "middle value, or mean of the middle two", "median(price)", numeric=True, supported=False
    ),
    AggregateRow("stddev", _double, "sample standard deviation", "stddev(price)", numeric=True, supported=False),
    AggregateRow("avedev", _double, "mean absolute deviation", "avedev(price)", numeric=True, supported=False),
    AggregateRow("nth", _same, "the value n events ago", "nth(price, 1)", arity=2, supported=False),
    AggregateRow("firstever", _same, "first value ever", "firstever(price)", supported=False),
    AggregateRow("lastever", _same, "last value ever", "lastever(price)", supported=False),
    AggregateRow("countever", _long, "number of events ever", "countever(*)", wildcard=True, empty=0, supported=False),
    AggregateRow("minever", _same, "smallest value ever", "minever(price)", supported=False),
    AggregateRow("maxever", _same, "largest value ever", "maxever(price)", supported=False),
    AggregateRow(
        "fmin",
        _same,
        "smallest value of events that pass a filter",
        "fmin(price, volume > 1)",
        arity=2,
        supported=False,
    ),
    AggregateRow(
        "fmax", _same, "largest value of events that pass a filter", "fmax(price, volume > 1)", arity=2, supported=False
    ),
    AggregateRow(
        "fminever", _same, "fmin over all events ever", "fminever(price, volume > 1)", arity=2, supported=False
    ),
    AggregateRow(
        "fmaxever", _same, "fmax over all events ever", "fmaxever(price, volume > 1)", arity=2, supported=False
    ),
    AggregateRow("rate", _double, "events per second", "rate(10)", supported=False),
    AggregateRow("leaving", _boolean, "whether an event has left the window", "leaving()", arity=0, supported=False),
    AggregateRow("maxby", _same, "the event with the largest criterion", "maxby(price)", sorts=True, supported=False),
    AggregateRow("minby", _same, "the event with the smallest criterion", "minby(price)", sorts=True, supported=False),
    AggregateRow("maxbyever", _same, "maxby over all events ever", "maxbyever(price)", sorts=True, supported=False),
    AggregateRow("minbyever", _same, "minby over all events ever", "minbyever(price)", sorts=True, supported=False),
    AggregateRow(
        "sorted", _array, "the events of the window in sort order", "sorted(price)", sorts=True, supported=False
    ),
)

AGGREGATES: dict[str, AggregateRow] = {row.name: row for row in _ROWS}
