"""The stops of the clock while a replay runs through a batch.

::

    events          1              2                   3
    due times           10   20              30
    DueStops        1   10   20    2         30        3
    EventStops      1              2                   3     what is due at 10 and 20 fires at 2, late
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cepbook.engine.time.timers import DueQueue

_YEAR = 365 * 86_400  # seconds


@dataclass(slots=True)
class LateTimers:
    """The number of timers that fired after their due time, because the clock leapt, and the longest delay."""

    count: int = 0
    longest: int = 0

    def add(self, delay: int) -> None:
        """Count a timer that fires `delay` clock units late."""
        self.count += 1
        self.longest = max(self.longest, delay)


def leaps_from_epoch(now: int, to: int, second: int) -> bool:
    """Return whether a clock that stands at 0 (1970) leaps to `to`, more than a year later, instead of stepping.

    Nobody wants the timers of half a century because no start was given.
    """
    return now == 0 and to > _YEAR * second


class ClockStops(ABC):
    """The times at which the clock may stop, up to and including `last`. If it `leaps`, it passes due times by."""

    __slots__ = ("last",)

    leaps: ClassVar[bool] = False

    def __init__(self, last: int) -> None:
        self.last = last

    @abstractmethod
    def fire(self, due: int) -> int:
        """Return the stop at which a timer fires that is due at `due`, at or before `last`."""

    @abstractmethod
    def on_the_way(self, queue: DueQueue[Any], now: int, to: int) -> Iterator[int]:
        """Yield the stops after `now`, up to and including `to`, at which `queue` has something due.

        The caller runs what is due before it asks for the next stop. What was due before `now` waits for a stop.
        """

    def before(self, stop: int, now: int) -> int:
        """Return the time from which the clock leaps to `stop`, if it is at `now` before all stops."""
        return now

    @abstractmethod
    def until(self, last: int) -> ClockStops | None:
        """Return the stops up to and including `last`; None if the clock does not stop there."""


class DueStops(ClockStops):
    """The clock stops whenever something is due, from `begin` on."""

    __slots__ = ("_begin",)

    def __init__(self, begin: int, last: int) -> None:
        super().__init__(last)
        self._begin = begin

    def fire(self, due: int) -> int:
        return due if due > self._begin else self._begin

    def on_the_way(self, queue: DueQueue[Any], now: int, to: int) -> Iterator[int]:
        if now >= to:
            return
        due = queue.due
        while due < to:
            now = max(due, now)
            yield now
            due = queue.beyond(now)  # a timer that waits for the next stop does not cause one
        if queue.due <= to:
            yield to

    def until(self, last: int) -> DueStops:
        return DueStops(self._begin, last)


class EventStops(ClockStops):
    """The clock leaps: it stops at `times` (ascending) alone. Timers that are due in between count as `late`."""

    __slots__ = ("_count", "_late", "_times")

    leaps = True

    def __init__(self, times: Sequence[int], late: LateTimers, count: int | None = None) -> None:
        """`count`: only so many of the times, the first ones, are stops."""
        self._count = len(times) if count is None else count
        super().__init__(times[self._count - 1])
        self._times = times
        self._late = late

    def fire(self, due: int) -> int:
        stop = self._times[bisect_left(self._times, due)]
        if stop > due:
            self._late.add(stop - due)
        return stop

    def before(self, stop: int, now: int) -> int:
        place = bisect_left(self._times, stop)
        return self._times[place - 1] if place else now

    def on_the_way(self, queue: DueQueue[Any], now: int, to: int) -> Iterator[int]:
        while queue.due <= to:
            place = bisect_left(self._times, max(queue.due, now + 1), 0, self._count)
            if place == self._count or self._times[place] > to:
                break
            stop = self._times[place]
            for due, _ in queue.upto(stop - 1):
                if due > now:
                    self._late.add(stop - due)
            now = stop
            yield now

    def until(self, last: int) -> EventStops | None:
        count = bisect_right(self._times, last, 0, self._count)
        return EventStops(self._times, self._late, count) if count and self._times[count - 1] == last else None
