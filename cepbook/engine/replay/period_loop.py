"""Batches of statements in periodic contexts (``start … end …``), whose one partition events and times begin and end.

::

    events       . . . . . . . . S . . . . . . . . . . . E . . . . . . . .      S may begin a partition, E may end it
                 statement pass | | statement pass     | | statement pass       |: one by one, in an event loop

As long as no event meets a condition that begins or ends the partition, and no such time comes, the partition is the
same for all events. Such a stretch takes the statement pass if it is long, unless the event loop costs less there, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import product, repeat
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.tree_nodes import count_batch
from cepbook.engine.delivery.delta import CauseKey
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.replay.batch_inputs import stops_until
from cepbook.engine.replay.event_loop import EventLoop, SendEvent
from cepbook.engine.replay.statement_pass import ReplayNode, StatementPass
from cepbook.engine.time.clock_stops import ClockStops
from cepbook.engine.vectorized.column_batch import ColumnBatch

_LEAST = 256  # events of a stretch that is worth a statement pass
_MOST = 4096  # events that go one by one before the next look for a stretch


class PeriodLoop:
    """Runs `batches` through `nodes`, which are all statements of their contexts. `senders` pass single events to them,
    ``event_loop_pays(batches)`` tells whether that costs less than a statement pass.

    `failures` collects what single events and the clock raise; the rest of the batch is processed nevertheless.
    """

    def __init__(
        self,
        runtime: EventEngine,
        batches: Sequence[ColumnBatch],
        stops: ClockStops,
        nodes: Sequence[ReplayNode],
        senders: Mapping[str, SendEvent],
        event_loop_pays: Callable[[Sequence[ColumnBatch]], bool],
    ) -> None:
        self.failures: list[Exception] = []
        self._runtime = runtime
        self._batches = [batch for batch in batches if batch.times]
        self._stops = stops
        self._nodes = nodes
        self._senders = senders
        self._event_loop_pays = event_loop_pays
        names = {node.statement.steps.context for node in nodes}
        self._contexts = [c for c in runtime.contexts.values() if c.name in names and c.single_period]
        self._changes: dict[Any, Sequence[int] | None] = {}
        self._worker: EventLoop | StatementPass | None = None

    @property
    def cause(self) -> CauseKey:
        """The cause of the present delivery."""
        return (0, 1, 0, ()) if self._worker is None else self._worker.cause

    def run(self) -> None:
        """Process all events, and let the clock advance to the last stop."""
        begin = min((batch.places[0] for batch in self._batches), default=0)
        end = max((batch.places[-1] + 1 for batch in self._batches), default=0)
        count = 1  # of events that go one by one where a stretch is short; doubled while the next ones are short, too
        while begin < end:
            calm_until = self._calm_until(begin, end)
            stretch = self._pieces(begin, calm_until)
            if sum(len(piece.times) for piece in stretch) >= _LEAST:
                if self._event_loop_pays(stretch):
                    self._one_by_one(stretch, self._stops_within(stretch))
                else:
                    self._pass(stretch)
                begin, count = calm_until, 1
            else:
                piece_end = self._end_of_piece(begin, count, end)
                pieces = self._pieces(begin, piece_end)
                self._one_by_one(pieces, self._stops_within(pieces))
                begin, count = piece_end, min(2 * count, _MOST)
        self._one_by_one([], self._stops)

    def _calm_until(self, begin: int, end: int) -> int:
        """Return the position up to which no event from `begin` on, and no time, begins or ends a partition. An event
        behind the clock, which does not move it, goes one by one.
        """
        due, now = min(context.due for context in self._contexts), self._runtime.clock.now
        positions = [end]
        for batch in self._batches:
            first, at_due = bisect_left(batch.places, begin), bisect_left(batch.times, due)
            if first < len(batch.times) and batch.times[first] < now:
                return begin
            positions += [batch.places[at_due]] if at_due < len(batch.times) else []
            for context in self._contexts:
                changes = self._changes_of(context, batch)
                if changes is None:
                    return begin
                at = bisect_left(changes, begin)
                positions += [changes[at]] if at < len(changes) else []
        return max(min(positions), begin)

    def _changes_of(self, context: Context, batch: ColumnBatch) -> Sequence[int] | None:
        """Return the positions of the events that may begin or end the partition in its present state; None if all
        may.
        """
        ways = context.turning_conditions(batch.type)
        if not ways:
            return None if ways is None else ()
        key = context.name, batch.type, *ways  # one for a live partition, and one for none
        if key not in self._changes:
            passed = batch.passing(ways)
            self._changes[key] = None if passed is None else passed.batch.places
        return self._changes[key]

    def _end_of_piece(self, begin: int, count: int, end: int) -> int:
        """Return the position behind at least one event from `begin` on, and at most `count` events of each batch."""
        numbers = [(batch, bisect_left(batch.places, begin) + count) for batch in self._batches]
        return min([end, *(batch.places[number] for batch, number in numbers if number < len(batch.times))])

    def _pieces(self, begin: int, end: int) -> list[ColumnBatch]:
        """Return the events of each batch from position `begin` up to but excluding `end`."""
        bounds = [[bisect_left(batch.places, place) for place in (begin, end)] for batch in self._batches]
        pieces = zip(self._batches, bounds, strict=True)
        return [batch.part(first, last) for batch, (first, last) in pieces if first < last]

    def _stops_within(self, pieces: Sequence[ColumnBatch]) -> ClockStops:
        """Return the stops of the clock up to the last event of `pieces`."""
        return stops_until(self._stops, pieces, max(piece.times[-1] for piece in pieces))

    def _pass(self, pieces: Sequence[ColumnBatch]) -> None:
        stops, clock = self._stops_within(pieces), self._runtime.clock
        self._worker = statement_pass = StatementPass(self._runtime, pieces, stops)
        for context, piece in product(self._contexts, pieces):
            partitions = list(repeat(next(iter(context.partitions.values()), None), len(piece.times)))
            statement_pass.partitions[context.name, piece.type] = partitions
            if context.event_counters and self._is_read(context, piece.type):
                count_batch(partitions, piece.times, alone=len(pieces) == 1)
        statement_pass.run(self._nodes)
        clock.now = max(stops.last, clock.now)

    def _is_read(self, context: Context, type_name: str) -> bool:
        """Return True if events of a type concern the context or one of its statements."""
        members = (node.statement for node in self._nodes if node.statement.context is context)
        return context.concerns(type_name) or any(member.reads(type_name) for member in members)

    def _one_by_one(self, pieces: Sequence[ColumnBatch], stops: ClockStops) -> None:
        self._worker = loop = EventLoop(self._runtime, pieces, stops, self._senders)
        try:
            loop.run()
        finally:
            self.failures += loop.failures
