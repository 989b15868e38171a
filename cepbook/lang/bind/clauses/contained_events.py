"""Contained-event selection: ``Order[items]``, ``Order[select id, sku from items as i where …][parts]``.

Each bracket selects the events contained in a property or an expression of the preceding events. Names in a bracket
are properties of the contained event first, then columns that the preceding bracket selects, then properties of the
enclosing events (Esper reference, "Contained-Event Selection"). Rows of a bracket also have the columns of all brackets
before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.clauses.insert_into import fit_struct, reports_struct, row_type
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.coercion import assignable
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, ScopeStream, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.unparser import unparse

_HERE = "contained-event selection"


def bind_contained_stream(
    nodes: Sequence[ast.ContainedStep], scope: Scope, alias: str | None = None
) -> tuple[Scope, tuple[plan.ContainedSelection, ...]]:
    """Return the scope of the selected events and the selection from the one stream of `scope`.

    The events are called `alias`, or like the stream if it is None. If an error was reported, the
    selection is empty and names in the scope are not checked.
    """
    (outer,) = scope.streams
    selection = bind_contained_events(nodes, outer, scope)
    if selection is None:
        return replace(scope, streams=(replace(outer, event_type=None),), unchecked=True), ()
    contained, event_type = selection
    return replace(scope, streams=(replace(outer, event_type=event_type, alias=alias or outer.alias),)), contained


def bind_contained_events(
    nodes: Sequence[ast.ContainedStep], outer: ScopeStream, scope: Scope
) -> tuple[tuple[plan.ContainedSelection, ...], EventType] | None:
    """Return the selection from events of `outer` and the type of the selected events. None: an error was reported."""
    step_scope = replace(scope.without_aggregates(_HERE), no_row_functions=_HERE, no_subqueries=_HERE)
    enclosing = [replace(outer, fallback=True)]
    steps: list[plan.ContainedSelection] = []
    prior_columns: tuple[str, ...] = ()
    for node in nodes:
        try:
            step, item, event_type = _step(node, enclosing, prior_columns, step_scope)
        except AlreadyReported:
            return None
        steps.append(step)
        prior_columns = tuple(column.name for column in step.columns)
        selected = [ScopeStream(None, event_type, fallback=True)] if prior_columns else []
        enclosing[:0] = [ScopeStream(node.alias, item, fallback=True), *selected]
    return None if event_type is None else (tuple(steps), event_type)


def _step(
    node: ast.ContainedStep, enclosing: Sequence[ScopeStream], prior_columns: Sequence[str], scope: Scope
) -> tuple[plan.ContainedSelection, EventType, EventType]:
    """Return the bound bracket, the type of the contained events and the type of the rows."""
    path = bind_expr(node.path, replace(scope, streams=tuple(enclosing)))
    item, scalar = _element_type(node, path, scope)
    if node.type_name is not None:
        event = t.event_of(item.name)
        if reports_struct(path, event, scope.module):
            raise AlreadyReported(_HERE)
        path = fit_struct(path, event if path.type.of is None else t.array_of(event), scope.module)
    streams = (ScopeStream(node.alias, item), *enclosing)
    inner = replace(scope, streams=streams)
    condition = f"the condition of {_HERE}"
    where = None if node.where is None else bind_condition(node.where, inner, condition)
    columns: tuple[OutputColumn, ...] = ()
    wildcard = True
    if node.select is not None:
        items = [entry for entry in node.select if entry.expr is not None or entry.stream is not None]
        wildcard = len(items) < len(node.select)
        columns = bind_select_list(items, inner)[0] if items else ()
    before = enclosing[1].event_type if prior_columns else None
    prior = [(name, before.properties[name]) for name in prior_columns] if before is not None else []
    at = 2  # in `streams` the rows of the preceding bracket follow the contained event and the one before it
    columns = (*(OutputColumn(n, x.Prop(type_, at, n, span=node.span), span=node.span) for n, type_ in prior), *columns)
    _check_names(columns, item if wildcard else None, scope)
    step = plan.ContainedSelection(path, columns, wildcard, where, scalar, span=node.span)
    if wildcard and not columns:
        return step, item, item
    path_text = unparse(node.path)
    return step, item, EventType(f"<{path_text}>", row_type(columns, item if wildcard else None))


def _check_names(columns: Sequence[OutputColumn], item: EventType | None, scope: Scope) -> None:
    seen = set[str]() if item is None else set(item.properties)
    for column in columns:
        if column.name in seen:
            scope.report("duplicate-name", f"column `{column.name}` occurs twice", column.span)
        seen.add(column.name)


def _element_type(node: ast.ContainedStep, path: x.BoundExpr, scope: Scope) -> tuple[EventType, str | None]:
    """Return the type of the contained events, and for ``@type(T)`` over scalars the property of T that is set."""
    if path.type == ERROR:
        raise AlreadyReported(_HERE)
    element = path.type.of or path.type
    at = node.path.span
    if node.type_name is not None:
        event_type = scope.module.event_type(node.type_name.removesuffix("[]"), node.span)
        if event_type is None:
            raise AlreadyReported(_HERE)
        if element.event is None and element.fields is None and element not in (t.MAP, t.OBJECT):
            return event_type, _scalar_property(event_type, element, node, scope)
        return event_type, None
    if element.event is None:
        hint = "name the type of the events: [tags@type(Tag)]" if path.type.of is not None else None
        if path.type == t.BOOLEAN:
            hint = f"a filter stands in parentheses: ({unparse(node.path)})"
        fact = f"{_HERE} takes events, `{unparse(node.path)}` is {type_text(path.type)}"
        scope.mismatch(fact, at, hint)
    derived = [s.event_type for s in scope.streams if s.event_type is not None and s.event_type.name == element.event]
    event_type = scope.module.catalog.event_types.get(element.event) or (derived[0] if derived else None)
    if event_type is None:
        raise AlreadyReported(_HERE)
    return event_type, None


def _scalar_property(event_type: EventType, element: t.Type, node: ast.ContainedStep, scope: Scope) -> str:
    if len(event_type.properties) != 1:
        count = len(event_type.properties)
        fact = f"`{event_type.name}` has {count} properties; plain values need a type with one property"
        scope.reject(fact, node.span)
    ((name, type_),) = event_type.properties.items()
    if not assignable(element, type_):
        kinds = f"is {type_text(type_)}, the values are {type_text(element)}"
        scope.mismatch(f"property `{name}` of `{event_type.name}` {kinds}", node.span)
    return name
