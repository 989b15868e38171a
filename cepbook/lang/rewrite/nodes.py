"""Applying a function to every expression of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepbook.lang import plan
from cepbook.lang.expr import Expr

Change = Callable[[Expr], Expr]


def map_statement(statement: plan.StatementPlan, fn: Change) -> plan.StatementPlan:
    """`statement` with `fn` applied to each of its top-level expressions (conditions, keys, columns …)."""
    if isinstance(statement, plan.SelectStatement):
        return replace(statement, root=_projection(statement.root, fn))
    if isinstance(statement, plan.CreateContextStatement):
        streams = tuple(
            replace(s, filter=fn(s.filter) if s.filter is not None else None) for s in statement.spec.streams
        )
        return replace(statement, spec=replace(statement.spec, streams=streams))
    return statement


def _projection(node: plan.Projection, fn: Change) -> plan.Projection:
    return replace(
        node,
        input=_having(node.input, fn),
        columns=tuple(replace(c, value=fn(c.value)) for c in node.columns),
        order_by=tuple((fn(e), descending) for e, descending in node.order_by),
    )


def _having(
    node: plan.Having | plan.Aggregation | plan.Selection | plan.Windowed | plan.Source, fn: Change
) -> plan.Having | plan.Aggregation | plan.Selection | plan.Windowed | plan.Source:
    if isinstance(node, plan.Having):
        return replace(node, input=_aggregation(node.input, fn), predicate=fn(node.predicate))
    return _aggregation(node, fn)


def _aggregation(
    node: plan.Aggregation | plan.Selection | plan.Windowed | plan.Source, fn: Change
) -> plan.Aggregation | plan.Selection | plan.Windowed | plan.Source:
    if isinstance(node, plan.Aggregation):
        return replace(
            node,
            input=_selection(node.input, fn),
            keys=tuple(fn(key) for key in node.keys),
            calls=tuple(_call(call, fn) for call in node.calls),
        )
    return _selection(node, fn)


def _call(call: plan.AggregateCall, fn: Change) -> plan.AggregateCall:
    return replace(
        call,
        args=tuple(fn(arg) for arg in call.args),
        filter=fn(call.filter) if call.filter is not None else None,
        index=fn(call.index) if call.index is not None else None,
    )


def _selection(
    node: plan.Selection | plan.Windowed | plan.Source, fn: Change
) -> plan.Selection | plan.Windowed | plan.Source:
    if isinstance(node, plan.Selection):
        return replace(node, input=_windowed(node.input, fn), predicate=fn(node.predicate))
    return _windowed(node, fn)


def _windowed(node: plan.Windowed | plan.Source, fn: Change) -> plan.Windowed | plan.Source:
    if isinstance(node, plan.Windowed):
        windows = tuple(replace(w, args=tuple(fn(arg) for arg in w.args)) for w in node.windows)
        return replace(node, input=_source(node.input, fn), windows=windows)
    return _source(node, fn)


def _source(node: plan.Source, fn: Change) -> plan.Source:
    return replace(node, filter=fn(node.filter)) if node.filter is not None else node
