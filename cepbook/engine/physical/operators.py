"""The operators of the physical algebra: what a statement does with a change, step by step, as data.

::

    Scan | Pattern  →  Window  →  Derive | Unnest → Window  →  Recognize → Window
        →  Filter  →  Aggregate  →  Project  →  OutputRate  →  Emit
    several of these inputs  →  Join  ↗

The input of every operator is a delta, the events that entered and those that left; its output is the delta that
follows from it. Operators have no state and no code: `lowering` creates them, `codegen` writes them as Python, and
`explain_operators` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cepbook.engine.physical.access import AccessPath
from cepbook.engine.physical.join import JoinOperator
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.pattern import Pattern

# Expressions that may have another value when an event leaves than when it entered: the values that entered are kept
# for that time. An aggregate of an aggregate is not among them, since the value that leaves is the later one of the
# inner aggregate (recorded: average_of_a_count_takes_out_the_later_value).
TIME_VARYING = (x.VariableRead, x.CurrentTimestamp, x.SubqueryRef, x.TableRead)


class Eviction(Enum):
    """The order in which events leave one group. The values are those of `leaves` in the registry of windows."""

    NONE = "never"
    FIFO = "in order"
    ARBITRARY = "anyhow"


@dataclass(frozen=True, slots=True)
class ScanOperator:
    """Read the events of a stream that pass its filter."""

    source: p.SourceNode


@dataclass(frozen=True, slots=True)
class PatternOperator:
    """Read the matches of a pattern, as events with one property per tag."""

    source: p.SourceNode
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class WindowOperator:
    """Retain events of one type in data windows. Without windows every event enters and none is retained.

    `properties` are read of arriving events, `retained` of retained ones. `operands` is the number of values that
    windows compare. `reads_arrival_time` is True if windows read the arrival time of an event; `by_ordinal` if they
    identify an event by its ordinal.
    """

    windows: tuple[p.WindowSpec, ...]
    union: bool
    properties: tuple[str, ...]
    retained: tuple[str, ...]
    retains_event: bool
    reads_arrival_time: bool
    by_ordinal: bool
    operands: int

    @property
    def holding(self) -> tuple[p.WindowSpec, ...]:
        """The windows that hold events."""
        return tuple(w for w in self.windows if w.row.holds)

    @property
    def groups(self) -> p.WindowSpec | None:
        """The window (``groupwin``) that gives each key its own instances of the windows after it."""
        return next((w for w in self.windows if w.row.grouping), None)

    @property
    def group_keys(self) -> tuple[BoundExpr, ...]:
        """The keys of `groups`."""
        return () if self.groups is None else self.groups.args

    @property
    def merged(self) -> bool:
        """True if the groups of ``groupwin`` are merged again."""
        return any(w.row.merging for w in self.windows)


@dataclass(frozen=True, slots=True)
class DeriveOperator:
    """Replace each delta by one derived event; the former derived event leaves."""

    node: p.Derivation


@dataclass(frozen=True, slots=True)
class UnnestOperator:
    """Replace each event by the events that it contains; these enter together."""

    contained: tuple[p.ContainedSelection, ...]


@dataclass(frozen=True, slots=True)
class RecognizeOperator:
    """Replace rows by the matches of ``match_recognize``."""

    node: p.Recognition


@dataclass(frozen=True, slots=True)
class FilterOperator:
    """Drop entered and left events for which `predicate` is not true."""

    predicate: BoundExpr


@dataclass(frozen=True, slots=True)
class AggregateOperator:
    """Update the aggregates of each group with entered and left events."""

    aggregation: p.Aggregation


@dataclass(frozen=True, slots=True)
class ProjectOperator:
    """Make rows: one per event, or one per changed group, as `kind` says."""

    projection: p.Projection
    having: BoundExpr | None
    kind: p.QueryKind


@dataclass(frozen=True, slots=True)
class OutputRateOperator:
    """Hold rows back until the output clause releases them."""

    output: p.OutputClause


@dataclass(frozen=True, slots=True)
class EmitOperator:
    """Deliver rows and insert them into a stream; or set variables, insert by branches, change events or a store.
    `target_path` is the access path to the rows of the store that ``on merge`` and the like change.
    """

    selector: p.Selector
    insert: p.Insert | None = None
    assigned: frozenset[str] = frozenset()
    drop: bool = False
    branches: tuple[p.SplitBranch, ...] = ()
    changes: tuple[p.PropertyAssignment, ...] = ()
    merges: p.MergeStatement | None = None
    target_path: AccessPath | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The streams that rows are inserted into, in the order of the branches."""
        inserts = (self.insert, *(branch.insert for branch in self.branches))
        if self.merges is not None:
            inserts = self.merges.inserts
        return tuple(insert.target for insert in inserts if insert is not None)


@dataclass(frozen=True, slots=True)
class LookupOperator:
    """Evaluate a subquery each time that an expression reads it.

    With an `access` the events of the subquery's windows are kept in a relation that is read by this path. Without one
    only aggregates are kept.

    `member` is True if the subquery only tests whether a column contains a value. `shared` is True if the relation read
    is that of the named window or table. `follows` is True if aggregates over a table follow the changes of its rows.
    """

    subquery: p.SubqueryPlan
    access: AccessPath | None
    member: bool = False
    shared: bool = False
    follows: bool = False


@dataclass(frozen=True, slots=True)
class CycleOperator:
    """Run a StreamCruncher query in cycles (`cepbook.engine.cycles`). Events wait at partitions. A cycle moves them
    through the windows of the partitions and evaluates a select over the result.
    """

    plan: p.CycleStatement


Operator = (
    ScanOperator
    | PatternOperator
    | JoinOperator
    | CycleOperator
    | WindowOperator
    | UnnestOperator
    | DeriveOperator
    | RecognizeOperator
    | FilterOperator
    | AggregateOperator
    | ProjectOperator
    | OutputRateOperator
    | EmitOperator
    | LookupOperator
)
