"""Time slices: where to cut a stream, so that each task gets about as many events, with those it must know of."""

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
_MAX_SHARE = 0.8  # of all events: the most that a task may have, with those before its slice


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The events of one task: from `first` (None: from the beginning) up to, not including, `end` (None: to the end).

    Rows that are delivered at `begin` or later belong to it; earlier rows belong to the slice before.
    """

    first: int | None
    begin: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """The events of a short time: its first and last time, their number, and how many match each `LastEvents`."""

    low: int
    high: int
    events: int
    counted: tuple[int, ...] = ()


def cut_slices(
    buckets: Sequence[TimeBucket], lookback: Lookback, counted: Sequence[LastEvents], tasks: int, ms: float
) -> list[TimeSlice]:
    """Return at most `tasks` slices, fewer if more would not shorten the longest task, one if cutting does not pay.

    `ms` is the number of clock units in a millisecond.
    """
    whole = sum(b.events for b in buckets)
    before = [0, *accumulate(b.events for b in buckets)]
    best, slices_chosen = _MAX_SHARE * whole, [TimeSlice(None, None, None)]
    for count in range(2, tasks + 1):
        places = sorted({bisect_left(before, whole * i / count) for i in range(1, count)})
        begins = [buckets[p].low for p in places if 0 < p < len(buckets)]
        slices = slices_at(begins, buckets, lookback, counted, ms)
        most = max(_events_in(slice_, buckets) for slice_ in slices)
        if most < best:
            best, slices_chosen = most, slices
    return slices_chosen


def slices_at(
    begins: Sequence[int], buckets: Sequence[TimeBucket], lookback: Lookback, counted: Sequence[LastEvents], ms: float
) -> list[TimeSlice]:
    """Return the slices that begin at the times `begins`, and the one before them."""
    firsts = [None, *(_first_needed_time(begin, buckets, lookback, counted, ms) for begin in begins)]
    return [TimeSlice(*bounds) for bounds in zip(firsts, [None, *begins], [*begins, None], strict=True)]


def _events_in(slice_: TimeSlice, buckets: Sequence[TimeBucket]) -> int:
    first, end = slice_.first, slice_.end
    return sum(b.events for b in buckets if (first is None or b.high >= first) and (end is None or b.low < end))


def _first_needed_time(
    begin: int, buckets: Sequence[TimeBucket], lookback: Lookback, counted: Sequence[LastEvents], ms: float
) -> int | None:
    """Return the time from which a slice needs the events: its begin, moved back by the steps of `lookback`."""
    lows, at = [b.low for b in buckets], begin
    for step in lookback.steps:
        times = []
        position = bisect_left(lows, at)  # the first bucket that is not before
        for move in step:
            if not position:
                return None
            last = buckets[position - 1]
            if isinstance(move, LastEvents):
                number, rest = counted.index(move), move.count
                earlier = position - 1 if last.high < at else position - 2
                while earlier >= 0 and rest > 0:
                    rest -= buckets[earlier].counted[number]
                    earlier -= 1
                if rest > 0:
                    return None
                times.append(buckets[earlier + 1].low)
            else:
                stop = last.high if last.high < at else last.low  # at the latest that
                times.append(stop - ceil(move * ms))
        at = min(times, default=at)
    return at


def counted_events(lookback: Lookback) -> list[LastEvents]:
    """Return the events that a lookback counts."""
    return list(dict.fromkeys(move for step in lookback.steps for move in step if isinstance(move, LastEvents)))


def time_histogram(
    stream: DataFrame, inputs: TaskInputs, counted: Sequence[LastEvents], catalog: Catalog
) -> list[TimeBucket]:
    """Return how the events of a stream lie in time, from a job over all of them."""
    low, high = run_action(stream.agg(F.min(TIME), F.max(TIME)).first) or (None, None)
    if low is None:
        return []
    width = F.lit((high - low) // _BUCKETS + 1)
    counts = [F.sum(_matches(last, inputs, catalog).cast("bigint")).alias(f"n{i}") for i, last in enumerate(counted)]
    of_inputs = F.sum(F.col(TAG).isin([tag for tag, *_ in inputs]).cast("bigint"))
    bucket = F.floor((F.col(TIME) - F.lit(low)) / width).alias("bucket")
    grouped = stream.groupBy(bucket).agg(
        F.min(TIME).alias("low"), F.max(TIME).alias("high"), of_inputs.alias("n"), *counts
    )
    rows = run_action(grouped.collect)
    buckets = [TimeBucket(row[1], row[2], row[3], tuple(row[4:])) for row in rows]
    return sorted(buckets, key=lambda bucket_: bucket_.low)


def _matches(last: LastEvents, inputs: TaskInputs, catalog: Catalog) -> Column:
    condition: Any = F.lit(False)
    for tag, name, properties, columns in inputs:
        if catalog.is_a(name, last.event_type):
            condition = condition | (
                (F.col(TAG) == tag) & _passes_filter(last, dict(zip(properties, columns, strict=True)))
            )
    return cast("Column", condition)


def _passes_filter(last: LastEvents, column_of: Mapping[str, str]) -> Column:
    if last.filter is None:
        return F.lit(True)
    return F.expr(f"coalesce({condition_sql(last.filter, column_of)}, FALSE)")


def slice_tasks(slices: Sequence[TimeSlice]) -> Column:
    """Return an expression for the array of tasks that get an event."""
    return F.array_compact(
        F.array(*(F.when(is_in_slice(slice_), F.lit(number)) for number, slice_ in enumerate(slices)))
    )


def is_in_slice(slice_: TimeSlice) -> Column:
    """Return an expression: True for the events of a slice, and for the earlier events that it needs."""
    first = F.lit(True) if slice_.first is None else F.col(TIME) >= slice_.first
    return first if slice_.end is None else first & (F.col(TIME) < slice_.end)
