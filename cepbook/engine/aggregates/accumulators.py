"""Accumulators: the state of aggregates that a number cannot hold. Values enter and leave one by one.

============================  ============================  ================================================
`SortedEvents`                sorted, maxby, minby          O(log n)
`DistinctJoinValues`          first, last, window in joins  O(1)
`ArrivalRate`                 rate(seconds)                 O(1), amortised
`AmountRate`                  rate(timestamp, amount)       O(1)
`Frequencies`                 mode                          O(log n)
============================  ============================  ================================================

Standard and mean deviations are in `deviations`, other sums of powers in `power_sums`. Median and percentiles read a
`SortedList`, O(log n). Sketches, which need bounded space, are in `quantile_sketch`, `distinct_sketch` and
`count_min_sketch`.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

from cepbook.engine.aggregates.count_min_sketch import CountMinSketch
from cepbook.engine.aggregates.deviations import MeanDeviation
from cepbook.engine.aggregates.distinct_sketch import DistinctSketch
from cepbook.engine.aggregates.power_sums import PowerSums
from cepbook.engine.expressions import primitives
from cepbook.engine.expressions.sort_keys import ascending_key, descending_key, value_of_key
from cepbook.engine.state import SortedList, State, created, initial

SortedKey = tuple[Any, ...]


class OrdinalMap(State):
    """Values in the order of their ordinals, in whichever order they enter."""

    order: Any = created(SortedList)
    by_ordinal: dict[Any, Any] = created(dict)

    def __len__(self) -> int:
        return len(self.by_ordinal)

    def __setitem__(self, ordinal: Any, value: Any) -> None:
        if ordinal not in self.by_ordinal:
            self.order.add(ordinal)
        self.by_ordinal[ordinal] = value

    def pop(self, ordinal: Any, default: Any = None) -> Any:
        """Remove and return the value of `ordinal`, or return `default`."""
        if ordinal not in self.by_ordinal:
            return default
        self.order.remove(ordinal)
        return self.by_ordinal.pop(ordinal)

    def values(self) -> OrdinalMapValues:
        """Return a view of the values, readable from both ends."""
        return OrdinalMapValues(self)


class OrdinalMapValues(Sequence[Any]):
    """A view of the values of an `OrdinalMap` in their order, without a copy."""

    __slots__ = ("_map",)

    def __init__(self, map_: OrdinalMap) -> None:
        self._map = map_

    def __len__(self) -> int:
        return len(self._map)

    def __getitem__(self, index: Any) -> Any:
        return self._map.by_ordinal[self._map.order[index]]


class SortedEvents(State):
    """Events in the order of a sort key; events with equal keys in the order of arrival. `descends` has one flag per
    criterion. Methods that take or return a sort key use None for no key.
    """

    __slots__ = ("descends", "events", "keys")

    def __init__(self, *descends: bool) -> None:
        self.descends = descends
        self.keys: Any = SortedList()  # (sort key, ordinal)
        self.events: dict[int, tuple[SortedKey, Any]] = {}  # by ordinal: (sort key, event)

    def copy(self) -> SortedEvents:
        """Return an independent copy."""
        copy = SortedEvents(*self.descends)
        copy.keys, copy.events = self.keys.copy(), dict(self.events)
        return copy

    def enter(self, key: SortedKey, event: Any, ordinal: int | None = None) -> None:
        """Add an event. Without an `ordinal` it is the last to arrive; only unbounded streams may omit it."""
        if ordinal is None:
            ordinal = len(self.events)
        self.keys.add((key, ordinal))
        self.events[ordinal] = key, event

    def leave(self, ordinal: int) -> None:
        entry = self.events.pop(ordinal, None)
        if entry is not None:
            self.keys.remove((entry[0], ordinal))

    def first(self) -> Any:
        """Return the earliest event with the lowest key; None without events."""
        return self.events[self.keys[0][1]][1] if self.keys else None

    def last(self) -> Any:
        """Return the earliest event with the highest key; None without events."""
        if not self.keys:
            return None
        earliest = self.keys.bisect_left((self.keys[-1][0],))
        return self.events[self.keys[earliest][1]][1]

    def all(self) -> list[Any] | None:
        """Return the events in order; None without events."""
        return [self.events[ordinal][1] for _, ordinal in self.keys] or None

    def lowest(self) -> SortedKey | None:
        return self._key(0)

    def highest(self) -> SortedKey | None:
        return self._key(len(self.keys) - 1)

    def floor(self, value: Any) -> SortedKey | None:
        return self._key(self._behind(self._of(value)) - 1)

    def ceiling(self, value: Any) -> SortedKey | None:
        return self._key(self._before(self._of(value)))

    def lower(self, value: Any) -> SortedKey | None:
        return self._key(self._before(self._of(value)) - 1)

    def higher(self, value: Any) -> SortedKey | None:
        return self._key(self._behind(self._of(value)))

    def exact(self, value: Any) -> SortedKey | None:
        key = self._of(value)
        return key if self.ceiling(value) == key else None

    def event(self, key: SortedKey | None) -> Any:
        """Return the earliest event with the key."""
        return None if key is None else self.events[self.keys[self._before(key)][1]][1]

    def equal(self, key: SortedKey | None) -> list[Any] | None:
        """Return all events with the key, in the order of arrival."""
        return None if key is None else self._events(self._before(key), self._behind(key))

    def between(self, start: Any, with_start: bool, end: Any, with_end: bool) -> list[Any]:
        """Return the events with keys between `start` and `end`; the flags say whether each end is included."""
        first, last = self._of(start), self._of(end)
        return self._events(
            self._before(first) if with_start else self._behind(first),
            self._behind(last) if with_end else self._before(last),
        )

    def count_keys(self) -> int:
        return len({key for key, _ in self.keys})

    def value_of(self, key: SortedKey | None) -> Any:
        if key is None:
            return None
        return value_of_key(key) if len(self.descends) == 1 else [value_of_key(component) for component in key]

    def _of(self, value: Any) -> SortedKey:
        if len(self.descends) == 1:
            return self._part(value, self.descends[0])
        return tuple(map(self._part, value, self.descends))

    def _part(self, value: Any, descends: bool) -> SortedKey:
        component: SortedKey = descending_key(value) if descends else ascending_key(value)
        return component

    def _before(self, key: SortedKey) -> int:
        place: int = self.keys.bisect_left((key,))
        return place

    def _behind(self, key: SortedKey) -> int:
        place: int = self.keys.bisect_left((key, math.inf))
        return place

    def _key(self, place: int) -> SortedKey | None:
        return self.keys[place][0] if 0 <= place < len(self.keys) else None

    def _events(self, first: int, end: int) -> list[Any]:
        return [self.events[ordinal][1] for _, ordinal in self.keys[first : max(first, end)]]


class DistinctJoinValues(State):
    """Values of the events of one stream of a join, each event once, by ordinal and in the order of entry. `counts` has
    the number of rows that contain an event. A row without an event of the stream has the ordinal -1.
    """

    counts: dict[int, int] = created(dict)
    values: OrderedDict[int, Any] = created(OrderedDict)

    def enter(self, ordinal: int, value: Any) -> None:
        if ordinal >= 0:
            self.counts[ordinal] = self.counts.get(ordinal, 0) + 1
            self.values.setdefault(ordinal, value)

    def leave(self, ordinal: int) -> None:
        rows = self.counts.get(ordinal, 0)
        if rows > 1:
            self.counts[ordinal] = rows - 1
        elif rows:
            del self.counts[ordinal], self.values[ordinal]


class DistinctJoinSortedEvents(SortedEvents):
    """`SortedEvents` of one stream of a join, each event once, however many rows contain it."""

    __slots__ = ("counts",)

    def __init__(self, *descends: bool) -> None:
        super().__init__(*descends)
        self.counts: dict[int, int] = {}

    def enter(self, key: SortedKey, event: Any, ordinal: int | None = None) -> None:
        assert ordinal is not None
        if ordinal >= 0:
            self.counts[ordinal] = self.counts.get(ordinal, 0) + 1
            if self.counts[ordinal] == 1:
                super().enter(key, event, ordinal)

    def leave(self, ordinal: int) -> None:
        rows = self.counts.get(ordinal, 0)
        if rows > 1:
            self.counts[ordinal] = rows - 1
        elif rows:
            del self.counts[ordinal]
            super().leave(ordinal)


class ArrivalRate(State):
    """Times of the events within the last `interval` clock units; a second has `second` clock units. An event of time t
    leaves at t + interval, as in a time window, but only when another event arrives (recorded:
    rate_with_a_filter_moves_with_passing_events_only).
    """

    interval: int
    second: int
    times: deque[int] = created(deque)
    complete: bool = initial(False)  # True once an event has left the interval

    def enter(self, now: int) -> None:
        self.times.append(now)
        limit = now - self.interval
        while self.times[0] <= limit:
            self.times.popleft()
            self.complete = True

    def rate(self) -> float | None:
        """Return events per second; None until one has left the interval."""
        return len(self.times) * self.second / self.interval if self.complete else None


class AmountRate(State):
    """The total amount of a window's events and the timestamps that bound it."""

    amount: Any = initial(0)
    newest: int | None = initial(None)
    oldest: int | None = initial(None)  # timestamp of the event that left last

    def enter(self, stamp: int, amount: Any) -> None:
        self.newest = stamp
        self.amount += amount or 0

    def leave(self, stamp: int, amount: Any) -> None:
        self.oldest = stamp
        self.amount -= amount or 0

    def rate(self, second: int) -> float | None:
        """Return the amount per `second` units of the timestamps; None until an event has left."""
        if self.oldest is None or self.newest is None:
            return None
        amount = float(self.amount) * second
        span = self.newest - self.oldest
        return amount / span if span else primitives.divide_by_zero(amount)


