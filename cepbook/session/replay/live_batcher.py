"""Live events on their way into the engine: events that are available together go in together, in order of arrival.

A lone event goes in at once. Events that come in quick succession wait for each other for up to `TOGETHER` seconds and
go in as one batch of columns, like those of a replay. Each event has its time of arrival, or its own event time.
"""

from __future__ import annotations

import asyncio
import time as wall
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from cepbook.engine.time.clock_stops import leaps_from_epoch
from cepbook.engine.time.time_units import check_unit
from cepbook.errors import EventError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, is_integral
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import EventValidator, as_mapping, find_type
from cepbook.session.io.frame_source import EventChunk
from cepbook.session.io.live_sources import Malformed, TextFields
from cepbook.session.io.sinks import write_waiting
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.io.time_conversion import check_clock_range, to_clock_units
from cepbook.session.replay.batch_sizer import SLICE, BatchSizer
from cepbook.session.replay.wall_clock import WallClock

TOGETHER = 0.002  # seconds for which events wait for others if some came just before
MOST = 1_024  # waiting items at which sources are held back
KEPT = 100  # malformed items that are kept


class _Reading(NamedTuple):
    """How items of a source are read, as long as the event type stays the same."""

    type: EventType
    check: EventValidator
    column: str | None


class LiveBatcher:
    """Items that arrived and are not in the engine yet. `put` and `take` are called in the thread of the event loop.

    `time` names the column of the event time by event type. Where it is None, `clock` gives the time of arrival, and
    the engine's clock stops at every due time. The counters are those of `Live`.
    """

    def __init__(self, workbench: WorkbenchCore, time: Mapping[str, str | None], clock: WallClock | None) -> None:
        self._workbench = workbench
        self._engine = workbench._engine
        self._second = workbench.runtime.config.second
        self._zone = workbench.runtime.config.time_zone
        self._time = time
        self._clock = clock
        self.events: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.rejected: deque[tuple[str, Malformed]] = deque(maxlen=KEPT)
        self.errors = 0
        self._waiting: deque[tuple[str, object, int]] = deque()
        self._batch_sizer = BatchSizer(self._second, lambda: self._engine.calls_out)
        self._readings: dict[str, _Reading] = {}
        self._feed: Callable[[Sequence[SourceBatch], bool], None] = lambda *_: None
        self._fed: dict[str, EventType] = {}
        self._busy = False
        self._taken = 0.0  # time of the last `take`
        self._handle: asyncio.Handle | None = None

    def __len__(self) -> int:
        """The number of waiting items."""
        return len(self._waiting)

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

        A call from within (by a listener) does nothing. Items for a workbench that was reset are dropped.
        """
        if self._busy:
            return True
        self._busy = True
        deadline = None if seconds is None else wall.perf_counter() + seconds
        try:
            while self._waiting and (deadline is None or wall.perf_counter() < deadline):
                if self._workbench._engine is not self._engine:
                    self._waiting.clear()
                    break
                with self._workbench._lock, self._engine.manual_call():
                    self._run_batch()
        finally:
            self._busy = False
            write_waiting()
            self._taken = wall.perf_counter()
        return not self._waiting

    def _run_batch(self) -> None:
        began = wall.perf_counter()
        count = min(len(self._waiting), self._batch_sizer.events)
        if self._clock is not None:
            self._clock.touch(self._waiting[0][2])
        now, index = self._workbench.runtime.now, 0
        events_by_type: dict[str, tuple[list[int], list[int], list[dict[str, Any]]]] = {}
        for _ in range(count):
            name, item, arrived = self._waiting.popleft()
            try:
                if isinstance(item, Malformed):
                    self.reject(name, item)
                    continue
                time, event = self._read(name, item, max(arrived, now))
                if time < now:
                    self.late[name] += 1
                    continue
            except (EventError, UsageError) as error:
                self.reject(name, Malformed(repr(item)[:200], str(error)))
                continue
            times, places, events = events_by_type.setdefault(name, ([], [], []))
            times.append(time)
            places.append(index)
            events.append(event)
            now, index = time, index + 1
        if events_by_type:
            self._hand_over(events_by_type)
        self._batch_sizer.took(wall.perf_counter() - began, count, count, stepping=True, span=0, cut=False)

    def _hand_over(self, events_by_type: Mapping[str, tuple[list[int], list[int], list[dict[str, Any]]]]) -> None:
        failures = self._engine.failures
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
            self._feeder(events_by_type)(batches, True)
        except (EventError, UsageError) as error:
            for batch in batches:
                self.malformed[batch.type_name] += len(batch.times) - 1
                self.reject(batch.type_name, Malformed(f"{len(batch.times):,} events", str(error)))
            return
        for batch in batches:
            self.events[batch.type_name] += len(batch.times)
        self.errors += self._engine.failures - failures

    def _feeder(self, names: Iterable[str]) -> Callable[[Sequence[SourceBatch], bool], None]:
        types = self._workbench.runtime.catalog.event_types
        if any(self._fed.get(name) is not types[name] for name in names):
            self._fed = {name: types[name] for name in self._time if name in types}
            self._feed = self._engine.feeder(list(self._fed))
        return self._feed

    def _read(self, name: str, item: Any, now: int) -> tuple[int, dict[str, Any]]:
        reading = self._reading(name)
        if isinstance(item, TextFields):
            properties = reading.type.properties
            item = {key: parse_field(value, properties.get(key)) for key, value in item.items()}
        event = reading.check(item)
        if reading.column is None:
            return now, event
        fields = as_mapping(item) or {}
        if fields.get(reading.column) is None:
            raise EventError(f"the event time `{reading.column}` is missing")
        second, value = self._second, _whole(fields[reading.column])
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
            reading = self._readings[name] = _Reading(
                type_, EventValidator(type_, types, extra, second=self._second, zone=self._zone), column
            )
        return reading

    def reject(self, name: str, what: Malformed) -> None:
        """Count and keep an item that is no event."""
        self.malformed[name] += 1
        self.rejected.append((name, what))


def _pick(events: list[dict[str, Any]], name: str) -> list[Any]:
    return [event[name] for event in events]


def _whole(value: object) -> object:
    return int(value) if isinstance(value, str) and value.strip().lstrip("-").isdigit() else value


def parse_field(value: Any, of: Type | None) -> Any:
    """Return the text as a value of the type, or unchanged if it is none, so that the validator reports it."""
    if of is None or not isinstance(value, str):
        return value
    try:
        if of.name == "boolean":
            return {"true": True, "false": False}[value.strip().lower()]
        if is_integral(of):
            return int(value)
        return float(value) if of.name in ("float", "double", "bigdecimal") else value
    except (ValueError, KeyError):
        return value
