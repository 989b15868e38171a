"""Drop conditions that always hold.

::

    select * from Tick(1 = 1) where true   ->   select * from Tick
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.traversal import transform


def drop_tautologies(statement: nodes.StatementPlan) -> nodes.StatementPlan:
    """Drop filters, where- and having-clauses that are constantly true."""
    return transform(statement, _simpler)


def _simpler(node: nodes.PlanNode) -> nodes.PlanNode:
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
