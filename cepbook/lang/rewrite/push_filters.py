"""A where-clause over a stream without data window becomes part of the stream's filter, for the filter index.

Without a window nothing is retained, so an event that the where-clause rejects can just as well never arrive. Over a
window the clause stays: rejected events do enter the window. A having-clause stays, too: it rejects rows, and events
whose rows it rejects are taken all the same (``@Drop``, ``output``).
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.traversal import transform
from cepbook.lang.types import BOOLEAN

# What is not known before the statement takes the event
_OF_ROWS = (x.Prior, x.Prev, x.InsertStream, x.SubqueryRef, x.TableRead)


def push_filters(statement: nodes.StatementPlan) -> nodes.StatementPlan:
    """`statement` with what can be decided on arrival in the filter of its source."""
    if not isinstance(statement, nodes.SelectStatement):
        return statement
    return replace(statement, root=transform(statement.root, _pushed))


def _pushed(node: nodes.PlanNode) -> nodes.PlanNode:
    if isinstance(node, nodes.Selection) and isinstance(node.input, nodes.SourceNode):
        if not _filters(node.input) or any(isinstance(e, _OF_ROWS) for e in x.walk(node.predicate)):
            return node
        return _narrowed(node.input, node.predicate)
    return node


def _filters(source: nodes.SourceNode) -> bool:
    """Whether its events pass a filter: matches of a pattern do not, contained events, nor partitions of a context."""
    return source.pattern is None and not source.contained and source.event_type != nodes.NO_EVENTS


def _narrowed(source: nodes.SourceNode, condition: x.BoundExpr) -> nodes.SourceNode:
    parts = [part for e in (source.filter, condition) for part in x.conjuncts(e)]
    if len(parts) == 1:
        return replace(source, filter=parts[0])
    return replace(source, filter=x.Logic(BOOLEAN, "and", tuple(parts), span=condition.span))
