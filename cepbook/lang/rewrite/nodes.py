"""Applying a function to every expression of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cepbook.lang import plan
from cepbook.lang.expr import Expr
from cepbook.lang.rewrite.trees import map_contained, map_context, map_crontab, map_keyed, map_pattern

Change = Callable[[Expr], Expr]


def map_statement(statement: plan.StatementPlan, fn: Change) -> plan.StatementPlan:
    """`statement` with `fn` applied to each of its top-level expressions (conditions, keys, columns …)."""
    if statement.subqueries:
        mapped = tuple(replace(each, root=_projection(each.root, fn)) for each in statement.subqueries)
        statement = replace(statement, subqueries=mapped)
    if isinstance(statement, plan.SelectStatement):
        output = None if statement.output is None else _output(statement.output, fn)
        found = replace(statement, root=_projection(statement.root, fn), output=output)
        if isinstance(found, plan.CreateWindowStatement) and found.fill is not None:
            return replace(found, fill=_fill(found.fill, fn))
        return found
    if isinstance(statement, plan.OnSetStatement):
        return replace(
            statement,
            source=_source(statement.source, fn),
            where=fn(statement.where) if statement.where is not None else None,
            assignments=_assignments(statement.assignments, fn),
        )
    if isinstance(statement, plan.MergeStatement):
        return replace(
            statement,
            source=_source(statement.source, fn),
            predicate=None if statement.predicate is None else fn(statement.predicate),
            branches=tuple(_merge_branch(branch, fn) for branch in statement.branches),
        )
    if isinstance(statement, plan.InsertRows):
        rows = tuple(tuple(replace(c, value=fn(c.value)) for c in row) for row in statement.rows)
        return replace(statement, rows=rows)
    if isinstance(statement, plan.SplitStatement):
        branches = tuple(_branch(branch, fn) for branch in statement.branches)
        return replace(statement, source=_source(statement.source, fn), branches=branches)
    if isinstance(statement, plan.UpdateStatement):
        predicate = None if statement.predicate is None else fn(statement.predicate)
        return replace(statement, changes=tuple(_change(c, fn) for c in statement.changes), predicate=predicate)
    if isinstance(statement, plan.CreateVariableStatement):
        return replace(statement, initial=None if statement.initial is None else fn(statement.initial))
    if isinstance(statement, plan.CreateContextStatement):
        return replace(statement, spec=map_keyed(statement.spec, fn))
    if isinstance(statement, plan.CreateContextTreeStatement):
        return replace(statement, spec=map_context(statement.spec, fn))
    return statement


def _fill(fill: plan.Fill, fn: Change) -> plan.Fill:
    columns = tuple(replace(c, value=fn(c.value)) for c in fill.columns)
    return replace(fill, where=None if fill.where is None else fn(fill.where), columns=columns)


def _assignments(assignments: tuple[plan.Assignment, ...], fn: Change) -> tuple[plan.Assignment, ...]:
    return tuple(replace(a, value=fn(a.value), path=tuple(map(fn, a.path))) for a in assignments)


def _merge_branch(branch: plan.MergeBranch, fn: Change) -> plan.MergeBranch:
    actions = tuple(
        replace(
            action,
            predicate=None if action.predicate is None else fn(action.predicate),
            columns=tuple(replace(c, value=fn(c.value)) for c in action.columns),
            changes=tuple(_change(change, fn) for change in action.changes),
        )
        for action in branch.actions
    )
    return replace(branch, condition=None if branch.condition is None else fn(branch.condition), actions=actions)


def _branch(branch: plan.SplitBranch, fn: Change) -> plan.SplitBranch:
    predicate = None if branch.predicate is None else fn(branch.predicate)
    columns = tuple(replace(c, value=fn(c.value)) for c in branch.columns)
    contained = tuple(map_contained(each, fn) for each in branch.contained)
    return replace(branch, columns=columns, predicate=predicate, contained=contained)


def _change(change: plan.Change, fn: Change) -> plan.Change:
    return replace(change, value=fn(change.value), path=tuple(map(fn, change.path)))


def _output(output: plan.Output, fn: Change) -> plan.Output:
    def maybe(e: Expr | None) -> Expr | None:
        return None if e is None else fn(e)

    return replace(
        output,
        rate=maybe(output.rate),
        after=maybe(output.after),
        crontab=None if output.crontab is None else map_crontab(output.crontab, fn),
        when=maybe(output.when),
        then_set=_assignments(output.then_set, fn),
        terminated_when=maybe(output.terminated_when),
        terminated_then=_assignments(output.terminated_then, fn),
    )


def _projection(node: plan.Projection, fn: Change) -> plan.Projection:
    return replace(
        node,
        input=_having(node.input, fn),
        columns=tuple(replace(c, value=fn(c.value)) for c in node.columns),
        order_by=tuple((fn(e), descending) for e, descending in node.order_by),
    )


def _having(node: plan.HavingNode, fn: Change) -> plan.HavingNode:
    if isinstance(node, plan.Having):
        return replace(node, input=_aggregation(node.input, fn), predicate=fn(node.predicate))
    return _aggregation(node, fn)


def _aggregation(node: plan.AggregationNode, fn: Change) -> plan.AggregationNode:
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
        group_by=tuple(fn(key) for key in call.group_by) if call.group_by is not None else None,
        criteria=tuple((fn(e), descending) for e, descending in call.criteria),
    )


def _selection(node: plan.SelectionNode, fn: Change) -> plan.SelectionNode:
    if isinstance(node, plan.Selection):
        return replace(node, input=_from(node.input, fn), predicate=fn(node.predicate))
    return _from(node, fn)


def _from(node: plan.FromNode, fn: Change) -> plan.FromNode:
    if isinstance(node, plan.Join):
        return replace(node, inputs=tuple(_input(each, fn) for each in node.inputs))
    if isinstance(node, plan.Recognize):
        return _recognize(node, fn)
    return _stream(node, fn)


def _recognize(node: plan.Recognize, fn: Change) -> plan.Recognize:
    below = _stream(node.input, fn)
    variables = [replace(v, condition=None if v.condition is None else fn(v.condition)) for v in node.variables]
    return replace(
        node,
        input=below,
        predicate=None if node.predicate is None else fn(node.predicate),
        keys=tuple(fn(key) for key in node.keys),
        variables=tuple(variables),
        measures=tuple(replace(c, value=fn(c.value)) for c in node.measures),
        interval=None if node.interval is None else fn(node.interval),
    )


def _input(node: plan.JoinInput, fn: Change) -> plan.JoinInput:
    return replace(node, stream=_stream(node.stream, fn), on=None if node.on is None else fn(node.on))


def _stream(node: plan.StreamNode, fn: Change) -> plan.StreamNode:
    if isinstance(node, plan.Windowed):
        below = _stream(node.input, fn)
        assert not isinstance(below, plan.Windowed)
        return replace(node, input=below, windows=tuple(_window(w, fn) for w in node.windows))
    if isinstance(node, plan.Derived):
        below = _stream(node.input, fn)
        assert not isinstance(below, plan.Derived)
        return replace(
            node,
            input=below,
            args=tuple(fn(arg) for arg in node.args),
            extra=tuple(replace(c, value=fn(c.value)) for c in node.extra),
            keys=tuple(replace(c, value=fn(c.value)) for c in node.keys),
        )
    return _source(node, fn)


def _source(node: plan.Source, fn: Change) -> plan.Source:
    pattern = None if node.pattern is None else map_pattern(node.pattern, fn)
    contained = tuple(map_contained(each, fn) for each in node.contained)
    return replace(node, filter=None if node.filter is None else fn(node.filter), pattern=pattern, contained=contained)


def _window(window: plan.WindowSpec, fn: Change) -> plan.WindowSpec:
    return replace(
        window,
        args=tuple(fn(arg) for arg in window.args),
        criteria=tuple((fn(e), descending) for e, descending in window.criteria),
        calls=tuple(_call(call, fn) for call in window.calls),
    )
