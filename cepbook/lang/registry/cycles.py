"""The windows and aggregates of cycle queries, one row each (StreamCruncher - Basics)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cepbook.lang import types as t
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class CycleWindowRow:
    """A window of cycle queries; `text` is how it is written.

    `admits_randomly`: a random number decides for each row whether it enters. `timed`: its size is a time in
    milliseconds.
    """

    name: str
    text: str
    doc: str
    example: str
    admits_randomly: bool = False
    timed: bool = False


_WINDOWS = (
    CycleWindowRow(
        "sliding",
        "store last N",
        "the last N rows; it moves on by one row in a cycle, and the query runs again at once while rows wait",
        "select price from Tick (partition store last 3) as w where w.$row_status is new",
    ),
    CycleWindowRow(
        "recent",
        "store last N seconds [max M]",
        "the rows of the last N seconds, whose age is below N; with max it takes at most M rows in a cycle and holds"
        " no more, so that older ones make room before their time",
        "select price from Tick (partition store last 5 seconds max 10) as w where w.$row_status is not dead",
        timed=True,
    ),
    CycleWindowRow(
        "tumbling",
        "store latest N",
        "up to N rows, for one cycle",
        "select price from Tick (partition store latest 3) as w where w.$row_status is dead",
    ),
    CycleWindowRow(
        "random",
        "store random N",
        "as sliding, but a coin decides of each row whether it may enter; the setting `seed` makes it repeatable",
        "select price from Tick (partition store random 3) as w where w.$row_status is new",
        admits_randomly=True,
    ),
    CycleWindowRow(
        "highest",
        "store highest N using c [with update group g, …]",
        "the N rows with the highest values of c; among equal values the one that came first goes. A row of the same"
        " update group takes the place of the one before",
        "select price from Tick (partition store highest 3 using price) as w where w.$row_status is not dead",
    ),
    CycleWindowRow(
        "lowest",
        "store lowest N using c [with update group g, …]",
        "the N rows with the lowest values of c",
        "select price from Tick (partition store lowest 3 using price) as w where w.$row_status is not dead",
    ),
)

CYCLE_WINDOWS: dict[str, CycleWindowRow] = {row.name: row for row in _WINDOWS}


def _long(_: Type) -> Type:
    return t.LONG


def _double(_: Type) -> Type:
    return t.DOUBLE


def _same(of: Type) -> Type:
    return of


@dataclass(frozen=True, slots=True)
class CycleAggregateRow:
    """An aggregate of cycle queries. `result` maps the type of its column, `values` are the columns allowed."""

    name: str
    result: Callable[[Type], Type]
    doc: str
    values: Literal["any", "ordered", "numbers"] = "numbers"

    @property
    def example(self) -> str:
        return (
            f"select v from Tick (partition store last 5 with {self.name}(price) as v) as w"
            " where w.$row_status is not dead"
        )


_AGGREGATES = (
    CycleAggregateRow("avg", _double, "sum divided by the number of values"),
    CycleAggregateRow("count", _long, "number of rows, those with a null included", "any"),
    CycleAggregateRow("geomean", _double, "geometric mean; null where a value is not above 0"),
    CycleAggregateRow("kurtosis", _double, "how heavy the tails are; null below four values or without spread"),
    CycleAggregateRow("max", _same, "largest value", "ordered"),
    CycleAggregateRow("median", _double, "middle value, or mean of the middle two"),
    CycleAggregateRow("min", _same, "smallest value", "ordered"),
    CycleAggregateRow("skewness", _double, "how lopsided the values are; null below three values or without spread"),
    CycleAggregateRow("stddev", _double, "standard deviation of a sample; 0 for one value"),
    CycleAggregateRow("sum", _double, "sum, as a double"),
    CycleAggregateRow("sumsq", _double, "sum of squares"),
    CycleAggregateRow("variance", _double, "variance of a sample; 0 for one value"),
)

CYCLE_AGGREGATES: dict[str, CycleAggregateRow] = {row.name: row for row in _AGGREGATES}
