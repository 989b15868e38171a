"""The aggregation functions of EPL, one row each (Esper reference, section "Aggregation Functions").

``variance`` to ``kurtosis`` come from cycle queries (StreamCruncher - Basics); Esper does not have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from cepbook.lang import types as t
from cepbook.lang.types import Type

# The second parameter; with a question mark it is optional. A filter may follow it.
SecondParameter = Literal["filter", "filter?", "index", "index?", "amount?", "percent", "separator"]
# Forms that need a data window: those with an index (and reading a property of ``f(*)``), or all
NeedsWindow = Literal["", "index", "always"]


@dataclass(frozen=True, slots=True)
class AggregateRow:
    """One aggregate.

    `result` gives the type of the value from that of the argument (None: it takes no argument or ``*``). `arity` is 0
    for a function without parameters. `values` says what it takes: ``numbers``, ``texts``, ``ordered`` values,
    ``plain`` ones or ``any``.
    `wildcard` allows ``f(*)``, `distinct` allows ``f(distinct x)``. `computes` converts numbers to double first.
    `plain` is the aggregate that this is another spelling of. `sorts`: the parameters are sort criteria, the value is
    one of whole events. `counts`: it counts events, ``*`` is no value. `ever`: what has left counts on.
    `ever_without_window`:
    so it is where there is no data window. `remembers`: the value depends on events that are not in the window any
    more. `exact`: it follows from what the window holds, to the last digit (of ``whole`` numbers only where what left
    may leave rounding errors). `repeats`: it makes a difference that a value occurs twice, `in_order`: in which order
    events came. `nulls`: ``ignored`` values do not count, ``kept`` ones do. `methods`: its methods read what it holds.
    `column`: the name of the table's column that keeps it, which is its only use. `declared_as`: what a table's column
    declares to keep the events that it picks.
    """

    name: str
    doc: str
    example: str
    result: Callable[[Type | None], Type]
    arity: int = 1
    values: Literal["any", "plain", "ordered", "numbers", "texts"] = "any"
    second: SecondParameter = "filter?"
    wildcard: bool = False
    distinct: bool = False
    computes: bool = False
    needs_window: NeedsWindow = ""
    sorts: bool = False
    counts: bool = False
    ever: bool = False
    ever_without_window: bool = False
    exact: Literal["", "always", "whole"] = ""
    remembers: bool = False
    repeats: bool = False
    in_order: bool = False
    plain: str | None = None
    nulls: Literal["ignored", "kept"] = "ignored"
    methods: bool = False
    column: str = ""
    declared_as: str = ""

    @property
    def keeps_events(self) -> bool:
        """True if the aggregate keeps events, which must come from one stream of a join."""
        return self.sorts or bool(self.needs_window)

    @property
    def picks(self) -> bool:
        """True if the value is one of the argument values, so that it keeps their type and time display."""
        return self.result is _same and not self.sorts


def _long(_: Type | None) -> Type:
    return t.LONG


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


_number = partial(AggregateRow, values="numbers", distinct=True)
_statistic = partial(_number, result=_double, computes=True, repeats=True)
_ordered = partial(AggregateRow, result=_same, values="ordered", distinct=True)
_filtered = partial(_ordered, second="filter")
_by = partial(AggregateRow, result=_same, values="ordered", sorts=True, nulls="kept")
_end = partial(
    AggregateRow,
    result=_same,
    second="index?",
    wildcard=True,
    needs_window="index",
    ever_without_window=True,
    exact="always",
    in_order=True,
    nulls="kept",
    declared_as="window(*)",
)

_ROWS = (
    AggregateRow(
        "count",
        "number of events, or of events with a non-null value",
        "count(*)",
        _long,
        wildcard=True,
        distinct=True,
        repeats=True,
        counts=True,
        exact="always",
    ),
    AggregateRow(
        "sum",
        "sum in the type of the argument (int sums wrap around)",
        "sum(volume)",
        _sum,
        values="numbers",
        distinct=True,
        repeats=True,
        exact="whole",
    ),
    AggregateRow("total", "another name of sum", "total(volume)", _sum, values="numbers", distinct=True, plain="sum"),
    AggregateRow(
        "avg", "mean of the values", "avg(price)", _avg, values="numbers", distinct=True, repeats=True, exact="whole"
    ),
    _ordered(
        "min",
        "smallest value; over an unbound stream the smallest ever",
        "min(price)",
        exact="always",
        ever_without_window=True,
    ),
    _ordered(
        "max",
        "largest value; over an unbound stream the largest ever",
        "max(price)",
        exact="always",
        ever_without_window=True,
    ),
    _filtered("fmin", "smallest value of events that pass a filter", "fmin(price, volume > 1)", plain="min"),
    _filtered("fmax", "largest value of events that pass a filter", "fmax(price, volume > 1)", plain="max"),
    _ordered("minever", "smallest value ever", "minever(price)", ever=True),
    _ordered("maxever", "largest value ever", "maxever(price)", ever=True),
    _filtered("fminever", "fmin over all events ever", "fminever(price, volume > 1)", plain="minever", ever=True),
    _filtered("fmaxever", "fmax over all events ever", "fmaxever(price, volume > 1)", plain="maxever", ever=True),
    _end("first", "value of the first event of the window; with an index of a later one", "first(price)"),
    _end("last", "value of the last event of the window; with an index of an earlier one", "last(price)"),
    AggregateRow(
        "window",
        "all values of the window in arrival order; null when empty",
        "window(price)",
        _array,
        wildcard=True,
        needs_window="always",
        nulls="kept",
        methods=True,
        exact="always",
        in_order=True,
        declared_as="window(*)",
    ),
    AggregateRow(
        "array_agg",
        "another name of window: all values of the window in arrival order",
        "array_agg(price)",
        _array,
        wildcard=True,
        needs_window="always",
        plain="window",
        nulls="kept",
        methods=True,
        declared_as="window(*)",
    ),
    AggregateRow(
        "string_agg",
        "the texts of the window in arrival order, with a separator between them",
        "string_agg(symbol, ', ')",
        lambda _: t.STRING,
        values="texts",
        second="separator",
        needs_window="always",
        exact="always",
        repeats=True,
        in_order=True,
        declared_as="window(*)",
    ),
    AggregateRow(
        "mode",
        "the most frequent value; of several the smallest",
        "mode(symbol)",
        _same,
        values="ordered",
        repeats=True,
        exact="always",
    ),
    AggregateRow("nth", "the value n events ago, 0 is the last", "nth(price, 1)", _same, second="index", in_order=True),
    _statistic("median", "middle value, or mean of the middle two", "median(price)"),
    _statistic(
        "percentile",
        "the value below which p percent of the values lie, p from 0 to 100; interpolated between two values",
        "percentile(price, 95)",
        second="percent",
    ),
    _statistic(
        "percentile_approx",
        "percentile within 1 percent of a value, in bounded space: for many values",
        "percentile_approx(price, 95)",
        second="percent",
        exact="always",
    ),
    AggregateRow(
        "approx_count_distinct",
        "number of distinct values with a standard error of 1.6 percent, in bounded space: for many values",
        "approx_count_distinct(symbol)",
        _long,
        values="plain",
        exact="always",
    ),
    _statistic("stddev", "sample standard deviation; null below two values", "stddev(price)"),
    _statistic("stddevpop", "population standard deviation", "stddevpop(price)"),
    _statistic("avedev", "mean absolute deviation", "avedev(price)"),
    _statistic("variance", "sample variance; null below two values", "variance(price)"),
    _statistic("geomean", "geometric mean; null where a value is not above 0", "geomean(price)"),
    _statistic("sumsq", "sum of squares", "sumsq(price)"),
    _statistic("skewness", "how lopsided the values are; null below three values or without spread", "skewness(price)"),
    _statistic("kurtosis", "how heavy the tails are; null below four values or without spread", "kurtosis(price)"),
    AggregateRow("firstever", "first value ever", "firstever(price)", _same, wildcard=True, ever=True),
    AggregateRow("lastever", "last value ever", "lastever(price)", _same, wildcard=True, ever=True),
    AggregateRow(
        "countever",
        "number of events ever",
        "countever(*)",
        _long,
        wildcard=True,
        ever=True,
        repeats=True,
        counts=True,
    ),
    AggregateRow(
        "rate",
        "events per second: of the last seconds, or of the window by its timestamps",
        "rate(10)",
        _double,
        second="amount?",
        remembers=True,
    ),
    AggregateRow(
        "leaving", "whether an event has left the window", "leaving()", lambda _: t.BOOLEAN, arity=0, remembers=True
    ),
    _by(
        "maxby",
        "the event with the largest criterion",
        "maxby(price)",
        ever_without_window=True,
        exact="always",
        declared_as="maxbyever(…) or sorted(…)",
    ),
    _by(
        "minby",
        "the event with the smallest criterion",
        "minby(price)",
        ever_without_window=True,
        exact="always",
        declared_as="minbyever(…) or sorted(…)",
    ),
    _by("maxbyever", "maxby over all events ever", "maxbyever(price)", ever=True),
    _by("minbyever", "minby over all events ever", "minbyever(price)", ever=True),
    AggregateRow(
        "sorted",
        "the events of the window in sort order; null when empty",
        "sorted(price)",
        _array,
        values="ordered",
        needs_window="always",
        sorts=True,
        nulls="kept",
        methods=True,
        exact="always",
    ),
    AggregateRow(
        "countminsketchadd",
        "how many values came; of each how often, estimated: a column countMinSketch({topk: 10}) of a table keeps that",
        "into table Seen select countMinSketchAdd(symbol) as symbols from Tick",
        _long,
        values="plain",
        ever=True,
        remembers=True,
        methods=True,
        column="countMinSketch",
    ),
)

AGGREGATES: dict[str, AggregateRow] = {row.name: row for row in _ROWS}

# The row of all aggregates that are Python classes; the last argument of a call is an `expressions.UserClass`
USER_AGGREGATE = AggregateRow("supplied", "an aggregate from Python", "", _same, distinct=True, repeats=True)


def aggregate_row(name: str) -> AggregateRow:
    return USER_AGGREGATE if name == USER_AGGREGATE.name else AGGREGATES[name]
