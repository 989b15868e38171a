"""Slices of time: where to cut a stream so that each task gets about as much, with what it must know of before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cepbook.lang.catalog import Catalog
from cepbook.spark.frames.native import as_sql
from cepbook.spark.plan.reach import Last, Reach
from cepbook.spark.running.result import acting
from cepbook.spark.task.names import TAG, TIME

_BUCKETS = 4096
_WORTH = 0.8  # of all events: the most that a task may have, with those before its slice


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task gets: events from `first` (None: from the beginning) to before `end` (None: to the end).

    What is delivered from `begin` on is its own.
    """

    first: int | None
    begin: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """The events of a short time: its first and last time, how many there are, and how many of each `Last`."""

    low: int
    high: int
    events: int
    counted: tuple[int, ...] = ()


def cut(buckets: Sequence[Bucket], reach: Reach, wanted: Sequence[Last], tasks: int, ms: float) -> list[Slice]:
    """At most `tasks` slices; fewer where more would not make the longest task shorter, one where that would not pay.
    `ms` are units of the clock.
    """
    whole = sum(b.events for b in buckets)
    before = [0, *accumulate(b.events for b in buckets)]
    best, found = _WORTH * whole, [Slice(None, None, None)]
    for count in range(2, tasks + 1):
        places = sorted({bisect_left(before, whole * i / count) for i in range(1, count)})
        begins = [buckets[p].low for p in places if 0 < p < len(buckets)]
        slices = slices_at(begins, buckets, reach, wanted, ms)
        most = max(_load(each, buckets) for each in slices)
        if most < best:
            best, found = most, slices
    return found


def slices_at(
    begins: Sequence[int], buckets: Sequence[Bucket], reach: Reach, wanted: Sequence[Last], ms: float
) -> list[Slice]:
    """Slices that begin at the times `begins`, and the one before them."""
    firsts = [None, *(_first(begin, buckets, reach, wanted, ms) for begin in begins)]
    return [Slice(*each) for each in zip(firsts, [None, *begins], [*begins, None], strict=True)]


def _load(slice_: Slice, buckets: Sequence[Bucket]) -> int:
    first, end = slice_.first, slice_.end
    return sum(b.events for b in buckets if (first is None or b.high >= first) and (end is None or b.low < end))


def _first(begin: int, buckets: Sequence[Bucket], reach: Reach, wanted: Sequence[Last], ms: float) -> int | None:
    """The time from which a slice needs the events: by steps, as `reach` tells."""
    lows, at = [b.low for b in buckets], begin
    for step in reach.steps:
        found = []
        place = bisect_left(lows, at)  # the first bucket that is not before
        for move in step:
            if not place:
                return None
            last = buckets[place - 1]
            if isinstance(move, Last):
                number, rest = wanted.index(move), move.count
                earlier = place - 1 if last.high < at else place - 2
                while earlier >= 0 and rest > 0:
                    rest -= buckets[earlier].counted[number]
                    earlier -= 1
                if rest > 0:
                    return None
                found.append(buckets[earlier + 1].low)
            else:
                stop = last.high if last.high < at else last.low  # at the latest that
                found.append(stop - ceil(move * ms))
        at = min(found, default=at)
    return at


def lasts(reach: Reach) -> list[Last]:
    """The events that a reach counts."""
    return list(dict.fromkeys(move for step in reach.steps for move in step if isinstance(move, Last)))


def counted(
    stream: DataFrame,
    inputs: Sequence[tuple[int, str, tuple[str, ...], tuple[str, ...]]],
    wanted: Sequence[Last],
    catalog: Catalog,
) -> list[Bucket]:
    """How the events of a stream lie in time: a job over all of them."""
    low, high = acting(stream.agg(F.min(TIME), F.max(TIME)).first) or (None, None)
    if low is None:
        return []
    width = F.lit((high - low) // _BUCKETS + 1)
    counts = [F.sum(_is_counted(each, inputs, catalog).cast("bigint")).alias(f"n{i}") for i, each in enumerate(wanted)]
    own = F.sum(F.col(TAG).isin([tag for tag, *_ in inputs]).cast("bigint"))
    bucket = F.floor((F.col(TIME) - F.lit(low)) / width).alias("bucket")
    grouped = stream.groupBy(bucket).agg(F.min(TIME).alias("low"), F.max(TIME).alias("high"), own.alias("n"), *counts)
    rows = acting(grouped.collect)
    found = [Bucket(row[1], row[2], row[3], tuple(row[4:])) for row in rows]
    return sorted(found, key=lambda each: each.low)


def _is_counted(
    wanted: Last, inputs: Sequence[tuple[int, str, tuple[str, ...], tuple[str, ...]]], catalog: Catalog
) -> Column:
    found: Any = F.lit(False)
    for tag, name, properties, columns in inputs:
        if catalog.is_a(name, wanted.event_type):
            found = found | ((F.col(TAG) == tag) & _passes(wanted, dict(zip(properties, columns, strict=True))))
    return cast("Column", found)


def _passes(wanted: Last, place: Mapping[str, str]) -> Column:
    if wanted.filter is None:
        return F.lit(True)
    return F.expr(f"coalesce({as_sql(wanted.filter, place)}, FALSE)")


def tasks_of(slices: Sequence[Slice]) -> Column:
    """For Spark: the tasks that get an event, an array."""
    return F.array_compact(F.array(*(F.when(inside(each), F.lit(number)) for number, each in enumerate(slices))))


def inside(slice_: Slice) -> Column:
    """For Spark: whether an event is of a slice, or of those before that it needs."""
    first = F.lit(True) if slice_.first is None else F.col(TIME) >= slice_.first
    return first if slice_.end is None else first & (F.col(TIME) < slice_.end)
