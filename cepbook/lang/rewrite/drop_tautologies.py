"""Removes conditions that always hold: ``where true``, a filter ``(1 = 1)``, ``having true``."""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang.trees import transformed


def drop_tautologies(statement: plan.StatementPlan) -> plan.StatementPlan:
    """`statement` without filter, where- and having-clauses that hold for every event."""
    return transformed(statement, _simpler)


def _simpler(node: plan.PlanNode) -> plan.PlanNode:
    match node:
        case plan.Having() | plan.Selection() if _holds(node.predicate):
            return node.input
        case plan.Source() if _holds(node.filter):
            return replace(node, filter=None)
        case plan.Recognize() if _holds(node.predicate):
            return replace(node, predicate=None)
    return node


def _holds(e: x.Expr | None) -> bool:
    return isinstance(e, x.Const) and e.value is True
