"""``insert into``: create the target type, or check the columns against it (Esper reference, section "Merging
Streams").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import assignable, cast_hint, coerce
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.expressions.variant import insert_variant
from cepbook.lang.bind.scope import ERROR, ModuleScope, Scope, ScopeStream, type_text
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.nodes import Insert, OutputColumn, Selector
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

SELECTORS: Mapping[str | None, Selector] = {"istream": "istream", "irstream": "irstream", "rstream": "rstream"}
SelectedRows = tuple[tuple[OutputColumn, ...], bool]  # columns, wildcard


def bind_insert(
    node: ast.InsertInto, rows: SelectedRows, source: EventType | None, module: ModuleScope
) -> tuple[Insert, SelectedRows, EventType]:
    """Return the insert, the rows fitted to the target, and the target type."""
    check_distinct_columns(node.columns, node.span, module)
    bound = _bind_target(node, rows, source, module)
    store = module.catalog.stores.get(node.target)
    if store is not None and store.kind == "table":
        bound = (replace(bound[0], table=True, inside=store.context is not None), *bound[1:])
    if node.event_precedence is not None:
        bound = (replace(bound[0], precedence=_precedence(node.event_precedence, bound[2], module)), *bound[1:])
    return bound


def check_distinct_columns(columns: Sequence[str], span: Span, module: ModuleScope) -> None:
    """Report a column that a list names twice: one of its values would be lost."""
    twice = next((name for n, name in enumerate(columns) if name in columns[:n]), None)
    if twice is not None:
        module.report("duplicate-name", f"column `{twice}` is set twice", module.locate(twice, span))


def check_target_context(target: str, context: str | None, span: Span, module: ModuleScope) -> None:
    """Report a table of another context: the partition of the statement selects the partition of the table."""
    store = module.catalog.stores.get(target)
    if store is not None and store.kind == "table" and store.context not in (None, context):
        fact, hint = f"table `{target}` is in context `{store.context}`", f"begin with `context {store.context}`"
        module.report("wrong-context", fact, module.locate(target, span), hint)


def _precedence(node: ast.Expr, target: EventType, module: ModuleScope) -> x.BoundExpr | None:
    """Bind a precedence over the columns of the inserted event. It has an effect with `Config.precedence` only."""
    place = "event-precedence"
    scope = Scope(module, (ScopeStream(None, target, target.name),), no_aggregates=place, no_row_functions=place)
    scope.no_subqueries = place
    bound = fold_expr(bind_expr(node, scope))
    if bound.type not in (t.INT, t.SHORT, t.BYTE, ERROR):
        module.report("type-mismatch", f"event-precedence must be an int, found {type_text(bound.type)}", node.span)
    store = module.catalog.stores.get(target.name)
    if store is not None and store.kind == "table":
        module.wrong("event-precedence does not go with a table", node.span, "rows of a table are inserted at once")
    return None if bound.type == ERROR else bound


def _bind_target(
    node: ast.InsertInto, rows: SelectedRows, source: EventType | None, module: ModuleScope
) -> tuple[Insert, SelectedRows, EventType]:
    columns, wildcard = rows
    feeding = SELECTORS.get(node.selector, "istream")  # whatever the statement delivers (recorded)
    if node.columns:
        named = _rename_columns(node, columns, wildcard, module)
        if named is None:
            failed = EventType(node.target, row_type(columns, source if wildcard else None))
            return Insert(node.target, feeding, False, span=node.span), rows, failed
        columns = named
    target = module.catalog.event_types.get(node.target)
    if target is None and node.target in module.rejected_names:
        target = EventType(node.target, row_type(columns, source if wildcard else None))
        return Insert(node.target, feeding, False, span=node.span), (columns, wildcard), target
    if target is None:
        kinds = source.variant if wildcard and source is not None else None
        created = EventType(node.target, row_type(columns, source if wildcard else None), variant=kinds)
        module.catalog.event_types[node.target] = created
        module.provides["event type", node.target] = None
        return Insert(node.target, feeding, True, span=node.span), (columns, wildcard), created
    module.require("event type", node.target)
    if target.variant is not None:
        insert = Insert(node.target, feeding, False, span=node.span)
        variant_columns = insert_variant(columns, source if wildcard else None, target, node.span, module)
        return insert, (variant_columns, False), target
    if not wildcard:
        columns = _unwrapped(columns, target, module)
    fitted = _fit_columns(columns, source if wildcard else None, target, node.span, module)
    return Insert(node.target, feeding, False, span=node.span), fitted, target


def row_type(columns: Sequence[OutputColumn], source: EventType | None) -> Mapping[str, Type]:
    """Return names and types of a row: the wildcard's properties, then the columns.

    A whole event from a subquery becomes a map (recorded: whole_event_into_column).
    """
    properties = dict(source.properties) if source is not None else {}
    for column in columns:
        whole = isinstance(column.value, x.SubqueryRef) and column.value.type.event is not None
        properties[column.name] = t.MAP if whole else column.value.type
    return properties


def _rename_columns(
    node: ast.InsertInto, columns: Sequence[OutputColumn], wildcard: bool, module: ModuleScope
) -> tuple[OutputColumn, ...] | None:
    if wildcard:
        module.wrong("a column list does not go with a wildcard", node.span)
        return None
    if len(node.columns) != len(columns):
        module.wrong(f"number of columns: {len(node.columns)} listed, {len(columns)} selected", node.span)
        return None
    for name in dict.fromkeys(node.columns):
        if node.columns.count(name) > 1:
            module.report("duplicate-name", f"column `{name}` occurs twice", node.span)
    return tuple(OutputColumn(name, c.value, span=c.span) for name, c in zip(node.columns, columns, strict=True))


def _fit_columns(
    columns: Sequence[OutputColumn], source: EventType | None, target: EventType, span: Span, module: ModuleScope
) -> SelectedRows:
    if source is not None and not columns and module.catalog.is_a(source.name, target.name):
        return (), True
    if not target.properties and [column.name for column in columns] == ["null"]:
        return (), False  # ``select null``: an event without properties
    candidates = {
        name: OutputColumn(name, x.Prop(type_, 0, name, span=span), span=span) for name, type_ in _properties(source)
    }
    candidates.update({column.name: column for column in columns})
    fitted: dict[str, OutputColumn] = {}
    store = module.catalog.stores.get(target.name)
    selected = {column.name for column in columns}
    if candidates and not columns and target.properties.keys().isdisjoint(candidates):
        names = [f"`{name}`" for name in candidates]  # of others the target takes what it has
        what = "property" if len(names) == 1 else "properties"
        module.report("unknown-property", f"no {what} {', '.join(names)} in `{target.name}`", span)
    for name, column in candidates.items():
        type_ = target.properties.get(name)
        if type_ is None and name not in selected:
            continue
        if store is not None and name in store.calls and name in selected:
            fact = f"column `{name}` of `{target.name}` is an aggregate, nothing can be inserted into it"
            module.wrong(fact, column.span, "into table fills it")
            continue
        if type_ is None:
            hint = nearest_or_known_names(name, target.properties)
            module.report("unknown-property", f"no property `{name}` in `{target.name}`", column.span, hint)
        elif reports_struct(column.value, type_, module):
            continue
        elif (events := _as_events(column.value, type_, module)) is not None:
            fitted[name] = OutputColumn(name, fit_struct(events, type_, module), span=column.span)
        elif isinstance(column.value, x.StructOf) and type_.of is not None and type_.of.event is not None:
            element = fit_struct(column.value, type_.of, module)
            fitted[name] = OutputColumn(name, x.ArrayOf(type_, (element,), span=column.span), span=column.span)
        elif not _fits(column.value.type, type_, target, module):
            has = column.value.type
            fact = f"property `{name}` of `{target.name}` is {type_text(type_)}, selected is {type_text(has)}"
            module.report("type-mismatch", fact, column.span, cast_hint(has, type_))
        else:
            fitted[name] = OutputColumn(name, fit_struct(column.value, type_, module), span=column.span)
    if source is not None and not columns and dict(source.properties) == dict(target.properties):
        return (), True
    rows = tuple(
        fitted[name]
        if name in fitted
        else OutputColumn(name, x.Const(type_ if type_ != ERROR else t.NULL, None, span=span), span=span)
        for name, type_ in target.properties.items()
    )
    return rows, False


def _as_events(value: x.BoundExpr, type_: Type, module: ModuleScope) -> x.BoundExpr | None:
    """Return rows of a subquery, or the event of an aggregate, as a value for a property of events; None if they are
    nothing of the kind. An array takes all rows, and an event of an aggregate as its only element. For a single event
    a subquery without a row is null, and not an event of nulls.
    """
    several, event = type_.of is not None, (type_.of or type_).event
    if event is None or not (value.type.fields or is_event_assignable(value.type, type_.of or type_, module)):
        return None
    if isinstance(value, x.SubqueryRef) and (several or value.type.fields is not None):
        plan = module.subqueries[value.index]
        module.subqueries[value.index] = replace(plan, form="list" if several else "value")
        return replace(value, type=t.array_of(value.type) if several else value.type)
    if isinstance(value, x.AggregateRef) and several:
        null = x.Const(t.NULL, None, span=value.span)
        missing = x.Is(t.BOOLEAN, value, null, False, span=value.span)
        return x.CaseWhen(type_, ((missing, null),), x.ArrayOf(type_, (value,), span=value.span), span=value.span)
    return None


def _fits(source: Type, type_: Type, target: EventType, module: ModuleScope) -> bool:
    if is_event_assignable(source, type_, module):
        return True
    store = module.catalog.stores.get(target.name)
    if store is not None and store.kind == "window" and t.is_numeric(source) and t.is_numeric(type_):
        return source == type_
    return assignable(source, type_)


def _unwrapped(columns: tuple[OutputColumn, ...], target: EventType, module: ModuleScope) -> tuple[OutputColumn, ...]:
    """Return the properties of the only column if it is an event of the target type and no property of it."""
    column = columns[0] if len(columns) == 1 else None
    if column is None or column.value.type.event is None or column.name in target.properties:
        return columns
    if not module.catalog.stands_for(column.value.type.event, target.name):
        return columns
    shared, span = x.SharedExpr(column.value.type, column.value, span=column.span), column.span
    return tuple(
        OutputColumn(name, x.MemberAccess(type_, shared, name, span=span), span=span)
        for name, type_ in target.properties.items()
    )


def _properties(source: EventType | None) -> Sequence[tuple[str, Type]]:
    return tuple(source.properties.items()) if source is not None else ()


def reports_struct(value: x.BoundExpr, type_: Type, module: ModuleScope) -> bool:
    """Report a column of a struct that the event type lacks or has with another type. Return whether there is one."""
    event = (type_.of or type_).event
    event_type = module.catalog.event_types.get(event or "")
    properties = {} if event_type is None else event_type.properties
    for name, actual in ((value.type.of or value.type).fields or ()) if event_type is not None else ():
        if name not in properties:
            module.report("unknown-property", f"no property `{name}` in `{event}`", value.span)
            return True
        if not assignable(actual, properties[name]) and not is_event_assignable(actual, properties[name], module):
            kinds = f"is {type_text(properties[name])}, selected is {type_text(actual)}"
            fact = f"property `{name}` of `{event}` {kinds}"
            module.report("type-mismatch", fact, value.span, cast_hint(actual, properties[name]))
            return True
    return False


def fit_struct(value: x.BoundExpr, type_: Type, module: ModuleScope) -> x.BoundExpr:
    """Return `value` converted to `type_`; a struct for an event gets the numeric types of the event type."""
    return coerce(value, _with_columns(value.type, type_, module))


def _with_columns(source: Type, target: Type, module: ModuleScope) -> Type:
    """Return `target` with the columns that a struct of the type `source` sets, instead of an event type."""
    if source.of is not None and target.of is not None:
        return t.array_of(_with_columns(source.of, target.of, module))
    event_type = module.catalog.event_types.get(target.event or "")
    if source.fields is None or event_type is None:
        return target
    known = event_type.properties
    return t.struct_of(tuple((name, _with_columns(of, known.get(name, of), module)) for name, of in source.fields))


def is_event_assignable(source: Type, target: Type, module: ModuleScope) -> bool:
    """Return whether an event fits a property: of its own type or a supertype, also in arrays, or of type map.

    A row of a named window is an event of the type that the window was created ``as``, if it has all its properties.
    """
    if source.of is not None and target.of is not None:
        return is_event_assignable(source.of, target.of, module)
    if source.event is None or target.event is None:
        return source.event is not None and target == t.MAP
    catalog = module.catalog
    store = catalog.stores.get(source.event)
    if store is not None and store.partitioned_as is not None and catalog.is_a(store.partitioned_as, target.event):
        return (
            catalog.event_types[target.event].properties.items() <= catalog.event_types[store.name].properties.items()
        )
    return catalog.is_a(source.event, target.event)
