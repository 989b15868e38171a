"""Variant streams: ``create variant schema V as A, B`` or ``as *``, which take whole events of several types.

An event of a variant stream has the properties that all its types have, each in a type that holds the values of all;
and beside them, under names that EPL cannot write, the event that was inserted and the name of its type. What is not a
property of all types is looked up there (Esper reference, chapter EPL Reference: Clauses, "Variant Streams").
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.lang import ast
from cepbook.lang import expr as x
from cepbook.lang import types as t
from cepbook.lang.bind.names import Module, Scope
from cepbook.lang.bind.typing import coerce
from cepbook.lang.catalog import EVENT, TYPE, EventType
from cepbook.lang.plan import Column
from cepbook.lang.types import Type


def bind_variant(node: ast.CreateSchema, module: Module) -> EventType:
    """The type of the stream."""
    every = node.alias_of == ("*",)
    found = [] if every else [module.event_type(name, node.span) for name in node.alias_of if name != "*"]
    if not node.alias_of or (not every and "*" in node.alias_of):
        module.problems.add("wrong-parameter", "a variant stream is of some event types, or of `*`", node.span)
    for what, given in (("columns", node.columns), ("inherits", node.inherits), ("copyfrom", node.copyfrom)):
        if given:
            module.problems.add("wrong-parameter", f"a variant stream has no {what} of its own", node.span)
    types = [each for each in found if each is not None]
    properties: dict[str, Type] = {TYPE: t.STRING, EVENT: t.MAP}
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
    columns: Sequence[Column], source: EventType | None, target: EventType, span: Span, module: Module
) -> tuple[Column, ...]:
    """The row that a variant stream is given: of whole events of one of its types only."""
    assert target.variant is not None
    if columns or source is None:
        fact = f"`{target.name}` is a variant stream: it takes whole events"
        module.problems.add("wrong-parameter", fact, span, f"write insert into {target.name} select * from …")
        return ()
    if target.variant and not any(module.catalog.is_a(source.name, name) for name in target.variant):
        fact = f"the variant stream `{target.name}` takes {', '.join(target.variant)}, not {source.name}"
        module.problems.add("type-mismatch", fact, span)
        return ()
    whole = x.EventOf(t.event_of(source.name), 0, span=span)
    type_name = x.EventType(t.STRING, whole, source.name, span=span)
    found = [Column(TYPE, type_name, span=span), Column(EVENT, whole, span=span)]
    for name, type_ in target.shown.items():
        given = x.Prop(source.properties[name], 0, name, span=span)
        found.append(Column(name, coerce(given, type_), span=span))
    return tuple(found)


def variant_of(target: x.Expr, scope: Scope) -> EventType | None:
    """The variant stream that an expression has an event of."""
    found = scope.module.catalog.event_types.get(target.type.event or "")
    return found if found is not None and found.variant is not None else None


def part(target: x.Expr, type_: Type, name: str) -> x.Expr:
    """What an event of a variant stream keeps under a hidden name."""
    if isinstance(target, x.EventOf):
        return x.Prop(type_, target.stream, name, span=target.span)
    return x.Member(type_, target, name, span=target.span)


def looked_up(target: x.Expr, step: ast.NameStep, scope: Scope) -> x.Expr | None:
    """A property that only some types have, of an event of a variant stream; None where `step` means none."""
    found = variant_of(target, scope)
    if found is None or step.name in found.properties or not (step.optional or not found.variant):
        return None
    return x.Member(t.OBJECT, part(target, t.MAP, EVENT), step.name, span=step.span)


def looked_up_anywhere(step: ast.NameStep, scope: Scope) -> x.Expr | None:
    """A name that only a variant stream of any type can have."""
    for position, stream in enumerate(scope.streams if scope.params is None else ()):
        if stream.event_type is not None and stream.event_type.variant is not None:
            event = x.EventOf(t.event_of(stream.event_type.name), position, span=step.span)
            found = looked_up(event, step, scope)
            if found is not None:
                return found
    return None


def shown_columns(
    columns: Sequence[Column], wildcard: bool, over: bool, span: Span, scope: Scope
) -> tuple[tuple[Column, ...], bool]:
    """Columns in which no hidden name shows: of a wildcard those that all types have, of whole events the inserted one.

    `over`: columns win over those of the wildcard.
    """
    found: list[Column] = []
    source = scope.streams[0].event_type if scope.streams else None
    if wildcard and source is not None and source.variant is not None:
        if not source.shown:
            hint = "select the properties by their names"
            scope.problems.add("wrong-parameter", f"`*` of `{source.name}`, whose events have no type", span, hint)
        own = {column.name for column in columns} if over else ()
        shown = ((name, type_) for name, type_ in source.shown.items() if name not in own)
        found += [Column(name, x.Prop(type_, 0, name, span=span), span=span) for name, type_ in shown]
        wildcard = False
    for column in columns:
        whole = variant_of(column.value, scope)
        value = column.value if whole is None else part(column.value, t.MAP, EVENT)
        found.append(Column(column.name, value, span=column.span))
    return tuple(found), wildcard
