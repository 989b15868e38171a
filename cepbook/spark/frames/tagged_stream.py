"""Frames of events (Spark, pandas, Arrow, Parquet files) as one tagged stream in a total order.

The stream has the columns `TAG` (the position of the event type in the caller's mapping; -1 for a clock tick), `TIME`
(in units of the clock), `SEQ`, and the prefixed properties of every event type. The order is that of time, then
sequence, then tag. Without a sequence column one is derived without sorting: by type, then by file and row.
"""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from cepbook.errors import EventError, UsageError, did_you_mean
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import LONG, MOMENTS
from cepbook.spark.frames.arrow_casts import arrow_from_pandas, cast_event_times, cast_property, in_utc, plain_array
from cepbook.spark.frames.sql_casts import ColumnLocation, as_bigint, cast_sql, event_time_sql, utc_sql
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.stream_columns import CLOCK_END, SEQ, TAG, TIME, Sql, bounded_event_time, missing_value_error
from cepbook.spark.task.type_mapping import quote_identifier, spark_schema

SEQUENCE_ORDER = "events of one time are ordered by the column {0}"
FRAME_ORDER = "events of one time are ordered by type (order of the mapping), then by row"
FILE_ORDER = "events of one time are ordered by type (order of the mapping), then by file name and row in the file"
UNCERTAIN = "the order of events of one time is undefined: {0} has no order of its own and no sequence column; give {1}"
_DELAY = r"(\d+(\.\d+)?\s*(year|month|week|day|hour|minute|second|millisecond|microsecond)s?\s*)+"
SEQUENCE_ARGUMENT = "sequence='column'"
_TYPE_BITS = 58  # a made sequence: the type above, below 2**25 partitions or files of 2**33 rows
_ROW_BITS = 33
_ORDERED_NODES = frozenset(
    "Project Filter ColumnarToRow Coalesce Union LocalTableScan Range InMemoryTableScan InMemoryRelation Scan FileScan "
    "Generate SerializeFromObject".split()
)


@dataclass(frozen=True, slots=True)
class TaggedStream:
    """The events of all types as a query.

    `columns[i]` belong to type i, `read` has by type the properties in them. `order` describes how ties are broken;
    unless `certain`, two runs may order events of one time differently.
    """

    events: SqlQuery
    columns: tuple[tuple[str, ...], ...]
    read: Mapping[str, Sequence[str]]
    order: str
    certain: bool = True

    @property
    def stream(self) -> DataFrame:
        """The events as a DataFrame."""
        return self.events.frame


@dataclass(frozen=True, slots=True)
class FrameReading:
    """How frames are read: the columns `time` and `sequence`, one name for all types or one per type.

    `second`: clock units per second; `zone`: of dates without one.
    """

    time: str | Mapping[str, str] | None
    sequence: str | Mapping[str, str] | None
    second: int = 1000
    zone: str = "UTC"


def column_name(tag: int, position: int) -> str:
    """Return the stream's column for property number `position` (of those read) of type number `tag`."""
    return f"e{tag}_{position}"


