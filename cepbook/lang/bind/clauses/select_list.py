"""The select-clause: columns in output order, wildcards, whole events and the properties of tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.join import whole_event_columns
from cepbook.lang.bind.clauses.transpose import bind_transpose, is_transpose_call
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.expressions.table_access import as_selected_row
from cepbook.lang.bind.expressions.variant import visible_columns
from cepbook.lang.bind.scope import ERROR, MATCH_TYPE, AlreadyReported, Scope, error_expression, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.unparser import unparse


def bind_select_list(
    items: Sequence[ast.SelectItem], scope: Scope, into: ast.InsertInto | None = None
) -> tuple[tuple[OutputColumn, ...], bool]:
    """Return the columns and whether the wildcard is selected.

    The wildcard's columns come first, ``alias.* as name`` last (recorded: select_stream_wildcard). Where `into` lists
    the columns, their own names may be equal.
    """
    plain: list[OutputColumn] = []
    whole: list[OutputColumn] = []
    flat: list[OutputColumn] = []
    spread: list[OutputColumn] = []  # the properties of a transposed value
    wildcard = wins = False  # columns win over those of ``e.*``
    functions = frozenset(name.lower() for name in scope.module.catalog.functions)
    for item in items:
        if item.expr is not None and is_transpose_call(item.expr):
            try:
                spread += bind_transpose(item, None if into is None else into.target, scope, bind_expr)
            except AlreadyReported:
                continue
        elif item.expr is not None:
            value = as_selected_row(_bind_item(item, item.expr, scope), scope)
            if item.eventbean and not _holds_events(value.type):
                fact = f"@eventbean is for events, `{unparse(item.expr)}` is {type_text(value.type)}"
                scope.report("type-mismatch", fact, item.span, "leave it out")
            plain.append(OutputColumn(item.alias or _default_name(item.expr, value, functions), value, span=item.span))
        elif item.stream is not None and (tag := _tag(item.stream, scope)) is not None:
            if item.alias is None:
                flat += _tag_columns(tag, item.span, scope)
            else:
                whole.append(OutputColumn(item.alias, replace(tag, span=item.span), span=item.span))
        elif item.stream is None and len(scope.streams) > 1:
            whole += whole_event_columns(item.span, scope)
        elif len(scope.streams) > 1 and item.stream is not None and item.alias is None:
            flat += _stream_columns(item.stream, item.span, scope)
        elif item.stream is None or item.alias is None:
            wildcard = True
            if item.stream is not None:
                _stream_position(item.stream, item.span, scope)
                wins = True
        else:
            position = _stream_position(item.stream, item.span, scope)
            event_type = scope.streams[position].event_type if position is not None else None
            type_ = t.event_of(event_type.name) if event_type is not None else ERROR
            whole.append(OutputColumn(item.alias, x.EventOf(type_, position or 0, span=item.span), span=item.span))
    own = {column.name for column in (*flat, *plain, *whole)}
    plain += [column for column in spread if column.name not in own]
    columns, wildcard = visible_columns(
        (*flat, *plain, *whole), wildcard, wins, None if into is None else into.target, items[0].span, scope
    )
    if into is None or not into.columns:
        _check_names(columns, wildcard and not wins, scope)
    return columns, wildcard


def _bind_item(item: ast.SelectItem, node: ast.Expr, scope: Scope) -> x.BoundExpr:
    """Bind a column. With ``@eventbean`` a subquery is the list of its rows."""
    subquery = scope.module.subquery
    if item.eventbean and subquery is not None and isinstance(node, ast.Subquery) and not node.exists:
        try:
            return subquery(node.select, "list", None, "", node.span, scope)
        except AlreadyReported:
            return error_expression(node.span)
    return bind_expr(node, scope)


def _holds_events(type_: t.Type) -> bool:
    """Return whether a column holds events or rows, which it shows with and without ``@eventbean``."""
    of = type_.of or type_
    return of in (ERROR, t.MAP) or of.event is not None or of.fields is not None


def _default_name(node: ast.Expr, value: x.BoundExpr, functions: Collection[str]) -> str:
    """Return the name of a column without an alias.

    A subquery takes the name of its own column (recorded: scalar_default_column_name), if it has one.
    """
    if isinstance(node, ast.Subquery) and isinstance(value, x.SubqueryRef):
        item = node.select.items[0]
        if node.exists or len(node.select.items) > 1 or item.expr is None:
            return f"subselect_{value.index + 1}"
        return item.alias or unparse(item.expr, functions)
    return unparse(node, functions)


def _tag(name: str, scope: Scope) -> x.Prop | None:
    for position, stream in enumerate(scope.streams):
        nested = stream.event_type.properties.get(name) if stream.event_type is not None else None
        if nested is not None and nested.event is not None and not any(s.is_called(name) for s in scope.streams):
            return x.Prop(nested, position, name)
        if stream.event_type is not None and stream.event_type.name == MATCH_TYPE and not stream.is_called(name):
            type_ = stream.event_type.properties.get(name)
            if type_ is not None:
                return x.Prop(type_, position, name)
    return None


def _tag_columns(tag: x.Prop, span: Span, scope: Scope) -> list[OutputColumn]:
    """Return the columns of ``tag.*``, which are null if the tag is (recorded: pattern_select_star_or_null)."""
    event_type = scope.module.catalog.event_types.get(tag.type.event or "")
    if event_type is None:
        if tag.type != ERROR:
            fact = f"`{tag.name}.*` has no columns: it is {type_text(tag.type)}, not an event"
            scope.wrong(fact, span, f"select {tag.name} itself, or parts of it")
        return []
    target = replace(tag, span=span)
    return [
        OutputColumn(name, x.MemberAccess(type_, target, name, span=span), span=span)
        for name, type_ in event_type.properties.items()
    ]


def _stream_columns(name: str, span: Span, scope: Scope) -> list[OutputColumn]:
    """Return the columns of ``alias.*`` in a join."""
    position = _stream_position(name, span, scope)
    event_type = scope.streams[position].event_type if position is not None else None
    if event_type is None or position is None:
        return []
    return [
        OutputColumn(name, x.Prop(type_, position, name, span=span), span=span)
        for name, type_ in event_type.properties.items()
    ]


def _stream_position(name: str, span: Span, scope: Scope) -> int | None:
    for position, stream in enumerate(scope.streams):
        if stream.is_called(name):
            return position
    if not scope.unchecked:
        scope.report("unknown-property", f"no stream `{name}`", span, nearest_or_known_names(name, scope.event_names()))
    return None


def _check_names(columns: Sequence[OutputColumn], wildcard: bool, scope: Scope) -> None:
    seen: set[str] = set()
    counts = Counter(column.name for column in columns)
    event_type = scope.streams[0].event_type if scope.streams else None
    if wildcard and event_type is not None:
        seen.update(event_type.properties)
    for column in columns:
        if column.name in seen:
            hint = "rename one of them with as" if counts[column.name] > 1 else "the wildcard selects it"
            scope.report("duplicate-name", f"column `{column.name}` occurs twice", column.span, hint)
        seen.add(column.name)
