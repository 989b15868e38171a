"""The events that each task of a job reads: divided into tasks, and in order within each.

Beside the events a task reads ticks, the times of all events of the stream at which its clock has to stop, and
advances, which only move its clock to a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cepbook.spark.execution.key_assignment import balanced_assignment, key_columns, shard_tasks, task_number_sql
from cepbook.spark.execution.time_slices import TimeSlice, is_in_slice, slice_tasks
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import TaggedStream, union
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.clock_ticks import PACKED_TICKS, pack_ticks
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import SEQ, TAG, TASK, TICK, TICKS, TIME

KEY_GROUP_COUNT = 32
"""The number of key groups of a stream. It is fixed, so that a checkpoint can be resumed with another number of tasks.
Each group with events costs about 3 ms per micro-batch."""


def task_count(session: SparkSession) -> int:
    """Return the number of tasks that the keys of a batch are divided among."""
    return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1))


def program_events(tagged: TaggedStream, program: TaskProgram) -> SqlQuery:
    """Return the events of the types that the program reads."""
    tags = [tag for tag, _, _, _ in program.inputs]
    if len(tags) == len(tagged.read):
        return tagged.events
    return tagged.events.where(f"{TAG} IN ({', '.join(map(str, tags))})" if tags else "FALSE")


def assign_tasks(
    events: SqlQuery,
    program: TaskProgram,
    placement: Placement,
    tasks: int,
    slices: Sequence[TimeSlice] = (),
    balance: bool = False,
) -> SqlQuery:
    """Return the program's events with the number of their task; an event for several tasks is repeated for each."""
    columns = TAG, TIME, SEQ, *_properties(program)
    task_lists = shard_tasks(placement.shards, program.inputs, tasks) if placement.shards is not None else None
    if task_lists is None and len(slices) > 1:
        task_lists = slice_tasks(slices)
    if task_lists is not None:
        return SqlQuery(events.frame.select(*columns, F.explode(task_lists).alias(TASK)))
    number = task_number_sql(program.inputs, placement, tasks, _group_tasks(events, program, placement, tasks, balance))
    return events.select(*columns, f"{number} AS {TASK}")


def task_events(
    tagged: TaggedStream,
    events: SqlQuery,
    program: TaskProgram,
    placement: Placement,
    until: int | None,
    tasks: int,
    slices: Sequence[TimeSlice],
    balance: bool,
) -> SqlQuery:
    """Return the `events` of the program, divided into tasks as `placement` says and sorted within each task.

    The path ``native`` leaves them as they are.
    """
    if placement.path == "native":
        return events
    end = [_advance_to_end(tagged.stream, until)] if placement.ticks and not (program.leaps and until is None) else []
    if placement.shards is None and not slices and not program.has_ticks and not end:
        return SqlQuery(_events_without_task_column(events, program, placement, tasks, balance))
    events = assign_tasks(events, program, placement, tasks, slices, balance)
    if placement.path == "by key":
        ticks = [_packed_ticks(tagged.stream), *end] if program.has_ticks else end
        ticks = ticks if program.leaps or not end else [*ticks, _advance_to_first_event(tagged.stream)]
        all_tasks = f"explode(sequence(0, {tasks - 1})) AS {TASK}"
        parts = [events.frame, *(tick_frame.selectExpr("*", all_tasks) for tick_frame in ticks)]
        rows = union(parts).repartitionById(tasks, TASK)
        return SqlQuery(_sort_within_tasks(rows, program, without_ticks=len(parts) == 1))
    count = max(1, len(slices))
    parts = [events.frame]
    for number, slice_ in enumerate(slices or [TimeSlice(None, None, None)]) if program.has_ticks else ():
        parts.append(_packed_ticks(tagged.stream.where(is_in_slice(slice_))).withColumn(TASK, F.lit(number)))
    parts += [tick_frame.withColumn(TASK, F.lit(count - 1)) for tick_frame in end]
    if end and not program.leaps:
        parts.append(_advance_to_first_event(tagged.stream).withColumn(TASK, F.lit(0)))
        for number, slice_ in enumerate(slices):  # for results that are due before the next slice
            if slice_.end is not None:
                advance = _clock_advance(tagged.stream, F.lit(slice_.end - 1), F.lit(-1))
                parts.append(advance.withColumn(TASK, F.lit(number)))
    rows = union(parts)
    rows = rows.repartitionById(count, TASK) if count > 1 else rows.repartition(1)
    return SqlQuery(_sort_within_tasks(rows, program, without_ticks=len(parts) == 1))


