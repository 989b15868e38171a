"""Statements as table functions of Spark SQL: each partition of the table is a history of its own.

Spark passes the rows of a partition in its order, as Arrow batches. A partition has its own runtime, whose clock
follows its events. So the rows are those of a ``partition by`` context of the key, except that no other key's events
move the clock. The columns of an Arrow table function are fixed when it is registered, so a function has one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.udtf import UserDefinedTableFunction

from cepbook.display import format_time
from cepbook.errors import EventError, UsageError, did_you_mean
from cepbook.lang.types import LONG, MOMENTS, Type
from cepbook.spark.execution.epl_module import deploy_module, frame_schema, result_statements
from cepbook.spark.execution.execution import single_statement_program
from cepbook.spark.execution.function_shipping import check_functions_load
from cepbook.spark.frames.arrow_casts import cast_event_times, cast_property, in_utc
from cepbook.spark.spark_session import local_session
from cepbook.spark.task.program import TaskProgram
from cepbook.spark.task.stream_columns import SEQ, TAG, TICK, TIME, VISIBLE_COLUMNS
from cepbook.spark.task.task_runner import TaskRunner, output_schema
from cepbook.spark.task.type_mapping import type_mapping_of, unique_names

_METADATA = (*VISIBLE_COLUMNS, "error")


def register(
    name: str,
    epl: str,
    statement: str | None,
    time: str | None,
    until: int | None,
    functions: Mapping[str, Callable[..., Any]] | None,
    session: SparkSession | None,
    frames: Mapping[str, Any],
) -> None:
    """See `cepbook.spark.register_sql`."""
    if not name.isidentifier():
        raise UsageError(f"{name!r} is not a valid name of a Spark SQL function")
    if len(frames) > 1:
        raise UsageError(
            f"a table function reads one table, and so one event type, not {', '.join(frames)}\n"
            "  hint: bring the types together in one, or use `cepbook.spark.sql`"
        )
    session = session or local_session()
    columns = {kind: frame_schema(frame, kind, session) for kind, frame in frames.items()}
    runtime = deploy_module(epl, columns, time, functions)
    chosen = [statement] if statement is not None else result_statements(runtime)
    if len(chosen) > 1:
        raise UsageError(f"which statement delivers the rows? pass statement='…'; the module has: {', '.join(chosen)}")
    program, kind = single_statement_program(runtime, chosen[0])
    at = time or runtime.catalog.event_types[kind].time_property
    if at is None:
        raise UsageError(f"which column holds the time of {kind}? pass time='column'")
    check_functions_load(session, program.functions)
    ddl, _ = _schema(program)
    function = F.arrow_udtf(_handler(program, at, until, name), returnType=ddl)
    session.udtf.register(name, cast(UserDefinedTableFunction, function))


def _schema(program: TaskProgram) -> tuple[str, pa.Schema]:
    """Return the columns of the function for Spark and Arrow: `_METADATA`, then the statement's."""
    (_, event_type), = program.outputs  # fmt: skip
    whole = output_schema(program)
    shapes = [type_mapping_of(t, program.nested) for t in event_type.properties.values()]
    names = [*_METADATA, *unique_names(tuple(event_type.properties), _METADATA)]
    kinds = [*(whole.field(name).type for name in _METADATA), *(shape.arrow for shape in shapes)]
    meta = ["bigint" if pa.types.is_int64(whole.field(name).type) else "string" for name in _METADATA]
    parts = zip(names, [*meta, *(shape.ddl for shape in shapes)], strict=True)
    return ", ".join(f"`{n}` {ddl}" for n, ddl in parts), pa.schema(zip(names, kinds, strict=True))


def _flat(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    values = batch.column("s0")
    columns = [batch.column(name) for name in _METADATA]
    columns += values.flatten()  # what is null as a whole is null in each
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _handler(program: TaskProgram, time: str, until: int | None, name: str) -> type:
    """Return the class whose objects Spark's workers create, one per partition."""
    (_, kind, properties, column_names), = program.inputs  # fmt: skip
    flat = partial(_flat, schema=_schema(program)[1])

    def property_column(table: pa.RecordBatch, column: str, to: Type) -> pa.Array:
        values = in_utc(table.column(column), program.config.time_zone) if to in MOMENTS else table.column(column)
        return cast_property(values, to, program.nested, f"column `{column}` of `{kind}`", program.config.second)

    class Run:
        def __init__(self) -> None:
            self._task = TaskRunner(program)
            self._count = 0
            self._last: int | None = None

        def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            if not table.num_rows:
                return
            missing = [p for p in (*properties, time) if p not in table.schema.names]
            if missing:
                hint = did_you_mean(missing[0], table.schema.names) or f"it has {', '.join(table.schema.names)}"
                raise EventError(f"{name}: the table has no column `{missing[0]}`, which {kind} has; {hint}")
            second, zone = program.config.second, program.config.time_zone
            times = cast_event_times(table.column(time), f"{name}: time column `{time}`", second, zone)
            self._check_order(times.to_numpy())
            types = self._task.runtime.catalog.event_types[kind].properties
            columns_cast = [
                times if p == time and types[p] == LONG else property_column(table, p, types[p]) for p in properties
            ]
            count = len(times)
            numbers = np.arange(self._count, self._count + count)
            self._count += count
            columns = [pa.array(np.zeros(count, np.int32)), times, pa.array(numbers), *columns_cast]
            batch = pa.RecordBatch.from_arrays(columns, names=[TAG, TIME, SEQ, *column_names])
            yield from map(flat, self._task.take(batch))

        def terminate(self) -> Iterator[pa.RecordBatch]:
            if until is not None and (self._last is None or until > self._last):
                columns = [pa.array([TICK], pa.int32()), pa.array([until]), pa.array([self._count])]
                yield from map(flat, self._task.take(pa.RecordBatch.from_arrays(columns, names=[TAG, TIME, SEQ])))

        def _check_order(self, times: Any) -> None:
            if self._last is not None:
                times = np.concatenate([[self._last], times])
            wrong = np.flatnonzero(np.diff(times) < 0)
            if len(wrong):
                second = program.config.second
                before, at = (format_time(int(times[wrong[0] + i]), millis=True, second=second) for i in range(2))
                raise EventError(
                    f"{name}: an event at {at} comes after one at {before}; the order must be that of time: "
                    f"`{name}(TABLE(…) PARTITION BY key ORDER BY {time})`"
                )
            self._last = int(times[-1])

    return Run
