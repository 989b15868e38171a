"""The typed plan of a statement: the only thing that engines see of it.

A select statement is a chain of nodes (`lang.plan.relational`) in a `SelectStatement` that has a name, an output clause
and a target. This module also exports all other nodes of a plan, so that readers of plans import one module.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from cepbook.lang.plan import traversal
from cepbook.lang.plan.catalog import ContextType, DeclaredExpression, EventType, IndexType, StoreType, VariableType
from cepbook.lang.plan.context import *
from cepbook.lang.plan.crontab import *
from cepbook.lang.plan.cycles import Correlation, StreamPartition
from cepbook.lang.plan.destinations import *
from cepbook.lang.plan.expressions import BoundExpr, Prev, Prior, find, walk
from cepbook.lang.plan.key_requirement import KeyRequirement
from cepbook.lang.plan.plan_node import *
from cepbook.lang.plan.relational import *
from cepbook.lang.plan.statement_plan import *


@dataclass(frozen=True, slots=True)
class SelectStatement(StatementPlan):
    """A continuous query. `output_type` lists the columns; its name is the insert-into target or ``<name>``.

    Plans that were built by one `template` (`bind.plan_templates`) differ in constants, names and places only. A
    changed copy of a plan has none.

    With `lots` it takes part in activations (`engine.activation`): all that comes in there is one change, in which what
    entered and left again is nothing, and what it inserts goes on together.
    """

    root: Projection
    selector: Selector
    kind: QueryKind
    context: str | None
    insert: Insert | None
    output_type: EventType
    priority: int = 0
    drop: bool = False  # @Drop: statements of lower priority do not see the event
    output: OutputClause | None = None
    into: IntoTable | None = None
    lots: bool = False
    delivery_key: tuple[BoundExpr, ...] | None = None
    template: object | None = field(default=None, init=False, compare=False, repr=False)

    statement_kind: ClassVar[str] = "select"

    @property
    def is_query(self) -> bool:
        return self.created_store is None and self.lookup is None

    @property
    def projection(self) -> Projection:
        return self.root

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(map(source_of, streams(self.root)))

    @property
    def source(self) -> SourceNode:
        """The source at the bottom of the chain, or the first one of a join."""
        return source_of(streams(self.root)[0])

    def key_copies(self, keys_of: Callable[[str], frozenset[str]]) -> Iterator[tuple[str, frozenset[str]]]:
        keys = [keys_of(source.event_type) for source in self.sources]
        if self.insert is not None:
            yield self.insert.target, self._key_columns(keys, keys_of)
        if self.into is not None and self.aggregation is not None:
            pairs = zip(self.into.store.keys, self.aggregation.keys, strict=False)
            yield self.into.store.name, frozenset(name for name, key in pairs if is_key_copy(key, keys))

    def _key_columns(self, keys: Sequence[frozenset[str]], keys_of: Callable[[str], frozenset[str]]) -> frozenset[str]:
        """Return the output columns that repeat one of `keys`, the key properties of the streams."""
        join, source, columns = self.join, self.source, self.root.columns
        if source.pattern is not None or self.derived is not None or self.recognition is not None:
            single = {} if source.pattern is None else source.pattern.single_tags
            members = [(column.name, column.value.tag_member(0)) for column in columns if len(self.sources) == 1]
            of_tags = [(name, *tag) for name, tag in members if tag is not None and tag[0] in single]
            return frozenset(name for name, tag, read in of_tags if read in keys_of(single[tag]))
        if join is not None and any(input_.kind != "inner" for input_ in join.inputs):
            return frozenset()  # a stream without a partner has null for its key
        group_keys = () if self.aggregation is None else self.aggregation.keys
        groups = (column.name for column in columns if is_key_copy(column.value.of_group(group_keys), keys))
        return copied_columns(columns, self.root.wildcard and join is None, keys).union(groups)

    def key_requirement(self, context: KeyContext) -> KeyRequirement:
        if self.output is not None:
            return KeyRequirement(reason=self.output.order_reason)
        pattern = next((source.pattern for source in self.sources if source.pattern is not None), None)
        if pattern is not None:
            alone = self.kind == "unaggregated" and self.join is None and not self.windows
            return pattern.key_requirement if alone else KeyRequirement(reason=pattern.order_reason)
        if self.root.arranged and context.clocked:
            return KeyRequirement(reason=ARRANGED_REASON)
        if self.derived is not None:
            return KeyRequirement(reason=self.derived.order_reason)
        if self.recognition is not None:
            reads_prior_rows = bool(find(Prior, *self.root.row_expressions))
            return self.recognition.key_requirement(self.kind != "unaggregated" or reads_prior_rows)
        aggregation = self.aggregation
        reason = self.previous_reason or ("" if aggregation is None else aggregation.order_reason)
        if reason or any(window.reclaim is not None for window in self.windows):
            return KeyRequirement(reason=reason or RECLAIM_REASON)
        expiry_shows = self._shows_expiry_order(context.target)
        if self.join is not None:
            keys = None if aggregation is None else aggregation.keys
            return self.join.key_requirement(where_conjuncts(self.root), keys, context, expiry_shows)
        (stream,), event_type = streams(self.root), self.source.event_type
        of_windows = windows_key_requirement(context.windows_below(stream), event_type, expiry_shows)
        return of_windows if aggregation is None else aggregation.key_requirement(event_type, of_windows)

    def _shows_expiry_order(self, target: str) -> bool:
        """Return whether rows show the order of expiry: remove rows that are not those of groups."""
        if self.kind == "fully_aggregated_grouped" or (self.created_store is not None and self.name != target):
            return False  # those that read a named window say what they show
        return self.selector != "istream" or (self.insert is not None and self.insert.selector != "istream")

    @property
    def previous_reason(self) -> str:
        """The reason why ``prior`` or ``prev`` needs the events of all keys; empty if none does."""
        read = [e for top in traversal.walk(self.root) if isinstance(top, BoundExpr) for e in walk(top)]
        if any(isinstance(e, Prior) for e in read):
            return "it reads earlier events of all keys (prior)"
        grouped = bool(self.windows) and self.windows[0].row.grouping
        previous = not grouped and any(isinstance(e, Prev) for e in read)
        return "it reads events of all keys in its window (prev)" if previous else ""

    @property
    def inserts(self) -> tuple[Insert, ...]:
        return () if self.insert is None else (self.insert,)

    @property
    def order_reason(self) -> str:
        """The reason why one task must process all events in order; empty if the clauses of the statement decide."""
        if self.drop:
            return HIDES_EVENTS
        return "it treats events that arrive together as one change" if self.lots else ""

    @property
    def assigned(self) -> frozenset[str]:
        """The variables that the output clause assigns (``then set``)."""
        output = self.output
        return frozenset() if output is None else frozenset(
            assignment.variable for assignment in (*output.then_set, *output.terminated_then)
        )


@dataclass(frozen=True, slots=True)
class InitialFill(PlanNode):
    """``insert [where …]`` of ``create window … as``: rows of the named window `store` that are copied once."""

    store: str
    where: BoundExpr | None
    columns: tuple[OutputColumn, ...]


@dataclass(frozen=True, slots=True)
class CreateWindowStatement(SelectStatement):
    """``create window``: selects whole rows that are inserted into it, through its data windows, as irstream.

    Rows that enter and leave are delivered to listeners and to the readers of the named window.
    """

    store: StoreType = field(kw_only=True)
    fill: InitialFill | None = field(default=None, kw_only=True)

    statement_kind: ClassVar[str] = "create window"

    @property
    def created_store(self) -> StoreType:
        return self.store


@dataclass(frozen=True, slots=True)
class OnSelectStatement(SelectStatement):
    """``on … select``: an event is joined once with the rows of `target`, its input 0; the event is input 1.

    Nothing is kept from one event to the next. With `deletes` the rows that match are taken out then; with `silent` the
    statement of the window delivers no remove rows for them.
    """

    target: StoreType = field(kw_only=True)
    deletes: bool = field(default=False, kw_only=True)
    silent: bool = field(default=False, kw_only=True)

    statement_kind: ClassVar[str] = "on select"

    @property
    def lookup(self) -> StoreLookup:
        return StoreLookup(self.target, self.sources[1], tuple(where_conjuncts(self.root)), 1, self.silent)

    def key_requirement(self, context: KeyContext) -> KeyRequirement:
        output_reason = "" if self.output is None else self.output.order_reason
        return KeyRequirement(reason=self._pattern_reason or output_reason) + self.lookup.key_requirement


@dataclass(frozen=True, slots=True)
class CreateSchemaStatement(StatementPlan):
    """``create schema``; delivers nothing."""

    event_type: EventType

    statement_kind: ClassVar[str] = "create schema"


@dataclass(frozen=True, slots=True)
class CreateExpressionStatement(StatementPlan):
    """``create expression``; delivers nothing. The statements that use it have its body in their own expressions."""

    expression: DeclaredExpression

    statement_kind: ClassVar[str] = "create expression"


@dataclass(frozen=True, slots=True)
class CreateTableStatement(StatementPlan):
    """``create table``; delivers nothing, its iterator has the rows."""

    store: StoreType
    output_type: EventType
    context: str | None = None
    priority: int = 0

    statement_kind: ClassVar[str] = "create table"

    @property
    def created_store(self) -> StoreType:
        return self.store


@dataclass(frozen=True, slots=True)
class CreateIndexStatement(StatementPlan):
    """``create [unique] index``; delivers nothing."""

    index: IndexType

    statement_kind: ClassVar[str] = "create index"

    @property
    def created_index(self) -> IndexType:
        return self.index

    @property
    def names_read(self) -> tuple[str, ...]:
        return (self.index.store,)


@dataclass(frozen=True, slots=True)
class CreateVariableStatement(StatementPlan):
    """``create [constant] variable``; `initial` is of the variable's type, None: null. Its one row is the value.

    In a context each partition has a variable of its own.
    """

    variable: VariableType
    initial: BoundExpr | None
    context: str | None = None

    statement_kind: ClassVar[str] = "create variable"

    @property
    def created_variable(self) -> VariableType:
        return self.variable

    @property
    def output_type(self) -> EventType:
        return EventType(f"<{self.name}>", {self.variable.name: self.variable.type})

    def with_initial_values(self, values: Mapping[str, BoundExpr]) -> CreateVariableStatement:
        return replace(self, initial=values.get(self.variable.name, self.initial))

    priority: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class InsertRows(StatementPlan):
    """The query ``insert into W values (…), (…)``: columns of each row, in the order of the target's."""

    target: StoreType
    rows: tuple[tuple[OutputColumn, ...], ...]
    output_type: EventType


