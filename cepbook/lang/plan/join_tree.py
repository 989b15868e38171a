"""The tree of a join: which streams the on-clauses tie together, and which events a row may lack.

An event meets the others along the on-clauses, outwards from its own stream, whatever the order of the text. A
neighbour may be missing if the join keeps events without it; then everything behind the neighbour is missing, too. A
neighbour that is required ends the row. The equality of an on-clause ties its stream to one before it; a stream whose
on-clause names no other, or that has none, is tied to the one before it.

::

    A left outer join B on … right outer join C on b.k = c.k          from A: A [B C]     from C: C [B A]
    an event of A without partners makes (a, null, null)             from B: B A C       [ ]: may be missing
"""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import streams_read
from cepbook.lang.plan.relational import JoinInput


class JoinTree:
    """The neighbours of each stream of a join, by the positions of the streams."""

    def __init__(self, inputs: Sequence[JoinInput]) -> None:
        self._optional: list[dict[int, bool]] = [{} for _ in inputs]  # by stream and neighbour
        self._inner: set[int] = set()  # the streams of inner joins, without whose events there is no row
        for number, node in enumerate(inputs[1:], 1):
            partner = _partner(node, number)
            self._optional[partner][number] = node.kind in ("left", "full")
            self._optional[number][partner] = node.kind in ("right", "full")
            if node.kind == "inner":
                self._inner |= {partner, number}

    def beyond(self, stream: int, origin: int | None = None) -> list[int]:
        """Return the neighbours of a stream in the order of the text, but the one from which it is reached."""
        return [neighbour for neighbour in self._optional[stream] if neighbour != origin]

    def origin(self, stream: int) -> int:
        """Return the earlier neighbour of a stream that is not the first: the one to which its on-clause ties it."""
        return min(self._optional[stream])

    def branch(self, stream: int, origin: int) -> list[int]:
        """Return `stream` and what lies behind it as seen from its neighbour `origin`, depth first."""
        return [stream, *(n for further in self.beyond(stream, origin) for n in self.branch(further, stream))]

    def optional(self, stream: int, origin: int) -> bool:
        """Return whether a row with an event of `origin` may lack `stream` and what lies behind it."""
        return self._optional[origin][stream] and self._inner.isdisjoint(self.branch(stream, origin))

    def required(self, stream: int, origin: int | None = None) -> set[int]:
        """Return the streams that each row with an event of `stream` has."""
        neighbours = (n for n in self.beyond(stream, origin) if not self.optional(n, stream))
        return {stream}.union(*(self.required(n, stream) for n in neighbours))


def _partner(node: JoinInput, number: int) -> int:
    """Return the earlier stream to which the on-clause of input `number` ties it."""
    conditions = [(equates_streams(e), streams_read(e)) for e in x.conjuncts(node.on)]
    ties = [streams - {number} for equates, streams in conditions if equates and number in streams]
    others = set[int]().union(*(ties or (streams for _, streams in conditions))) - {number}
    return min(others, default=number - 1)


def equates_streams(e: x.BoundExpr) -> bool:
    """Return whether `e` is ``a.x = b.y`` of properties of two streams, possibly nested or widened ones."""
    if not isinstance(e, x.ComparisonExpr) or e.op != "=":
        return False
    streams = {_property_stream(e.left), _property_stream(e.right)}
    return None not in streams and len(streams) == 2


def _property_stream(e: x.BoundExpr) -> int | None:
    match e:
        case x.Prop() | x.EventOf():
            return e.stream
        case x.MemberAccess():
            return _property_stream(e.target)
        case x.IndexAccess():
            return _property_stream(e.target) if isinstance(e.index, x.Const) else None
        case x.Convert():
            return _property_stream(e.operand)
    return None
