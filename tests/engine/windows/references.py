"""Naive data windows, straight from the documentation (Esper reference, chapter "Data Windows").

A window is told of every event (`arrive`) and of every advance of the clock (`advance`) and answers with the `Change`
that it makes: the events that enter the insert stream and those that enter the remove stream, in order; None when it
makes no delivery, and a change without events when it makes an empty one. `contents` is what its iterator shows.
Times are milliseconds. Boundaries are as recorded: an event of time t leaves a time window at t + period.

Nothing here is clever: contents are lists that are scanned and sorted anew each time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """One event. Two events are equal only if they are the same one."""

    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


class Skipped(Exception):
    """The event has no timestamp: an error of the statement, which goes on as if the event had not been."""


Getter = Callable[[Event], Any]


class Change(NamedTuple):
    """One delivery. Of derived-value windows, whose rows are no events, the entries are new ones of these."""

    insert: list[Event]
    remove: list[Event]


class Window:
    """A window that holds `held`, in order of arrival, and that time does not touch."""

    def __init__(self) -> None:
        self.held: list[Event] = []

    def arrive(self, event: Event, now: int) -> Change | None:
        raise NotImplementedError

    def advance(self, now: int) -> Change | None:
        return None

    def contents(self) -> list[Event]:
        return list(self.held)

    def due(self) -> float:
        """When the window next wants to be asked, never by default; only orders the groups of `Groups`."""
        return math.inf

    def discard(self, event: Event) -> None:
        """Forget an event that left by another window of the same stream."""
        self.held = [e for e in self.held if e is not event]


def without(events: list[Event], gone: list[Event]) -> list[Event]:
    return [e for e in events if e not in gone]


# ------------------------------------------------------------------------------------------- sliding windows
class KeepAll(Window):
    def arrive(self, event: Event, now: int) -> Change | None:
        self.held.append(event)
        return Change([event], [])


class Length(Window):
    """``length(size)``; ``lastevent`` is ``length(1)``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, event: Event, now: int) -> Change | None:
        self.held.append(event)
        gone, self.held = self.held[: -self.size], self.held[-self.size :]
        return Change([event], gone)


class Time(Window):
    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        self.times: dict[Event, int] = {}

    def arrive(self, event: Event, now: int) -> Change | None:
        self.times[event] = now
        self.held.append(event)
        return Change([event], [])

    def advance(self, now: int) -> Change | None:
        gone = [e for e in self.held if self.times[e] + self.period <= now]
        self.held = without(self.held, gone)
        return Change([], gone) if gone else None

    def due(self) -> float:
        return self.times[self.held[0]] + self.period if self.held else math.inf


class ExtTimed(Window):
    """Only arrivals move it, and only the head is looked at: an older event waits behind a younger head."""

    def __init__(self, timestamp: Getter, period: int) -> None:
        super().__init__()
        self.timestamp, self.period = timestamp, period

    def arrive(self, event: Event, now: int) -> Change | None:
        if self.timestamp(event) is None:
            raise Skipped
        self.held.append(event)
        gone = []
        while self.timestamp(event) - self.timestamp(self.held[0]) >= self.period:
            gone.append(self.held.pop(0))
        return Change([event], gone)


class TimeAccum(Time):
    """All leave together when nothing has arrived for `period`; an event that is gone counts as never arrived."""

    def advance(self, now: int) -> Change | None:
        if now < self.due():
            return None
        gone, self.held = self.held, []
        return Change([], gone)

    def due(self) -> float:
        return self.times[self.held[-1]] + self.period if self.held else math.inf


