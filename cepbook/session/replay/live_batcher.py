"""Live events on their way into the engine: what is at hand goes in together, in the order in which it came.

An event that comes alone goes in at once. Where many come they wait for each other up to `TOGETHER`, and go in as a
slice of columns, as those of a replay do; each has the time at which it arrived, or its own.
"""

from __future__ import annotations

import asyncio
import time as wall
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from cepbook.errors import EventError, UsageError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, is_integral
from cepbook.session.core.workbench_core import WorkbenchCore
from cepbook.session.io.event_validation import EventValidator, as_mapping, find_type
from cepbook.session.io.frame_source import EventChunk
from cepbook.session.io.live_sources import Malformed, TextFields
from cepbook.session.io.source_merge import SourceBatch
from cepbook.session.io.time_conversion import check_clock_range, to_clock_units
from cepbook.session.replay.batch_sizer import SLICE, BatchSizer
from cepbook.session.replay.wall_clock import WallClock

TOGETHER = 0.002  # seconds for which events wait for others, where some came just before
MOST = 1_024  # events that wait; then sources are held back
KEPT = 100  # malformed items that can be looked at


class _Reading(NamedTuple):
    """How items of a source are read, while its event type stays the same."""

    type: EventType
    check: EventValidator
    column: str | None


class LiveBatcher:
    """What came and is not in the engine yet. `put` and `take` are called in the thread of the event loop.

    `time` names the column of the event time by event type; where it is None, `clock` tells the time of arrival, and
    the engine's clock stops whenever something is due. It counts as `Live` does.
    """

    def __init__(self, workbench: WorkbenchCore, time: Mapping[str, str | None], clock: WallClock | None) -> None:
        self._workbench = workbench
        self._engine = workbench._engine
        self._second = workbench.runtime.config.second
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
        self._taken = 0.0  # when, last
        self._handle: asyncio.Handle | None = None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, name: str, item: object) -> None:
        """Something came from the source of `name`: `take` follows soon."""
        self._waiting.append((name, item, 0 if self._clock is None else self._clock.present))
        if self._handle is None:
            loop, due = asyncio.get_running_loop(), self._taken + TOGETHER - wall.perf_counter()
            self._handle = loop.call_later(due, self._turn) if due > 0 else loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._handle = None
        if not self.take(SLICE):
            self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def take(self, seconds: float | None = None) -> bool:
        """Hand the engine what waits, for about so many seconds; whether nothing waits any more.

        Called from within (by a listener) it does nothing. What waits for a workbench that began anew is forgotten.
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
            self._taken = wall.perf_counter()
        return not self._waiting

    def _run_batch(self) -> None:
        """One call of the engine."""
        began = wall.perf_counter()
        count = min(len(self._waiting), self._batch_sizer.events)
        if self._clock is not None:
            self._clock.touch(self._waiting[0][2])
        now, place = self._workbench.runtime.now, 0
        found: dict[str, tuple[list[int], list[int], list[dict[str, Any]]]] = {}
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
            times, places, events = found.setdefault(name, ([], [], []))
            times.append(time)
            places.append(place)
            events.append(event)
            now, place = time, place + 1
        if found:
            self._hand_over(found)
        self._batch_sizer.took(wall.perf_counter() - began, count, count, stepping=True, span=0, cut=False)

    def _hand_over(self, found: Mapping[str, tuple[list[int], list[int], list[dict[str, Any]]]]) -> None:
        failures = self._engine.failures
        parts = [
            SourceBatch(
                number, name, times, EventChunk(times, partial(_pick, events)), 0, places if len(found) > 1 else None
            )
            for number, (name, (times, places, events)) in enumerate(found.items())
        ]
        try:
            self._feeder(found)(parts, self._clock is not None)
        except (EventError, UsageError) as error:
            for part in parts:
                self.malformed[part.type_name] += len(part.times) - 1
                self.reject(part.type_name, Malformed(f"{len(part.times):,} events", str(error)))
            return
        for part in parts:
            self.events[part.type_name] += len(part.times)
        self.errors += self._engine.failures - failures

    def _feeder(self, names: Iterable[str]) -> Callable[[Sequence[SourceBatch], bool], None]:
        types = self._workbench.runtime.catalog.event_types
        if any(self._fed.get(name) is not types[name] for name in names):
            self._fed = {name: types[name] for name in self._time if name in types}
            self._feed = self._engine.feeder(list(self._fed))
        return self._feed

    def _read(self, name: str, item: Any, now: int) -> tuple[int, dict[str, Any]]:
        """The time of an event, and the event. Errors: EventError, UsageError for what is none."""
        reading = self._reading(name)
        if isinstance(item, TextFields):
            properties = reading.type.properties
            item = {key: parse_field(value, properties.get(key)) for key, value in item.items()}
        event = reading.check(item)
        if reading.column is None:
            return now, event
        given = as_mapping(item) or {}
        if given.get(reading.column) is None:
            raise EventError(f"the event time `{reading.column}` is missing")
        return check_clock_range(to_clock_units(_whole(given[reading.column]), self._second), self._second), event

    def _reading(self, name: str) -> _Reading:
        types = self._workbench.runtime.catalog.event_types
        of, known = find_type(name, types), self._readings.get(name)
        if known is None or known.type is not of:
            column = self._time[name]
            also = () if column is None else (column,)
            known = self._readings[name] = _Reading(of, EventValidator(of, types, also, second=self._second), column)
        return known

    def reject(self, name: str, what: Malformed) -> None:
        """Count and keep what is no event."""
        self.malformed[name] += 1
        self.rejected.append((name, what))


def _pick(events: list[dict[str, Any]], name: str) -> list[Any]:
    return [event[name] for event in events]


def _whole(value: object) -> object:
    """A time that a text file holds as digits."""
    return int(value) if isinstance(value, str) and value.strip().lstrip("-").isdigit() else value


def parse_field(value: Any, of: Type | None) -> Any:
    """A text as a value of the type; as it is where that does not go, for the check to tell."""
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
