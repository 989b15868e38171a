"""The loop of a replay: events of all sources into the engine, in total order, up to a limit, an instant or real time.

The loop knows neither event loops nor threads. `Replay` calls it slice by slice, with the lock of the engine, and
`ReplayControls` tell it what to do next.
"""

from __future__ import annotations

import time as wall
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.replay.batch_replayer import Until
from cepbook.engine.time.clock_stops import LateTimers, leaps_from_epoch
from cepbook.lang.plan.catalog import LATE_EVENT
from cepbook.session.core.engine_handle import EngineHandle
from cepbook.session.history.replay_snapshots import ReplaySnapshots
from cepbook.session.io.frame_source import Rejecting, ReplaySource, late_chunk
from cepbook.session.io.reorder import late_event, late_reason
from cepbook.session.io.replay_options import ReplayOptions
from cepbook.session.io.source_merge import SourceBatch, SourceMerge, merge_late, split_belated
from cepbook.session.io.sources import expected_events
from cepbook.session.io.time_conversion import before_clock_error
from cepbook.session.replay.batch_sizer import LONG_SLICE, MOST, SLICE, BatchSizer
from cepbook.session.replay.replay_results import ReplayResult


@dataclass(slots=True)
class ReplayControls:
    """Flags that any thread may set; the next slice obeys them.

    `hold` pauses. `steps` events are replayed while it holds. At the time `goal` the clock stops and the replay pauses.
    Once the `condition` is true the replay pauses. `stop` ends the replay.
    """

    hold: bool = False
    stop: bool = False
    steps: int = 0
    goal: int | None = None
    condition: Until | None = None
    interrupted: bool = False


