"""The base of all plan nodes, and the nodes that sources, patterns and contexts share.

Nodes are frozen dataclasses; children are fields, or tuples in fields. Expressions refer to the events of a statement
by stream number, the 0-based position in the from-clause; a node that numbers streams differently says so. Optional
clauses are None or empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cepbook.errors import NO_SPAN, Span
from cepbook.lang.plan.expressions import BoundExpr


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node. `span` is its text in the module's source; it does not count in comparisons."""

    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class OutputColumn(PlanNode):
    """One output column. `value` may contain `AggregateRef`, `KeyRef` and `ContextProp`."""

    name: str
    value: BoundExpr


@dataclass(frozen=True, slots=True)
class ContainedSelection(PlanNode):
    """One bracket of contained-event selection: the events that `path` holds, one or an array of them.

    Of each that `where` passes `columns` are taken, with a `wildcard` beside its own properties (alone: the event as it
    is). In both stream 0 is the contained event, stream 1 the one before it, and so on to the outermost; in `path`
    stream 0 is the one before. `scalar`: the array holds plain values, each becomes an event with this one property.
    """

    path: BoundExpr
    columns: tuple[OutputColumn, ...]
    wildcard: bool
    where: BoundExpr | None
    scalar: str | None = None
