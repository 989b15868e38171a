"""Frames of events, Spark's or pandas', as one tagged stream in a total order.

The stream has the columns `TAG` (position of the event type in the caller's mapping; -1 for a bare clock tick), `TIME`
(ms), `SEQ`, and for every event type its properties, prefixed. Order: time, then sequence, then the type's position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as st

from cepbook.errors import EventError, UsageError, did_you_mean
from cepbook.lang.catalog import EventType
from cepbook.spark.names import SEQ, TAG, TIME
from cepbook.spark.schema import quote, shape_of

GIVEN = "events of one time are ordered by the column {0}"
FRAME_ORDER = "events of one time are ordered by type (order of the mapping), then by row"
BY_COLUMNS = (
    "the frames have no sequence column: events of one time are ordered by type (order of the mapping), then by the "
    "columns that the statements read; give sequence='column' to keep the order of arrival"
)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The events as one DataFrame; `columns[i]` belong to type i; `order` says how ties are broken."""

    stream: DataFrame
    columns: tuple[tuple[str, ...], ...]
    order: str


def column_name(tag: int, position: int) -> str:
    """The stream's column for property number `position` (of those read) of type number `tag`."""
    return f"e{tag}_{position}"


def tag_frames(
    session: SparkSession,
    frames: Mapping[str, Any],
    types: Mapping[str, EventType],
    read: Mapping[str, Sequence[str]],
    time: str | Mapping[str, str] | None,
    sequence: str | Mapping[str, str] | None,
) -> Tagged:
    """The frames (event type name -> Spark or pandas DataFrame) as one stream with the properties in `read`.

    Raises `UsageError` for a missing or ill-typed column, a missing time, or something that is no DataFrame.
    """
    if sequence is None and not any(isinstance(f, DataFrame) for f in frames.values()):
        return _tag_pandas(session, frames, types, read, time)
    parts = []
    for tag, (name, frame) in enumerate(frames.items()):
        ordered_by = _chosen(sequence, name)
        if not isinstance(frame, DataFrame):
            table = _arrow_of(frame, types[name], read[name], _time_column(time, types[name]), ordered_by)
            frame, at, seq = session.createDataFrame(table), F.col(TIME), F.col(SEQ)
            values = [F.col(_property(i)) for i in range(len(read[name]))]
        else:
            check_present(frame.columns, types[name])
            at = _millis(frame, _time_column(time, types[name]), name)
            seq = F.lit(0) if ordered_by is None else _existing(frame, ordered_by, name).cast("bigint")
            values = [_property_column(frame, types[name], p, types) for p in read[name]]
        named = [v.alias(column_name(tag, i)) for i, v in enumerate(values)]
        head = [F.lit(tag).alias(TAG), at.alias(TIME), seq.cast("bigint").alias(SEQ)]
        parts.append(frame.select(*head, *named))
    stream = union(parts)
    columns = tuple(tuple(column_name(tag, i) for i in range(len(read[n]))) for tag, n in enumerate(frames))
    if sequence is not None:
        shown = sequence if isinstance(sequence, str) else ", ".join(f"{t}.{c}" for t, c in sequence.items())
        return Tagged(stream, columns, GIVEN.format(shown))
    ties = [c for cs in columns for c in cs]
    order = Window.orderBy(TIME, TAG, SEQ, *ties)
    return Tagged(stream.withColumn(SEQ, F.row_number().over(order).cast("bigint") - 1), columns, BY_COLUMNS)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """All rows of `parts`; columns that a part lacks are null."""
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def _tag_pandas(
    session: SparkSession,
    frames: Mapping[str, Any],
    types: Mapping[str, EventType],
    read: Mapping[str, Sequence[str]],
    time: str | Mapping[str, str] | None,
) -> Tagged:
    """pandas frames only: the driver knows the order of arrival and numbers the events by it."""
    tables = [_arrow_of(f, types[n], read[n], _time_column(time, types[n]), None) for n, f in frames.items()]
    times = np.concatenate([t.column(TIME).to_numpy() for t in tables] or [np.empty(0, np.int64)])
    place = np.empty(len(times), np.int64)
    place[np.argsort(times, kind="stable")] = np.arange(len(times))
    parts, columns, start = [], [], 0
    for tag, (name, table) in enumerate(zip(frames, tables, strict=True)):
        names = [column_name(tag, i) for i in range(len(read[name]))]
        positions = pa.array(place[start : start + table.num_rows], pa.int64())
        start += table.num_rows
        values = [table.column(_property(i)) for i in range(len(names))]
        tags = pa.array(np.full(table.num_rows, tag, np.int32))
        numbered = pa.table([tags, table.column(TIME), positions, *values], names=[TAG, TIME, SEQ, *names])
        parts.append(session.createDataFrame(numbered))
        columns.append(tuple(names))
    return Tagged(union(parts), tuple(columns), FRAME_ORDER)


