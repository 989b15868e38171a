"""Live events on their way into the engine: events that are available together go in together, in order.

A lone event goes in at once. Events that come in quick succession wait for each other for up to `TOGETHER` seconds and
go in as one batch of columns, like those of a replay. Each event has its time of arrival, or its own event time. Events
with a time of their own may come out of order by a `lateness`; they wait in a `ReorderBuffer`, which is saved with the
workbench. If the latest time does not rise for that long in real time, no event waits any more.
"""

from __future__ import annotations

import asyncio
import time as wall
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from cepbook.engine.expressions.plain_values import plain_value
from cepbook.engine.time.clock import check_unit
from cepbook.engine.time.clock_stops import leaps_from_epoch
from cepbook.errors import EventError, UsageError, exception_text, printable
from cepbook.lang.plan.catalog import LATE_EVENT, EventType
from cepbook.session.core.engine_handle import BatchTaker
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import EventValidator, as_mapping, find_type
from cepbook.session.io.frame_source import EventChunk
from cepbook.session.io.live.live_sources import Located, Malformed
from cepbook.session.io.rejected_events import RejectedFile
from cepbook.session.io.reorder import late_event, late_reason
from cepbook.session.io.sinks import SinkError, write_waiting
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.io.text_files import FileFields
from cepbook.session.io.time_conversion import check_clock_range, int_or_text, to_clock_units
from cepbook.session.io.waiting_events import SourceProgress
from cepbook.session.journal.event_columns import check_event
from cepbook.session.replay.batch_sizer import SLICE, BatchSizer
from cepbook.session.replay.source_status import SourceStatus
from cepbook.session.replay.wall_clock import WallClock

TOGETHER = 0.002  # seconds for which events wait for others if some came just before
MOST = 1_024  # waiting items at which sources are held back
KEPT = 100  # malformed items that are kept
SHOWN = 200  # characters of an item that are kept
LOOKS = 4  # times that somebody looks before a source counts as quiet


class _Reading(NamedTuple):
    """How items of a source are read, as long as the event type stays the same."""

    type: EventType
    check: EventValidator
    column: str | None
    can_be_recorded: Callable[[Mapping[str, Any]], None] | None  # raises what a journal says; None: all can be


TypedEvent = tuple[str, dict[str, Any]]  # type and values of an event
# The type, the item, the time of arrival, the time of the event (None: that of arrival), the event, why it is none.
Arrival = tuple[str, object, int, int | None, dict[str, Any], str | None]


