"""Event loops: the events of batches one by one, with the stops of the clock between them.

Batches are processed in this way by statements that depend on the order among themselves, and by statements with plain
listeners.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.delivery.delta import CauseKey
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.replay.batch_inputs import stops_until
from cepbook.engine.replay.statement_pass import ReplayNode, StatementPass
from cepbook.engine.time.clock_stops import ClockStops
from cepbook.engine.vectorized.column_batch import ColumnBatch, FilteredBatch, iterate_events, merge_positions

_Batches = Sequence[ColumnBatch]
_END = 1 << 62  # the position behind all events
SendEvent = Callable[[dict[str, Any]], None]
# selects the events of a batch to send; None: all
PrefilterBatch = Callable[[ColumnBatch], FilteredBatch | None]


@dataclass(eq=False)
class EventLoop:
    """Sends the events of `batches` by the sender of their type.

    The clock stops at `stops`. While `run` works, `place` is the position of the present event, and `event` the event
    being sent, or None while the clock advances to it. `failures` collects what senders and clock raise; the rest of
    the batch is processed nevertheless.
    """

    _runtime: EventEngine
    _batches: _Batches
    _stops: ClockStops
    _senders: Mapping[str, SendEvent]
    _prefilter: PrefilterBatch = lambda batch: None
    place: int = -1
    event: tuple[str, dict[str, Any]] | None = None
    failures: list[Exception] = field(default_factory=list)
    advancing: bool = False  # True while this loop calls the engine itself
    _same_time: bool = False  # the clock stops again at the same time
    _stop: Callable[[], bool] = lambda: False

    @property
    def cause(self) -> CauseKey:
        """The cause of the present delivery."""
        return self.place, int(self.event is not None), 0, ()

    def seen(self, batch: ColumnBatch) -> int:
        """Return the number of events of a batch before the present position."""
        if self.event is not None:
            return bisect_left(batch.places, self.place)
        return (bisect_right if self._same_time else bisect_left)(batch.times, self._runtime.clock.now)

    def processed(self, batch: ColumnBatch) -> int:
        """Return the number of events of a batch that were sent, once `run` has returned."""
        if self.place == _END and self._runtime.clock.now >= self._stops.last:
            return len(batch.times)
        return self.seen(batch) + self.is_of(batch)

    def is_of(self, batch: ColumnBatch) -> bool:
        """Return True if the present event is one of the batch."""
        return self.event is not None and self.event[0] == batch.type

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Send all events, or end when `stop` returns True after an event or a stop of the clock."""
        self._stop = stop
        clock, senders = self._runtime.clock, self._senders
        batches = [batch for batch in self._batches if batch.type in senders]
        places, heads = [], []
        for batch in batches:
            passed = self._prefilter(batch)
            filtered = batch if passed is None else passed.batch
            places.append(filtered.places)
            heads.append(zip(filtered.times, iterate_events(filtered.columns, len(filtered.times)), strict=True))
        sends = [(batch.type, senders[batch.type]) for batch in batches]
        for place, number in zip(*merge_positions(places), strict=True):
            time, event = next(heads[number])
            self.place = place
            if time > clock.now:
                if time < clock.due:
                    clock.now = time
                else:
                    self._advance(time)
                    if stop():
                        return
            name, send = sends[number]
            self.event = name, event
            try:
                send(event)
            except Exception as failure:  # noqa: BLE001 - raised when the batch is over
                self._record_failure(failure)
            if stop():
                return
            self.event = None
        self.place = _END
        self._advance(self._stops.last)

    def _advance(self, t: int) -> None:
        clock = self._runtime.clock
        for time in self._stops.on_the_way(clock, clock.now, t):
            self._advance_to(time)
            if self._stop():
                return
        if t > clock.now:
            self._advance_to(t)

    def _advance_to(self, t: int) -> None:
        self.advancing = True
        self._same_time = t <= self._runtime.clock.now
        try:
            self._runtime.advance(t)
        except Exception as failure:  # noqa: BLE001 - raised when the batch is over
            self._record_failure(failure)

    def _record_failure(self, failure: Exception) -> None:
        if not self._runtime.turn.raised_at_end(failure):
            raise failure
        self.failures.append(failure)