def _property(position: int) -> str:
    return f"p{position}"


def _chosen(choice: str | Mapping[str, str] | None, type_name: str) -> str | None:
    if choice is None or isinstance(choice, str):
        return choice
    if type_name not in choice:
        raise UsageError(f"sequence= names no column for {type_name}")
    return choice[type_name]


def _time_column(time: str | Mapping[str, str] | None, event_type: EventType) -> str:
    column = time if isinstance(time, str) else (time or {}).get(event_type.name, event_type.time_property)
    if column is None:
        name = event_type.name
        raise UsageError(f"which column holds the time of {name}? say time='column' or time={{'{name}': 'column'}}")
    return column


def _existing(frame: DataFrame, column: str, type_name: str) -> Column:
    if column not in frame.columns:
        raise EventError(_no_column(column, type_name, frame.columns))
    return frame[quote(column)]


def _millis(frame: DataFrame, column: str, type_name: str) -> Column:
    """A whole number as it is, a timestamp or date as milliseconds since 1970 UTC (zone-less ones are UTC)."""
    value = _existing(frame, column, type_name)
    found = frame.schema[column].dataType
    if isinstance(found, st.IntegralType):
        return value.cast("bigint")
    if isinstance(found, st.TimestampType):
        return F.unix_millis(value)
    if isinstance(found, (st.TimestampNTZType, st.DateType)):
        origin = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        return F.timestamp_diff("MILLISECOND", origin, value.cast("timestamp_ntz"))
    shown = found.simpleString()
    raise EventError(f"the column `{column}` of `{type_name}` is {shown}, not a timestamp or whole milliseconds")


def _property_column(frame: DataFrame, event_type: EventType, name: str, types: Mapping[str, EventType]) -> Column:
    declared = event_type.properties[name]
    value = _existing(frame, name, event_type.name)
    found = frame.schema[name].dataType
    moment = isinstance(found, (st.TimestampType, st.TimestampNTZType, st.DateType))
    if moment and declared.name == "long":
        return _millis(frame, name, event_type.name)
    shape = shape_of(declared, types)
    if shape.json:  # no fixed shape: the values stay as Spark has them
        return value
    if not _fits(found, declared.name):
        raise EventError(
            f"the column {name} of the frame for {event_type.name} is {found.simpleString()}, "
            f"but the property is {declared}"
        )
    return value if found.simpleString() == shape.ddl else value.cast(shape.ddl)


def _fits(found: st.DataType, declared: str) -> bool:
    """Whether Spark's cast keeps the value or fails (ANSI); a fraction would be cut off silently."""
    if isinstance(found, st.NullType):
        return True
    if declared in ("byte", "short", "int", "long", "biginteger"):
        return isinstance(found, st.IntegralType) or (isinstance(found, st.DecimalType) and found.scale == 0)
    if declared in ("float", "double", "bigdecimal"):
        return isinstance(found, st.NumericType)
    if declared in ("string", "char"):
        return isinstance(found, (st.StringType, st.VarcharType, st.CharType))
    if declared == "boolean":
        return isinstance(found, st.BooleanType)
    return True


