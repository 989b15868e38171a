"""EPL modules over DataFrames in one call: event types from the columns of the frames, a runtime, and a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from cepbook.dialects import declared_names
from cepbook.engine.runtime import Runtime
from cepbook.errors import EventError, UsageError
from cepbook.lang import types as lt
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type, array_of, event_of
from cepbook.spark.execution.execution import execute
from cepbook.spark.execution.spark_run import RunRequest, check_about_columns
from cepbook.spark.frames.arrow_casts import arrow_from_pandas
from cepbook.spark.frames.tagged_stream import check_path, check_unique_columns, open_frame
from cepbook.spark.frames.tagged_stream import frame_column_names as names_of
from cepbook.spark.spark_session import local_session

_SCALARS: dict[type[st.DataType], Type] = {
    st.BooleanType: lt.BOOLEAN,
    st.ByteType: lt.BYTE,
    st.ShortType: lt.SHORT,
    st.IntegerType: lt.INT,
    st.LongType: lt.LONG,
    st.FloatType: lt.FLOAT,
    st.DoubleType: lt.DOUBLE,
    st.StringType: lt.STRING,
    st.VarcharType: lt.STRING,
    st.CharType: lt.STRING,
    **dict.fromkeys((st.TimestampType, st.TimestampNTZType, st.DateType), lt.LONG_DATE),
}


def frame_event_types(name: str, columns: st.StructType, time: str | None = None) -> dict[str, EventType]:
    """Return the event type of a frame with these columns, and those of structs in them, by name.

    Dates become long (ms). Decimals without a fraction become biginteger, others bigdecimal, any other type object.
    """
    event_types: dict[str, EventType] = {}

    def of(t: st.DataType, inside: str) -> Type:
        if isinstance(t, st.StructType):
            event_types.update(frame_event_types(inside, t))
            return event_of(inside)
        if isinstance(t, st.ArrayType):
            return array_of(of(t.elementType, inside))
        if isinstance(t, st.DecimalType):
            return lt.BIGINTEGER if t.scale == 0 else lt.BIGDECIMAL
        return _SCALARS.get(type(t), lt.MAP if isinstance(t, st.MapType) else lt.OBJECT)

    properties = {field.name: of(field.dataType, f"{name}_{field.name}") for field in columns.fields}
    if time is not None and properties.get(time) == lt.STRING:  # a time in EPL, too
        properties[time] = lt.LONG_DATE
    dated = frozenset(property_name for property_name, kind in properties.items() if kind.dated)
    event_types[name] = EventType(name, properties, time_property=time, times=dated)
    return event_types


def deploy_module(
    epl: str,
    columns: Mapping[str, st.StructType],
    time: str | Mapping[str, str] | None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Runtime:
    """Return a runtime with the statements of `epl`; a type that the module does not create has the columns of its
    frame.

    Errors: ParseError, BindError.
    """
    runtime = Runtime(functions=functions)
    created = declared_names(epl)
    for name, schema in columns.items():
        if name not in created:
            column = time if isinstance(time, str) else (time or {}).get(name)
            for event_type in frame_event_types(name, schema, column).values():
                runtime.define(event_type)
    runtime.deploy(epl)
    return runtime


def frame_schema(frame: Any, name: str, session: SparkSession | None) -> st.StructType:
    """Return the columns of a frame or Parquet file as Spark has them.

    Errors: UsageError for anything else, EventError for names and values that columns cannot have.
    """
    if isinstance(frame, str | os.PathLike):
        check_path(frame)
        frame = open_frame(session or local_session(), frame)
    check_unique_columns(names_of(frame) or [], name)
    if isinstance(frame, DataFrame) or hasattr(frame, "sparkSession"):
        schema: st.StructType = frame.schema
        return schema
    if isinstance(frame, pd.DataFrame):
        frame = _sample_table(frame.head(1000), name)
    if isinstance(frame, pa.Table):
        return from_arrow_schema(frame.schema, prefer_timestamp_ntz=True)
    raise UsageError(
        f"events of {name}: expected a Spark or pandas DataFrame, an Arrow table or the path of a Parquet file, "
        f"not {type(frame).__name__}"
    )


def _sample_table(frame: pd.DataFrame, name: str) -> pa.Table:
    other = next((column for column in frame.columns if not isinstance(column, str)), None)
    if other is not None:
        raise EventError(
            f"the DataFrame for `{name}` has a column named {other!r}, and names of columns are texts\n"
            "  hint: frame.rename(columns=str), or drop it"
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:
        for column in frame.columns:  # the error names the first that does not fit
            arrow_from_pandas(frame[column], f"column `{column}` of `{name}`")
        raise


def result_statements(runtime: Runtime) -> list[str]:
    """Return the statements whose rows a user wants to see: those that feed no other. Errors: UsageError if there are
    none.
    """
    plans = [s for d in runtime.deployments.values() for s in d.plan.statements if s.projection is not None]
    names = [s.name for s in plans if not s.inserts] or [s.name for s in plans]
    if not names:
        raise UsageError("the module has no select statement, so there is nothing to run")
    return names


def sql(
    epl: str, request: RunRequest, functions: Mapping[str, Callable[..., Any]] | None, about: Sequence[str]
) -> DataFrame | dict[str, DataFrame]:
    """See `cepbook.spark.sql`."""
    check_about_columns(about)
    columns = {name: frame_schema(frame, name, request.session) for name, frame in request.frames.items()}
    runtime = deploy_module(epl, columns, request.time, functions)
    names = result_statements(runtime)
    run = execute(runtime, replace(request, statements=names))
    frames_by_name = {name: run.frame(name, about=about) for name in run.statements}
    return frames_by_name[names[0]] if len(frames_by_name) == 1 else frames_by_name
