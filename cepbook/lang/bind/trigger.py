"""The stream of an on-trigger (Esper reference, "On-Trigger"): events that pass a filter, rows that enter a named
window, or matches of a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang import ast, plan
from cepbook.lang import expr as x
from cepbook.lang.bind.contained import within
from cepbook.lang.bind.create import conjunction
from cepbook.lang.bind.filters import bind_filter
from cepbook.lang.bind.names import Module, Scope, Stream, check_context, statement_context
from cepbook.lang.bind.pattern import bind_pattern
from cepbook.lang.catalog import EventType
from cepbook.lang.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Trigger:
    """What sets an on-trigger off: the `source`, the type of its events, and the scope of what it does with them."""

    scope: Scope
    event_type: EventType
    source: plan.Source


def bind_trigger(node: ast.OnTrigger, what: str, module: Module) -> Trigger | Scope:
    """The trigger of `what` (``on … set``); where its type is unknown, or that of a table, a scope alone."""
    context, open_context = statement_context(node.context, node.span, module)
    pattern: Pattern | None = None
    if isinstance(node.trigger.stream, ast.PatternStream):
        around = Scope(module, (), context, open_context=open_context)
        pattern = bind_pattern(node.trigger.stream.pattern, node.trigger.stream.annotations, around)
    event_type = _event_type(node.trigger, pattern, what, module)
    stream = Stream(node.trigger.alias, event_type, event_type.name if event_type is not None else "")
    scope = Scope(module, (stream,), context, True, open_=event_type is None, open_context=open_context)
    check_context(context, node, node.trigger.stream.span, module)
    filters: list[x.Expr] = []
    if isinstance(node.trigger.stream, ast.FilterStream):
        own = scope.without_aggregates("a filter")
        filters = [bind_filter(f, own) for f in node.trigger.stream.filters]
    if event_type is None:
        return scope
    at = node.trigger.stream.span
    contained: tuple[plan.Contained, ...] = ()
    name = event_type.name
    if isinstance(node.trigger.stream, ast.FilterStream) and node.trigger.stream.contained:
        scope, contained = within(node.trigger.stream.contained, scope)
        event_type = scope.streams[0].event_type
    if event_type is None:
        return scope
    store = module.catalog.stores.get(name) if pattern is None else None
    if store is not None and store.kind == "table":
        hint = "name an event type or a named window: a table tells nobody of its rows"
        module.problems.add("wrong-parameter", f"`{store.name}` is a table, it sets nothing off", at, hint)
        return scope
    alias = node.trigger.alias
    source = plan.Source(name, conjunction(filters), alias, pattern, store, contained, span=at)
    return Trigger(scope, event_type, source)


def _event_type(trigger: ast.StreamSource, pattern: Pattern | None, what: str, module: Module) -> EventType | None:
    for window in trigger.windows:
        module.problems.add("wrong-parameter", f"the stream of `{what}` takes no data window", window.span)
    if pattern is not None:
        return pattern.match_type
    if not isinstance(trigger.stream, ast.FilterStream):
        module.problems.unsupported("this kind of stream", trigger.stream.span)
        return None
    return module.event_type(trigger.stream.type_name, trigger.stream.span)
