"""Live events on their way into the engine: events that are available together go in together, in order.

A lone event goes in at once. Events that come in quick succession wait for each other for up to `TOGETHER` seconds and
go in as one batch of columns, like those of a replay. Each event has its time of arrival, or its own event time. Events
with a time of their own may come out of order by a `lateness`; they wait in a `ReorderBuffer`, which is saved with the
workbench. If the latest time does not rise for that long in real time, no event waits any more.
"""

from __future__ import annotations

import asyncio
import time as wall
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.runtime import Runtime
from cepbook.engine.time.clock import check_unit
from cepbook.engine.time.clock_stops import leaps_from_epoch
from cepbook.errors import EventError, JournalError, UsageError, exception_text, printable
from cepbook.lang.plan.catalog import LATE_EVENT, EventType
from cepbook.session.core.engine_handle import BatchTaker
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import EventValidator, as_mapping, find_type
from cepbook.session.io.frame_source import EventChunk, pick
from cepbook.session.io.live.live_sources import Located, Malformed
from cepbook.session.io.output.sinks import SinkError, write_waiting
from cepbook.session.io.rejected_events import RejectedFile
from cepbook.session.io.reorder import late_event, late_reason
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.io.text_files import FileFields
from cepbook.session.io.time_conversion import check_clock_range, clock_text, int_or_text, to_clock_units
from cepbook.session.io.waiting_events import SourcePart, SourceProgress
from cepbook.session.journal.event_columns import check_event
from cepbook.session.replay.batch_sizer import SLICE, BatchSizer
from cepbook.session.replay.source_status import SourceStatus
from cepbook.session.replay.wall_clock import WallClock

TOGETHER = 0.002  # seconds for which events wait for others if some came just before
MOST = 1_024  # waiting items at which sources are held back
KEPT = 100  # malformed items that are kept
SHOWN = 200  # characters of an item that are kept
LOOKS = 4  # calls of `look` with the same watermark before a source counts as quiet
RETRY = 1.0  # seconds until the next try after a failure, such as a full disk of the journal or a full statement


class _Reading(NamedTuple):
    """How items of a source are read, as long as the event type stays the same."""

    type: EventType
    check: EventValidator
    column: str | None
    can_be_recorded: Callable[[Mapping[str, Any]], None] | None  # raises what a journal says; None: all can be


TypedEvent = tuple[str, dict[str, Any]]  # type and values of an event
EventsByType = dict[str, tuple[list[int], list[int], list[dict[str, Any]]]]  # times, ranks within the batch, events
Entry = tuple[int, TypedEvent]
Refusal = tuple[str, object, str | None, int, int]  # type, item, reason; for a late event None, its time, the watermark


class FutureLimit(NamedTuple):
    """How far event times may lie after the present: `ahead` clock units. `present` returns the present in these."""

    ahead: int
    present: Callable[[], int]

    def check(self, time: int, second: int) -> None:
        """Raise EventError for a time that lies too far after the present."""
        if time - self.present() > self.ahead:
            raise EventError(f"{clock_text(time, second)} is later than the present by more than `ahead`")


class TimeRules(NamedTuple):
    """The rules for times of events.

    `columns` has the column of the time by event type; None: the event happens when it arrives. Events may be out of
    order by `lateness` clock units, and lie in the future as far as `future` allows; None: without a limit.
    """

    columns: Mapping[str, str | None]
    lateness: int
    future: FutureLimit | None


