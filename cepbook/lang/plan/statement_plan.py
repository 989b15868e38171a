"""Statements: the facts that each answers, subqueries, and the statements that events trigger without a query."""

# ruff: noqa: F403, F405
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from cepbook.lang.plan.catalog import EventType, IndexType, StoreType, VariableType
from cepbook.lang.plan.destinations import *
from cepbook.lang.plan.expressions import BoundExpr, conjuncts
from cepbook.lang.plan.key_requirement import NO_REQUIREMENT, KeyRequirement
from cepbook.lang.plan.plan_node import ContainedSelection, OutputColumn, PlanNode
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

    def key_requirement(self, context: KeyContext) -> KeyRequirement:
        """Return which events of the source must have equal keys, apart from those of one outer event."""
        (stream,) = streams(self.root)
        return windows_key_requirement(context.windows_below(stream), self.source.event_type, expiry_shows=False)


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
    def statement_kind(self) -> str:
        """The kind of statement in the words of EPL."""
        raise NotImplementedError

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The sources in the order of the from-clause."""
        return ()

    @property
    def names_read(self) -> tuple[str, ...]:
        """The event types and stores that the statement names as its input."""
        return tuple(name for source in self.sources for name in source.names_read)

    @property
    def uses_clock(self) -> bool:
        """True if an advance of the clock may deliver rows, apart from the data windows."""
        patterns = (source.pattern for source in self.sources if source.pattern is not None)
        intervals = self.recognition is not None and self.recognition.interval is not None
        clocked = self.output is not None and self.output.uses_clock
        return intervals or clocked or any(pattern.uses_clock for pattern in patterns)

    @property
    def condition(self) -> BoundExpr | None:
        """The where-clause of a trigger."""
        return None

    @property
    def trigger(self) -> SourceNode | None:
        """The source of which each event sets the statement off; None for queries and definitions."""
        return None

    @property
    def windows(self) -> tuple[WindowSpec, ...]:
        """The data windows of all streams, first to last."""
        chains = () if self.projection is None else streams(self.projection)
        return tuple(window for stream in chains for window in windows_of(stream))

    @property
    def projection(self) -> Projection | None:
        """The chain of a query, from its select-clause down."""
        return None

    @property
    def is_query(self) -> bool:
        """True for a select statement that neither creates a named window nor looks up rows for a trigger."""
        return False

    def _clause(self, kind: type[Stage]) -> Stage | None:
        return None if self.projection is None else stage(self.projection, kind)

    @property
    def join(self) -> StreamJoin | None:
        return self._clause(StreamJoin)

    @property
    def derived(self) -> Derivation | None:
        return self._clause(Derivation)

    @property
    def recognition(self) -> Recognition | None:
        return self._clause(Recognition)

    @property
    def aggregation(self) -> Aggregation | None:
        return self._clause(Aggregation)

    @property
    def having(self) -> Having | None:
        return self._clause(Having)

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
    def output(self) -> OutputClause | None:
        return None

    @property
    def delivery_key(self) -> tuple[BoundExpr, ...] | None:
        """The values that divide rows into deliveries (for-clause); (): each row is one. None: they are not divided."""
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

    def key_copies(self, keys_of: Callable[[str], frozenset[str]]) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield each type or store that the statement writes to, with the properties to which it copies the key.

        `keys_of` returns the properties that hold the key in all events of a type, or in the rows of a store.
        """
        yield from ()

    def key_requirement(self, context: KeyContext) -> KeyRequirement:
        """Return which rows must have equal keys, apart from those that expressions look up."""
        return NO_REQUIREMENT

    @property
    def _pattern_reason(self) -> str:
        """The reason why the patterns of the statement need all events in order; empty without patterns."""
        patterns = (source.pattern for source in self.sources if source.pattern is not None)
        return next((pattern.order_reason for pattern in patterns), "")

    @property
    def created_store(self) -> StoreType | None:
        """The named window or table that the statement creates."""
        return None

    @property
    def created_index(self) -> IndexType | None:
        """The index that the statement creates."""
        return None

    @property
    def created_variable(self) -> VariableType | None:
        """The variable that the statement creates."""
        return None

    def with_initial_values(self, values: Mapping[str, BoundExpr]) -> StatementPlan:
        """Return the statement with another initial value if it creates one of these variables.

        An assignment would come behind the statements that read the variable when they are deployed.
        """
        return self