class HybridLoop:
    """Batches that some statements process event by event, and others (`nodes`) in a statement pass.

    The nodes follow when the others have seen the whole batch. But if user code calls the engine in between, as a
    listener may, the nodes run up to the present event at once, and from then on every event is sent to all statements
    (`called`).
    """

    def __init__(self, runtime: EventEngine, batches: _Batches, stops: ClockStops, nodes: Sequence[ReplayNode]) -> None:
        self.called = False
        self._worker: EventLoop | StatementPass | None = None
        self._runtime = runtime
        self._batches = batches
        self._stops = stops
        self._nodes = nodes
        self._timers = [node.statement.timed for node in nodes]
        self._begin = runtime.clock.now
        self._seen = [0] * len(batches)  # events before the present one when user code called the engine
        self._shown = runtime.routes.dispatched  # how far the present event was dispatched at that point

    def run_until(
        self, until: Callable[[], bool], senders: Mapping[str, SendEvent], prefilter: PrefilterBatch
    ) -> EventLoop:
        """Process the batches until `until` returns True, where no user code is called. Return the event loop."""
        self._worker = singly = EventLoop(self._runtime, self._batches, self._stops, senders, prefilter)
        self._runtime.clock.suspend_timers(self._timers)
        try:
            singly.run(until)
        finally:
            if not self._runtime.turn.broken:
                self._up_to([singly.processed(batch) for batch in self._batches])
        return singly

    def run(self, senders: Mapping[str, SendEvent], prefilter: PrefilterBatch, own: frozenset[str]) -> list[Exception]:
        """Process the batches with all statements and return the failures that no listener was notified of.

        `senders` pass events to the statements that get them one by one; `own` has the derived types that only these
        read.
        """
        runtime = self._runtime
        self._worker = singly = EventLoop(runtime, self._batches, self._stops, senders, prefilter)
        runtime.clock.suspend_timers(self._timers)

        def enter() -> None:
            if singly.advancing:
                singly.advancing = False
            elif not self.called:
                self._call(singly)

        try:
            with runtime.routes.announced(enter, own):
                runtime.entered, before = enter, runtime.entered
                try:
                    singly.run(lambda: self.called)
                finally:
                    runtime.entered = before
        except BaseException:
            if not (self.called or runtime.turn.broken):
                self._up_to([singly.seen(batch) + singly.is_of(batch) for batch in self._batches])
            raise
        if not self.called:
            self._through(self._batches, self._stops.last)
            return singly.failures
        return singly.failures + self._rest(singly)

    @property
    def cause(self) -> CauseKey:
        """The cause of the present delivery."""
        return (0, 1, 0, ()) if self._worker is None else self._worker.cause

    def _call(self, singly: EventLoop) -> None:
        """Let the nodes process everything before the present point in delivery order."""
        self.called = True
        self._seen = [singly.seen(batch) for batch in self._batches]
        self._up_to(self._seen)
        routes = self._runtime.routes
        self._shown = routes.dispatched
        if singly.event is not None:
            type_name, event = singly.event
            routes.only(type_name, self._names(lambda order: order < self._shown))(event)
            routes.dispatched = self._shown

    def _names(self, predicate: Callable[[tuple[int, int]], bool]) -> set[str]:
        return {node.statement.name for node in self._nodes if predicate(node.statement.order)}

    def _up_to(self, counts: Sequence[int]) -> None:
        now = self._runtime.clock.now
        self._through([batch.part(0, count) for batch, count in zip(self._batches, counts, strict=True)], now)

    def _through(self, batches: _Batches, last: int) -> None:
        clock, before = self._runtime.clock, self._worker
        clock.restore_timers(self._timers)
        now, clock.now = clock.now, self._begin
        stops = stops_until(self._stops, batches, last)
        self._worker = batch_pass = StatementPass(self._runtime, batches, stops)
        try:
            batch_pass.run(self._nodes)
        finally:
            clock.now, self._worker = now, before

    def _rest(self, singly: EventLoop) -> list[Exception]:
        runtime, failures = self._runtime, list[Exception]()
        counts = zip(self._batches, self._seen, strict=True)
        batches = [batch.part(count + singly.is_of(batch)) for batch, count in counts]
        if singly.event is not None:
            type_name, event = singly.event
            try:
                runtime.sender_to(type_name, self._names(lambda order: order > self._shown))(event)
            except Exception as failure:
                if not runtime.turn.raised_at_end(failure):
                    raise
                failures.append(failure)
        senders = {batch.type: runtime.sender(batch.type) for batch in batches}
        self._worker = rest = EventLoop(runtime, batches, self._stops, senders)
        rest.run()
        return failures + rest.failures
