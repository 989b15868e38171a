"""Naive windows and aggregates: a few lines each, straight from the documentation, to compare the engine with.

A window is asked at every advance of time (`tick`) and for every event (`take`) and answers with the events that
enter and leave; `held` is what it retains, in arrival order. (Esper reference, chapter "Data Windows"; boundaries
as recorded: an event of time t leaves a time window at t + period.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from tests.engine.histories import Event


class Change(NamedTuple):
    """One delivery's worth of events: those that enter and those that leave, oldest first."""

    time: int
    new: list[Event]
    old: list[Event]


class Window:
    held: list[Event]

    def __init__(self) -> None:
        self.held = []

    def due(self) -> int | None:
        """When the window next wants to be asked."""
        return None

    def tick(self, now: int) -> Change | None:
        return None

    def take(self, event: Event) -> Change | None:
        raise NotImplementedError


class KeepAll(Window):
    def take(self, event: Event) -> Change:
        self.held.append(event)
        return Change(event.time, [event], [])


class Length(Window):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def take(self, event: Event) -> Change:
        self.held.append(event)
        old, self.held = self.held[: -self.size], self.held[-self.size :]
        return Change(event.time, [event], old)


class Time(Window):
    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period

    def due(self) -> int | None:
        return self.held[0].time + self.period if self.held else None

    def tick(self, now: int) -> Change | None:
        old = [e for e in self.held if e.time + self.period <= now]
        self.held = self.held[len(old) :]
        return Change(now, [], old) if old else None

    def take(self, event: Event) -> Change:
        self.held.append(event)
        return Change(event.time, [event], [])


class LengthBatch(Window):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.last = size, list[Event]()

    def take(self, event: Event) -> Change | None:
        self.held.append(event)
        if len(self.held) < self.size:
            return None
        change = Change(event.time, self.held, self.last)
        self.last, self.held = self.held, []
        return change


class TimeBatch(Window):
    def __init__(self, period: int) -> None:
        super().__init__()
        self.period, self.last = period, list[Event]()
        self.origin: int | None = None
        self.at: int | None = None

    def _next(self, now: int) -> int:
        assert self.origin is not None
        return self.origin + ((now - self.origin) // self.period + 1) * self.period

    def due(self) -> int | None:
        return self.at

    def tick(self, now: int) -> Change | None:
        if self.at is None or now < self.at:
            return None
        change = Change(now, self.held, self.last)
        self.at = self._next(now) if change.new or change.old else None
        self.last, self.held = self.held, []
        return change if change.new or change.old else None

    def take(self, event: Event) -> None:
        if self.origin is None:
            self.origin = event.time
        if self.at is None:
            self.at = self._next(event.time)
        self.held.append(event)


class Unique(Window):
    def __init__(self, key: Callable[[Event], Hashable]) -> None:
        super().__init__()
        self.key = key

    def take(self, event: Event) -> Change:
        old = [e for e in self.held if self.key(e) == self.key(event)]
        self.held = [e for e in self.held if e not in old] + [event]
        return Change(event.time, [event], old)


class Groups(Window):
    """``groupwin``: a window per key; those due at one time answer in the order of due time and creation."""

    def __init__(self, key: Callable[[Event], Hashable], make: Callable[[], Window]) -> None:
        super().__init__()
        self.key, self.make = key, make
        self.windows: dict[Hashable, Window] = {}

    def due(self) -> int | None:
        return min((d for w in self.windows.values() if (d := w.due()) is not None), default=None)

    def tick(self, now: int) -> Change | None:
        ready = [w for w in self.windows.values() if (d := w.due()) is not None and d <= now]
        changes = [c for w in sorted(ready, key=lambda w: w.due() or 0) if (c := w.tick(now)) is not None]
        if not changes:
            return None
        return Change(now, [e for c in changes for e in c.new], [e for c in changes for e in c.old])

    def take(self, event: Event) -> Change | None:
        change = self.windows.setdefault(self.key(event), self.make()).take(event)
        return change

    @property
    def contents(self) -> list[Event]:
        return [e for w in self.windows.values() for e in w.held]


def changes(window: Window, events: list[Event], until: int) -> list[tuple[Change, list[Event]]]:
    """What `window` does with a history: each change, with the contents after it."""
    found: list[tuple[Change, list[Event]]] = []

    def note(change: Change | None) -> None:
        if change is not None:
            found.append((change, contents(window)))

    now = 0
    for event in events:
        if event.time > now:
            now = event.time
            note(window.tick(now))
        note(window.take(event))
    note(window.tick(max(until, now)))
    return found


def contents(window: Window) -> list[Event]:
    return list(window.contents if isinstance(window, Groups) else window.held)


# ---------------------------------------------------------------- aggregates, recomputed from the events each time
def values(events: list[Event], name: str) -> list[Any]:
    return [v for e in events if (v := e.values[name]) is not None]


def distinct(found: list[Any]) -> list[Any]:
    return list(dict.fromkeys(found))


def total(found: list[Any]) -> Any:
    return sum(found) if found else None


def mean(found: list[Any]) -> float | None:
    return sum(found) / len(found) if found else None


AGGREGATES: dict[str, Callable[[list[Event]], Any]] = {
    "count(*)": len,
    "count(x)": lambda w: len(values(w, "x")),
    "count(distinct x)": lambda w: len(set(values(w, "x"))),
    "sum(x)": lambda w: total(values(w, "x")),
    "sum(d)": lambda w: total(values(w, "d")),
    "sum(n)": lambda w: total(values(w, "n")),
    "sum(distinct d)": lambda w: total(distinct(values(w, "d"))),
    "sum(x, g = 1)": lambda w: total(values([e for e in w if e.values["g"] == 1], "x")),
    "sum(x, filter: g > 0)": lambda w: total(values([e for e in w if e.values["g"] > 0], "x")),
    "count(*, filter: x > 0)": lambda w: len([v for v in values(w, "x") if v > 0]),
    "count(distinct k, filter: g = 1)": lambda w: len(set(values([e for e in w if e.values["g"] == 1], "k"))),
    "avg(x)": lambda w: mean(values(w, "x")),
    "avg(distinct x)": lambda w: mean(distinct(values(w, "x"))),
    "avg(d, g = 0)": lambda w: mean(values([e for e in w if e.values["g"] == 0], "d")),
    "min(d)": lambda w: min(values(w, "d"), default=None),
    "max(x)": lambda w: max(values(w, "x"), default=None),
    "min(k)": lambda w: min(values(w, "k"), default=None),
    "max(x, filter: g = 1)": lambda w: max(values([e for e in w if e.values["g"] == 1], "x"), default=None),
    "max(distinct x)": lambda w: max(values(w, "x"), default=None),
    "first(x)": lambda w: w[0].values["x"] if w else None,
    "last(x)": lambda w: w[-1].values["x"] if w else None,
    "first(d, 1)": lambda w: w[1].values["d"] if len(w) > 1 else None,
    "last(k, 2)": lambda w: w[-3].values["k"] if len(w) > 2 else None,
    "sum(x) + count(*) * 2": lambda w: None if total(values(w, "x")) is None else total(values(w, "x")) + len(w) * 2,
}