def _events_without_task_column(
    events: SqlQuery, program: TaskProgram, placement: Placement, tasks: int, balance: bool
) -> DataFrame:
    """Divide and sort events of which each goes to exactly one task. The rows have no column of the task, and there are
    no ticks.
    """
    order = _sort_columns(program, True)
    frame = events.select(*order, *_properties(program)).frame
    if placement.path == "by key":
        group_tasks = _group_tasks(events, program, placement, tasks, balance)
        if keys := () if group_tasks else key_columns(program.inputs, placement):
            frame = frame.repartition(tasks, *keys)
        else:
            frame = frame.repartitionById(tasks, F.expr(task_number_sql(program.inputs, placement, tasks, group_tasks)))
    elif placement.path != "row by row":
        frame = frame.repartition(1)
    return frame.sortWithinPartitions(*order)


def _group_tasks(
    events: SqlQuery, program: TaskProgram, placement: Placement, tasks: int, balance: bool
) -> Sequence[int]:
    """Return the task of each key group, balanced by a Spark job that counts events; empty without `balance`, or if the
    events are not divided by key.
    """
    if not balance or placement.path != "by key":
        return ()
    return balanced_assignment(events, program.inputs, placement, tasks)


def _properties(program: TaskProgram) -> list[str]:
    return [c for _, _, _, columns in program.inputs for c in columns if c != TIME]


def _sort_columns(program: TaskProgram, without_ticks: bool) -> tuple[str, ...]:
    """Return the columns that a task needs its events sorted by: without the tag if all rows are of one event type."""
    return (TIME, SEQ) if without_ticks and len(program.inputs) == 1 else (TIME, SEQ, TAG)


def _sort_within_tasks(events: DataFrame, program: TaskProgram, without_ticks: bool) -> DataFrame:
    """Return events in the order and with the columns that tasks need."""
    order = _sort_columns(program, without_ticks)
    columns = [
        *order,
        *([TASK] if program.numbered else []),
        *([TICKS] if program.has_ticks else []),
        *_properties(program),
    ]
    return events.sortWithinPartitions(*order).selectExpr(*columns)


def _packed_ticks(stream: DataFrame) -> DataFrame:
    """Return the ticks of the clock, in blocks."""
    return stream.select(TIME, SEQ).mapInArrow(pack_ticks, PACKED_TICKS)


def _advance_to_end(stream: DataFrame, until: int | None) -> DataFrame:
    """Return the advance to `until`, or to the last event, that ends the replay, numbered behind the last event."""
    return _clock_advance(stream, F.max(TIME) if until is None else F.lit(until), F.coalesce(F.max(SEQ) + 1, F.lit(0)))


def _advance_to_first_event(stream: DataFrame) -> DataFrame:
    """Return the advance to the first event."""
    return _clock_advance(stream, F.min(TIME), F.lit(-1))


def _clock_advance(stream: DataFrame, time: Column, number: Column) -> DataFrame:
    """Return an advance of the clock, if there is a `time`; this and `number` are aggregates of the stream."""
    row = stream.agg(time.cast("bigint").alias(TIME), number.cast("bigint").alias(SEQ))
    return row.where(F.col(TIME).isNotNull()).select(F.lit(TICK).alias(TAG), TIME, SEQ)