@dataclass(frozen=True, slots=True)
class CycleStatement(TriggeredStatement):
    """A query that is run in cycles: `select` reads the relations of `partitions`, or of the `correlation`.

    With `every`, in units of the clock, cycles are run at fixed times, else as soon as there is a cause. `fills`: the
    free places of sliding windows are taken in one cycle. `seed` is that of the coins of random windows. `tables` are
    rows that named windows have from then on: (name, columns, rows).
    """

    partitions: tuple[StreamPartition, ...]
    correlation: Correlation | None
    select: SelectStatement
    output_type: EventType
    every: int | None = None
    fills: bool = False
    seed: int = 0
    tables: tuple[tuple[str, tuple[str, ...], tuple[tuple[object, ...], ...]], ...] = ()

    statement_kind: ClassVar[str] = "running query"
    uses_clock: ClassVar[bool] = True
    context: ClassVar[str | None] = None
    lots: ClassVar[bool] = True

    @property
    def order_reason(self) -> str:
        return "each of its cycles processes the waiting events of all keys"

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(partition.source for partition in self.partitions)

    @property
    def source(self) -> SourceNode:
        return self.sources[0] if self.partitions else SourceNode(NO_EVENTS, None, None)


# The statements that events trigger
StreamStatement = SelectStatement | OnSetStatement | SplitStatement | UpdateStatement | MergeStatement | CycleStatement