class TimeOrder(Window):
    """Held, and left, in order of the timestamps; ``timetolive(ts)`` is ``time_order(ts, 0 sec)``."""

    def __init__(self, timestamp: Getter, period: int) -> None:
        super().__init__()
        self.timestamp, self.period = timestamp, period

    def arrive(self, event: Event, now: int) -> Change | None:
        if self.timestamp(event) is None:
            raise Skipped
        if self.timestamp(event) + self.period <= now:
            return Change([event], [event])
        self.held.append(event)
        return Change([event], [])

    def advance(self, now: int) -> Change | None:
        gone = [e for e in self.contents() if self.timestamp(e) + self.period <= now]
        self.held = without(self.held, gone)
        return Change([], gone) if gone else None

    def contents(self) -> list[Event]:
        return sorted(self.held, key=self.timestamp)

    def due(self) -> float:
        return self.timestamp(self.contents()[0]) + self.period if self.held else math.inf


# ------------------------------------------------------------------------- windows that refuse later events
class FirstLength(Window):
    """``firstlength(size)``; ``firstevent`` is ``firstlength(1)``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, event: Event, now: int) -> Change | None:
        if len(self.held) == self.size:
            return None
        self.held.append(event)
        return Change([event], [])


class FirstTime(Window):
    """Counts from the start of the statement."""

    def __init__(self, period: int, start: int) -> None:
        super().__init__()
        self.end = start + period

    def arrive(self, event: Event, now: int) -> Change | None:
        if now >= self.end:
            return None
        self.held.append(event)
        return Change([event], [])


class FirstUnique(Window):
    def __init__(self, key: Getter) -> None:
        super().__init__()
        self.key = key

    def arrive(self, event: Event, now: int) -> Change | None:
        if any(self.key(e) == self.key(event) for e in self.held):
            return None
        self.held.append(event)
        return Change([event], [])


# --------------------------------------------------------------------------------------- keys and sort order
class Unique(Window):
    def __init__(self, key: Getter) -> None:
        super().__init__()
        self.key = key

    def arrive(self, event: Event, now: int) -> Change | None:
        gone = [e for e in self.held if self.key(e) == self.key(event)]
        self.held = [*without(self.held, gone), event]
        return Change([event], gone)


class Sort(Window):
    """The first `size` by `order`, a key for sorting. Of equal events the newer comes first, so the oldest leaves."""

    def __init__(self, size: int, order: Getter) -> None:
        super().__init__()
        self.size, self.order = size, order

    def arrive(self, event: Event, now: int) -> Change | None:
        self.held.append(event)
        gone = self.contents()[self.size :]
        self.held = without(self.held, gone)
        return Change([event], gone)

    def contents(self) -> list[Event]:
        newest_first = self.held[::-1]
        return sorted(newest_first, key=self.order)


class Rank(Window):
    """The last event of each key; of those the first `size` by `order`, of equal ones the one that came earlier.

    An event replaces that of its key wherever it ranks. With a new key too many, one of the lowest leaves, and of
    several equally low ones the oldest.
    """

    def __init__(self, key: Getter, size: int, order: Getter) -> None:
        super().__init__()
        self.key, self.size, self.order = key, size, order

    def arrive(self, event: Event, now: int) -> Change | None:
        gone = [e for e in self.held if self.key(e) == self.key(event)]
        self.held = [*without(self.held, gone), event]
        if len(self.held) > self.size:
            lowest = max(self.order(e) for e in self.held)
            gone = [next(e for e in self.held if self.order(e) == lowest)]
            self.held = without(self.held, gone)
        return Change([event], gone)

    def contents(self) -> list[Event]:
        return sorted(self.held, key=self.order)


# ------------------------------------------------------------------------------------------------- batches
class Batches(Window):
    """Collects in `held`; `post` releases that with the former batch as remove stream."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[Event] = []

    def post(self) -> Change:
        change = Change(self.held, self.last)
        self.last, self.held = self.held, []
        return change


class LengthBatch(Batches):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def arrive(self, event: Event, now: int) -> Change | None:
        self.held.append(event)
        return self.post() if len(self.held) == self.size else None


