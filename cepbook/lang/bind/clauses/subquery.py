"""Subqueries: a select of one stream in place of an expression (Esper reference, section "Subqueries").

A value that a subquery reads from the streams around it becomes a `SubqueryParameter` of its plan and an argument of
the reference. The plan is therefore independent of the statement, with its own events as stream 0.
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.contained_events import bind_contained_stream
from cepbook.lang.bind.clauses.filter import bind_filter, conjunction
from cepbook.lang.bind.clauses.from_clause import resolve_store
from cepbook.lang.bind.clauses.group_by import QueryShape, bind_group_by, resolve_query_kind
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.clauses.window import bind_windows, has_derived_window
from cepbook.lang.bind.coercion import comparable, comparable_operands, orderable
from cepbook.lang.bind.expressions.expression import bind_clause
from cepbook.lang.bind.scope import (
    DATA_WINDOW,
    ERROR,
    FILTER,
    PATTERN,
    TIMER,
    AlreadyReported,
    OuterScope,
    Scope,
    ScopeStream,
    type_text,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

_FORM = "a subquery reads one event type, named window or table and has only where, group by and having"


def bind_subquery(
    node: ast.Select, form: nodes.SubqueryForm, left: x.BoundExpr | None, op: str, span: Span, scope: Scope
) -> x.BoundExpr:
    """Add the subquery to the statement and return a reference to it.

    `left` is compared by `op` with the rows. `form` is the requested form; a single value may turn out to be a struct
    or an event. Raises AlreadyReported.
    """
    module = scope.module
    if scope.no_subqueries is not None:
        constant = scope.no_subqueries in (DATA_WINDOW, TIMER)
        hint = "put its value into a variable: on … set v = (select …)" if constant else None
        module.reject(f"a subquery in {scope.no_subqueries}", span, hint)
    outside = OuterScope(scope)
    if left is not None:
        outside.parameter(left)
    stream, own = _from(node, scope, outside)
    where = None
    if node.where is not None:
        where = bind_clause(node.where, own.without_aggregates("the where-clause"), "the where-clause")
    starred = next((item for item in node.items if item.expr is None and item.stream is not None), None)
    if starred is not None and len(node.items) > 1:
        fact = f"a subquery selects `{starred.stream}.*` or columns, not both"
        module.reject(fact, starred.span, "name the columns that it needs")
    group_by = bind_group_by(node.group_by, own)
    columns, wildcard = bind_select_list(node.items, own)
    having = bind_clause(node.having, own, "the having-clause") if node.having is not None else None
    written = QueryShape("unaggregated", group_by.keys, columns, wildcard, having, (), group_by.levels)
    shape = resolve_query_kind(written, own, span)
    _check_shape(shape, own, form, span)
    if stream is None or any(column.value.type == ERROR for column in shape.columns):
        raise AlreadyReported("subquery")
    _check_window(node, shape, where, own)
    value, form = _result(shape, stream, form, left, op, scope, span)
    rows: nodes.SelectionNode = stream if where is None else nodes.Selection(stream, where, span=where.span)
    counted: nodes.AggregationNode = rows
    if shape.kind != "unaggregated":
        counted = nodes.Aggregation(rows, shape.keys, tuple(own.calls), shape.kind, span=node.span)
    with_having: nodes.HavingNode = counted
    if shape.having is not None:
        with_having = nodes.Having(counted, shape.having, span=shape.having.span)
    columns = shape.columns
    if left is not None:
        sides = comparable_operands(outside.parameter(left), columns[0].value)
        columns = (replace(columns[0], value=x.ComparisonExpr(t.BOOLEAN, op, *sides, span=span)),)
    root = nodes.Projection(with_having, columns, shape.wildcard, node.distinct, span=node.span)
    module.subqueries.append(nodes.SubqueryPlan(root, shape.kind, form, len(outside.values), op, span=span))
    return x.SubqueryRef(value, len(module.subqueries) - 1, tuple(outside.values), span=span)


def _from(node: ast.Select, around: Scope, outside: OuterScope) -> tuple[nodes.StreamNode | None, Scope]:
    module = around.module
    source = node.sources[0]
    if len(node.sources) > 1 or not isinstance(source.stream, ast.FilterStream):
        module.reject("a subquery of this form", source.span, _FORM)
    event_type = module.event_type(source.stream.type_name, source.stream.span)
    store = resolve_store(source, module, derives=True)
    own_context = None if around.context is None else around.context.name
    if store is not None and store.context not in (None, own_context):
        kind = "named window" if store.kind == "window" else "table"
        fact, hint = f"{kind} `{store.name}` is in context `{store.context}`", f"begin with `context {store.context}`"
        module.fail("wrong-context", fact, source.stream.span, hint)
    arriving = ScopeStream(source.alias, event_type, source.stream.type_name)
    scope = Scope(
        module,
        (arriving,),
        around.context,
        not source.windows and store is None,
        unchecked=event_type is None,
        unknown_context=around.unknown_context,
        no_subqueries="a subquery",
    )
    if event_type is None:
        return None, replace(scope, outside=outside)
    own = replace(scope.without_aggregates(FILTER), no_row_functions=FILTER)
    filters = [bind_filter(f, own) for f in source.stream.filters]
    contained: tuple[nodes.ContainedSelection, ...] = ()
    if source.stream.contained:
        own, contained = bind_contained_stream(source.stream.contained, own)
        scope.streams, scope.unchecked = own.streams, own.unchecked
        if own.unchecked:
            return None, replace(scope, outside=outside)
    windows = bind_windows(source, None, own)
    derived = windows.event_type
    if derived is not None:
        scope.streams = (replace(arriving, event_type=derived),)
    elif has_derived_window(source.windows):
        return None, replace(scope, unchecked=True, outside=outside)
    scope.data_windows, scope.no_row_functions, scope.outside = windows.holding, None, outside
    parts = (event_type.name, conjunction(filters), source.alias, None, store, contained)
    origin = nodes.SourceNode(*parts, span=source.stream.span)
    return windows.over(origin), scope


def _check_shape(shape: QueryShape, scope: Scope, form: nodes.SubqueryForm, span: Span) -> None:
    if shape.levels:
        scope.fail("invalid-group-by", "rollup, cube and grouping sets do not go with a subquery", span)
    for key in shape.keys:
        _refuse_parameters(key, "a group by key of a subquery", scope)
    for call in scope.calls:
        values = [*call.args, *(e for e, _ in call.criteria), *(e for e in (call.filter, call.index) if e is not None)]
        for e in values:
            _refuse_parameters(e, "an aggregate of a subquery", scope)
        if call.group_by is not None:
            scope.unsupported("group_by in an aggregate of a subquery", call.span)
    if shape.kind == "aggregated":
        hint = "add group by, or take an aggregate of the column, such as last(…)"
        scope.fail("invalid-group-by", "a subquery that aggregates cannot select columns of events, too", span, hint)
    if shape.kind == "aggregated_grouped":
        fact = "a grouped subquery selects its group by keys and aggregates, nothing else"
        scope.fail("invalid-group-by", fact, span)
    if form == "exists" and shape.keys and len(shape.columns) > 1:
        scope.reject("a grouped subquery within `exists` selects one column", span)


def _refuse_parameters(e: x.BoundExpr, where: str, scope: Scope) -> None:
    for subexpr in x.walk(e):
        if isinstance(subexpr, x.SubqueryParameter):
            fact = f"{where} cannot read the streams around it"
            hint = "write it outside of the aggregate" if "aggregate" in where else None
            scope.reject(fact, subexpr.span, hint)


def _check_window(node: ast.Select, shape: QueryShape, where: x.BoundExpr | None, scope: Scope) -> None:
    """Report a missing data window. Outside of filters a subquery needs none if it is not correlated and selects whole
    events or aggregates (recorded: window_required).
    """
    if not scope.unwindowed:
        return
    filters = scope.outside is not None and scope.outside.scope.no_aggregates in (FILTER, PATTERN)
    whole = shape.wildcard and not shape.columns
    correlated = where is not None and any(isinstance(subexpr, x.SubqueryParameter) for subexpr in x.walk(where))
    if (whole or shape.kind != "unaggregated") and not correlated and not filters:
        return
    name = scope.streams[0].name
    hint = f"such as {name}#keepall, {name}#lastevent"
    scope.reject(f"the subquery needs a data window over `{name}`", node.sources[0].span, hint)


def _result(
    shape: QueryShape,
    stream: nodes.StreamNode,
    form: nodes.SubqueryForm,
    left: x.BoundExpr | None,
    op: str,
    scope: Scope,
    span: Span,
) -> tuple[Type, nodes.SubqueryForm]:
    columns = shape.columns
    one: nodes.SubqueryForm
    if form == "exists":
        return t.BOOLEAN, form
    if form not in ("value", "list"):
        if shape.wildcard or len(columns) != 1:
            scope.reject("a comparison with a subquery takes one column", span)
        assert left is not None
        of = columns[0].value.type
        orders = op not in ("=", "!=")
        if not comparable(left.type, of) or (orders and not orderable(left.type, of)):
            fact = f"{type_text(left.type)} cannot be compared with {type_text(of)}, which the subquery gives"
            scope.mismatch(fact, span)
        return t.BOOLEAN, form
    if shape.wildcard:
        if columns:
            scope.reject("a subquery selects `*` or columns, not both", span)
        of, one = _event_type(stream), "event"
    elif len(columns) == 1:
        of, one = columns[0].value.type, "value"
    else:
        of, one = t.struct_of(tuple((column.name, column.value.type) for column in columns)), "struct"
    return (t.array_of(of), form) if form == "list" else (of, one)


def _event_type(stream: nodes.StreamNode) -> Type:
    if isinstance(stream, nodes.SourceNode):
        return t.event_of(stream.event_type)
    if isinstance(stream, nodes.Derivation):
        return t.MAP
    return _event_type(stream.input)