def check_frame(frame: Any, event_type: EventType, time: str | Mapping[str, str] | None, streams: bool = False) -> None:
    """Raise `UsageError` or `EventError` for a frame that cannot work, before a session is started.

    With `streams` the frame must be a streaming one, else it must not.
    """
    name = event_type.name
    if streams and getattr(frame, "isStreaming", False) is not True:
        raise UsageError(f"the frame for `{name}` is not a stream; read it with `spark.readStream`")
    if not streams and getattr(frame, "isStreaming", False) is True:
        raise UsageError(
            f"the DataFrame for `{name}` is a stream, which has no end; pass one that was read with "
            "`spark.read`, not `spark.readStream`"
        )
    if isinstance(frame, str | os.PathLike):
        check_path(frame)
        return
    columns = frame_column_names(frame)
    if columns is None:
        raise UsageError(
            f"events of {name}: expected a Spark or pandas DataFrame, an Arrow table or the path of a Parquet file, "
            f"not {type(frame).__name__}"
        )
    check_unique_columns(columns, name)
    check_required_columns(columns, event_type)
    column = time_column(time, event_type)
    if column not in columns and getattr(getattr(frame, "index", None), "name", None) != column:
        raise EventError(_no_column(column, name, columns))


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise `UsageError` for anything but a Parquet file or directory, as far as its name and this machine tell."""
    path = os.fspath(path)
    if "://" not in path and not any(mark in path for mark in "*?[{") and not os.path.exists(path):
        raise UsageError(f"there is no file {path!r}")
    if not path.lower().rstrip("/").endswith((".parquet", ".pq")) and not os.path.isdir(path):
        raise UsageError(f"{path!r} is not a Parquet file (.parquet, .pq) or directory; read it into a frame first")


def check_delay(delay: str) -> None:
    """Raise `UsageError` for a text that Spark does not read as a duration."""
    if re.fullmatch(_DELAY, delay.strip(), re.IGNORECASE) is None:
        raise UsageError(f"a delay is a length of time such as '10 minutes', not {delay!r}")


def check_unique_columns(columns: Sequence[str], name: str) -> None:
    """Raise `EventError` if several columns of the frame for events of type `name` have the same name."""
    twice = next((column for at, column in enumerate(columns) if column in columns[:at]), None)
    if twice is not None:
        raise EventError(f"the DataFrame for `{name}` has several columns `{twice}`: rename or drop all but one")


def frame_column_names(frame: Any) -> list[str] | None:
    """Return the column names of a frame or table; None for anything else."""
    if isinstance(frame, pa.Table):
        return list(frame.column_names)
    if isinstance(frame, pd.DataFrame | DataFrame) or hasattr(frame, "sparkSession"):
        return [str(column) for column in frame.columns]
    return None


def tag_frames(
    session: SparkSession,
    frames: Mapping[str, Any],
    types: Mapping[str, EventType],
    read: Mapping[str, Sequence[str]],
    reading: FrameReading,
    *,
    streams: bool = False,
) -> TaggedStream:
    """Return the frames (by event type: a frame, table or path) as one stream with the properties in `read`.

    Streaming frames (`streams`) without a sequence column get the sequence 0, since their reader numbers the events,
    and a missing time is null. In other frames both are errors. The reader checks that times are within the clock.
    Frames have passed `check_frame`. Raises `UsageError` and `EventError` for a missing or ill-typed column.
    """
    time, sequence, second, zone = reading.time, reading.sequence, reading.second, reading.zone
    opened = {n: open_frame(session, frame) for n, frame in frames.items()}
    for name, frame in opened.items():
        if frame is not frames[name]:  # what was given as such is checked
            check_frame(frame, types[name], time, streams)
    whole = not any(_is_spark_frame(frame) for frame in opened.values())
    local = {name: frame for name, frame in opened.items() if not _is_spark_frame(frame)}
    tables = {name: _event_table(frame, types, name, read[name], reading) for name, frame in local.items()}
    if sequence is None and whole:
        tables = _with_total_order(tables)
    parts, orders = [], []
    for tag, (name, frame) in enumerate(opened.items()):
        if name in tables:
            source = session.createDataFrame(tables[name], spark_schema(tables[name].schema))
            sequenced = SEQ if whole or sequence is not None else f"{SEQ} + {tag << _TYPE_BITS}"
            values, clock = [_property(i) for i in range(len(read[name]))], TIME
        else:
            column = time_column(time, types[name])
            location = ColumnLocation(column, name, row=column)
            clock = event_time_sql(
                _checked_column(frame, column, name), frame.schema[column].dataType, location, second, zone
            )
            if streams:  # which leave out what has no time, and tell of it
                clock = bounded_event_time(clock, name, -CLOCK_END, second)
            else:
                clock = f"coalesce({clock}, {missing_value_error('time', name)})"
            values = [_cast_property_column(frame, types[name], p, types, location, second, zone) for p in read[name]]
            chosen = _sequence_name(sequence, name)
            if chosen is None and streams:
                source, sequenced = frame, "0L"
                orders.append(name)
            elif chosen is None:
                source, sequenced, order = _derived_sequence(frame, tag, name)
                orders.append(order)
            else:
                source, sequenced = frame, _sequence_column(frame, chosen, name)
        named = [f"{v} AS {column_name(tag, i)}" for i, v in enumerate(values)]
        about = f"{tag} AS {TAG}", f"{clock} AS {TIME}", f"{sequenced} AS {SEQ}"
        parts.append(SqlQuery(source).select(*about, *named))
    columns = tuple(tuple(column_name(tag, i) for i in range(len(read[n]))) for tag, n in enumerate(frames))
    order, certain = _tie_order(sequence, orders)
    events = parts[0] if len(parts) == 1 else SqlQuery(union([source.frame for source in parts]))
    return TaggedStream(events, columns, read, order, certain)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of `parts`; columns that a part lacks are null."""
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def until_time(tagged: TaggedStream, until: int) -> TaggedStream:
    """Return the stream without events after `until`."""
    return replace(tagged, events=tagged.events.where(f"{TIME} <= {until}"))