class ExtTimedBatch(Batches):
    """The first event at or past the end of the batch posts it, without itself. The grid is origin + n * period."""

    def __init__(self, timestamp: Getter, period: int, origin: int | None = None) -> None:
        super().__init__()
        self.timestamp, self.period, self.origin = timestamp, period, origin
        self.end: int | None = None

    def arrive(self, event: Event, now: int) -> Change | None:
        at = self.timestamp(event)
        if at is None:
            raise Skipped
        if self.origin is None:
            self.origin = at
        change = None if self.end is None or at < self.end else self.post()
        if self.end is None or at >= self.end:
            self.end = self.origin + ((at - self.origin) // self.period + 1) * self.period
        self.held.append(event)
        return change


class TimeBatch(Batches):
    """Posts every `period`, on the grid that the reference point or the first event sets, as long as there is data.

    `force`: posts every interval after the first event, be it an empty delivery. `eager`: does so from the start of
    the statement on, which then sets the grid.
    """

    def __init__(
        self, period: int, origin: int | None = None, *, force: bool = False, eager: bool = False, start: int = 0
    ) -> None:
        super().__init__()
        self.period, self.force = period, force or eager
        self.origin = start if eager else origin
        self.next = start + period if eager else math.inf

    def point_after(self, now: int) -> int:
        assert self.origin is not None
        return self.origin + ((now - self.origin) // self.period + 1) * self.period

    def arrive(self, event: Event, now: int) -> Change | None:
        if self.origin is None:
            self.origin = now
        if self.next == math.inf:
            self.next = self.point_after(now)
        self.held.append(event)
        return None

    def advance(self, now: int) -> Change | None:
        if now < self.next:
            return None
        data = self.held or self.last
        self.next = self.point_after(now) if data or self.force else math.inf
        return self.post() if data or self.force else None

    def due(self) -> float:
        return self.next


class Session(Batches):
    """Posts what it has when nothing has arrived for `gap`; an event that is gone counts as never arrived."""

    def __init__(self, gap: int) -> None:
        super().__init__()
        self.gap = gap
        self.times: dict[Event, int] = {}

    def arrive(self, event: Event, now: int) -> Change | None:
        self.times[event] = now
        self.held.append(event)
        return None

    def advance(self, now: int) -> Change | None:
        return self.post() if now >= self.due() else None

    def due(self) -> float:
        return self.times[self.held[-1]] + self.gap if self.held else math.inf


class TimeLengthBatch(Batches):
    """Posts `size` events at once, and whatever there is when `period` has passed since the last post.

    An interval without any data stops the clock, unless `force`; the next event then starts an interval of its own.
    """

    def __init__(self, period: int, size: int, *, force: bool = False, eager: bool = False, start: int = 0) -> None:
        super().__init__()
        self.period, self.size, self.force = period, size, force or eager
        self.next = start + period if eager else math.inf

    def arrive(self, event: Event, now: int) -> Change | None:
        if self.next == math.inf:
            self.next = now + self.period
        self.held.append(event)
        if len(self.held) < self.size:
            return None
        self.next = now + self.period
        return self.post()

    def advance(self, now: int) -> Change | None:
        if now < self.next:
            return None
        data = self.held or self.last
        self.next = now + self.period if data or self.force else math.inf
        return self.post() if data or self.force else None

    def due(self) -> float:
        return self.next


# ------------------------------------------------------------------------------------- expiry expressions
@dataclass(frozen=True, slots=True)
class View:
    """What an expiry expression sees: `event` is the one whose properties stand there by plain name.

    `events` are in the window, oldest first; `counted` are those that aggregates go over.
    """

    event: Event
    events: Sequence[Event]
    counted: Sequence[Event]
    times: Sequence[int]
    expired: int
    variables: dict[str, Any]

    @property
    def count(self) -> int:
        return len(self.events)

    @property
    def oldest(self) -> Event:
        return self.events[0]

    @property
    def newest(self) -> Event:
        return self.events[-1]


Condition = Callable[[View], bool | None]  # None is the language's null, which counts as false


class ExpressionWindow:
    """Arrival times and the variables of an expiry expression; a change of one calls for an evaluation."""

    def __init__(self, condition: Condition, **variables: Any) -> None:
        self.condition, self.variables, self.changed = condition, variables, False
        self.times: dict[Event, int] = {}

    def set(self, name: str, value: Any) -> None:
        """`name` is set, be it to the value that it has: evaluated at the next advance of the clock."""
        self.variables[name], self.changed = value, True

    def holds(self, event: Event, events: Sequence[Event], expired: int, again: Sequence[Event] = ()) -> bool:
        times = [self.times[e] for e in events]
        return self.condition(View(event, events, [*again, *events], times, expired, self.variables)) is True


class Expr(ExpressionWindow, Window):
    """Evaluated per arrival from the oldest event on: those for which it does not hold leave, up to the first."""

    def __init__(self, condition: Condition, **variables: Any) -> None:
        Window.__init__(self)
        ExpressionWindow.__init__(self, condition, **variables)

    def expire(self) -> list[Event]:
        gone: list[Event] = []
        while self.held and not self.holds(self.held[0], self.held, len(gone)):
            gone.append(self.held.pop(0))
        return gone

    def arrive(self, event: Event, now: int) -> Change | None:
        self.times[event] = now
        self.held.append(event)
        return Change([event], self.expire())

    def advance(self, now: int) -> Change | None:
        changed, self.changed = self.changed, False
        return Change([], self.expire()) if changed else None


class ExprBatch(ExpressionWindow, Batches):
    """Evaluated once per arrival, with the new event; posts all when it holds, without the new event if `exclude`.

    An excluded event opens the next batch, whose aggregates count it twice (as recorded: expr_batch_sum_exclude).
    """

    def __init__(self, condition: Condition, exclude: bool = False, **variables: Any) -> None:
        Batches.__init__(self)
        ExpressionWindow.__init__(self, condition, **variables)
        self.exclude = exclude
        self.opener: list[Event] = []

    def arrive(self, event: Event, now: int) -> Change | None:
        self.times[event] = now
        holds = self.holds(event, [*self.held, event], 0, self.opener)
        if holds and self.exclude:
            change = self.post()
            self.held, self.opener = [event], [event]
            return change
        self.held.append(event)
        return self.post() if holds else None

    def advance(self, now: int) -> Change | None:
        changed, self.changed = self.changed, False
        if not changed:
            return None
        newest = self.held[-1] if self.held else Event({})
        return self.post() if self.holds(newest, self.held, 0) else None


# --------------------------------------------------------------------------------------------- combinations
# -------------------------------------------------------------------------------- windows that hold back and hide
class GatedTime(Window):
    """Changes at the points of a grid only: what waits is let in, what is old goes out, of the rest the newest stay."""

    def __init__(self, period: int, gate: int, size: int | None, start: int) -> None:
        super().__init__()
        self.period, self.gate, self.size = period, gate, size
        self.start = self.seen = start
        self.waiting: list[Event] = []
        self.times: dict[Event, int] = {}

    def arrive(self, event: Event, now: int) -> Change | None:
        self.times[event] = self.seen = now
        self.waiting.append(event)
        return self.open(now) if (now - self.start) % self.gate == 0 else None

    def open(self, now: int) -> Change | None:
        before = self.held
        young = [e for e in [*self.held, *self.waiting] if now - self.times[e] < self.period]
        self.held, self.waiting = young if self.size is None else young[-self.size :], []
        change = Change(without(self.held, before), without(before, self.held))
        return change if change.insert or change.remove else None

    def advance(self, now: int) -> Change | None:
        before = self.held
        gates = range(self.start + ((self.seen - self.start) // self.gate + 1) * self.gate, now + 1, self.gate)
        for gate in gates:
            self.open(gate)
        self.seen = now
        change = Change(without(self.held, before), without(before, self.held))
        return change if change.insert or change.remove else None

    def due(self) -> float:
        times = [self.start + ((self.seen - self.start) // self.gate + 1) * self.gate] if self.waiting else []
        times += [self.first(self.times[e] + self.period) for e in self.held]
        return min(times, default=math.inf)

    def first(self, time: int) -> int:
        """The first gate that is not before `time`."""
        return self.start - (self.start - time) // self.gate * self.gate


class Hopping(Window):
    """At each point t of the grid it holds the events from t - `size` to t, without those of t."""

    def __init__(self, size: int, every: int, origin: int) -> None:
        super().__init__()
        self.size, self.every, self.origin = size, every, origin
        self.times: dict[Event, int] = {}
        self.seen = 0

    def arrive(self, event: Event, now: int) -> Change | None:
        self.times[event] = self.seen = now
        return None

    def inside(self, point: int) -> list[Event]:
        return [e for e, time in self.times.items() if point - self.size <= time < point]

    def advance(self, now: int) -> Change | None:
        before = self.held
        point = self.origin + (now - self.origin) // self.every * self.every
        if point > self.seen:
            self.held, self.seen = self.inside(point), now
        change = Change(without(self.held, before), without(before, self.held))
        return change if change.insert or change.remove else None

    def due(self) -> float:
        point = self.origin + ((self.seen - self.origin) // self.every + 1) * self.every
        return point if self.times else math.inf

    def discard(self, event: Event) -> None:
        super().discard(event)
        self.times.pop(event, None)


class GatedLength(Length):
    """Lets events in when `gate` of them have come."""

    def __init__(self, size: int, gate: int) -> None:
        super().__init__(size)
        self.gate = gate
        self.waiting: list[Event] = []

    def arrive(self, event: Event, now: int) -> Change | None:
        self.waiting.append(event)
        if len(self.waiting) < self.gate:
            return None
        before, self.held, self.waiting = self.held, [*self.held, *self.waiting][-self.size :], []
        return Change(without(self.held, before), without(before, self.held))


class Random(Length):
    """Takes an event if a coin says so."""

    def __init__(self, size: int, seed: int) -> None:
        super().__init__(size)
        self.coins = random.Random(seed)

    def arrive(self, event: Event, now: int) -> Change | None:
        return super().arrive(event, now) if self.coins.random() < 0.5 else None


class Newest(Window):
    """Of what `window` holds the last event of each key."""

    def __init__(self, window: Window, key: Getter) -> None:
        super().__init__()
        self.window, self.key = window, key

    def seen(self) -> Change | None:
        before, inside = self.held, self.window.contents()
        self.held = [e for n, e in enumerate(inside) if self.key(e) not in [self.key(i) for i in inside[n + 1 :]]]
        change = Change(without(self.held, before), without(before, self.held))
        return change if change.insert or change.remove else None

    def arrive(self, event: Event, now: int) -> Change | None:
        self.window.arrive(event, now)
        return self.seen()

    def advance(self, now: int) -> Change | None:
        self.window.advance(now)
        return self.seen()

    def due(self) -> float:
        return self.window.due()


class Lot(Window):
    """Nothing stays."""

    def arrive(self, event: Event, now: int) -> Change | None:
        return Change([event], [])


class Groups(Window):
    """``groupwin``: a window per key. Those due at one advance answer by due time, then in order of creation."""

    def __init__(self, key: Getter, make: Callable[[Hashable], Window]) -> None:
        super().__init__()
        self.key, self.make = key, make
        self.windows: dict[Hashable, Window] = {}

    def arrive(self, event: Event, now: int) -> Change | None:
        key = self.key(event)
        window = self.windows.get(key) or self.make(key)
        change = window.arrive(event, now)
        self.windows[key] = window
        return change

    def advance(self, now: int) -> Change | None:
        changes = [w.advance(now) for w in sorted(self.windows.values(), key=lambda w: w.due())]
        made = [c for c in changes if c is not None]
        return Change([e for c in made for e in c.insert], [e for c in made for e in c.remove]) if made else None

    def contents(self) -> list[Event]:
        return [e for w in self.windows.values() for e in w.contents()]

    def due(self) -> float:
        return min((w.due() for w in self.windows.values()), default=math.inf)


class Intersection(Window):
    """An event leaves when any window drops it, and appears nowhere if a window refuses it.

    All windows see an arrival before what they dropped is taken out of the others. With a batch window the others
    trim what it collects, silently, before it sees the arrival.
    """

    def __init__(self, *windows: Window) -> None:
        super().__init__()
        self.windows = [w for w in windows if not isinstance(w, Batches)]
        self.batch = next((w for w in windows if isinstance(w, Batches)), None)

    def drop(self, changes: Sequence[Change | None]) -> list[Event]:
        gone = list(dict.fromkeys(e for c in changes if c is not None for e in c.remove))
        for event in gone:
            for window in self.windows:
                window.discard(event)
            if self.batch is not None:
                self.batch.discard(event)
        self.held = without(self.held, gone)
        return gone

    def arrive(self, event: Event, now: int) -> Change | None:
        changes = [w.arrive(event, now) for w in self.windows]
        if None in changes:
            for window in self.windows:
                window.discard(event)
            return None
        self.held.append(event)
        gone = self.drop(changes)
        if self.batch is None:
            return Change([event], gone)
        return self.posted(self.batch.arrive(event, now))

    def advance(self, now: int) -> Change | None:
        gone = self.drop([w.advance(now) for w in self.windows])
        if self.batch is None:
            return Change([], gone) if gone else None
        return self.posted(self.batch.advance(now))

    def posted(self, change: Change | None) -> Change | None:
        """What the batch window released is gone from the others, too."""
        for event in change.insert if change is not None else ():
            for window in self.windows:
                window.discard(event)
        return change

    def contents(self) -> list[Event]:
        return list(self.held) if self.batch is None else self.batch.contents()

    def due(self) -> float:
        return min(w.due() for w in (*self.windows, self.batch) if w is not None)


class Union(Window):
    """An event leaves when the last window drops it."""

    def __init__(self, *windows: Window) -> None:
        super().__init__()
        self.windows = windows

    def settle(self) -> list[Event]:
        kept = [e for w in self.windows for e in w.contents()]
        gone = [e for e in self.held if e not in kept]
        self.held = without(self.held, gone)
        return gone

    def arrive(self, event: Event, now: int) -> Change | None:
        for window in self.windows:
            window.arrive(event, now)
        self.held.append(event)
        return Change([event], self.settle())

    def advance(self, now: int) -> Change | None:
        for window in self.windows:
            window.advance(now)
        gone = self.settle()
        return Change([], gone) if gone else None

    def due(self) -> float:
        return min(w.due() for w in self.windows)


# ------------------------------------------------------------------------------------ derived-value windows
Statistics = Callable[[Sequence[Event]], dict[str, Any]]


class Derived(Window):
    """Posts a row of `statistics` as insert stream and the former row as remove stream when its input changes.

    `window` is the data window before it, or keepall for a bare stream. `extra` are taken from the last event that
    arrived, null before the first. A row is only posted when `changes_only` does not hide that it equals the former.
    """

    def __init__(
        self,
        window: Window,
        statistics: Statistics,
        extra: dict[str, Getter],
        *,
        changes_only: bool = False,
        fixed: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.window, self.statistics, self.extra, self.changes_only = window, statistics, extra, changes_only
        self.fixed = fixed or {}
        self.events: list[Event] = []
        self.latest: Event | None = None
        self.row = self.read()

    def read(self) -> Event:
        latest = self.latest
        extra = {name: None if latest is None else get(latest) for name, get in self.extra.items()}
        return Event(self.statistics(self.events) | extra | self.fixed)

    def derive(self, change: Change | None) -> Change | None:
        if change is None:
            return None
        former, count = self.row, len(self.events)
        self.events = without(self.events + change.insert, change.remove)
        self.latest = change.insert[-1] if change.insert else self.latest
        if self.changes_only and len(self.events) == count:
            return None
        self.row = self.read()
        return Change([self.row], [former])

    def arrive(self, event: Event, now: int) -> Change | None:
        return self.derive(self.window.arrive(event, now))

    def advance(self, now: int) -> Change | None:
        return self.derive(self.window.advance(now))

    def contents(self) -> list[Event]:
        return [self.row]

    def due(self) -> float:
        return self.window.due()


NAN = math.nan


def ratio(above: float, below: float) -> float:
    return above / below if below else NAN


def size() -> Statistics:
    return lambda events: {"size": len(events)}


def spread(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Average, sum of the squared distances from it, variance of the sample, that of the population."""
    mean = ratio(sum(values), len(values))
    squares = sum((v - mean) ** 2 for v in values)
    return mean, squares, ratio(squares, len(values) - 1) if len(values) > 1 else NAN, ratio(squares, len(values))


def uni(value: Getter) -> Statistics:
    """Null values are ignored."""

    def read(events: Sequence[Event]) -> dict[str, Any]:
        values = [v for e in events if (v := value(e)) is not None]
        mean, _, sample, population = spread(values)
        return {
            "datapoints": len(values),
            "total": float(sum(values)),
            "stddev": math.sqrt(sample),
            "stddevpa": math.sqrt(population),
            "variance": sample,
            "average": mean,
        }

    return read


def linest(x: Getter, y: Getter) -> Statistics:
    def read(events: Sequence[Event]) -> dict[str, Any]:
        xs, ys = [x(e) for e in events], [y(e) for e in events]
        n, products = len(events), sum(a * b for a, b in zip(xs, ys, strict=True))
        slope = ratio(n * products - sum(xs) * sum(ys), n * sum(a * a for a in xs) - sum(xs) ** 2)
        result: dict[str, Any] = {"slope": slope, "YIntercept": ratio(sum(ys) - slope * sum(xs), n)}
        for name, values in (("X", xs), ("Y", ys)):
            mean, _, sample, population = spread(values)
            result |= {
                f"{name}Average": mean,
                f"{name}StandardDeviationPop": math.sqrt(population),
                f"{name}StandardDeviationSample": math.sqrt(sample),
                f"{name}Sum": float(sum(values)),
                f"{name}Variance": sample,
            }
        result |= {"dataPoints": n, "n": n, "sumX": float(sum(xs)), "sumXSq": float(sum(a * a for a in xs))}
        return result | {"sumXY": float(products), "sumY": float(sum(ys)), "sumYSq": float(sum(b * b for b in ys))}

    return read


def correl(x: Getter, y: Getter) -> Statistics:
    def read(events: Sequence[Event]) -> dict[str, Any]:
        pairs = [(a, b) for a, b in ((x(e), y(e)) for e in events) if a is not None and b is not None]
        xs, ys = [a for a, _ in pairs], [b for _, b in pairs]
        (mean_x, squares_x, *_), (mean_y, squares_y, *_) = spread(xs), spread(ys)
        together = sum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True))
        varied = len(set(xs)) > 1 and len(set(ys)) > 1
        return {"correlation": together / math.sqrt(squares_x * squares_y) if varied else NAN}

    return read


def weighted_avg(value: Getter, weight: Getter) -> Statistics:
    def read(events: Sequence[Event]) -> dict[str, Any]:
        return {"average": ratio(sum(value(e) * weight(e) for e in events), sum(weight(e) for e in events))}

    return read
