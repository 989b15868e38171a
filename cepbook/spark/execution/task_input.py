"""The events that each task of a job reads: divided into tasks, and in order within each."""

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
"""The number of key groups of a stream: the same everywhere, so that a checkpoint fits a session with any number of
tasks. A group costs some 3 ms of each micro-batch that has events of it."""


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
    even: bool = False,
) -> SqlQuery:
    """Return the program's events with the number of their task; an event for several tasks is repeated for each."""
    columns = TAG, TIME, SEQ, *_properties(program)
    several = shard_tasks(placement.shards, program.inputs, tasks) if placement.shards is not None else None
    several = slice_tasks(slices) if len(slices) > 1 and several is None else several
    if several is not None:
        return SqlQuery(events.frame.select(*columns, F.explode(several).alias(TASK)))
    number = task_number_sql(program.inputs, placement, tasks, _group_tasks(events, program, placement, tasks, even))
    return events.select(*columns, f"{number} AS {TASK}")


def task_events(
    tagged: TaggedStream,
    events: SqlQuery,
    program: TaskProgram,
    placement: Placement,
    until: int | None,
    tasks: int,
    slices: Sequence[TimeSlice],
    even: bool,
) -> SqlQuery:
    """Return the `events` of the program, divided into tasks as `placement` says and sorted within each task."""
    if placement.path == "native":
        return events
    end = [_final_tick(tagged.stream, until)] if placement.ticks and not (program.leaps and until is None) else []
    if placement.shards is None and not slices and not program.has_ticks and not end:
        return SqlQuery(_events_for_one_task(events, program, placement, tasks, even))
    events = assign_tasks(events, program, placement, tasks, slices, even)
    if placement.path == "by key":
        ticks = [_tick_rows(tagged.stream), *end] if program.has_ticks else end
        ticks = ticks if program.leaps or not end else [*ticks, _first_tick(tagged.stream)]
        every = f"explode(sequence(0, {tasks - 1})) AS {TASK}"
        parts = [events.frame, *(tick_frame.selectExpr("*", every) for tick_frame in ticks)]
        return SqlQuery(_sort_within_tasks(union(parts).repartitionById(tasks, TASK), program, alone=len(parts) == 1))
    count = max(1, len(slices))
    parts = [events.frame]
    for number, slice_ in enumerate(slices or [TimeSlice(None, None, None)]) if program.has_ticks else ():
        parts.append(_tick_rows(tagged.stream.where(is_in_slice(slice_))).withColumn(TASK, F.lit(number)))
    parts += [tick_frame.withColumn(TASK, F.lit(count - 1)) for tick_frame in end]
    if end and not program.leaps:
        parts.append(_first_tick(tagged.stream).withColumn(TASK, F.lit(0)))
        for number, slice_ in enumerate(slices):  # what is due before the next slice begins
            if slice_.end is not None:
                parts.append(_tick(tagged.stream, F.lit(slice_.end - 1), F.lit(-1)).withColumn(TASK, F.lit(number)))
    rows = union(parts)
    rows = rows.repartitionById(count, TASK) if count > 1 else rows.repartition(1)
    return SqlQuery(_sort_within_tasks(rows, program, alone=len(parts) == 1))


def _events_for_one_task(
    events: SqlQuery, program: TaskProgram, placement: Placement, tasks: int, even: bool
) -> DataFrame:
    """Return events that each go to one task, which need neither the number of the task nor ticks of the clock."""
    order = _sort_columns(program, True)
    frame = events.select(*order, *_properties(program)).frame
    if placement.path == "by key":
        group_tasks = _group_tasks(events, program, placement, tasks, even)
        if keys := () if group_tasks else key_columns(program.inputs, placement):
            frame = frame.repartition(tasks, *keys)
        else:
            frame = frame.repartitionById(tasks, F.expr(task_number_sql(program.inputs, placement, tasks, group_tasks)))
    elif placement.path != "row by row":
        frame = frame.repartition(1)
    return frame.sortWithinPartitions(*order)


def _group_tasks(events: SqlQuery, program: TaskProgram, placement: Placement, tasks: int, even: bool) -> Sequence[int]:
    """Return by key group its task if events are to be divided evenly, from a job that counts them; else nothing."""
    return balanced_assignment(events, program.inputs, placement, tasks) if even and placement.path == "by key" else ()


def _properties(program: TaskProgram) -> list[str]:
    return [c for _, _, _, columns in program.inputs for c in columns if c != TIME]


def _sort_columns(program: TaskProgram, alone: bool) -> tuple[str, ...]:
    """Return the columns that a task needs its events sorted by; tags do not matter for events of a single type."""
    return (TIME, SEQ) if alone and len(program.inputs) == 1 else (TIME, SEQ, TAG)


def _sort_within_tasks(events: DataFrame, program: TaskProgram, alone: bool) -> DataFrame:
    """Return events in the order and with the columns that tasks need."""
    order = _sort_columns(program, alone)
    columns = [
        *order,
        *([TASK] if program.numbered else []),
        *([TICKS] if program.has_ticks else []),
        *_properties(program),
    ]
    return events.sortWithinPartitions(*order).selectExpr(*columns)


def _tick_rows(stream: DataFrame) -> DataFrame:
    """Return the ticks of the clock, in blocks."""
    return stream.select(TIME, SEQ).mapInArrow(pack_ticks, PACKED_TICKS)


def _final_tick(stream: DataFrame, until: int | None) -> DataFrame:
    """Return the advance to `until`, or to the last event, that ends the replay, numbered behind the last event."""
    return _tick(stream, F.max(TIME) if until is None else F.lit(until), F.coalesce(F.max(SEQ) + 1, F.lit(0)))


def _first_tick(stream: DataFrame) -> DataFrame:
    """Return the advance to the first event."""
    return _tick(stream, F.min(TIME), F.lit(-1))


def _tick(stream: DataFrame, time: Column, number: Column) -> DataFrame:
    """Return an advance of the clock, if there is a `time`; this and `number` are aggregates of the stream."""
    row = stream.agg(time.cast("bigint").alias(TIME), number.cast("bigint").alias(SEQ))
    return row.where(F.col(TIME).isNotNull()).select(F.lit(TICK).alias(TAG), TIME, SEQ)