def _arrow_of(frame: Any, event_type: EventType, read: Sequence[str], time: str, sequence: str | None) -> pa.Table:
    """A pandas frame as an Arrow table (`TIME`, `SEQ`, p0, p1, …); missing values (NaN, NaT, NA, None) are null."""
    name = event_type.name
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"events of {name}: expected a Spark or pandas DataFrame, not {type(frame).__name__}")
    check_present([str(c) for c in frame.columns], event_type)
    at = _times(_series(frame, time, name), f"the time column {time} of {name}")
    if sequence is None:
        number = pa.array(np.arange(len(frame)))
    else:
        number = _as(_series(frame, sequence, name), pa.int64(), f"the sequence column {sequence} of {name}")
    values = [_pandas_property(frame, event_type, p) for p in read]
    return pa.table([at, number, *values], names=[TIME, SEQ, *(_property(i) for i in range(len(read)))])


def _series(frame: pd.DataFrame, column: str, type_name: str) -> pd.Series[Any]:
    if column in frame.columns:
        return frame[column]
    if column == frame.index.name:
        return frame.index.to_series()
    raise EventError(_no_column(column, type_name, [str(c) for c in frame.columns]))


def _pandas_property(frame: pd.DataFrame, event_type: EventType, name: str) -> pa.Array:
    declared = event_type.properties[name]
    series, what = frame[name], f"the column {name} of {event_type.name}"
    shape = shape_of(declared, {})
    if shape.json:
        return _whole(pa.array(series, from_pandas=True))
    return _as(series, shape.arrow, what)


def _times(series: pd.Series[Any], what: str) -> pa.Array:
    missing = series.isna().to_numpy()
    if missing.any():
        raise EventError(
            f"{what}: the event time is missing in {int(missing.sum())} rows, first in row {missing.argmax()}"
        )
    if series.dtype == object or isinstance(series.dtype, pd.StringDtype):
        try:
            series = pd.to_datetime(series, utc=True, format="ISO8601")
        except (ValueError, TypeError) as wrong:
            raise EventError(f"{what}: {wrong}") from wrong
    return _as(series, pa.int64(), what)


def _as(series: pd.Series[Any], wanted: pa.DataType, what: str) -> pa.Array:
    """`series` as `wanted`, exactly; raises `EventError` when a value would change. Dates become ms since 1970 UTC."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if wanted == pa.int64() and pd.api.types.infer_dtype(series, skipna=True) in ("datetime", "date"):
        series = pd.to_datetime(series, utc=True)
    if wanted == pa.int64() and series.dtype.kind in "mM":
        return _millis_of(series)
    try:
        found = _whole(pa.array(series, from_pandas=True))
        return found if found.type == wanted else found.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as wrong:
        raise EventError(f"{what} cannot be read as {wanted}: {wrong}") from wrong


def _millis_of(series: pd.Series[Any]) -> pa.Array:
    """Whole milliseconds of dates (zone-less ones are UTC) and time differences, cut off towards the past."""
    if series.dtype.kind == "M" and getattr(series.dt, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    unit = "datetime64[ms]" if series.dtype.kind == "M" else "timedelta64[ms]"
    return pa.array(series.to_numpy(dtype=unit).astype("int64"), mask=series.isna().to_numpy())


def _whole(found: pa.Array | pa.ChunkedArray) -> pa.Array:
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def check_present(columns: Sequence[str], event_type: EventType) -> None:
    """As in an interactive replay, a frame must have a column for every property of its type."""
    lacking = [f"`{name}`" for name in event_type.properties if name not in columns]
    if lacking:
        what = "column" if len(lacking) == 1 else "columns"
        raise EventError(f"the DataFrame for event type `{event_type.name}` lacks the {what} {', '.join(lacking)}")


def _no_column(column: str, type_name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(column, known) or f"it has {', '.join(known)}"
    return f"the DataFrame for `{type_name}` has no column `{column}`; {hint}"