@dataclass(frozen=True, slots=True)
class ContextDefinition(StatementPlan):
    """``create context``; delivers nothing."""

    context: ContextType

    statement_kind: ClassVar[str] = "create context"

    @property
    def names_read(self) -> tuple[str, ...]:
        return self.context.event_types


@dataclass(frozen=True, slots=True)
class CreateContextStatement(ContextDefinition):
    """``create context`` with plain ``partition by``. `spec` says how events find their partition."""

    spec: KeyedStreams
    priority: int = 0

    permanent: ClassVar[bool] = True  # partitions begin with the first event of their key, and none ends

    @property
    def levels(self) -> tuple[tuple[str, ContextLevel], ...]:
        """The context itself, by its name."""
        return ((self.context.name, self.spec),)


@dataclass(frozen=True, slots=True)
class CreateContextTreeStatement(ContextDefinition):
    """``create context`` of every other form. `spec` says what begins and ends partitions."""

    spec: ContextSpec
    priority: int = 0

    permanent: ClassVar[bool] = False

    @property
    def levels(self) -> tuple[tuple[str, ContextSpec], ...]:
        """The levels of a nested context by name, outermost first; of any other the context itself."""
        return self.spec.levels if isinstance(self.spec, NestedSpec) else ((self.context.name, self.spec),)


ContextStatement = CreateContextStatement | CreateContextTreeStatement


@dataclass(frozen=True, slots=True)
class ModulePlan(PlanNode):
    """A bound module: statements in text order, and the catalog names that it needs but does not create."""

    statements: tuple[StatementPlan, ...]
    source: str
    requires: tuple[tuple[str, str], ...] = ()  # (kind, name): ("event type", "Tick"), ("context", "PerCarrier")
    provides: tuple[tuple[str, str], ...] = ()
