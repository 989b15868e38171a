"""The typed plan: the only thing that engines see of a statement.

A select statement is a chain of nodes from its `Source` up to its `Projection`, wrapped in a `SelectStatement`
that says who it is and how it delivers::

    SelectStatement
      Projection          select-clause columns
        Having            optional
          Aggregation     optional: group-by keys, aggregate calls
            Selection     optional: the where-clause
              Windowed    optional: data windows, first to last
                Source    event type and filter
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from cepbook.errors import NOWHERE, Span
from cepbook.lang.catalog import ContextType, EventType
from cepbook.lang.expr import Expr
from cepbook.lang.types import Type

Selector = Literal["istream", "rstream", "irstream"]
# The five query kinds (basic concepts, "Output of statement types")
QueryKind = Literal[
    "unaggregated",  # rows of events
    "fully_aggregated",  # no group by, only aggregates: one row
    "aggregated",  # no group by, aggregates and event properties: a row per event
    "fully_aggregated_grouped",  # group by, select only keys and aggregates: a row per group
    "aggregated_grouped",  # group by, other properties too: a row per event
]


@dataclass(frozen=True, slots=True)
class PlanNode:
    """`span` is what the node was made from, in the module's source; it does not count in comparisons."""

    span: Span = field(default=NOWHERE, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class Source(PlanNode):
    """Events of `event_type` (and its subtypes) that pass `filter`."""

    event_type: str
    filter: Expr | None
    alias: str | None


@dataclass(frozen=True, slots=True)
class WindowSpec(PlanNode):
    """One data window of `lang.windows.WINDOWS` with its bound parameters, in order.

    ``groupwin`` has the keys as `args` and applies to all windows behind it. A duration parameter is an
    `expr.Period` (numbers of seconds are converted by the binder).
    """

    name: str
    args: tuple[Expr, ...]
    options: tuple[str, ...] = ()  # flow-control keywords in upper case: FORCE_UPDATE, START_EAGER


@dataclass(frozen=True, slots=True)
class Windowed(PlanNode):
    """The data windows, first to last; ``groupwin`` gives each key instances of its own of those behind it."""

    input: Source
    windows: tuple[WindowSpec, ...]


@dataclass(frozen=True, slots=True)
class Selection(PlanNode):
    """The where-clause: with a window it tests entering and leaving events."""

    input: Windowed | Source
    predicate: Expr


@dataclass(frozen=True, slots=True)
class AggregateCall(PlanNode):
    """One aggregate of `lang.aggregates.AGGREGATES`.

    `args` are evaluated per event; no args for ``count(*)``, an `expr.EventOf` for ``first(*)``, ``window(*)``.
    `filter` counts an event only when true. `ever` marks min/max/first/last over an unbound stream (nothing ever
    leaves). `index` is the second parameter of ``first(x, i)``, ``last(x, i)``: 0-based from the first or last event,
    null beyond the window.
    """

    name: str
    args: tuple[Expr, ...]
    type: Type
    distinct: bool = False
    filter: Expr | None = None
    ever: bool = False
    index: Expr | None = None


@dataclass(frozen=True, slots=True)
class Aggregation(PlanNode):
    """`keys` are the group-by expressions (empty: one group). `calls` are numbered for `expr.AggregateRef`."""

    input: Selection | Windowed | Source
    keys: tuple[Expr, ...]
    calls: tuple[AggregateCall, ...]
    kind: QueryKind


@dataclass(frozen=True, slots=True)
class Having(PlanNode):
    """The having-clause: rows of which `predicate` is not true are not delivered."""

    input: Aggregation | Selection | Windowed | Source
    predicate: Expr


@dataclass(frozen=True, slots=True)
class Column(PlanNode):
    """One output column. `value` may refer to event properties, `AggregateRef`, `KeyRef`, `ContextProp`."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Projection(PlanNode):
    """Output rows. With `wildcard` the event's own properties come first, then `columns`.

    `distinct`, `order_by` (expression, descending), `offset` and `limit` (int constants; a negative limit is none)
    act in this order on the insert rows and the remove rows of one delivery apart, and on the iterator's rows.
    """

    input: Having | Aggregation | Selection | Windowed | Source
    columns: tuple[Column, ...]
    wildcard: bool = False
    distinct: bool = False
    order_by: tuple[tuple[Expr, bool], ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None


RowNode = Projection | Having | Aggregation | Selection | Windowed | Source


def chain(root: Projection) -> Iterator[RowNode]:
    """`root` and the nodes below it, down to the `Source`."""
    node: RowNode = root
    yield node
    while not isinstance(node, Source):
        node = node.input
        yield node


@dataclass(frozen=True, slots=True)
class Insert(PlanNode):
    """Where rows go: event type `target` and which of the statement's streams feeds it.

    Columns that need widening hold `expr.Convert`; properties of the target that are not selected are null columns.
    """

    target: str
    selector: Selector
    creates: bool  # the target type is created by this statement


@dataclass(frozen=True, slots=True)
class StatementPlan(PlanNode):
    """What all statements have: `name` (given or made by the binder: ``stmt_1``), `epl` their own text."""

    name: str
    named: bool
    epl: str
    annotations: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class SelectStatement(StatementPlan):
    """A continuous query. `output_type` lists the columns; its name is the insert-into target or ``<name>``."""

    root: Projection
    selector: Selector
    kind: QueryKind
    context: str | None
    insert: Insert | None
    output_type: EventType
    priority: int = 0
    drop: bool = False  # @Drop: statements of lower priority do not see the event

    @property
    def source(self) -> Source:
        """The source at the bottom of the chain."""
        return next(node for node in chain(self.root) if isinstance(node, Source))

    @property
    def windows(self) -> tuple[WindowSpec, ...]:
        """The data windows, first to last."""
        return next((node.windows for node in chain(self.root) if isinstance(node, Windowed)), ())


@dataclass(frozen=True, slots=True)
class CreateSchemaStatement(StatementPlan):
    """``create schema``; delivers nothing."""

    event_type: EventType


@dataclass(frozen=True, slots=True)
class KeyedStream(PlanNode):
    """One stream of a keyed context: key expressions over stream 0 and an optional filter."""

    event_type: str
    keys: tuple[Expr, ...]
    filter: Expr | None
    alias: str | None


@dataclass(frozen=True, slots=True)
class KeyedContextSpec(PlanNode):
    """``partition by``: each event type once, all with as many keys of the same types."""

    streams: tuple[KeyedStream, ...]


@dataclass(frozen=True, slots=True)
class CreateContextStatement(StatementPlan):
    """``create context``; delivers nothing. `spec` says how events find their partition."""

    context: ContextType
    spec: KeyedContextSpec


@dataclass(frozen=True, slots=True)
class ModulePlan(PlanNode):
    """A bound module: statements in text order and the catalogue names that they need but do not create."""

    statements: tuple[StatementPlan, ...]
    source: str
    requires: tuple[tuple[str, str], ...] = ()  # (kind, name): ("event type", "Tick"), ("context", "PerCarrier")
    provides: tuple[tuple[str, str], ...] = ()