HIDES_EVENTS = "it may hide events from other statements (@Drop)"


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
        return HIDES_EVENTS if self.drop else ""


@dataclass(frozen=True, slots=True)
class ActionStatement(TriggeredStatement):
    """A statement that does something with each event of one source."""

    source: SourceNode

    last_only: ClassVar[bool] = False  # of rows that enter a store at once, the last one counts

    @property
    def trigger(self) -> SourceNode:
        return self.source

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return (self.source,)

    def key_requirement(self, context: KeyContext) -> KeyRequirement:
        if self.lookup is not None:
            return KeyRequirement(reason=self._pattern_reason) + self.lookup.key_requirement
        return KeyRequirement(reason="its events come from a pattern" if self._pattern_reason else "")


@dataclass(frozen=True, slots=True)
class OnSetStatement(ActionStatement):
    """``on <stream> set a = …, b = …``: in order, each seeing the ones before. Delivers the new (and former) values."""

    where: BoundExpr | None
    assignments: tuple[VariableAssignment, ...]
    selector: Selector
    context: str | None
    output_type: EventType

    statement_kind: ClassVar[str] = "on set"
    last_only: ClassVar[bool] = True  # recorded

    @property
    def condition(self) -> BoundExpr | None:
        return self.where

    @property
    def assigned(self) -> frozenset[str]:
        return frozenset(assignment.variable for assignment in self.assignments)

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

    statement_kind: ClassVar[str] = "split"

    @property
    def inserts(self) -> tuple[Insert, ...]:
        return tuple(branch.insert for branch in self.branches)

    def key_copies(self, keys_of: Callable[[str], frozenset[str]]) -> Iterator[tuple[str, frozenset[str]]]:
        keys = [keys_of(self.source.event_type)]
        for branch in self.branches:
            copies = frozenset[str]() if branch.contained else copied_columns(branch.columns, branch.wildcard, keys)
            yield branch.insert.target, copies


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

    statement_kind: ClassVar[str] = "update istream"
    context: ClassVar[str | None] = None

    @property
    def condition(self) -> BoundExpr | None:
        return self.predicate

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
    def statement_kind(self) -> str:
        return f"on {self.kind}"

    @property
    def condition(self) -> BoundExpr | None:
        return self.predicate

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

    def key_copies(self, keys_of: Callable[[str], frozenset[str]]) -> Iterator[tuple[str, frozenset[str]]]:
        rows = [keys_of(self.target.name), keys_of(self.source.event_type)]
        for action in self.actions:
            if action.insert is not None or action.kind == "insert":
                target = self.target.name if action.insert is None else action.insert.target
                yield target, copied_columns(action.columns, False, rows)

    @property
    def lookup(self) -> StoreLookup:
        return StoreLookup(self.target, self.source, tuple(conjuncts(self.predicate)), 0, self.silent)

    @property
    def changed_properties(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.target.name, change.name) for action in self.actions for change in action.changes)


def copied_columns(columns: Sequence[OutputColumn], wildcard: bool, keys: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the columns that repeat one of `keys`, the key properties of each stream."""
    copies = {column.name for column in columns if is_key_copy(column.value, keys)}
    return frozenset(copies | (keys[0] - {column.name for column in columns}) if wildcard else copies)


def is_key_copy(value: BoundExpr, keys: Sequence[frozenset[str]]) -> bool:
    """Return whether `value` is one of the properties `keys` of its stream; widening a whole number keeps the key."""
    copied = value.copied_property
    return copied is not None and copied.stream < len(keys) and copied.name in keys[copied.stream]
