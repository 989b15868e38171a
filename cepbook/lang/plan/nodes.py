"""The typed plan of a statement: the only thing that engines see of it.

A select statement is a chain of nodes (`lang.plan.relational`) in a `SelectStatement` that has a name, an output clause
and a target. This module also exports all other nodes of a plan, so that readers of plans import one module.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from cepbook.lang.plan.catalog import ContextType, DeclaredExpression, EventType, IndexType, StoreType, VariableType
from cepbook.lang.plan.context import *
from cepbook.lang.plan.crontab import *
from cepbook.lang.plan.cycles import Correlation, StreamPartition
from cepbook.lang.plan.destinations import *
from cepbook.lang.plan.expressions import BoundExpr, conjuncts
from cepbook.lang.plan.plan_node import *
from cepbook.lang.plan.relational import *

SubqueryForm = Literal[
    "value",  # the column of the only row; null for no row and for several
    "struct",  # the same with several columns; columns are null for no row and for several
    "event",  # ``select *``: the event of the one row
    "list",  # values, structs or events of all rows, for an enumeration method or @eventbean; null for no row
    "exists",  # whether there is a row
    "any",  # ``x > any (…)``, ``x in (…)``: whether the comparison holds for a row
    "all",
]


@dataclass(frozen=True, slots=True)
class SubqueryPlan(PlanNode):
    """A subquery of a statement, which `expr.SubqueryRef` refers to by its number.

    Below `root` stands a chain as in a statement, with one source, whose events are of stream 0; values from around it,
    `parameters` in number, are `expr.Parameter`s. With the form ``any`` or ``all`` the first of these is the left side
    of comparison `op`, and the one column is the comparison.
    """

    root: Projection
    kind: QueryKind
    form: SubqueryForm
    parameters: int
    op: str = ""

    @property
    def source(self) -> SourceNode:
        """The source at the bottom of the chain."""
        return next(node for node in stages(self.root, SourceNode))


@dataclass(frozen=True, slots=True)
class StatementPlan(PlanNode):
    """A statement. `name` is written or chosen by the binder (``stmt_1``, ``W`` for ``create window W``), `epl` its
    text.

    `subqueries` are numbered for `SubqueryRef`. The properties are facts of all statements, with the answer of those
    that have no such clause.
    """

    name: str
    named: bool
    epl: str
    annotations: tuple[tuple[str, object], ...]
    subqueries: tuple[SubqueryPlan, ...] = field(default=(), kw_only=True)

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The sources in the order of the from-clause."""
        return ()

    @property
    def windows(self) -> tuple[WindowSpec, ...]:
        """The data windows of all streams, first to last."""
        return ()

    @property
    def join(self) -> StreamJoin | None:
        return None

    @property
    def derived(self) -> Derivation | None:
        return None

    @property
    def recognition(self) -> Recognition | None:
        return None

    @property
    def aggregation(self) -> Aggregation | None:
        return None

    @property
    def having(self) -> Having | None:
        return None

    @property
    def inserts(self) -> tuple[Insert, ...]:
        """The destinations of rows that the statement inserts, in the order of its text."""
        return ()

    @property
    def assigned(self) -> frozenset[str]:
        """The variables that the statement assigns."""
        return frozenset()

    @property
    def into(self) -> IntoTable | None:
        """The table that keeps the aggregates."""
        return None

    @property
    def iterable_unbound(self) -> bool:
        """True if the iterator of a statement without a window has the last event (``@IterableUnbound``)."""
        return any(name == "iterableunbound" for name, _ in self.annotations)

    @property
    def lookup(self) -> StoreLookup | None:
        """The rows of a store that each event visits."""
        return None

    @property
    def changed_properties(self) -> tuple[tuple[str, str], ...]:
        """The properties of arrived events or of rows that the statement changes: (event type or store, property)."""
        return ()

    @property
    def created_store(self) -> StoreType | None:
        """The named window or table that the statement creates."""
        return None

    @property
    def created_variable(self) -> VariableType | None:
        """The variable that the statement creates."""
        return None


