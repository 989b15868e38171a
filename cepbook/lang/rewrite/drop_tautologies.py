"""Removes conditions that always hold: ``where true``, a filter ``(1 = 1)``, ``having true``."""

from __future__ import annotations

from dataclasses import replace

from cepbook.lang import expr as x
from cepbook.lang import plan


def drop_tautologies(statement: plan.StatementPlan) -> plan.StatementPlan:
    """`statement` without filter, where- and having-clauses that hold for every event."""
    if not isinstance(statement, plan.SelectStatement):
        return statement
    root = statement.root
    inner = root.input
    if isinstance(inner, plan.Having):
        below = _aggregation(inner.input)
        kept = below if _holds(inner.predicate) else replace(inner, input=below)
        return replace(statement, root=replace(root, input=kept))
    return replace(statement, root=replace(root, input=_aggregation(inner)))


def _holds(e: x.Expr | None) -> bool:
    return isinstance(e, x.Const) and e.value is True


def _aggregation(node: plan.AggregationNode) -> plan.AggregationNode:
    if isinstance(node, plan.Aggregation):
        return replace(node, input=_selection(node.input))
    return _selection(node)


def _selection(node: plan.SelectionNode) -> plan.SelectionNode:
    if isinstance(node, plan.Selection):
        below = _from(node.input)
        return below if _holds(node.predicate) else replace(node, input=below)
    return _from(node)


def _from(node: plan.FromNode) -> plan.FromNode:
    if isinstance(node, plan.Join):
        return replace(node, inputs=tuple(replace(each, stream=_stream(each.stream)) for each in node.inputs))
    if isinstance(node, plan.Recognize):
        below = _stream(node.input)
        return replace(node, input=below, predicate=None if _holds(node.predicate) else node.predicate)
    return _stream(node)


def _stream(node: plan.StreamNode) -> plan.StreamNode:
    if isinstance(node, plan.Source):
        return replace(node, filter=None) if _holds(node.filter) else node
    return replace(node, input=_stream(node.input))  # type: ignore[arg-type]
