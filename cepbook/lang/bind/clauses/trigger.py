"""The stream of an on-trigger: filtered events, rows that enter a named window, or matches of a pattern.

Source: Esper reference, "On-Trigger".
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.bind.clauses.contained_events import bind_contained_stream
from cepbook.lang.bind.clauses.filter import bind_filter, conjunction
from cepbook.lang.bind.clauses.pattern import bind_pattern
from cepbook.lang.bind.scope import FILTER, ModuleScope, Scope, ScopeStream, check_lists_stream, resolve_context
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.pattern import Pattern
from cepbook.lang.syntax import ast


@dataclass(frozen=True, slots=True)
class TriggerStream:
    """The `source` of an on-trigger, the type of its events, and the scope of the action."""

    scope: Scope
    event_type: EventType
    source: nodes.SourceNode


def bind_trigger(node: ast.OnTrigger, what: str, module: ModuleScope) -> TriggerStream | Scope:
    """Bind the trigger of `what` (``on … set``). Return a scope alone if its type is unknown or a table."""
    context, unknown_context = resolve_context(node.context, node.span, module)
    pattern: Pattern | None = None
    if isinstance(node.trigger.stream, ast.PatternStream):
        for annotation in node.trigger.stream.annotations:
            hint = "select from the pattern, insert into a stream, and trigger on that stream"
            module.report("unknown-annotation", f"`@{annotation.name}` in `{what}`", annotation.span, hint)
        around = Scope(module, (), context, unknown_context=unknown_context)
        pattern = bind_pattern(node.trigger.stream.pattern, node.trigger.stream.annotations, around)
    event_type = _event_type(node.trigger, pattern, what, module)
    stream = ScopeStream(node.trigger.alias, event_type, event_type.name if event_type is not None else "")
    scope = Scope(module, (stream,), context, True, unchecked=event_type is None, unknown_context=unknown_context)
    check_lists_stream(context, node, node.trigger.stream.span, module)
    filters: list[x.BoundExpr] = []
    if isinstance(node.trigger.stream, ast.FilterStream):
        own = scope.without_aggregates(FILTER)
        filters = [bind_filter(f, own) for f in node.trigger.stream.filters]
    if event_type is None:
        return scope
    at = node.trigger.stream.span
    contained: tuple[nodes.ContainedSelection, ...] = ()
    name = event_type.name
    if isinstance(node.trigger.stream, ast.FilterStream) and node.trigger.stream.contained:
        scope, contained = bind_contained_stream(node.trigger.stream.contained, scope)
        event_type = scope.streams[0].event_type
    if event_type is None:
        return scope
    store = module.catalog.stores.get(name) if pattern is None else None
    if store is not None and store.kind == "table":
        hint = "name an event type or a named window"
        module.wrong(f"`{store.name}` is a table and cannot trigger a statement", at, hint)
        return scope
    alias = node.trigger.alias
    source = nodes.SourceNode(name, conjunction(filters), alias, pattern, store, contained, span=at)
    return TriggerStream(scope, event_type, source)


def _event_type(trigger: ast.StreamSource, pattern: Pattern | None, what: str, module: ModuleScope) -> EventType | None:
    for window in trigger.windows:
        module.wrong(f"the stream of `{what}` takes no data window", window.span)
    if pattern is not None:
        return pattern.match_type
    if not isinstance(trigger.stream, ast.FilterStream):
        module.unsupported("this kind of stream", trigger.stream.span)
        return None
    return module.event_type(trigger.stream.type_name, trigger.stream.span)
