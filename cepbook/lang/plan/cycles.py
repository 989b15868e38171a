"""The plan of queries that are run in cycles: partitions of streams, what is correlated, and when a cycle is run.

A partition is a chain of stages. Each stage divides its rows by keys, holds each part in a window of its own and may
keep aggregates of it; what became new (or dead) in it goes on to the next one within the same cycle. What the last
stage holds is a relation with a status for each row, which the select reads in every cycle. (StreamCruncher - Basics.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.plan_node import PlanNode
from cepbook.lang.plan.relational import SourceNode
from cepbook.lang.registry.cycles import CYCLE_WINDOWS, CycleWindowRow

# The property of rows of a partition that says what became of them in the present cycle, and its values
STATUS = "$row_status"
STAYING, NEW, DEAD = 0, 1, 2


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
    """``present(…)``: the numbers of the partitions that must have an id, and of those that must not."""

    required: tuple[int, ...]
    excluded: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Correlation(PlanNode):
    """Rows with the same id in several partitions: `ids` are the columns that hold it, one for each partition.

    A pattern that fires makes a row of the relation `store`: `columns` are (partition, column, name).
    """

    ids: tuple[str, ...]
    patterns: tuple[PresencePattern, ...]
    columns: tuple[tuple[int, str, str], ...]
    store: StoreType