_HIDES_EVENTS = "it may hide events from other statements (@Drop)"


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
    delivery_key: tuple[BoundExpr, ...] | None = (
        None  # for-clause: rows of equal values are a delivery; (): each is one
    )
    template: object | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(map(source_of, streams(self.root)))

    @property
    def source(self) -> SourceNode:
        """The source at the bottom of the chain, or the first one of a join."""
        return self.sources[0]

    @property
    def join(self) -> StreamJoin | None:
        return stage(self.root, StreamJoin)

    @property
    def inserts(self) -> tuple[Insert, ...]:
        return () if self.insert is None else (self.insert,)

    @property
    def order_reason(self) -> str:
        """The reason why one task must process all events in order; empty if the clauses of the statement decide."""
        if self.drop:
            return _HIDES_EVENTS
        return "it treats events that arrive together as one change" if self.lots else ""

    @property
    def assigned(self) -> frozenset[str]:
        """The variables that the output clause assigns (``then set``)."""
        output = self.output
        return frozenset() if output is None else _assigned((*output.then_set, *output.terminated_then))

    @property
    def windows(self) -> tuple[WindowSpec, ...]:
        return tuple(window for stream in streams(self.root) for window in windows_of(stream))

    @property
    def derived(self) -> Derivation | None:
        return stage(self.root, Derivation)

    @property
    def aggregation(self) -> Aggregation | None:
        return stage(self.root, Aggregation)

    @property
    def recognition(self) -> Recognition | None:
        return stage(self.root, Recognition)

    @property
    def having(self) -> Having | None:
        return stage(self.root, Having)


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

    @property
    def lookup(self) -> StoreLookup:
        return StoreLookup(self.target, self.sources[1], tuple(where_conjuncts(self.root)))


@dataclass(frozen=True, slots=True)
class CreateSchemaStatement(StatementPlan):
    """``create schema``; delivers nothing."""

    event_type: EventType


@dataclass(frozen=True, slots=True)
class CreateExpressionStatement(StatementPlan):
    """``create expression``; delivers nothing. The statements that use it have its body in their own expressions."""

    expression: DeclaredExpression


@dataclass(frozen=True, slots=True)
class CreateTableStatement(StatementPlan):
    """``create table``; delivers nothing, its iterator has the rows."""

    store: StoreType
    output_type: EventType
    context: str | None = None
    priority: int = 0

    @property
    def created_store(self) -> StoreType:
        return self.store


@dataclass(frozen=True, slots=True)
class CreateIndexStatement(StatementPlan):
    """``create [unique] index``; delivers nothing."""

    index: IndexType