def _is_spark_frame(frame: Any) -> bool:
    return not isinstance(frame, pd.DataFrame | pa.Table)


def open_frame(session: SparkSession, frame: Any) -> Any:
    """Return the frame of a Parquet path; any other frame as it is. Errors: UsageError, as `load_files`."""
    return (
        load_files(session.read.format("parquet"), os.fspath(frame)) if isinstance(frame, str | os.PathLike) else frame
    )


def load_files(reader: DataFrameReader, path: str) -> DataFrame:
    """Read the files of `path`. Errors: UsageError if there are none, or if they are of another format."""
    try:
        frame = reader.load(path)
        frame.schema  # noqa: B018  Spark Connect looks when asked
    except Exception as failed:  # pyspark's own, or py4j's where Spark has no name for it
        raise (unreadable_files_error(path, str(failed)) or failed) from failed
    return frame


def unreadable_files_error(path: str, failure: str) -> UsageError | None:
    """Return the error for files that Spark cannot read, from the text of its `failure`; None for another one."""
    match = re.search(r"\[((?:PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|FAILED_READ_FILE)[A-Z_.]*)\] *(.+)", failure)
    if match is None:
        return None
    said = re.sub(r" *\bSQLSTATE: \w+.*", "", match.group(2))
    if match.group(1) == "UNABLE_TO_INFER_SCHEMA":
        said = "there is no file with columns in it, only empty ones or none"
    return UsageError(f"{path} cannot be read: {said}")


# ---- the order


def _tie_order(sequence: str | Mapping[str, str] | None, orders: Sequence[str]) -> tuple[str, bool]:
    if sequence is not None:
        columns = sequence if isinstance(sequence, str) else ", ".join(f"{t}.{c}" for t, c in sequence.items())
        return SEQUENCE_ORDER.format(columns), True
    uncertain = [order for order in orders if order not in (FRAME_ORDER, FILE_ORDER)]
    if uncertain:
        return UNCERTAIN.format(", ".join(uncertain), SEQUENCE_ARGUMENT), False
    return next((order for order in orders if order == FILE_ORDER), FRAME_ORDER), True