class LiveBatcher:
    """Items that arrived and are not in the engine yet. `put` and `take` are called in the thread of the event loop.

    `time` names the column of the event time by event type. Where it is None, `clock` gives the time of arrival, and
    the engine's clock stops at every due time. The counters are those of `Live`. The engine gets the places of sources
    that have a key in `keys`, with the items before them. Events may be out of order by `lateness` clock units. Late
    ones become events of the type `LateEvent` if that is among the names of `time`. `file` gets what is rejected.
    """

    def __init__(
        self,
        workbench: WorkbenchCore,
        time: Mapping[str, str | None],
        clock: WallClock | None,
        sources: Mapping[str, SourceStatus],
        keys: Mapping[str, str],
        *,
        lateness: int = 0,
        file: RejectedFile | None = None,
    ) -> None:
        self._workbench = workbench
        self._engine = workbench._engine
        self._second = workbench.runtime.config.second
        self._zone = workbench.runtime.config.time_zone
        self._time = time
        self._clock = clock
        self._sources, self._keys, self._file = sources, keys, file
        self._buffer = self._engine.reorder_buffer(lateness)
        self._looks = 0, self._buffer.watermark  # how often somebody has seen the watermark where it is
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
        self._fed: dict[str, EventType] = {}
        self._busy = False
        self._taken = 0.0  # time of the last `take`
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
        if self._handle is None:
            loop, due = asyncio.get_running_loop(), self._taken + TOGETHER - wall.perf_counter()
            self._handle = loop.call_later(due, self._turn) if due > 0 else loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._handle = None
        if not self.take(SLICE):
            self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def take(self, seconds: float | None = None) -> bool:
        """Hand waiting items to the engine for about `seconds`. Return True if none is left.

        A call from within (by a listener) does nothing. Items for a workbench that was reset or loaded are dropped.
        """
        if self._busy:
            return True
        self._busy = True
        deadline = None if seconds is None else wall.perf_counter() + seconds
        try:
            while not self._is_done and (deadline is None or wall.perf_counter() < deadline):
                if self.superseded:
                    self._waiting.clear()
                    break
                with self._workbench._lock, self._engine.uninterrupted():
                    self._run_batch()
        finally:
            self._busy = False
            write_waiting()
            self._taken = wall.perf_counter()
        return self._is_done

    @property
    def _is_done(self) -> bool:
        return not (self._waiting or (self._buffer.ready and not self.superseded))

    def flush(self) -> None:
        """Hand everything to the engine, events that wait for earlier ones included."""
        self.take()
        self._buffer.advance()
        self.take()

    def close(self) -> None:
        """Hand everything to the engine, for the last time."""
        self.flush()
        self._engine.forget_buffer(self._buffer)
        if self._file is not None:
            with suppress(SinkError):  # printed when it happened, and `Live` tells it
                self._file.close()

    def look(self) -> None:
        """Flush if the latest time has not risen since the last few looks, so that a quiet source holds no event."""
        count, watermark = self._looks
        same = watermark == self._buffer.watermark and len(self._buffer) > 0
        self._looks = count + 1 if same else 0, self._buffer.watermark
        if self._looks[0] >= LOOKS:
            self.flush()

    def claim(self, *, drop: bool = False) -> None:
        """Take over events of these types that waited when the workbench was saved, or `drop` them."""
        self._engine.claim_waiting(self._time, None if drop else self._buffer)
        self._revise()
        if self._buffer.ready:
            self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def _revise(self) -> None:
        """Check the waiting events again, after a change of event types."""
        checked = [(time, self._checked(item)) for time, item in self._buffer.entries()]
        if checked:
            self._buffer.replace((time, item) for time, item in checked if item is not None)

    def _checked(self, entry: TypedEvent) -> TypedEvent | None:
        """Return an event as one of the event type of today, or reject it."""
        name, event = entry
        if name not in self._sources:
            return entry
        try:
            return name, self._reading(name).check(event)
        except EventError as error:
            self.reject(name, event, str(error))
            return None

    def _run_batch(self) -> None:
        began = wall.perf_counter()
        most = self._batch_sizer.events
        count = min(len(self._waiting), most)
        if self._clock is not None and count:
            self._clock.touch(self._waiting[0][2])
        types = self._workbench.runtime.catalog.event_types
        if any(types.get(name) is not reading.type for name, reading in self._readings.items()):
            self._revise()
        now = self._workbench.runtime.now
        arrivals, offsets = list[Arrival](), dict[tuple[str, str], Any]()
        for name, item, arrived in islice(self._waiting, count):
            if type(item) is Located:
                offsets[name, item.partition] = item.offset
                item = item.item
                if item is None:
                    continue
            time, event, reason = None, dict[str, Any](), None
            if type(item) is Malformed:
                reason, item = str(item.reason), item.text
            else:
                try:
                    time, event = self._read(name, item)
                except Exception as error:  # noqa: BLE001  the item is anything, and so is what its methods raise
                    reason = _reason(error)
            arrivals.append((name, item, arrived, time, event, reason))
        reached = {
            (name, self._keys[name], partition): offset
            for (name, partition), offset in offsets.items()
            if name in self._keys
        }
        try:
            for _ in range(count):  # only now, so that an interruption of the loop above loses none
                self._waiting.popleft()
            self._order(arrivals, now)
            released = self._buffer.release(most)
            if released:
                self._hand_over(released, now, SourceProgress(reached, self._buffer))
            behind = {key: offset for key, offset in reached.items() if self._engine.offsets.get(key) is not offset}
            if (behind or self._buffer.changed) and not self.superseded:
                self._engine.reach(SourceProgress(behind, self._buffer))
        except BaseException as failure:
            self._engine.runtime.turn.mark_broken(failure)
            raise
        count = max(count, len(released))
        self._batch_sizer.took(wall.perf_counter() - began, count, most, stepping=True, span=0, cut=False)

    def _order(self, arrivals: Iterable[Arrival], now: int) -> None:
        """Put events in order, and late ones as late events between them. Reject items that are no events."""
        buffer = self._buffer
        buffer.advance(now)
        for name, item, arrived, time, event, reason in arrivals:
            if reason is not None:
                self.reject(name, item, reason)
                continue
            watermark = now if buffer.watermark is None else buffer.watermark
            if time is None:
                time = max(arrived, watermark)
            if not buffer.add(time, (name, event)):
                late = self._late(name, time, watermark, event, item)
                if late is not None:
                    buffer.add(watermark, late)

    def _late(self, name: str, time: int, now: int, event: dict[str, Any], item: object) -> TypedEvent | None:
        """Count an event as late, and return the late event that it becomes."""
        self.late[name] += 1
        if self._file is not None:
            self._file.write(name, late_reason(time, now, self._second), item, now)
        if LATE_EVENT.name not in self._time:
            return None
        return LATE_EVENT.name, late_event(name, time, now - time, event)

    def _hand_over(self, released: Iterable[tuple[int, TypedEvent]], now: int, progress: SourceProgress) -> None:
        failures = self._engine.failures
        events_by_type: dict[str, tuple[list[int], list[int], list[dict[str, Any]]]] = {}
        index = 0
        for time, (name, event) in released:
            if time < now:  # the clock was moved while the event waited
                late = self._late(name, time, now, event, event)
                if late is None:
                    continue
                time, (name, event) = now, late
            times, places, events = events_by_type.setdefault(name, ([], [], []))
            times.append(time)
            places.append(index)
            events.append(event)
            index += 1
        if not events_by_type:
            return
        batches = [
            SourceBatch(
                number,
                name,
                times,
                EventChunk(times, partial(_pick, events)),
                0,
                places if len(events_by_type) > 1 else None,
            )
            for number, (name, (times, places, events)) in enumerate(events_by_type.items())
        ]
        try:
            first = min(batch.times[0] for batch in batches)
            if leaps_from_epoch(self._engine.now, first, self._engine.second):
                self._engine.advance_to(first)
            self._engine.admit(index, first, stepping=True)
            self._feeder(events_by_type)(batches, True, progress)
        except Exception as error:  # noqa: BLE001  whatever it is, these events are told
            reason = f"a batch of events did not enter the engine: {_reason(error)}"
            for name, (_, _, events) in events_by_type.items():
                for event in events:
                    self.reject(name, event, reason)
            return
        for batch in batches:
            self.events[batch.type_name] += len(batch.times)
        self.errors += self._engine.failures - failures

    def _feeder(self, names: Iterable[str]) -> BatchTaker:
        types = self._workbench.runtime.catalog.event_types
        if any(self._fed.get(name) is not types[name] for name in names):
            self._fed = {name: types[name] for name in self._time if name in types}
            self._feed = self._engine.feeder(list(self._fed))
        return self._feed

    def _read(self, name: str, item: Any) -> tuple[int | None, dict[str, Any]]:
        reading = self._reading(name)
        if isinstance(item, FileFields):
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


def _pick(events: list[dict[str, Any]], name: str) -> list[Any]:
    return [event[name] for event in events]


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
