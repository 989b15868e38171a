"""The from-clause: streams with their filters, contained events and data windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.errors import Span
from cepbook.lang.bind.clauses.annotations import window_reclaim
from cepbook.lang.bind.clauses.contained_events import bind_contained_stream
from cepbook.lang.bind.clauses.filter import bind_filter, conjunction
from cepbook.lang.bind.clauses.join import bind_join
from cepbook.lang.bind.clauses.pattern import bind_pattern
from cepbook.lang.bind.clauses.window import bind_windows, has_derived_window, has_groupwin
from cepbook.lang.bind.scope import (
    FILTER,
    NO_FROM_CLAUSE,
    ModuleScope,
    Scope,
    ScopeStream,
    check_lists_stream,
    resolve_context,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.plan.pattern import Pattern
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast

MAX_STREAMS = 40  # of one statement: the time to join them grows with the cube
# Hints for streams that EPL reads from other systems
_STREAM_HINTS = {
    "method": "register a Python function that returns a list of rows: from E[select … from f(x)@type(Row)]",
    "sql": "read the rows into a named window or a table, or register a Python function that reads them",
}


def check_from_clause(node: ast.Select, module: ModuleScope) -> None:
    """Report streams that are parsed but not supported, and clauses that need a from-clause."""
    if not node.sources:
        _check_sourceless(node, module)
    if len(node.sources) > MAX_STREAMS:
        fact = f"a from-clause has at most {MAX_STREAMS} streams, found {len(node.sources):,}"
        module.reject(
            fact, node.sources[MAX_STREAMS].span, "join some of them in a statement of their own, `insert into`"
        )
    for source in node.sources:
        if isinstance(source.stream, ast.ExternalStream):
            module.unsupported(f"{source.stream.kind} streams", source.stream.span, _STREAM_HINTS[source.stream.kind])
        elif not isinstance(source.stream, ast.FilterStream) or not source.stream.contained:
            continue
        elif has_derived_window(source.windows):
            module.unsupported("a derived-value window over contained events", source.windows[-1].span)


def _check_sourceless(node: ast.Select, module: ModuleScope) -> None:
    """Check a statement without a from-clause, which reads the properties of its context partition.

    Without a context it delivers nothing and shows one row (recorded: select_without_from).
    """
    for item in node.items:
        if item.expr is None:
            hint = "write from and an event type after the select list"
            module.wrong("`*` without a from-clause selects nothing", item.span, hint)
    last = node.items[-1]
    if last.alias in module.catalog.event_types and isinstance(last.expr, ast.Chain):
        hint = f"write from before the event type: from {last.alias}"
        end = Span(node.span.end, node.span.end)
        module.report("syntax", "the statement has no from", end, hint)
    if node.group_by is not None:
        module.report("invalid-group-by", "group by without a from-clause", node.group_by.span)


def from_scope(node: ast.Select, module: ModuleScope) -> tuple[Scope, tuple[Pattern | None, ...]]:
    """Return the scope of the clauses, and the pattern of each stream (None for other streams)."""
    context, unknown_context = resolve_context(node.context, node.span, module)
    unchecked = False
    streams: list[ScopeStream] = []
    patterns: list[Pattern | None] = []
    for source in node.sources:
        event_type: EventType | None = None
        pattern: Pattern | None = None
        name = ""
        if isinstance(source.stream, ast.FilterStream):
            name = source.stream.type_name
            event_type = module.event_type(name, source.stream.span)
            if source.stream.contained or has_derived_window(source.windows):
                event_type = None
        elif isinstance(source.stream, ast.PatternStream):
            own = Scope(module, (), context, unknown_context=unknown_context)
            pattern = bind_pattern(source.stream.pattern, source.stream.annotations, own)
            event_type = None if has_derived_window(source.windows) else pattern.match_type
        patterns.append(pattern)
        unchecked = unchecked or event_type is None
        streams.append(ScopeStream(source.alias, event_type, name))
    unwindowed = len(node.sources) == 1 and not node.sources[0].windows and streams[0].name not in module.catalog.stores
    scope = Scope(module, tuple(streams), context, unwindowed, unchecked=unchecked, unknown_context=unknown_context)
    scope.into_table = node.into_table
    if node.sources:
        check_lists_stream(context, node, node.sources[0].stream.span, module)
    else:
        scope.no_aggregates = NO_FROM_CLAUSE
    return scope, tuple(patterns)


def bind_from(node: ast.Select, patterns: Sequence[Pattern | None], scope: Scope) -> nodes.FromNode | None:
    """Bind the streams with their windows and add their events to `scope`. Return None if a stream was reported."""
    if not node.sources:
        return nodes.SourceNode(nodes.NO_EVENTS, None, None, span=node.span)
    bound_streams: list[nodes.StreamNode] = []
    grouped = any(has_groupwin(source.windows) for source in node.sources)
    reclaim = window_reclaim(node.annotations, scope.module) if grouped else None
    for position, source in enumerate(node.sources):
        pattern = patterns[position]
        arriving = _arriving(source, scope.streams[position], pattern, scope)
        own = replace(scope.without_aggregates(FILTER), streams=(arriving,), no_row_functions=FILTER)
        own.unchecked = own.streams[0].event_type is None
        filters: list[x.BoundExpr] = []
        if isinstance(source.stream, ast.FilterStream):
            filters = [bind_filter(f, own) for f in source.stream.filters]
        outer = own.streams[0].event_type
        contained: tuple[nodes.ContainedSelection, ...] = ()
        if isinstance(source.stream, ast.FilterStream) and source.stream.contained and not own.unchecked:
            own, contained = bind_contained_stream(source.stream.contained, own)
        windows = bind_windows(source, reclaim, own)
        plain = node.match_recognize is None
        store = None if pattern is not None else resolve_store(source, scope.module, derives=plain)
        event_type = own.streams[0].event_type
        if event_type is not None and not own.unchecked:
            at = source.stream.span
            name = event_type.name if outer is None else outer.name
            read = nodes.SourceNode(name, conjunction(filters), source.alias, pattern, store, contained, span=at)
            bound_streams.append(windows.over(read))
            scope.data_windows, scope.no_row_functions = windows.holding, None
            if windows.event_type is not None or contained:
                scope_streams = list(scope.streams)
                scope_streams[position] = replace(scope_streams[position], event_type=windows.event_type or event_type)
                scope.streams = tuple(scope_streams)
                scope.unchecked = any(s.event_type is None for s in scope_streams)
    if len(bound_streams) < len(node.sources):
        return None
    return bound_streams[0] if len(bound_streams) == 1 else bind_join(node, bound_streams, scope)


def _arriving(source: ast.StreamSource, stream: ScopeStream, pattern: Pattern | None, scope: Scope) -> ScopeStream:
    """Return the stream as filters and windows see it: before a derived-value window or contained-event selection."""
    if pattern is not None:
        return replace(stream, event_type=pattern.match_type)
    if stream.event_type is not None or not isinstance(source.stream, ast.FilterStream):
        return stream
    return replace(stream, event_type=scope.module.catalog.event_types.get(source.stream.type_name))


def check_table_contexts(node: ast.Select, module: ModuleScope) -> None:
    """Report tables of another context (section "Context and Tables")."""
    for source in node.sources:
        name = source.stream.type_name if isinstance(source.stream, ast.FilterStream) else ""
        store = module.catalog.stores.get(name)
        if store is not None and store.kind == "table" and store.context not in (None, node.context):
            fact, hint = f"table `{name}` is in context `{store.context}`", f"begin with `context {store.context}`"
            module.report("wrong-context", fact, module.locate(name, source.stream.span), hint)


def resolve_store(source: ast.StreamSource, module: ModuleScope, *, derives: bool = False) -> StoreType | None:
    """Return the named window or table that a stream of the from-clause names, or None. Report data windows on it.

    With `derives` a named window may have a derived-value window.
    """
    if not isinstance(source.stream, ast.FilterStream):
        return None
    store = module.catalog.stores.get(source.stream.type_name)
    derived = all(window.name in WINDOWS and WINDOWS[window.name].derived for window in source.windows)
    if store is not None and source.windows and not (derives and derived and store.kind == "window"):
        kind = "named window" if store.kind == "window" else "table"
        fact = f"{kind} `{store.name}` stores its own rows and takes no data window"
        hint = "insert its events into a separate stream and add the data window there"
        at = source.windows[0].span.to(source.windows[-1].span)
        module.wrong(fact, at, hint if store.kind == "window" else None)
    if store is not None and store.kind == "table" and source.stream.contained:
        hint = "select them from the stream that fills it, or keep them in a named window"
        module.wrong("contained events of a table", source.stream.span, hint)
    return store
