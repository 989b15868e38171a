"""Variant streams: ``create variant schema V as A, B`` or ``as *``, which take whole events of several types.

An event of a variant stream has the properties that all its types have, each with a type that holds the values of all.
Hidden columns, whose names EPL cannot write, hold the inserted event and the name of its type. Other properties are
read from the inserted event (Esper reference, chapter EPL Reference: Clauses, "Variant Streams").
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import coerce
from cepbook.lang.bind.scope import ModuleScope, Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import VARIANT_EVENT, VARIANT_TYPE_NAME, EventType
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_variant(node: ast.CreateSchema, module: ModuleScope) -> EventType:
    """Return the type of a variant stream."""
    every = "*" in node.alias_of
    types_found = [] if every else [module.event_type(name, node.span) for name in node.alias_of if name != "*"]
    if not node.alias_of:
        module.wrong("a variant stream is of some event types, or of `*`", node.span)
    for what, clause in (("columns", node.columns), ("inherits", node.inherits), ("copyfrom", node.copyfrom)):
        if clause:
            module.wrong(f"a variant stream has no {what} of its own", node.span)
    types = [event_type for event_type in types_found if event_type is not None]
    properties: dict[str, Type] = {VARIANT_TYPE_NAME: t.STRING, VARIANT_EVENT: t.MAP}
    for name in types[0].shown if types else ():
        if all(name in event_type.shown for event_type in types):
            properties[name] = _common([event_type.shown[name] for event_type in types])
    return EventType(node.name, properties, variant=tuple(event_type.name for event_type in types))


def _common(types: Sequence[Type]) -> Type:
    common = types[0]
    for type_ in types[1:]:
        if type_ == common:
            continue
        common = t.promote(common, type_) if t.is_numeric(common) and t.is_numeric(type_) else t.OBJECT
    return common


def insert_variant(
    columns: Sequence[OutputColumn], source: EventType | None, target: EventType, span: Span, module: ModuleScope
) -> tuple[OutputColumn, ...]:
    """Return the row that is inserted into a variant stream: a whole event of one of its types. A stream of any type
    takes rows of columns, too.
    """
    assert target.variant is not None
    through = source is not None and source.variant is not None
    if columns and not target.variant and not through:
        named = {} if source is None else {n: x.Prop(type_, 0, n, span=span) for n, type_ in source.properties.items()}
        row: dict[str, x.BoundExpr] = {**named, **{column.name: column.value for column in columns}}
        event = x.StructOf(t.MAP, tuple(row.items()), span=span)
        own = OutputColumn(VARIANT_TYPE_NAME, x.Const(t.STRING, f"<{module.statement}>"), span=span)
        return own, OutputColumn(VARIANT_EVENT, event, span=span)
    if source is not None and through and not columns and _holds_all(source, target, module):
        names = (VARIANT_TYPE_NAME, VARIANT_EVENT, *target.shown)
        props = {name: x.Prop(source.properties[name], 0, name, span=span) for name in names}
        return tuple(OutputColumn(n, coerce(prop, target.properties[n]), span=span) for n, prop in props.items())
    if columns or source is None:
        fact = f"`{target.name}` is a variant stream: it takes whole events"
        module.wrong(fact, span, f"write insert into {target.name} select * from …")
        return ()
    if target.variant and not any(module.catalog.is_a(source.name, name) for name in target.variant):
        fact = f"the variant stream `{target.name}` takes {', '.join(target.variant)}, not {source.name}"
        module.report("type-mismatch", fact, span)
        return ()
    whole = x.EventOf(t.event_of(source.name), 0, span=span)
    type_name = x.EventTypeName(t.STRING, whole, source.name, span=span)
    inserted = [OutputColumn(VARIANT_TYPE_NAME, type_name, span=span), OutputColumn(VARIANT_EVENT, whole, span=span)]
    for name, type_ in target.shown.items():
        prop = x.Prop(source.properties[name], 0, name, span=span)
        inserted.append(OutputColumn(name, coerce(prop, type_), span=span))
    return tuple(inserted)


def _holds_all(source: EventType, target: EventType, module: ModuleScope) -> bool:
    """Return whether every event of one variant stream fits into another."""
    if not target.variant or not source.variant:
        return not target.variant
    return all(any(module.catalog.is_a(one, other) for other in target.variant) for one in source.variant)


def variant_stream(target: x.BoundExpr, scope: Scope) -> EventType | None:
    """Return the variant stream whose event an expression is, or None."""
    event_type = scope.module.catalog.event_types.get(target.type.event or "")
    return event_type if event_type is not None and event_type.variant is not None else None


def hidden_property(target: x.BoundExpr, type_: Type, name: str) -> x.BoundExpr:
    """Read a hidden column of an event of a variant stream."""
    if isinstance(target, x.EventOf):
        return x.Prop(type_, target.stream, name, span=target.span)
    return x.MemberAccess(type_, target, name, span=target.span)


def variant_property(target: x.BoundExpr, step: ast.NameStep, scope: Scope) -> x.BoundExpr | None:
    """Read a property that only some types have from an event of a variant stream, or one of such a property; return
    None for others.
    """
    if isinstance(target, x.MemberAccess) and target.type == t.OBJECT and _is_inserted(target.target):
        return x.MemberAccess(t.OBJECT, target, step.name, span=target.span.to(step.span))
    variant = variant_stream(target, scope)
    if variant is None or step.name in variant.properties or not (step.optional or not variant.variant):
        return None
    return x.MemberAccess(t.OBJECT, hidden_property(target, t.MAP, VARIANT_EVENT), step.name, span=step.span)


def _is_inserted(target: x.BoundExpr) -> bool:
    """Return whether an expression is the inserted event of a variant stream, or a property below it."""
    if isinstance(target, (x.Prop, x.MemberAccess)) and target.name == VARIANT_EVENT:
        return True
    return isinstance(target, x.MemberAccess) and target.type == t.OBJECT and _is_inserted(target.target)


def find_variant_property(step: ast.NameStep, scope: Scope) -> x.BoundExpr | None:
    """Read a name that only a variant stream of any type can have, or return None."""
    for position, stream in enumerate(scope.streams if scope.params is None else ()):
        if stream.event_type is not None and stream.event_type.variant is not None:
            event = x.EventOf(t.event_of(stream.event_type.name), position, span=step.span)
            prop = variant_property(event, step, scope)
            if prop is not None:
                return prop
    return None


def visible_columns(
    columns: Sequence[OutputColumn], wildcard: bool, over: bool, into: str | None, span: Span, scope: Scope
) -> tuple[tuple[OutputColumn, ...], bool]:
    """Return the columns without hidden columns.

    A wildcard selects the properties that all types have; a whole event is the inserted event. With `over` columns
    replace those of the wildcard. If the wildcard makes the event type `into`, or fills a variant stream, it selects
    the hidden columns, too.
    """
    visible: list[OutputColumn] = []
    source = scope.streams[0].event_type if scope.streams else None
    known = scope.module.catalog.event_types.get(into or "")
    stays_variant = into is not None and (known is None or known.variant is not None)
    if wildcard and not stays_variant and source is not None and source.variant is not None:
        own = {column.name for column in columns} if over else ()
        properties = ((name, type_) for name, type_ in source.shown.items() if name not in own)
        visible += [OutputColumn(name, x.Prop(type_, 0, name, span=span), span=span) for name, type_ in properties]
        wildcard = False
    visible += [OutputColumn(column.name, _inserted(column.value, scope), span=column.span) for column in columns]
    return tuple(visible), wildcard


def _inserted(value: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    """Return the inserted events of a value that is an event, or an array of events, of a variant stream."""
    if variant_stream(value, scope) is not None:
        return hidden_property(value, t.MAP, VARIANT_EVENT)
    if value.type.of is None:
        return value
    element = x.LambdaParameter(value.type.of, scope.depth, "element", span=value.span)
    event = _inserted(element, scope)
    if event is element:
        return value
    of_each = x.LambdaExpr(event.type, scope.depth, ("element",), event, span=value.span)
    return x.MethodCall(t.array_of(event.type), "array.arrayOf", value, (of_each,), span=value.span)
