"""The plan of queries that are run in cycles: partitions of streams, what is correlated, and when a cycle is run.

A partition is a chain of stages. Each stage divides its rows by keys, holds each part in a window of its own and may
keep aggregates of it; what became new (or dead) in it goes on to the next one within the same cycle. What the last
stage holds is a relation with a status for each row, which the select reads in every cycle. (StreamCruncher - Basics.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cepbook.lang import types as t
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.plan_node import PlanNode
from cepbook.lang.plan.relational import SourceNode
from cepbook.lang.types import Type

# The property of rows of a partition that says what became of them in the present cycle, and its values
STATUS = "$row_status"
STAYING, NEW, DEAD = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CycleWindowRow:
    """One window of stages. `text` is how it is written, `admits_randomly`: of each row a coin says whether it may
    enter.
    `timed`: its size is one in time.
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
    """One aggregate of stages; `result` gives its type from that of the column. `values`: what columns it takes."""

    name: str
    result: Callable[[Type], Type]
    doc: str
    values: Literal["any", "ordered", "numbers"] = "numbers"

    @property
    def example(self) -> str:
        """A query with it."""
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


@dataclass(frozen=True, slots=True)
class CycleWindow(PlanNode):
    """One of `CYCLE_WINDOWS`: `size` in rows, of ``recent`` in units of the clock. Rows are ranked by `column`."""

    name: str
    size: int
    at_most: int | None = None
    column: str | None = None
    update_group: tuple[str, ...] = ()

    @property
    def row(self) -> CycleWindowRow:
        """The facts about it."""
        return CYCLE_WINDOWS[self.name]


@dataclass(frozen=True, slots=True)
class CycleAggregate(PlanNode):
    """One of `CYCLE_AGGREGATES` over `column`, shown as `alias`. Unless it `retracts`, what leaves counts on."""

    name: str
    column: str
    alias: str
    retracts: bool = True


@dataclass(frozen=True, slots=True)
class CycleStage(PlanNode):
    """One window for each value of the `keys`. `pinned`: it stays when it is empty.

    `takes` is which rows of the stage before come in (None: the first stage, events come in), if `where` holds; its
    properties, those of the event or of the stage before, are of stream 0. `columns` are those of what it makes.
    """

    keys: tuple[str, ...]
    window: CycleWindow
    aggregates: tuple[CycleAggregate, ...]
    pinned: bool
    takes: Literal["new", "dead"] | None
    where: BoundExpr | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamPartition(PlanNode):
    """Events of `source` that pass its filter, through `stages`; its rows are the relation `store`.

    `columns` are those of the events.

    An event adds `weight` to what waits. Rows are as old as `time` says, a property; None: as their arrival.
    """

    source: SourceNode
    columns: tuple[str, ...]
    stages: tuple[CycleStage, ...]
    store: StoreType
    weight: float = 1.0
    time: str | None = None


@dataclass(frozen=True, slots=True)
class PresencePattern(PlanNode):
    """``present(…)``: the partitions, by number, in which an id is wanted, and those in which it is not."""

    wanted: tuple[int, ...]
    unwanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Correlation(PlanNode):
    """Rows with the same id in several partitions: `ids` are the columns that hold it, one for each partition.

    A pattern that fires makes a row of the relation `store`: `columns` are (partition, column, name).
    """

    ids: tuple[str, ...]
    patterns: tuple[PresencePattern, ...]
    columns: tuple[tuple[int, str, str], ...]
    store: StoreType