def median_value(values: Any, nans: int) -> float | None:
    """Return the median of a `SortedList` followed by `nans` NaN; None without values."""
    count = len(values) + nans
    if not count:
        return None
    middle = count // 2
    if middle >= len(values):
        return math.nan
    return float(values[middle]) if count % 2 else (values[middle - 1] + values[middle]) / 2.0


def percentile_value(values: Any, nans: int, percent: float | None) -> float | None:
    """Return the value at `percent` of a `SortedList` followed by `nans` NaN, interpolated linearly between two values;
    None without values. Errors: ValueError if `percent` is not from 0 to 100.
    """
    count = len(values) + nans
    if not count or percent is None:
        return None
    if not 0 <= percent <= 100:
        raise ValueError(f"the percentage of percentile must be between 0 and 100, found {percent}")
    place = (count - 1) * percent / 100
    below = math.floor(place)
    above = math.ceil(place)
    if above >= len(values):
        return math.nan
    if values[below] == values[above]:
        return float(values[below])
    fraction = place - below
    return values[below] * (1 - fraction) + values[above] * fraction if fraction else float(values[below])


def joined_texts(values: Iterable[str | None], separator: str | None) -> str | None:
    """Return the texts that are not null with `separator` between them; None without texts or separator."""
    texts = [value for value in values if value is not None]
    return separator.join(texts) if texts and separator is not None else None


