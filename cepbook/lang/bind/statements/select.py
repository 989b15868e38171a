"""The select statement: from its clauses to a chain of plan nodes and its query kind.

Query kinds: Esper reference, chapter Basic Concepts, "Output of statements by kind".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cepbook.errors import NO_SPAN, did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import EVERY_ROW, Heading, check_hints, group_reclaim, has_hint
from cepbook.lang.bind.clauses.filter import check_index_types
from cepbook.lang.bind.clauses.from_clause import bind_from, check_from_clause, from_scope
from cepbook.lang.bind.clauses.group_by import QueryShape, bind_group_by, resolve_query_kind
from cepbook.lang.bind.clauses.insert_into import SELECTORS, bind_insert, row_type
from cepbook.lang.bind.clauses.into_table import bind_into_table, with_criteria
from cepbook.lang.bind.clauses.output_rate import bind_output_rate
from cepbook.lang.bind.clauses.recognize import bind_match_recognize
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.expressions.expression import bind_clause, bind_expr
from cepbook.lang.bind.scope import ERROR, ModuleScope, Scope, ScopeStream, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast


def bind_select(node: ast.Select, heading: Heading, module: ModuleScope) -> nodes.SelectStatement | None:
    """Return the statement, or None if it was reported."""
    check_from_clause(node, module)
    reported = len(module.problems.reported)
    scope, patterns = from_scope(node, module)
    stream = bind_from(node, patterns, scope)
    where = _where(node, scope)
    if node.match_recognize is not None:
        stream, where = bind_match_recognize(node.match_recognize, node, stream, where, scope), None
    group_by = bind_group_by(node.group_by, scope)
    check_hints(node, bool(group_by.levels), module)
    columns, wildcard = bind_select_list(with_criteria(node, module), scope, node.insert_into)
    having = bind_clause(node.having, scope, "the having-clause") if node.having is not None else None
    order_by = _order_by(node, scope, columns)
    _hint_aliases(node, module, reported)
    limit, offset = _limit(node, module)
    rate = bind_output_rate(node.output, scope) if node.output is not None else None
    event_type = scope.streams[0].event_type if len(scope.streams) == 1 else None
    if rate is not None and has_hint(node.annotations, EVERY_ROW):
        rate = replace(rate, every_row=True)
    written = QueryShape("unaggregated", group_by.keys, columns, wildcard, having, order_by, group_by.levels, where)
    reclaim = group_reclaim(node.annotations, module) if node.group_by is not None else None
    shape = resolve_query_kind(written, scope, node.span, gathered=node.output is not None or any(patterns))
    insert: nodes.Insert | None = None
    columns, calls = shape.columns, tuple(scope.calls)
    into: nodes.IntoTable | None = None
    if node.into_table is not None and stream is not None:
        fed = bind_into_table(node, columns, shape.keys, calls, module)
        stream = stream if fed is not None else None
        into, columns, calls = fed if fed is not None else (into, columns, calls)
    if node.insert_into is not None:
        if node.insert_into.columns and not wildcard:
            _refuse_stars(node.items, module)
        insert, (columns, wildcard), output = bind_insert(node.insert_into, (columns, wildcard), event_type, module)
    else:
        output = EventType(f"<{heading.name}>", row_type(columns, event_type if wildcard else None))
    if stream is None:
        return None
    selected = stream if where is None else nodes.Selection(stream, where, span=where.span)
    rows = _with_aggregation(selected, shape, reclaim, calls)
    passing = rows if shape.having is None else nodes.Having(rows, shape.having, span=shape.having.span)
    ordered = shape.order_by, limit, offset
    return nodes.SelectStatement(
        **heading.fields(node.span, module),
        root=nodes.Projection(passing, columns, wildcard, node.distinct, *ordered, span=node.span),
        selector=SELECTORS.get(node.selector, module.options.default_selector),
        kind=shape.kind,
        context=node.context,
        insert=insert,
        output_type=output,
        priority=heading.priority,
        drop=heading.drop,
        output=rate,
        into=into,
        delivery_key=None if node.delivery is None else _delivery_keys(node.delivery, output, module),
    )


def _hint_aliases(node: ast.Select, module: ModuleScope, since: int) -> None:
    """Add a hint to unknown names that the select-clause gives to a column, as SQL allows it."""
    spans = {item.alias: item.expr.span for item in node.items if item.alias is not None and item.expr is not None}
    for place, problem in enumerate(module.problems.reported[since:], since):
        name = module.text(problem.span).strip("`")
        own = spans.get(name)  # an expression does not read its own alias
        if problem.code == "unknown-property" and own is not None and not own.start <= problem.span.start < own.end:
            hint = f"`{name}` is what the select-list calls a column: write its expression here"
            module.problems.reported[place] = replace(problem, hint=hint)


def _refuse_stars(items: Sequence[ast.SelectItem], module: ModuleScope) -> None:
    for item in items:
        if item.expr is None and item.stream is None:
            module.wrong(
                "a column list does not go with a wildcard", item.span, "name the columns, or leave out the list"
            )


def _delivery_keys(node: ast.Delivery, output: EventType, module: ModuleScope) -> tuple[x.BoundExpr, ...]:
    kind = node.kind.lower()
    if kind not in ("grouped_delivery", "discrete_delivery"):
        hint = did_you_mean(kind, ("grouped_delivery", "discrete_delivery"))
        module.wrong(f"no delivery `{node.kind}`", node.span, hint)
    elif kind == "discrete_delivery" and node.keys:
        module.wrong("discrete_delivery takes no expressions", node.keys[0].span)
    elif kind == "grouped_delivery" and not node.keys:
        hint = "name the columns by which it is grouped: grouped_delivery(symbol)"
        module.wrong("grouped_delivery without expressions", node.span, hint)
    place = "the for-clause"
    scope = Scope(module, (ScopeStream(None, output, output.name),), no_aggregates=place, no_row_functions=place)
    scope.no_subqueries = place
    return tuple(fold_expr(bind_expr(key, scope)) for key in node.keys)


def _where(node: ast.Select, scope: Scope) -> x.BoundExpr | None:
    if node.where is None:
        return None
    condition = bind_clause(node.where, scope.without_aggregates("the where-clause"), "the where-clause")
    if scope.unwindowed and isinstance(node.sources[0].stream, ast.FilterStream):
        check_index_types(condition, scope)
    return condition


def _order_by(
    node: ast.Select, scope: Scope, columns: Sequence[nodes.OutputColumn]
) -> tuple[tuple[x.BoundExpr, bool], ...]:
    """Return the sort keys. Their aggregates must occur in the select-clause, also inside of other expressions."""
    if not node.order_by:
        return ()
    aliases = {column.name: column.value for column in columns}
    own = replace(scope, aliases=aliases, no_subqueries="order by")
    keys = tuple((bind_expr(item.expr, own), item.descending) for item in node.order_by)
    selected = _aggregates(column.value for column in columns)
    for item, (value, _) in zip(node.order_by, keys, strict=True):
        if not _aggregates([value]) <= selected:
            scope.report("no-order", "order by an aggregate that is not selected", item.expr.span, "select it, too")
        if not t.is_ordered(value.type):
            hint = "name one of its properties" if value.type.of is None else None
            fact = f"rows cannot be ordered by a value of type {value.type}"
            scope.report("no-order", fact, item.expr.span, hint)
    return keys


def _aggregates(values: Iterable[x.BoundExpr]) -> set[int]:
    return {subexpr.index for value in values for subexpr in x.walk(value) if isinstance(subexpr, x.AggregateRef)}


def _limit(node: ast.Select, module: ModuleScope) -> tuple[x.BoundExpr | None, x.BoundExpr | None]:
    if node.limit is None:
        return None, None
    return _row_count(node.limit.limit, "limit", module), _row_count(node.limit.offset, "offset", module)


def _row_count(node: ast.Expr | None, what: str, module: ModuleScope) -> x.BoundExpr | None:
    if node is None:
        return None
    bound = bind_expr(node, Scope(module, no_aggregates=f"the {what}"))
    if bound.type == ERROR:
        return None
    if not isinstance(bound, (x.Const, x.VariableRead)) or bound.type not in (t.INT, t.LONG, t.SHORT, t.BYTE):
        kind_text = "an expression" if not isinstance(bound, (x.Const, x.VariableRead)) else type_text(bound.type)
        module.wrong(f"the {what} must be an int, found {kind_text}", node.span)
        return None
    return bound


def _with_aggregation(
    rows: nodes.SelectionNode,
    shape: QueryShape,
    reclaim: tuple[x.BoundExpr, x.BoundExpr] | None,
    calls: tuple[nodes.AggregateCall, ...],
) -> nodes.AggregationNode:
    if shape.kind == "unaggregated":
        return rows
    return nodes.Aggregation(rows, shape.keys, calls, shape.kind, shape.levels, reclaim, span=NO_SPAN)
