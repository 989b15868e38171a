"""Joins: the streams, and how each is joined to the streams before it (Esper reference, chapter EPL Clauses,
"Joining").
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_condition
from cepbook.lang.bind.scope import ERROR, Scope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.join_tree import JoinTree, equates_streams
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.plan.references import streams_read
from cepbook.lang.registry.foreign_words import foreign_word
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
        on = None if join is None or join.on is None else _bind_on(join.on, {*kinds}, position, scope)
        kind = "inner" if join is None else join.kind
        inputs.append(nodes.JoinInput(stream, kind, on, source.unidirectional or alone, span=source.span))
    _check_order(inputs, scope)
    return nodes.StreamJoin(tuple(inputs), span=node.sources[0].span.to(node.sources[-1].span))


def _check_order(inputs: Sequence[nodes.JoinInput], scope: Scope) -> None:
    """Refuse on-clauses that cannot be tested one after the other (see `JoinTree.order`)."""
    wide = [node.on for node in inputs if node.on is not None and len(streams_read(node.on)) > 2]
    if not wide or all(node.kind == "inner" for node in inputs):
        return
    tree = JoinTree(inputs)
    if any(tree.order(number) is None for number in range(len(inputs))):
        fact = "there is no order in which all on-clauses of these outer joins have the streams that they read"
        scope.wrong(fact, wide[-1].span, _FIRST)


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
        kind_of_join = foreign_word(source.alias or "", "clause")  # `from Tick asof join Quote`
        hint = hint if kind_of_join is None else kind_of_join.doc
        scope.wrong(fact, source.span, hint)


# What an on-clause of an outer join cannot read: values that are no part of the events that meet
_BEYOND_EVENTS = (x.Prev, x.Prior, x.InsertStream, x.SubqueryRef, x.ContextProp, x.TableRead)

_FIRST = "join two of them first, with insert into, and join that stream"


def _bind_on(node: ast.Expr, kinds: Set[str], position: int, scope: Scope) -> x.BoundExpr | None:
    """Bind the condition under which events of stream `position` meet those of the streams before it.

    One part of it equates properties of the two streams; Esper takes no other parts. In a join of `kinds` that are not
    all inner the equalities tie the stream to one stream before it, and the other parts read any stream before it.
    """
    inner = kinds <= {"inner"}
    on = bind_condition(node, scope.without_aggregates("the on-clause"), "the on-clause")
    if any(e.type == ERROR for e in x.walk(on)):
        return None
    streams = streams_read(on)
    late = [n for n in sorted(streams) if n > position]
    if late:
        span = next(e.span for e in x.conjuncts(on) if late[0] in streams_read(e))
        hint = "write it in the on-clause of that stream"
        scope.wrong(f"the stream `{scope.streams[late[0]].label}` is joined later than this on-clause", span, hint)
        return None
    if position not in streams:
        fact = f"the on-clause does not name the stream `{scope.streams[position].label}`, which it joins"
        hint = (
            "compare a value of it with one of a stream before it" if streams else "leave out `on …` to join every pair"
        )
        scope.wrong(fact, on.span, hint)
        return None
    ties = [e for e in x.conjuncts(on) if equates_streams(e) and position in streams_read(e)]
    if not ties:
        fact = "the on-clause equates no properties of its two streams"
        where = "write it in the where-clause" if inner else "begin with an equality of theirs: on a.k = b.k and …"
        scope.wrong(fact, on.span, where)
        return None
    if inner:
        return on
    beyond = next((e for e in x.walk(on) if isinstance(e, _BEYOND_EVENTS)), None)
    if beyond is not None:
        fact = "the on-clause of an outer join reads only events of its streams"
        scope.wrong(fact, beyond.span, "select the value into a stream first, with insert into, and join that stream")
        return None
    other = next((e for e in ties if streams_read(e) != streams_read(ties[0])), None)
    if other is not None:
        fact = "an on-clause of outer joins equates properties of a stream with one other stream, found several"
        scope.wrong(fact, other.span, "write the second one with `is`: on c.k = a.k and c.j is b.j")
        return None
    return on


def whole_event_columns(span: Span, scope: Scope) -> list[OutputColumn]:
    """Return the columns of ``select *``: an event of each stream, named by alias or ``stream_0``, ``stream_1`` …"""
    columns: list[OutputColumn] = []
    for position, stream in enumerate(scope.streams):
        name = stream.alias if stream.alias is not None else f"stream_{position}"
        type_ = t.event_of(stream.event_type.name) if stream.event_type is not None else ERROR
        columns.append(OutputColumn(name, x.EventOf(type_, position, span=span), span=span))
    return columns
