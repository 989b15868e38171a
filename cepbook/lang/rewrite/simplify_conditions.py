"""Drop conditions that always hold, and move a where-clause into the filter, so that the filter index applies.

::

    select * from Tick(1 = 1) where true   ->   select * from Tick
    select * from Tick where price > 5     ->   select * from Tick(price > 5)

Without a window nothing is retained, so an event that the where-clause rejects need not arrive. Over a window the
clause stays, because rejected events enter the window. A having-clause stays, because it rejects rows, not events
(``@Drop``, ``output``).
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.traversal import transform
from cepbook.lang.types import BOOLEAN

# Values that are not known before the statement takes the event
_OF_ROWS = (x.Prior, x.Prev, x.InsertStream, x.SubqueryRef, x.TableRead)


def drop_tautology(node: nodes.PlanNode) -> nodes.PlanNode:
    """Drop the condition of a filter, where- or having-clause that is constantly true."""
    match node:
        case nodes.Having() | nodes.Selection() if _holds(node.predicate):
            return node.input
        case nodes.SourceNode() if _holds(node.filter):
            return replace(node, filter=None)
        case nodes.Recognition() if _holds(node.predicate):
            return replace(node, predicate=None)
    return node


def _holds(e: x.BoundExpr | None) -> bool:
    return isinstance(e, x.Const) and e.value is True


def push_filters(statement: nodes.StatementPlan) -> nodes.StatementPlan:
    """Move the conditions that can be decided on arrival into the filter of the source."""
    if not isinstance(statement, nodes.SelectStatement):
        return statement
    root = transform(statement.root, _pushed)
    return statement if root is statement.root else replace(statement, root=root)


def _pushed(node: nodes.PlanNode) -> nodes.PlanNode:
    if isinstance(node, nodes.Selection) and isinstance(node.input, nodes.SourceNode):
        if not _filters(node.input) or any(isinstance(e, _OF_ROWS) for e in x.walk(node.predicate)):
            return node
        return _narrowed(node.input, node.predicate)
    return node


def _filters(source: nodes.SourceNode) -> bool:
    """Return whether the source has a filter: patterns, contained events and partitions have none."""
    return source.pattern is None and not source.contained and source.event_type != nodes.NO_EVENTS


def _narrowed(source: nodes.SourceNode, condition: x.BoundExpr) -> nodes.SourceNode:
    conjuncts = [e for condition_ in (source.filter, condition) for e in x.conjuncts(condition_)]
    if len(conjuncts) == 1:
        return replace(source, filter=conjuncts[0])
    return replace(source, filter=x.Logic(BOOLEAN, "and", tuple(conjuncts), span=condition.span))