@dataclass(frozen=True, slots=True)
class CreateVariableStatement(StatementPlan):
    """``create [constant] variable``; `initial` is of the variable's type, None: null. Its one row is the value.

    In a context each partition has a variable of its own.
    """

    variable: VariableType
    initial: BoundExpr | None
    context: str | None = None

    @property
    def created_variable(self) -> VariableType:
        return self.variable

    @property
    def output_type(self) -> EventType:
        return EventType(f"<{self.name}>", {self.variable.name: self.variable.type})

    @property
    def priority(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class TriggeredStatement(StatementPlan):
    """A statement that events trigger and that is no select statement."""

    priority: int = field(default=0, kw_only=True)
    drop: bool = field(default=False, kw_only=True)

    lots: ClassVar[bool] = False
    output: ClassVar[OutputClause | None] = None

    @property
    def order_reason(self) -> str:
        """The reason why one task must process all events in order; empty if the clauses of the statement decide."""
        return _HIDES_EVENTS if self.drop else ""


@dataclass(frozen=True, slots=True)
class ActionStatement(TriggeredStatement):
    """A statement that does something with each event of one source."""

    source: SourceNode

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return (self.source,)


@dataclass(frozen=True, slots=True)
class OnSetStatement(ActionStatement):
    """``on <stream> set a = …, b = …``: in order, each seeing the ones before. Delivers the new (and former) values."""

    where: BoundExpr | None
    assignments: tuple[VariableAssignment, ...]
    selector: Selector
    context: str | None
    output_type: EventType

    @property
    def assigned(self) -> frozenset[str]:
        return _assigned(self.assignments)

    @property
    def order_reason(self) -> str:
        return "it assigns variables, which all keys share"


@dataclass(frozen=True, slots=True)
class SplitBranch(PlanNode):
    """``insert into A select … where …`` of a split stream; `columns` and `wildcard` as in `Projection`.

    With `contained` it is for each of the events within, and its expressions refer to these.
    """

    insert: Insert
    columns: tuple[OutputColumn, ...]
    wildcard: bool
    predicate: BoundExpr | None
    output_type: EventType
    contained: tuple[ContainedSelection, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitStatement(ActionStatement):
    """``on <stream> insert into A select … where … insert into B …``: an event goes to the first branch that takes it.

    With `output_all` it goes to every one. The statement itself delivers the events that no branch takes.
    """

    branches: tuple[SplitBranch, ...]
    output_all: bool
    context: str | None
    output_type: EventType

    @property
    def inserts(self) -> tuple[Insert, ...]:
        return tuple(branch.insert for branch in self.branches)


@dataclass(frozen=True, slots=True)
class PropertyAssignment(PlanNode):
    """``property = value`` of ``update istream``; with a `path` the value of a part, see `VariableAssignment`.

    With `reset` it is an aggregation column of a table that begins anew, and the value is null.
    """

    name: str
    value: BoundExpr
    path: tuple[BoundExpr, ...] = ()
    primitive: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class UpdateStatement(ActionStatement):
    """``update istream``: changes the events that pass `predicate` before any other statement sees them.

    Assignments see the event as it was. Of several updates the one with the highest priority comes last. The statement
    delivers the changed event, and the former one as remove row.
    """

    changes: tuple[PropertyAssignment, ...]
    predicate: BoundExpr | None
    output_type: EventType

    context: ClassVar[str | None] = None

    @property
    def changed_properties(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.source.event_type, change.name) for change in self.changes)


@dataclass(frozen=True, slots=True)
class MergeActionPlan(PlanNode):
    """One action of an on-trigger on a row of a named window or table, done if `predicate` holds.

    ``insert`` has the `columns` of the new row, of the target or of the stream of `insert`; ``update`` has `changes`.
    `precedence` orders the new rows of the target among themselves; it reads the new row.
    """

    kind: Literal["insert", "update", "delete"]
    predicate: BoundExpr | None
    columns: tuple[OutputColumn, ...] = ()
    insert: Insert | None = None
    changes: tuple[PropertyAssignment, ...] = ()
    output_type: EventType | None = None
    precedence: BoundExpr | None = None


@dataclass(frozen=True, slots=True)
class MergeBranchPlan(PlanNode):
    """``when [not] matched and condition then …``; `matched` None applies in both cases."""

    matched: bool | None
    condition: BoundExpr | None
    actions: tuple[MergeActionPlan, ...]


@dataclass(frozen=True, slots=True)
class MergeStatement(ActionStatement):
    """``on … merge``, ``on … delete`` and ``on … update`` of the named window or table `target`.

    In expressions input 0 is a row of the target, 1 the event, 2 the row as it was before. Of the branches the first
    whose condition holds acts on each row that passes `predicate`; those for no match where there is none. With
    `silent` the statement of the window delivers no remove rows for deleted rows.
    """

    kind: Literal["merge", "delete", "update"]
    target: StoreType
    predicate: BoundExpr | None
    branches: tuple[MergeBranchPlan, ...]
    context: str | None
    output_type: EventType
    silent: bool = False

    @property
    def event_type(self) -> str:
        """The event type of the target's rows."""
        return self.target.name

    @property
    def inserts(self) -> tuple[Insert, ...]:
        """The inserts, in the order of the actions."""
        return tuple(action.insert for action in self.actions if action.insert is not None)

    @property
    def actions(self) -> tuple[MergeActionPlan, ...]:
        """The actions of all branches."""
        return tuple(action for branch in self.branches for action in branch.actions)

    @property
    def lookup(self) -> StoreLookup:
        return StoreLookup(self.target, self.source, tuple(conjuncts(self.predicate)))

    @property
    def changed_properties(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.target.name, change.name) for action in self.actions for change in action.changes)


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


def _assigned(assignments: tuple[VariableAssignment, ...]) -> frozenset[str]:
    return frozenset(assignment.variable for assignment in assignments)


@dataclass(frozen=True, slots=True)
class CreateContextStatement(StatementPlan):
    """``create context`` with plain ``partition by``; delivers nothing. `spec` says how events find their partition."""

    context: ContextType
    spec: KeyedStreams
    priority: int = 0

    permanent: ClassVar[bool] = True  # partitions begin with the first event of their key, and none ends

    @property
    def levels(self) -> tuple[tuple[str, ContextLevel], ...]:
        """The context itself, by its name."""
        return ((self.context.name, self.spec),)


@dataclass(frozen=True, slots=True)
class CreateContextTreeStatement(StatementPlan):
    """``create context`` of every other form; delivers nothing. `spec` says what begins and ends partitions."""

    context: ContextType
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
