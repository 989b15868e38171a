"""Variant streams: ``create variant schema V as A, B`` or ``as *``, which take whole events of several types.

An event of a variant stream has the properties that all its types have, each in a type that holds the values of all;
and beside them, under names that EPL cannot write, the event that was inserted and the name of its type. What is not a
property of all types is looked up there (Esper reference, chapter EPL Reference: Clauses, "Variant Streams").
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
    """The type of the stream."""
    every = node.alias_of == ("*",)
    found = [] if every else [module.event_type(name, node.span) for name in node.alias_of if name != "*"]
    if not node.alias_of or (not every and "*" in node.alias_of):
        module.report("wrong-parameter", "a variant stream is of some event types, or of `*`", node.span)
    for what, given in (("columns", node.columns), ("inherits", node.inherits), ("copyfrom", node.copyfrom)):
        if given:
            module.report("wrong-parameter", f"a variant stream has no {what} of its own", node.span)
    types = [each for each in found if each is not None]
    properties: dict[str, Type] = {VARIANT_TYPE_NAME: t.STRING, VARIANT_EVENT: t.MAP}
    for name in types[0].shown if types else ():
        if all(name in each.shown for each in types):
            properties[name] = _common([each.shown[name] for each in types])
    return EventType(node.name, properties, variant=tuple(each.name for each in types))


def _common(types: Sequence[Type]) -> Type:
    found = types[0]
    for each in types[1:]:
        if each == found:
            continue
        found = t.promote(found, each) if t.is_numeric(found) and t.is_numeric(each) else t.OBJECT
    return found


def insert_variant(
    columns: Sequence[OutputColumn], source: EventType | None, target: EventType, span: Span, module: ModuleScope
) -> tuple[OutputColumn, ...]:
    """The row that a variant stream is given: of whole events of one of its types only."""
    assert target.variant is not None
    if columns or source is None:
        fact = f"`{target.name}` is a variant stream: it takes whole events"
        module.report("wrong-parameter", fact, span, f"write insert into {target.name} select * from …")
        return ()
    if target.variant and not any(module.catalog.is_a(source.name, name) for name in target.variant):
        fact = f"the variant stream `{target.name}` takes {', '.join(target.variant)}, not {source.name}"
        module.report("type-mismatch", fact, span)
        return ()
    whole = x.EventOf(t.event_of(source.name), 0, span=span)
    type_name = x.EventTypeName(t.STRING, whole, source.name, span=span)
    found = [OutputColumn(VARIANT_TYPE_NAME, type_name, span=span), OutputColumn(VARIANT_EVENT, whole, span=span)]
    for name, type_ in target.shown.items():
        given = x.Prop(source.properties[name], 0, name, span=span)
        found.append(OutputColumn(name, coerce(given, type_), span=span))
    return tuple(found)


def variant_of(target: x.BoundExpr, scope: Scope) -> EventType | None:
    """The variant stream that an expression has an event of."""
    found = scope.module.catalog.event_types.get(target.type.event or "")
    return found if found is not None and found.variant is not None else None


def hidden_property(target: x.BoundExpr, type_: Type, name: str) -> x.BoundExpr:
    """What an event of a variant stream keeps under a hidden name."""
    if isinstance(target, x.EventOf):
        return x.Prop(type_, target.stream, name, span=target.span)
    return x.MemberAccess(type_, target, name, span=target.span)


def variant_property(target: x.BoundExpr, step: ast.NameStep, scope: Scope) -> x.BoundExpr | None:
    """A property that only some types have, of an event of a variant stream; None where `step` means none."""
    found = variant_of(target, scope)
    if found is None or step.name in found.properties or not (step.optional or not found.variant):
        return None
    return x.MemberAccess(t.OBJECT, hidden_property(target, t.MAP, VARIANT_EVENT), step.name, span=step.span)


def find_variant_property(step: ast.NameStep, scope: Scope) -> x.BoundExpr | None:
    """A name that only a variant stream of any type can have."""
    for position, stream in enumerate(scope.streams if scope.params is None else ()):
        if stream.event_type is not None and stream.event_type.variant is not None:
            event = x.EventOf(t.event_of(stream.event_type.name), position, span=step.span)
            found = variant_property(event, step, scope)
            if found is not None:
                return found
    return None


def visible_columns(
    columns: Sequence[OutputColumn], wildcard: bool, over: bool, span: Span, scope: Scope
) -> tuple[tuple[OutputColumn, ...], bool]:
    """Columns in which no hidden name shows: of a wildcard those that all types have, of whole events the inserted one.

    `over`: columns win over those of the wildcard.
    """
    found: list[OutputColumn] = []
    source = scope.streams[0].event_type if scope.streams else None
    if wildcard and source is not None and source.variant is not None:
        if not source.shown:
            hint = "select the properties by their names"
            scope.report("wrong-parameter", f"`*` of `{source.name}`, whose events have no type", span, hint)
        own = {column.name for column in columns} if over else ()
        shown = ((name, type_) for name, type_ in source.shown.items() if name not in own)
        found += [OutputColumn(name, x.Prop(type_, 0, name, span=span), span=span) for name, type_ in shown]
        wildcard = False
    for column in columns:
        whole = variant_of(column.value, scope)
        value = column.value if whole is None else hidden_property(column.value, t.MAP, VARIANT_EVENT)
        found.append(OutputColumn(column.name, value, span=column.span))
    return tuple(found), wildcard