def _with_total_order(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Number all rows in their total order: the driver has them, so the numbers are dense."""
    times = np.concatenate([t.column(TIME).to_numpy() for t in tables.values()] or [np.empty(0, np.int64)])
    position = np.empty(len(times), np.int64)
    position[np.argsort(times, kind="stable")] = np.arange(len(times))
    numbered, start = {}, 0
    for name, table in tables.items():
        numbers = pa.array(position[start : start + table.num_rows], pa.int64())
        numbered[name] = table.set_column(1, SEQ, numbers)
        start += table.num_rows
    return numbered


def _derived_sequence(frame: DataFrame, tag: int, name: str) -> tuple[DataFrame, Sql, str]:
    """Return the frame with SQL for a sequence that needs no sorting, and a description of the order."""
    first = tag << _TYPE_BITS
    plan = physical_plan(frame)
    nodes = set(re.findall(r"^[\s:+*\-|()\d]*([A-Z]\w+)", plan, re.MULTILINE))
    if plan.count("FileScan parquet") == 1 and nodes <= {"Project", "Filter", "ColumnarToRow", "FileScan", "Physical"}:
        by_file = _file_positions(frame, first)
        if by_file is not None:
            return (*by_file, FILE_ORDER)
    scans = re.findall(r"(?:File|Batch)?Scan (\w+)", plan)
    files = [scan for scan in scans if scan != "ExistingRDD"]
    single = not files or (set(files) <= {"parquet", "orc", "csv", "json", "text"} and len(frame.inputFiles()) == 1)
    certain = nodes - {"Physical"} <= _ORDERED_NODES and single
    return frame, f"monotonically_increasing_id() + {first}", FRAME_ORDER if certain else name


def physical_plan(frame: DataFrame, mode: str = "simple") -> str:
    """Return Spark's physical plan as text; `mode` as in Spark's ``explain``."""
    printed = io.StringIO()
    with redirect_stdout(printed):  # the one way to see it that Spark Connect has, too
        frame.explain(mode=mode)
    return printed.getvalue()


def _file_positions(frame: DataFrame, first: int) -> tuple[DataFrame, Sql] | None:
    """Order rows by file and by position in the file, which neither filters nor the division into tasks change."""
    log = logging.getLogger("DataFrameQueryContextLogger")
    level, log.disabled = log.disabled, True  # that a frame does not hand on its files' metadata is no news
    try:
        with_position = frame.withColumns({_ROW: F.col("_metadata.row_index"), _FILE: F.col("_metadata.file_path")})
        with_position.schema  # noqa: B018  Spark Connect analyses when asked
    except AnalysisException:
        return None
    finally:
        log.disabled = level
    files = sorted(re.sub("^([a-z0-9]+):/+", r"\1:/", path) for path in frame.inputFiles())
    if len(files) == 1:
        return with_position, f"{_ROW} + {first}"
    ranks = pa.table({_FILE: files, _RANK: pa.array(range(len(files)), pa.int64())})
    ranked = with_position.withColumn(_FILE, F.regexp_replace(_FILE, "^([a-z0-9]+):/+", "$1:/"))
    ranked = ranked.join(F.broadcast(frame.sparkSession.createDataFrame(ranks)), on=_FILE, how="left")
    unknown = f"raise_error(concat('cepbook.errors.EventError: a file came while it was read: ', {_FILE}))"
    return ranked, f"coalesce({_RANK}, CAST({unknown} AS BIGINT)) * {1 << _ROW_BITS} + {_ROW} + {first}"


_CASES = "spark.sql.caseSensitive"
_ROW, _FILE, _RANK = "__cepbook_row", "__cepbook_file", "__cepbook_rank"


def _sequence_column(frame: DataFrame, column: str, name: str) -> Sql:
    value = _checked_column(frame, column, name)
    actual = frame.schema[column].dataType
    if not isinstance(actual, st.IntegralType):
        raise EventError(f"the sequence column `{column}` of `{name}` is {actual.simpleString()}, not a whole number")
    return f"coalesce({as_bigint(value, actual)}, {missing_value_error('sequence number', name)})"


# ---- columns


def _property(position: int) -> str:
    return f"p{position}"


def _sequence_name(choice: str | Mapping[str, str] | None, type_name: str) -> str | None:
    if choice is None or isinstance(choice, str):
        return choice
    if type_name not in choice:
        raise UsageError(f"sequence= names no column for {type_name}")
    return choice[type_name]


def time_column(time: str | Mapping[str, str] | None, event_type: EventType) -> str:
    """Return the column of a frame that holds the event time. Errors: UsageError if none was named."""
    column = time if isinstance(time, str) else (time or {}).get(event_type.name, event_type.time_property)
    if column is None:
        name = event_type.name
        raise UsageError(f"which column holds the time of {name}? pass time='column' or time={{'{name}': 'column'}}")
    return column


def _checked_column(frame: DataFrame, column: str, type_name: str) -> Sql:
    if column not in frame.columns:
        raise EventError(_no_column(column, type_name, frame.columns))
    alike = [f"`{name}`" for name in frame.columns if name.lower() == column.lower()]
    if len(alike) > 1 and frame.sparkSession.conf.get(_CASES) != "true":
        raise EventError(
            f"the DataFrame for `{type_name}` has the columns {' and '.join(alike)}, which Spark does not tell apart\n"
            f"  hint: rename or drop all but one, or session.conf.set('{_CASES}', 'true')"
        )
    return quote_identifier(column)


def _cast_property_column(
    frame: DataFrame,
    event_type: EventType,
    name: str,
    types: Mapping[str, EventType],
    time: ColumnLocation,
    second: int,
    zone: str,
) -> Sql:
    location = ColumnLocation(name, event_type.name, time.row)
    value, of = _checked_column(frame, name, event_type.name), event_type.properties[name]
    actual = frame.schema[name].dataType
    if of == LONG and (name == time.row or name in event_type.timed):
        return event_time_sql(value, actual, location, second, zone)
    if of in MOMENTS:
        value = utc_sql(value, actual, zone)
    return cast_sql(value, actual, of, types, location, second)


def _event_table(
    frame: Any,
    types: Mapping[str, EventType],
    name: str,
    read: Sequence[str],
    reading: FrameReading,
) -> pa.Table:
    """Return a pandas frame or Arrow table as a table of `TIME`, `SEQ`, p0, p1, …"""
    event_type, second, zone = types[name], reading.second, reading.zone
    time, sequence = time_column(reading.time, event_type), _sequence_name(reading.sequence, name)
    at = cast_event_times(_column(frame, time, name), f"time column `{time}` of `{name}`", second, zone, time)
    if sequence is None:
        number = pa.array(np.arange(len(frame)))
    else:
        where = f"sequence column `{sequence}` of `{name}`"
        numbers = plain_array(_column(frame, sequence, name))
        if not pa.types.is_integer(numbers.type) or numbers.null_count:
            raise EventError(f"{where}: a sequence is whole numbers without gaps, not {numbers.type}")
        number = numbers.cast(pa.int64())
    values = []
    for p in read:
        where = f"column `{p}` of `{name}`"
        of = event_type.properties[p]
        if of == LONG and p == time:
            values.append(at)
            continue
        column = _column(frame, p, name)
        column = in_utc(column, zone) if of in MOMENTS else column
        values.append(cast_property(column, of, types, where, second))
    return pa.table([at, number, *values], names=[TIME, SEQ, *(_property(i) for i in range(len(read)))])


def _column(frame: Any, column: str, type_name: str) -> pa.Array | pa.ChunkedArray:
    where = f"column `{column}` of `{type_name}`"
    if isinstance(frame, pa.Table):
        return frame.column(column)
    if column in frame.columns:
        return arrow_from_pandas(frame[column], where)
    if column == frame.index.name:
        return arrow_from_pandas(frame.index.to_series(), where)
    raise EventError(_no_column(column, type_name, [str(c) for c in frame.columns]))


def check_required_columns(columns: Sequence[str], event_type: EventType) -> None:
    """Raise `EventError` unless the frame has a column for every property of its type, as in a replay."""
    missing = [f"`{name}`" for name in event_type.properties if name not in columns]
    if missing:
        noun = "column" if len(missing) == 1 else "columns"
        raise EventError(f"the DataFrame for event type `{event_type.name}` lacks the {noun} {', '.join(missing)}")


def _no_column(column: str, type_name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(column, known) or f"it has {', '.join(known)}"
    return f"the DataFrame for `{type_name}` has no column `{column}`; {hint}"
