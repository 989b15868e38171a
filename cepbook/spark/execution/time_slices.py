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

from cepbook.lang.plan.catalog import Catalog
from cepbook.spark.execution.spark_actions import run_action
from cepbook.spark.frames.sql_conditions import condition_sql
from cepbook.spark.plan.lookback import LastEvents, Lookback
from cepbook.spark.task.program import TaskInputs
from cepbook.spark.task.stream_columns import TAG, TIME

_BUCKETS = 4096
_WORTH = 0.8  # of all events: the most that a task may have, with those before its slice


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """What one task gets: events from `first` (None: from the beginning) to before `end` (None: to the end).

    What is delivered from `begin` on is its own.
    """

    first: int | None
    begin: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """The events of a short time: its first and last time, how many there are, and how many of each `LastEvents`."""

    low: int
    high: int
    events: int
    counted: tuple[int, ...] = ()


def cut_slices(
    buckets: Sequence[TimeBucket], reach: Lookback, wanted: Sequence[LastEvents], tasks: int, ms: float
) -> list[TimeSlice]:
    """At most `tasks` slices; fewer where more would not make the longest task shorter, one where that would not pay.
    `ms` are units of the clock.
    """
    whole = sum(b.events for b in buckets)
    before = [0, *accumulate(b.events for b in buckets)]
    best, found = _WORTH * whole, [TimeSlice(None, None, None)]
    for count in range(2, tasks + 1):
        places = sorted({bisect_left(before, whole * i / count) for i in range(1, count)})
        begins = [buckets[p].low for p in places if 0 < p < len(buckets)]
        slices = slices_at(begins, buckets, reach, wanted, ms)
        most = max(_load(each, buckets) for each in slices)
        if most < best:
            best, found = most, slices
    return found


def slices_at(
    begins: Sequence[int], buckets: Sequence[TimeBucket], reach: Lookback, wanted: Sequence[LastEvents], ms: float
) -> list[TimeSlice]:
    """Slices that begin at the times `begins`, and the one before them."""
    firsts = [None, *(_first(begin, buckets, reach, wanted, ms) for begin in begins)]
    return [TimeSlice(*each) for each in zip(firsts, [None, *begins], [*begins, None], strict=True)]


def _load(slice_: TimeSlice, buckets: Sequence[TimeBucket]) -> int:
    first, end = slice_.first, slice_.end
    return sum(b.events for b in buckets if (first is None or b.high >= first) and (end is None or b.low < end))


def _first(
    begin: int, buckets: Sequence[TimeBucket], reach: Lookback, wanted: Sequence[LastEvents], ms: float
) -> int | None:
    """The time from which a slice needs the events: by steps, as `reach` tells."""
    lows, at = [b.low for b in buckets], begin
    for step in reach.steps:
        found = []
        place = bisect_left(lows, at)  # the first bucket that is not before
        for move in step:
            if not place:
                return None
            last = buckets[place - 1]
            if isinstance(move, LastEvents):
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


def counted_events(reach: Lookback) -> list[LastEvents]:
    """The events that a reach counts."""
    return list(dict.fromkeys(move for step in reach.steps for move in step if isinstance(move, LastEvents)))


def time_histogram(
    stream: DataFrame,
    inputs: TaskInputs,
    wanted: Sequence[LastEvents],
    catalog: Catalog,
) -> list[TimeBucket]:
    """How the events of a stream lie in time: a job over all of them."""
    low, high = run_action(stream.agg(F.min(TIME), F.max(TIME)).first) or (None, None)
    if low is None:
        return []
    width = F.lit((high - low) // _BUCKETS + 1)
    counts = [F.sum(_is_counted(each, inputs, catalog).cast("bigint")).alias(f"n{i}") for i, each in enumerate(wanted)]
    own = F.sum(F.col(TAG).isin([tag for tag, *_ in inputs]).cast("bigint"))
    bucket = F.floor((F.col(TIME) - F.lit(low)) / width).alias("bucket")
    grouped = stream.groupBy(bucket).agg(F.min(TIME).alias("low"), F.max(TIME).alias("high"), own.alias("n"), *counts)
    rows = run_action(grouped.collect)
    found = [TimeBucket(row[1], row[2], row[3], tuple(row[4:])) for row in rows]
    return sorted(found, key=lambda each: each.low)


def _is_counted(wanted: LastEvents, inputs: TaskInputs, catalog: Catalog) -> Column:
    found: Any = F.lit(False)
    for tag, name, properties, columns in inputs:
        if catalog.is_a(name, wanted.event_type):
            found = found | ((F.col(TAG) == tag) & _passes(wanted, dict(zip(properties, columns, strict=True))))
    return cast("Column", found)


def _passes(wanted: LastEvents, place: Mapping[str, str]) -> Column:
    if wanted.filter is None:
        return F.lit(True)
    return F.expr(f"coalesce({condition_sql(wanted.filter, place)}, FALSE)")


def slice_tasks(slices: Sequence[TimeSlice]) -> Column:
    """For Spark: the tasks that get an event, an array."""
    return F.array_compact(F.array(*(F.when(is_in_slice(each), F.lit(number)) for number, each in enumerate(slices))))


def is_in_slice(slice_: TimeSlice) -> Column:
    """For Spark: whether an event is of a slice, or of those before that it needs."""
    first = F.lit(True) if slice_.first is None else F.col(TIME) >= slice_.first
    return first if slice_.end is None else first & (F.col(TIME) < slice_.end)
