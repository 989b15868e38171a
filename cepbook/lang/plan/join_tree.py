"""The tree of a join: which streams the on-clauses tie together, and which events a row may lack.

An event meets the others along the on-clauses, outwards from its own stream, whatever the order of the text. A
neighbour may be missing if the join keeps events without it; then everything behind the neighbour is missing, too. A
neighbour that is required ends the row. The equality of an on-clause ties its stream to one before it; a stream whose
on-clause names no other, or that has none, is tied to the one before it.

::

    A left outer join B on … right outer join C on b.k = c.k          from A: A [B C]     from C: C [B A]
    an event of A without partners makes (a, null, null)             from B: B A C       [ ]: may be missing

An on-clause that reads further streams before its own is tested once all of them are there. `JoinTree.order` says in
which order an event gets its partners then.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import streams_read
from cepbook.lang.plan.relational import JoinInput


@dataclass(frozen=True, slots=True)
class JoinStage:
    """A combination gets an event of `stream` from its event of the neighbour `origin`.

    With `optional` a combination that finds none goes on without one. `dependents` get their events next, and a
    combination for which one of these stages leads nowhere goes on without any event of `stream` and `dependents`.
    """

    origin: int
    stream: int
    optional: bool
    dependents: tuple[JoinStage, ...] = ()


class JoinTree:
    """The neighbours of each stream of a join, by the positions of the streams."""

    def __init__(self, inputs: Sequence[JoinInput]) -> None:
        self._optional: list[dict[int, bool]] = [{} for _ in inputs]  # by stream and neighbour
        self._inner: set[int] = set()  # the streams of inner joins, without whose events there is no row
        self._read = [streams_read(node.on) if node.on is not None else set[int]() for node in inputs]
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

    def order(self, start: int) -> tuple[JoinStage, ...] | None:
        """Return how an event of `start` gets its partners, so that the on-clause of an optional stream has all events
        that it reads: first its neighbours towards the first stream, then the others in the order of the text.

        None if there is no such order: two branches that may be missing as a whole read each other's streams.
        """
        return self._order([(start, n) for n in self.beyond(start)], {start}, range(len(self._read)))

    def _order(
        self, edges: list[tuple[int, int]], known: set[int], streams: Container[int]
    ) -> tuple[JoinStage, ...] | None:
        """Order the streams of `streams` that lie behind `edges`. They are added to `known`, and the edges that lead to
        other streams remain in `edges`.
        """
        stages = list[JoinStage]()
        while pending := sorted((e for e in edges if e[1] in streams), key=lambda e: (e[1] > e[0], e[1])):
            needs = {edge: self._needs(*edge) for edge in pending}
            # The on-clause of a required stream is tested once it has all streams that it reads, and may end the row.
            required = [edge for edge in pending if not self.optional(edge[1], edge[0])]
            ready = [e for e in pending if needs[e][1] <= known or (e in required and e[1] < e[0])]
            if not ready and not required:
                return None
            origin, stream = (ready or required)[0]
            edges.remove((origin, stream))
            known.add(stream)
            edges += [(stream, n) for n in self.beyond(stream, origin)]
            dependents = self._order(edges, known, needs[origin, stream][0])
            if dependents is None:
                return None
            stages.append(JoinStage(origin, stream, self.optional(stream, origin), dependents))
        return tuple(stages)

    def _needs(self, origin: int, stream: int) -> tuple[set[int], set[int]]:
        """Return the streams behind `stream` without which a row cannot have it, and the others that on-clauses of all
        these read. A row without a required stream ends, so that a required stream needs none behind it.
        """
        reached_from = {stream: origin}
        for n in self.branch(stream, origin):
            reached_from |= dict.fromkeys(self.beyond(n, reached_from[n]), n)
        together, further = set[int](), {stream}
        while further:
            together |= further
            read = set[int]().union(*(self._read[max(n, reached_from[n])] for n in together)) - together
            if not self.optional(stream, origin):
                break
            further = {b for n in together for b in self.beyond(n, reached_from[n]) if not self.optional(b, n)}
            further = (further | (read & reached_from.keys())) - together
            for n in list(further):
                between = reached_from[n]
                while between not in together:
                    further.add(between)
                    between = reached_from[between]
        return together - {stream}, read


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