class Frequencies(State):
    """How often each value occurs, and the values of each frequency in their order."""

    counts: dict[Any, int] = created(dict)  # by sort key
    levels: dict[int, Any] = created(dict)  # frequency -> SortedList of sort keys
    most: int = initial(0)

    def enter(self, value: Any) -> None:
        key = ascending_key(value)
        count = self.counts.get(key, 0)
        self._move(key, count, count + 1)
        self.most = max(self.most, count + 1)

    def leave(self, value: Any) -> None:
        key = ascending_key(value)
        count = self.counts.get(key, 0)
        if count:
            self._move(key, count, count - 1)
            if count == self.most and count not in self.levels:
                self.most -= 1

    def _move(self, key: Any, before: int, after: int) -> None:
        if before:
            self.levels[before].remove(key)
            if not self.levels[before]:
                del self.levels[before]
        if after:
            self.counts[key] = after
            self.levels.setdefault(after, SortedList()).add(key)
        else:
            del self.counts[key]

    def value(self) -> Any:
        """Return the smallest of the most frequent values; None without values."""
        return value_of_key(self.levels[self.most][0]) if self.most else None


_HALF = 2.0**1023  # half of the range of floating numbers


def add_with_overflow(total: float, lost: float, value: float, sign: int, spilled: list[int]) -> tuple[float, float]:
    """Add ``sign * value`` to a sum that would become infinite; return the finite sum and the rounding loss. `spilled`
    counts what is kept beside the sum: infinities, negative infinities, NaN, and multiples of 2 ** 1023.
    """
    if value - value != 0.0:
        spilled[0 if value == math.inf else 1 if value == -math.inf else 2] += sign
        return total, lost
    for addend in (total, sign * value):
        spilled[3] += 1 if addend >= _HALF else -1 if addend <= -_HALF else 0
    a, b = _within(total), _within(sign * value)
    grown = a + b
    addend = grown - a
    return grown, lost + (a - (grown - addend)) + (b - addend)


def _within(value: float) -> float:
    return value - _HALF if value >= _HALF else value + _HALF if value <= -_HALF else value


def compensated_total(total: float, lost: float, spilled: list[int]) -> float:
    """Return a sum with its rounding loss and what is kept beside it."""
    above, below, odd, halves = spilled
    if above or below or odd:
        return math.nan if odd or (above and below) else math.inf if above else -math.inf
    if not halves:
        return total + lost
    try:
        return float(Fraction(total) + Fraction(lost) + halves * int(_HALF))
    except OverflowError:
        return math.inf if halves > 0 else -math.inf


class Accumulator(Protocol):
    """State of one aggregate. Only values that are not null enter and leave."""

    def enter(self, value: Any, /) -> None: ...
    def leave(self, value: Any, /) -> None: ...
    def value(self) -> Any: ...


# Aggregates whose value is that of one accumulator, by name
ACCUMULATORS: dict[str, Callable[[], Accumulator]] = {
    "approx_count_distinct": DistinctSketch,
    "avedev": MeanDeviation,
    "countminsketchadd": CountMinSketch,
    "mode": Frequencies,
    **{name: partial(PowerSums, name) for name in ("geomean", "kurtosis", "skewness", "sumsq", "variance")},
}