class ReplayLoop:
    """The position of a replay of `sources`, and its `end` and `result` once it has ended.

    `taken` events came from the sources; `events` of them went into the engine. The others were late, or are among the
    first `skip`, which the engine has already. `behind` is the delay behind the wall clock in seconds. `speed` begins
    as the option and may be changed. Raises EventError if events begin before the present and may not be late.
    """

    def __init__(
        self,
        engine: EngineHandle,
        sources: Sequence[ReplaySource],
        controls: ReplayControls,
        options: ReplayOptions,
        *,
        snapshots: ReplaySnapshots[Any] | None = None,
        reject: Rejecting | None = None,
    ) -> None:
        self.engine = engine
        self.sources = tuple(sources)
        self.controls = controls
        self.options = options
        self.speed = options.speed
        skip = options.skip
        if options.late == "error" and not skip:
            for source in sources:
                if source.first_time is not None and source.first_time < engine.now:
                    raise before_clock_error(source.type_name, source.first_time, engine.now, engine.second)
        self._merge = SourceMerge(self.sources, options.until)
        self.taken = 0
        while self.taken < skip and (batches := self._merge.take(min(skip - self.taken, MOST))):
            self.taken += sum(len(batch.times) for batch in batches)
        self.names = [source.type_name for source in sources]
        self._reject = reject
        own_late = options.late_stream and LATE_EVENT.name not in self.names
        fed = [*self.names, LATE_EVENT.name] if own_late else self.names
        self._late_timers = LateTimers()
        self._feed_batches = engine.feeder(fed, self._late_timers)
        self.events = 0
        self._late, self._rejections = Counter[str](), dict[str, Counter[str]]()
        self._planned: int | None = None
        self.end: str | None = None
        self.result: ReplayResult | None = None
        self._batch_sizer = BatchSizer(engine.second, lambda: engine.calls_out)
        self._stopped_at: int | None = None  # the last stop of the clock, if no event has come since
        self._origin: tuple[float, int] | None = None
        self.behind = 0.0
        self._before, self._errors_before = engine.counts()
        self.snapshots = snapshots
        if snapshots is not None:
            snapshots.record_progress(0, 0, engine.now)

    def restart_real_time(self) -> None:
        """Measure real time from now on."""
        self._origin = None

    def work(self, seconds: float, steps: int | None) -> float:
        """Work for so many seconds, or for `steps` events. Return the seconds to wait then."""
        controls, deadline = self.controls, wall.perf_counter() + seconds
        self._batch_sizer.aim = max(SLICE, min(seconds, LONG_SLICE))
        while True:
            if controls.stop:
                self.finish("stopped")
                return 0.0
            if steps is None and controls.hold:
                if not controls.steps:
                    return 0.0
                steps, controls.steps = controls.steps, 0
            if steps == 0:
                return 0.0
            took, pause = self._run_batch(steps, deadline)
            if controls.condition is not None and controls.condition.fired():
                controls.condition, controls.hold = None, True
                return 0.0
            if not took or pause:
                return pause
            if steps is not None:
                steps -= took
            if wall.perf_counter() >= deadline:
                return 0.0

    def _run_batch(self, steps: int | None, deadline: float) -> tuple[int, float]:
        if self.snapshots is not None:
            self.snapshots.record_manual_actions(self.taken, self.events, self.engine.now)
        most = self._batch_sizer.events
        if steps is not None:
            most = min(most, steps)
        if self.options.limit is not None:
            most = min(most, self.options.limit - self.events)
        if self.snapshots is not None:
            most = self.snapshots.events_until_due(self.taken, most)
        real_time = self.speed is not None and steps is None
        upto = self._virtual_now() if real_time else None
        goal = self.controls.goal if steps is None else None
        if goal is not None and (upto is None or upto >= goal):
            upto = goal
        visiting = real_time or not self.options.leap or goal is not None
        if self.controls.condition is not None and (self.options.late_stream or self.engine.journal is not None):
            most = min(most, 1)  # such a batch cannot be cut short
        following = self._merge.peek() if most > 0 else None
        if following is not None and (upto is None or following <= upto):
            if visiting and not self._visit_due_times(following, deadline):
                return 0, 0.0
            if upto is not None and self.speed is not None:
                self.behind = max(0.0, (upto - following) / (self.engine.second * self.speed))
            return self._feed(following, most, upto, stepping=visiting), 0.0
        self.behind = 0.0
        if goal is not None and upto == goal:
            return self._reach_goal(goal, deadline)
        if self.controls.stop:  # set while a source was waited for, which has ended since
            return 0, 0.0
        if following is None:
            following = self.options.until
            if following is None or upto is None or following <= upto:
                self.engine.check_state()
                self.finish("finished", deadline)
                return 0, 0.0
        assert upto is not None and self.speed is not None  # only real time holds events back
        if not self._visit_due_times(upto, deadline):
            return 0, 0.0
        return 0, max(0.001, (following - upto) / (self.engine.second * self.speed))

    def _reach_goal(self, goal: int, deadline: float) -> tuple[int, float]:
        if self._visit_due_times(goal, deadline):
            if goal > self.engine.now:
                self.engine.advance_to(goal)
            if self.snapshots is not None:
                self.snapshots.record_progress(self.taken, self.events, self.engine.now)
            self.controls.goal, self.controls.hold = None, True
        return 0, 0.0

    def _feed(self, first: int, most: int, upto: int | None, *, stepping: bool) -> int:
        engine, end = self.engine, upto
        if stepping:
            end = first + self._batch_sizer.span
            end = end if upto is None else min(upto, end)
            if (
                engine.next_due is not None and engine.next_due <= engine.now
            ):  # something waits for the next stop of the clock
                most = 1
                if first > engine.now:
                    engine.advance_to(first)
        most = engine.room(most, first, stepping=stepping)
        now, self._stopped_at = engine.now, None
        batches = self._merge.take(most, end)
        taken = sum(len(batch.times) for batch in batches)
        if any(batch.times[0] < now for batch in batches):
            if self.options.late == "error":
                early = min(batches, key=lambda batch: batch.times[0])
                raise before_clock_error(early.type_name, early.times[0], now, self.engine.second)
            batches = self._without_belated(batches, now)
        started = wall.perf_counter()
        until = self.controls.condition
        if until is None or most == 1:
            self._feed_batches(batches, stepping)
        elif counts := self._feed_batches(batches, stepping, until=until):
            rest = [batch.after(n) for batch, n in zip(batches, counts, strict=True) if n < len(batch.times)]
            self._merge.put_back(rest)
            taken -= sum(len(batch.times) for batch in rest)
            batches = [batch.before(count) for batch, count in zip(batches, counts, strict=True) if count]
            if rest and all(batch.times[-1] < engine.now for batch in batches):
                self._stopped_at = engine.now
        self.events += sum(len(batch.times) for batch in batches if batch.chunk.type_name is None)
        self.taken += taken
        elapsed = wall.perf_counter() - started
        if self.snapshots is not None:
            self.snapshots.record_progress(
                self.taken, self.events, self.engine.now, batches[0].times[0] if batches else None
            )
        span = self.engine.now - first
        cut = taken < most and end != upto
        self._batch_sizer.took(elapsed, taken, most, stepping=stepping, span=span, cut=cut)
        return taken

    def _without_belated(self, batches: Sequence[SourceBatch], now: int) -> list[SourceBatch]:
        """Return the batches without events before the clock, which become late events at the present."""
        read = self.options.late_stream or self._reject is not None
        properties = (lambda name: self.engine.runtime.catalog.event_types[name].properties) if read else lambda _: ()
        batches, belated = split_belated(batches, now, properties)
        rows, ranks = [], []
        for event in belated:
            row = event.event
            if event.type_name != LATE_EVENT.name or LATE_EVENT.name in self.names:
                self._late[event.type_name] += 1
                if self._reject is not None:
                    self._reject(event.type_name, late_reason(event.time, now, self.engine.second), row, now)
                row = late_event(event.type_name, event.time, now - event.time, row)
            rows.append(row)
            ranks.append(event.rank)
        if not rows or not self.options.late_stream:
            return batches
        chunk = late_chunk([now] * len(rows), rows)
        return merge_late([SourceBatch(len(self.sources), LATE_EVENT.name, chunk.times, chunk, 0, ranks), *batches])

    def _virtual_now(self) -> int:
        assert self.speed is not None
        if self._origin is None:
            first = self._merge.peek()
            start = self.engine.now if self.events or first is None else first
            self._origin = wall.perf_counter(), start
        since, start = self._origin
        return start + int((wall.perf_counter() - since) * self.engine.second * self.speed)

    def _visit_due_times(self, upto: int, deadline: float) -> bool:
        """Stop the clock at every due time up to `upto`, so that windows move while no event comes.

        Return True if the clock came so far, neither interrupted nor out of time. The clock stops at due times only, so
        the output does not depend on the wall clock. Work that waits for the next advance, whatever its time, counts as
        due now and runs before the clock moves on; if it waits again, it does not hold the clock up.
        """
        engine = self.engine
        bound = upto if self.options.until is None else min(upto, self.options.until)
        if leaps_from_epoch(engine.now, bound, engine.second):
            engine.advance_to(bound)
        due = engine.due_after(engine.now) if self._stopped_at == engine.now else engine.next_due
        while engine.now < bound and due is not None and due <= bound:
            if self.controls.interrupted:
                return False
            self._stopped_at = stop = max(due, engine.now)
            # with nothing that waits this is the only due time, but a rerun may have timers of its own
            engine.advance_to(stop, stepping=engine.next_due == stop)
            due = engine.due_after(stop)
            if self.controls.condition is not None and self.controls.condition.fired():
                return False
            if wall.perf_counter() >= deadline:
                break
        return engine.now >= bound or due is None or due > bound

    @property
    def errors(self) -> int:
        """The number of statement errors so far."""
        return self.result.errors if self.result is not None else self.engine.failures - self._errors_before

    @property
    def late(self) -> Counter[str]:
        """The number of late events by type."""
        late = Counter(self._late)
        for source in self.sources:
            late[source.type_name] += source.late
        return +late

    @property
    def rejected(self) -> Counter[str]:
        """The number of rejected items by type."""
        return Counter({name: reasons.total() for name, reasons in self.rejections.items()})

    @property
    def rejections(self) -> dict[str, Counter[str]]:
        """The number of rejected items by type and reason."""
        now = {source.type_name: source.rejections for source in self.sources if source.rejections}
        return self._rejections | now

    def total(self) -> int | None:
        """Return the number of events of the whole replay; None if it is unknown."""
        if self.end == "finished":  # late events, and those after `until`, were counted but did not come
            return self.events
        if self.end is not None:
            return self._planned
        return expected_events(self.sources, self.options.limit)

    def estimated_total(self) -> int | None:
        """Return the estimated number of events, if the exact one is unknown and there is an estimate."""
        return (
            expected_events(self.sources, self.options.limit, True)
            if self.end is None and self.total() is None
            else None
        )

    def last_time(self) -> int | None:
        """Return the time at which the clock will stand at the end; None if it is unknown."""
        last = [source.last_time for source in self.sources if source.total != 0]
        if self.options.until is not None or self.options.limit is not None or not last or None in last:
            return self.options.until if self.options.limit is None else None
        return max(time for time in last if time is not None)

    def finish(self, state: str, deadline: float = float("inf")) -> None:
        """End here. ``finished`` is reached only when the clock has come to `until` before `deadline`."""
        engine = self.engine
        if state == "finished" and self.options.until is not None and self.options.until > engine.now:
            if self.speed is None and self.options.leap:
                engine.count_overdue(self.options.until, self._late_timers)
            elif not self._visit_due_times(self.options.until, deadline):
                return
            engine.advance_to(self.options.until)
        if self.snapshots is not None:
            self.snapshots.record_progress(self.taken, self.events, engine.now)
        self._planned = self.total()
        self.end = state
        counts, errors = engine.counts()
        deliveries = {n: c - self._before.get(n, 0) for n, c in counts.items()}
        late, rejections, timers = self.late, self.rejections, self._late_timers
        self.result = ReplayResult(
            state,
            self.events,
            engine.now,
            deliveries,
            late.total(),
            errors - self._errors_before,
            engine.second,
            late_by_type=dict(late),
            rejected=dict(self.rejected),
            rejections=rejections,
            late_timers=timers.count,
            longest_delay=timers.longest,
            failures=engine.failures_since(self._errors_before),
            unread_columns={s.type_name: s.unread_columns for s in self.sources if s.unread_columns},
        )
        self._merge = SourceMerge(())
        self._feed_batches = lambda *_: None  # the function holds the engine, which may be replaced
        self._late, self._rejections, self.sources = (
            late,
            rejections,
            (),
        )  # a notebook keeps the values of its cells; the events need not be kept with them
