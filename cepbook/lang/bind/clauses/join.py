"""Joins: the streams, and how each is joined to the streams before it (Esper reference, chapter EPL Clauses,
"Joining").
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_condition
from cepbook.lang.bind.scope import ERROR, Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.syntax import ast


def bind_join(node: ast.Select, streams: Sequence[nodes.StreamNode], scope: Scope) -> nodes.StreamJoin:
    """Return the join of `streams`; `scope` sees all of them."""
    marked = [source.unidirectional for source in node.sources]
    kinds = [join.kind for join in node.joins]
    if marked.count(True) > 1 and not (all(marked) and set(kinds) == {"full"}):
        fact = "several unidirectional streams"
        hint = "mark one stream, or all streams of full outer joins"
        scope.wrong(fact, node.sources[0].span.to(node.sources[-1].span), hint)
    stores = [stream.store if isinstance(stream, nodes.SourceNode) else None for stream in streams]
    tables = [store is not None and store.kind == "table" for store in stores]
    inputs: list[nodes.JoinInput] = []
    for position, (source, stream) in enumerate(zip(node.sources, streams, strict=True)):
        # a stream that is joined with tables alone needs no window: tables make no rows
        others = tables[:position] + tables[position + 1 :]
        alone = isinstance(stream, nodes.SourceNode) and stream.store is None and all(others)
        if tables[position] and isinstance(source.stream, ast.FilterStream) and source.stream.filters:
            fact = f"a table of a join takes no filter: `{scope.streams[position].label}`"
            scope.wrong(fact, source.stream.span, "write the condition in the where-clause")
        if not alone and not _meets_its_event(position, streams):
            _check_window(source, stream, any(marked), scope)
        join = node.joins[position - 1] if position else None
        on = None if join is None or join.on is None else _bind_on(join.on, join.kind, position, scope)
        kind = "inner" if join is None else join.kind
        inputs.append(nodes.JoinInput(stream, kind, on, source.unidirectional or alone, span=source.span))
    return nodes.StreamJoin(tuple(inputs), span=node.sources[0].span.to(node.sources[-1].span))


def _meets_its_event(position: int, streams: Sequence[nodes.StreamNode]) -> bool:
    """Return whether a stream of contained events can do without a window: it meets other streams of the same event."""
    stream, others = streams[position], (*streams[:position], *streams[position + 1 :])
    if not isinstance(stream, nodes.SourceNode) or stream.store is not None or not stream.contained:
        return False
    return any(nodes.source_of(other).event_type == stream.event_type for other in others)


def _check_window(source: ast.StreamSource, stream: nodes.StreamNode, directed: bool, scope: Scope) -> None:
    windowed = not isinstance(stream, nodes.SourceNode) or stream.store is not None
    if source.unidirectional and not isinstance(stream, nodes.SourceNode):
        fact = "a unidirectional stream stores no events, so it takes no data window"
        scope.wrong(fact, source.span, "leave out the data window, or `unidirectional`")
    if not source.unidirectional and not windowed:
        fact = "a stream of a join needs a data window: without one there are no rows to join"
        hint = "add one, such as #lastevent, #keepall or #time(1 min)"
        if not directed:
            hint += ", or mark it unidirectional"
        scope.wrong(fact, source.span, hint)


def _elsewhere(condition: x.BoundExpr, kind: str, scope: Scope) -> str:
    """Return where another condition of an on-clause goes: of an outer join the where-clause would drop rows."""
    if kind == "inner":
        return "other conditions belong in the where-clause"
    text = scope.module.text(condition.span)
    return f"the row stays without a match: test where a value is read, case when {text} then … end"


def _bind_on(node: ast.Expr, kind: str, position: int, scope: Scope) -> x.BoundExpr | None:
    """Bind ``a.x = b.y and …``: equalities of properties, all between one pair of streams that are joined so far."""
    on = bind_condition(node, scope.without_aggregates("the on-clause"), "the on-clause")
    pairs: set[frozenset[int]] = set()
    for conjunct in x.conjuncts(on):
        if any(e.type == ERROR for e in x.walk(conjunct)):
            return None
        between = _joined_streams(conjunct)
        if between is None:
            fact = "the on-clause takes equalities of properties of two streams, joined by `and`"
            scope.wrong(fact, conjunct.span, _elsewhere(conjunct, kind, scope))
            return None
        late = max(between)
        if late > position:
            scope.wrong(f"the stream `{scope.streams[late].label}` is joined later than this on-clause", conjunct.span)
            return None
        if late < position:
            fact = f"the on-clause does not name the stream `{scope.streams[position].label}`, which it joins"
            scope.wrong(fact, conjunct.span, "write a condition on other streams in the where-clause")
            return None
        pairs.add(between)
    if len(pairs) > 1:
        fact = "an on-clause joins one pair of streams, found several"
        scope.wrong(fact, node.span, "write further equalities in the where-clause")
    return on


def _joined_streams(e: x.BoundExpr) -> frozenset[int] | None:
    """Return the two streams of ``a.x = b.y``, or None for other expressions."""
    if not isinstance(e, x.ComparisonExpr) or e.op != "=":
        return None
    sides = [_property_stream(e.left), _property_stream(e.right)]
    numbers = frozenset(side for side in sides if side is not None)
    return numbers if len(numbers) == 2 else None


def _property_stream(e: x.BoundExpr) -> int | None:
    """Return the stream of a property, also of a nested property and of one that is widened for the comparison."""
    match e:
        case x.Prop():
            return e.stream
        case x.EventOf():
            return e.stream
        case x.MemberAccess():
            return _property_stream(e.target)
        case x.IndexAccess():
            return _property_stream(e.target) if isinstance(e.index, x.Const) else None
        case x.Convert():
            return _property_stream(e.operand)
    return None


def whole_event_columns(span: Span, scope: Scope) -> list[OutputColumn]:
    """Return the columns of ``select *``: an event of each stream, named by alias or ``stream_0``, ``stream_1`` …"""
    columns: list[OutputColumn] = []
    for position, stream in enumerate(scope.streams):
        name = stream.alias if stream.alias is not None else f"stream_{position}"
        type_ = t.event_of(stream.event_type.name) if stream.event_type is not None else ERROR
        columns.append(OutputColumn(name, x.EventOf(type_, position, span=span), span=span))
    return columns
