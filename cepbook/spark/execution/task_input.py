"""The events that each task of a job reads: divided into tasks, and in order within each."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cepbook.spark.execution.key_assignment import (
    balanced_assignment,
    key_columns,
    shard_tasks,
    task_number_sql,
)
from cepbook.spark.execution.time_slices import (
    TimeSlice,
    is_in_slice,
    slice_tasks,
)
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.frames.tagged_stream import (
    TaggedStream,
    union,
)
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.clock_ticks import PACKED_TICKS, pack_ticks
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import (
    SEQ,
    TAG,
    TASK,
    TICK,
    TICKS,
    TIME,
)

KEY_GROUP_COUNT = 32
"""How many parts the keys of a stream are divided into: the same everywhere, so that a checkpoint fits a session with
any number of tasks. A part costs some 3 ms of each micro-batch that has events of it."""


def task_count(session: SparkSession) -> int:
    """How many tasks the keys of a batch are divided among."""
    return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1))


def program_events(tagged: TaggedStream, program: TaskProgram) -> SqlQuery:
    """The events of the types that the program reads."""
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
    """The program's events, with the number of the task that gets each; where several get it, once for each."""
    own = TAG, TIME, SEQ, *_read(program)
    several = shard_tasks(placement.parts, program.inputs, tasks) if placement.parts is not None else None
    several = slice_tasks(slices) if len(slices) > 1 and several is None else several
    if several is not None:
        return SqlQuery(events.frame.select(*own, F.explode(several).alias(TASK)))
    number = task_number_sql(program.inputs, placement, tasks, _dealt(events, program, placement, tasks, even))
    return events.select(*own, f"{number} AS {TASK}")


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
    """The `events` of the program, divided into tasks as `placement` says and sorted inside each task."""
    if placement.path == "native":
        return events
    end = [_last_stop(tagged.stream, until)] if until is not None and placement.ticks else []
    if placement.parts is None and not slices and not program.stops and not end:
        return SqlQuery(_alone(events, program, placement, tasks, even))
    events = assign_tasks(events, program, placement, tasks, slices, even)
    if placement.path == "by key":
        stops = [_stops(tagged.stream), *end] if program.stops else end
        every = f"explode(sequence(0, {tasks - 1})) AS {TASK}"
        found = [events.frame, *(each.selectExpr("*", every) for each in stops)]
        return SqlQuery(_sorted(union(found).repartitionById(tasks, TASK), program, alone=len(found) == 1))
    count = max(1, len(slices))
    found = [events.frame]
    for number, each in enumerate(slices or [TimeSlice(None, None, None)]) if program.stops else ():
        found.append(_stops(tagged.stream.where(is_in_slice(each))).withColumn(TASK, F.lit(number)))
    found += [each.withColumn(TASK, F.lit(count - 1)) for each in end]
    divided_ = union(found)
    divided_ = divided_.repartitionById(count, TASK) if count > 1 else divided_.repartition(1)
    return SqlQuery(_sorted(divided_, program, alone=len(found) == 1))


def _alone(events: SqlQuery, program: TaskProgram, placement: Placement, tasks: int, even: bool) -> DataFrame:
    """Events that go to one task each, where nobody has to be told which, and no stops of the clock with them."""
    order = _order(program, True)
    found = events.select(*order, *_read(program)).frame
    if placement.path == "by key":
        counted = _dealt(events, program, placement, tasks, even)
        if keys := () if counted else key_columns(program.inputs, placement):
            found = found.repartition(tasks, *keys)
        else:
            found = found.repartitionById(tasks, F.expr(task_number_sql(program.inputs, placement, tasks, counted)))
    elif placement.path != "row by row":
        found = found.repartition(1)
    return found.sortWithinPartitions(*order)


def _dealt(events: SqlQuery, program: TaskProgram, placement: Placement, tasks: int, even: bool) -> Sequence[int]:
    """Of keys the hash decides, or, if they are to be divided `even`, how many events they have: a job counts these."""
    return balanced_assignment(events, program.inputs, placement, tasks) if even and placement.path == "by key" else ()


def _read(program: TaskProgram) -> list[str]:
    """The columns that hold properties."""
    return [c for _, _, _, columns in program.inputs for c in columns if c != TIME]


def _order(program: TaskProgram, alone: bool) -> tuple[str, ...]:
    """What tasks need events sorted by; of events `alone` that are of one type tags say nothing."""
    return (TIME, SEQ) if alone and len(program.inputs) == 1 else (TIME, SEQ, TAG)


def _sorted(events: DataFrame, program: TaskProgram, alone: bool) -> DataFrame:
    """In the order that tasks need, with what they need."""
    order = _order(program, alone)
    wanted = [*order, *([TASK] if program.numbered else []), *([TICKS] if program.stops else []), *_read(program)]
    return events.sortWithinPartitions(*order).selectExpr(*wanted)


def _stops(stream: DataFrame) -> DataFrame:
    """The times at which the clock stops, in blocks."""
    return stream.select(TIME, SEQ).mapInArrow(pack_ticks, PACKED_TICKS)


def _last_stop(stream: DataFrame, until: int) -> DataFrame:
    """The advance to `until` that ends the replay, numbered behind the last event."""
    number = F.coalesce(F.max(SEQ) + 1, F.lit(0)).cast("bigint").alias(SEQ)
    return stream.agg(number).select(F.lit(TICK).alias(TAG), F.lit(until).cast("bigint").alias(TIME), SEQ)