class LiveBatcher:
    """Queue of live items on their way into the engine.

    `put` adds an item, `take` hands items over; both run in the thread of the event loop. `times` decides about the
    time of an event; the time of arrival is that of `clock`. The clock of the engine stops at every due time. `keys`
    has the key of a source by event type if its offsets are saved: an offset takes effect together with the items
    before it. Late events become events of the type `LateEvent` if that is among the columns of `times`. An event that
    is beyond the limit of the future is rejected. `file` gets what is rejected. The counters are those of `Live`.

    If the engine refuses a batch before anything has happened (a full disk of the journal, a statement that keeps more
    than `Config.state_limit`), its events and offsets wait for the next try; `failure` is the reason.
    """

    def __init__(
        self,
        workbench: WorkbenchCore,
        times: TimeRules,
        clock: WallClock | None,
        sources: Mapping[str, SourceStatus],
        keys: Mapping[str, str],
        *,
        file: RejectedFile | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._workbench = workbench
        self._engine = workbench._engine
        self._second = workbench.runtime.config.second
        self._zone = workbench.runtime.config.time_zone
        self._time, self._lateness, self._future = times
        self._clock = clock
        self._sources, self._keys, self._file = sources, keys, file
        self._buffer = self._engine.buffers.open(times.lateness)
        self._looks = 0, self._buffer.watermark  # how often `look` has seen this watermark
        self._loads = self._engine.loads
        self.events: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.rejected: deque[tuple[str, Malformed]] = deque(maxlen=KEPT)
        self.errors = 0
        self._waiting: deque[tuple[str, object, int]] = deque()
        self._batch_sizer = BatchSizer(self._second, lambda: self._engine.calls_out)
        self._readings: dict[str, _Reading] = {}
        self._feed: BatchTaker = lambda *_: None
        self._feed_types: dict[str, EventType] = {}
        self._runtime: Runtime | None = None  # that `_feed` is for
        self._pending_offsets: dict[SourcePart, Any] = {}  # offsets that have not taken effect
        self.failure: Exception | None = None
        self._busy = False
        self._last_take = 0.0  # time of the last `take`
        self._handle: asyncio.Handle | None = None

    @property
    def superseded(self) -> str:
        """The reason why items have nowhere to go any more; usually empty."""
        if self._workbench._engine is not self._engine:
            return "the workbench was reset"
        return "the workbench was loaded" if self._engine.loads != self._loads else ""

    def __len__(self) -> int:
        """The number of items that arrived and were not read yet."""
        return len(self._waiting)

    @property
    def buffered(self) -> Counter[str]:
        """The number of events that wait for earlier ones, by type."""
        return Counter(name for _, (name, _) in self._buffer.entries())

    def put(self, name: str, item: object) -> None:
        """Add an item from the source of `name` and schedule `take`."""
        self._waiting.append((name, item, 0 if self._clock is None else self._clock.present))
        self._schedule(self._last_take + TOGETHER - wall.perf_counter())

    def _schedule(self, due: float) -> None:
        if self._handle is None:
            loop = self._loop
            self._handle = loop.call_later(due, self._turn) if due > 0 else loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._handle = None
        if not self.take(SLICE):
            self._schedule(0 if self.failure is None else RETRY)

    def take(self, seconds: float | None = None) -> bool:
        """Hand waiting items to the engine for about `seconds`. Return True if none is left.

        After a `failure` the rest waits for the next call. A call from within (by a listener) does nothing. Items for a
        workbench that was reset or loaded are dropped.
        """
        if self._busy:
            return True
        self._busy = True
        deadline = None if seconds is None else wall.perf_counter() + seconds
        try:
            while not self.is_done and (deadline is None or wall.perf_counter() < deadline):
                if self.superseded:
                    self._waiting.clear()
                    self._pending_offsets = {}
                    break
                with self._workbench._lock, self._engine.uninterrupted():
                    self._run_batch()
                self.failure = None
        except Exception as error:  # noqa: BLE001  kept: `Live` shows it, and `flush` raises it
            self._fail(error)
        finally:
            self._busy = False
            write_waiting()
            self._last_take = wall.perf_counter()
        return self.is_done

    @property
    def is_done(self) -> bool:
        """True if `take` has nothing to hand over."""
        return not (self._waiting or self._pending_offsets or (self._buffer.ready and not self.superseded))

    def _fail(self, error: Exception) -> None:
        """Report a failure, once for all tries, and try again later."""
        if self.failure is None:
            context = {"message": f"cepbook: live events wait: {_reason(error)}", "exception": error}
            self._loop.call_exception_handler(context)
        self.failure = error
        self._schedule(RETRY)

    def flush(self) -> None:
        """Hand everything to the engine, events that wait for earlier ones included.

        Raises the exception that keeps them from going in.
        """
        self.release()
        if self.failure is not None and not self.is_done:
            raise self.failure

    def release(self) -> None:
        """Do the same without an exception. If there is a `failure`, later calls of `take` hand over the rest."""
        self.take()
        self._buffer.end_waiting()
        self.take()

    def close(self) -> None:
        """Hand everything to the engine, for the last time. Raises as `flush` does, and is closed then, too."""
        try:
            self.flush()
        finally:
            if self._handle is not None:
                self._handle.cancel()
            self._engine.buffers.release(self._buffer)
            if self._file is not None:
                with suppress(SinkError):  # printed when it happened, and `Live` tells it
                    self._file.close()

    def look(self) -> None:
        """Flush if the latest time has not risen since the last few looks, so that a quiet source holds no event."""
        count, watermark = self._looks
        same = watermark == self._buffer.watermark and len(self._buffer) > 0
        self._looks = count + 1 if same else 0, self._buffer.watermark
        if self._looks[0] >= LOOKS:
            self.release()

    def claim(self, *, drop: bool = False) -> None:
        """Take over events of these types that waited when the workbench was saved, or `drop` them."""
        self._engine.claim_waiting(self._time, None if drop else self._buffer)
        self._revise(self._time)
        if self._buffer.ready:
            self._schedule(0)

    def _revise(self, names: Collection[str]) -> None:
        """Check the waiting events of types that have changed again."""
        entries = self._buffer.entries()
        if any(name in names for _, (name, _) in entries):
            checked = [(time, self._checked(item) if item[0] in names else item) for time, item in entries]
            self._buffer.replace((time, item) for time, item in checked if item is not None)

    def _checked(self, entry: TypedEvent) -> TypedEvent | None:
        """Return an event as one of the event type of today, or reject it."""
        name, event = entry
        try:
            return name, self._reading(name).check(event)
        except Exception as error:  # noqa: BLE001  the values are anything, as in `_run_batch`
            self.reject(name, event, _reason(error))
            return None

    def _run_batch(self) -> None:
        began = wall.perf_counter()
        most = self._batch_sizer.events
        count = min(len(self._waiting), most) if self.failure is None else 0  # after a failure, what waits already
        if self._clock is not None and count:
            self._clock.touch(self._waiting[0][2])
        types = self._workbench.runtime.catalog.event_types
        changed = [name for name, reading in self._readings.items() if types.get(name) is not reading.type]
        if changed:
            for name in changed:
                del self._readings[name]
            self._revise(changed)
        now = self._workbench.runtime.now
        entries, refused, offsets, watermark = self._read_items(count, now)
        pending = self._pending_offsets
        try:
            for _ in range(count):  # only now, so that an interruption above loses none
                self._waiting.popleft()
            for (name, partition), offset in offsets.items():
                if name in self._keys:
                    pending[name, self._keys[name], partition] = offset
            self._buffer.watermark = watermark
            self._refuse(refused)
            if self._lateness or self._buffer:
                for entry in entries:
                    self._buffer.insert(entry)
                entries = self._buffer.release(most)
            if entries:
                self._hand_over(entries, now, SourceProgress(pending, self._buffer))
            missing = {key: offset for key, offset in pending.items() if self._engine.offsets.get(key) is not offset}
            if (missing or self._buffer.changed) and not self.superseded:
                self._engine.reach(SourceProgress(missing, self._buffer))
        except BaseException as failure:
            self._engine.runtime.turn.mark_broken(failure)
            raise
        self._pending_offsets = {}
        count = max(count, len(entries))
        self._batch_sizer.took(wall.perf_counter() - began, count, most, stepping=True, span=0, cut=False)

    def _read_items(self, count: int, now: int) -> tuple[list[Entry], list[Refusal], dict[tuple[str, str], Any], int]:
        """Return the events among the first `count` items, with late events in place of late ones; what is refused; the
        offsets; and the watermark after them.
        """
        entries, refused, offsets = list[Entry](), list[Refusal](), dict[tuple[str, str], Any]()
        watermark = now if self._buffer.watermark is None else max(now, self._buffer.watermark)
        for name, item, arrived in islice(self._waiting, count):
            if type(item) is Located:
                offsets[name, item.partition] = item.offset
                item = item.item
                if item is None:
                    continue
            if type(item) is Malformed:
                refused.append((name, item.text, str(item.reason), 0, 0))
                continue
            try:
                time, event = self._read(name, item)
                if time is not None and self._future is not None:
                    self._future.check(time, self._second)
            except Exception as error:  # noqa: BLE001  the item is anything, and so is what its methods raise
                refused.append((name, item, _reason(error), 0, 0))
                continue
            if time is None:
                time = arrived if arrived > watermark else watermark
            elif time < watermark:
                refused.append((name, item, None, time, watermark))
                entries += self._late_entries(name, time, watermark, event)
                continue
            entries.append((time, (name, event)))
            if time - self._lateness > watermark:
                watermark = time - self._lateness
        return entries, refused, offsets, watermark

    def _refuse(self, refused: Iterable[Refusal]) -> None:
        for name, item, reason, time, late_at in refused:
            if reason is None:
                self._count_late(name, time, late_at, item)
            else:
                self.reject(name, item, reason)

    def _late_entries(self, name: str, time: int, now: int, event: dict[str, Any]) -> list[Entry]:
        """Return the late event that a late event becomes, if somebody can read it."""
        if LATE_EVENT.name not in self._time:
            return []
        return [(now, (LATE_EVENT.name, late_event(name, time, now - time, event)))]

    def _count_late(self, name: str, time: int, now: int, item: object) -> None:
        self.late[name] += 1
        if self._file is not None:
            self._file.write(name, late_reason(time, now, self._second), item, now)

    def _hand_over(self, entries: list[Entry], now: int, progress: SourceProgress) -> None:
        """Let the engine take events, or reject them. If it refuses them before anything happens, they wait again, and
        the exception is raised.
        """
        failures, commits = self._engine.failures, self._buffer.commits
        entries = self._admitted(entries, now)
        waited, late = entries, list[tuple[str, int, int, object]]()
        if entries[0][0] < now:  # the clock was moved while they waited
            first = bisect_left(entries, now, key=itemgetter(0))
            overtaken, entries = entries[:first], entries[first:]
            timed = [(time, name, event) for time, (name, event) in overtaken if self._time.get(name) is not None]
            late = [(name, time, now, event) for time, name, event in timed]
            untimed = [(now, item) for _, item in overtaken if self._time.get(item[0]) is None]
            replaced = [entry for time, name, event in timed for entry in self._late_entries(name, time, now, event)]
            entries = [*replaced, *untimed, *entries]
        events_by_type: EventsByType = {}
        for rank, (time, (name, event)) in enumerate(entries):
            columns = events_by_type.get(name)
            if columns is None:
                columns = events_by_type[name] = [], [], []
            times, ranks, events = columns
            times.append(time)
            ranks.append(rank)
            events.append(event)
        try:
            if entries:
                self._feed_events(events_by_type, progress)
        except Exception as error:
            if isinstance(error, JournalError) and self._buffer.commits == commits:
                self._buffer.put_back(waited)
                raise
            reason = f"a batch of events did not enter the engine: {_reason(error)}"
            for name, (_, _, events) in events_by_type.items():
                for event in events:
                    self.reject(name, event, reason)
        else:
            for name, (times, _, _) in events_by_type.items():
                self.events[name] += len(times)
            self.errors += self._engine.failures - failures
        for lateness in late:
            self._count_late(*lateness)

    def _admitted(self, entries: list[Entry], now: int) -> list[Entry]:
        """Return the first events, as many as the limit of what statements keep lets in; the others wait again.

        If it lets in none, all of them wait, and StateLimitError is raised.
        """
        room, first = 0, entries[0][0]
        try:
            if leaps_from_epoch(now, first, self._second):
                self._engine.advance_to(first)
            room = self._engine.room(len(entries), first, stepping=True)
        finally:
            if room < len(entries):
                self._buffer.put_back(entries[room:])
        return entries[:room]

    def _feed_events(self, events_by_type: EventsByType, progress: SourceProgress) -> None:
        batches = [
            SourceBatch(
                number,
                name,
                times,
                EventChunk(times, partial(pick, events)),
                0,
                ranks if len(events_by_type) > 1 else None,
            )
            for number, (name, (times, ranks, events)) in enumerate(events_by_type.items())
        ]
        self._feeder(events_by_type)(batches, True, progress)

    def _feeder(self, names: Iterable[str]) -> BatchTaker:
        runtime = self._workbench.runtime
        types = runtime.catalog.event_types
        if runtime is not self._runtime or any(self._feed_types.get(name) is not types[name] for name in names):
            self._runtime = runtime
            self._feed_types = {name: types[name] for name in self._time if name in types}
            self._feed = self._engine.feeder(list(self._feed_types))
        return self._feed

    def _read(self, name: str, item: Any) -> tuple[int | None, dict[str, Any]]:
        reading = self._reading(name)
        if type(item) is not dict and isinstance(item, FileFields):
            item = item.values_for(reading.type.properties, reading.column)
        event = reading.check(item)
        if reading.can_be_recorded is not None and self._engine.journal is not None:
            reading.can_be_recorded(event)
        if reading.column is None:
            return None, event
        fields = as_mapping(item) or {}
        if fields.get(reading.column) is None:
            raise EventError(f"the event time `{reading.column}` is missing")
        second, value = self._second, plain_value(fields[reading.column])
        if type(value) is str:
            value = int_or_text(value.strip())
        time = to_clock_units(value, second, self._zone)
        if type(value) is int and not self.events[name]:
            check_unit(f"the event time `{reading.column}`", reading.column, time, time, self._engine.now, second)
        return check_clock_range(time, second), event

    def _reading(self, name: str) -> _Reading:
        types = self._workbench.runtime.catalog.event_types
        type_, reading = find_type(name, types), self._readings.get(name)
        if reading is None or reading.type is not type_:
            column = self._time[name]
            extra = () if column is None else (column,)
            check = EventValidator(type_, types, extra, second=self._second, zone=self._zone)
            reading = self._readings[name] = _Reading(type_, check, column, check_event(type_))
        return reading

    def reject(self, name: str, item: object, reason: str) -> None:
        """Count and keep an item that is no event. The file of rejected items gets all of it."""
        self.malformed[name] += 1
        what = Malformed(_item_text(item), reason)
        self.rejected.append((name, what))
        if name in self._sources:
            self._sources[name].reject(what)
        if self._file is not None:
            self._file.write(name, reason, item, max(self._engine.now, self._buffer.watermark or 0))


def _item_text(item: object) -> str:
    try:
        return printable((item if isinstance(item, str) else repr(item))[:SHOWN])
    except Exception:  # noqa: BLE001  an object whose repr fails, or nests too deep
        return f"{type(item).__name__} without a readable repr"


def _reason(error: Exception) -> str:
    if isinstance(error, EventError | UsageError):
        return str(error)
    if isinstance(error, RecursionError):
        return "the item is nested too deeply"
    return exception_text(error)
