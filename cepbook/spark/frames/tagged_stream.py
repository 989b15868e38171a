"""Frames of events (Spark, pandas, Arrow, Parquet files) as one tagged stream in a total order.

The stream has the columns `TAG` (position of the event type in the caller's mapping; -1 for a bare clock tick), `TIME`
(units of the clock), `SEQ`, and for every event type its properties, prefixed. Order: time, then sequence, then the
type's position. Where the caller names no sequence one is made without sorting anything: type, then file and row.
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
from cepbook.spark.frames.arrow_casts import arrow_from_pandas, cast_event_times, cast_property, plain_array
from cepbook.spark.frames.clock_bounds import bounded_event_time, missing_value_error
from cepbook.spark.frames.sql_casts import ColumnLocation, as_bigint, cast_sql, event_time_sql
from cepbook.spark.frames.sql_query import SqlQuery
from cepbook.spark.task.stream_columns import CLOCK_END, SEQ, TAG, TIME, Sql
from cepbook.spark.task.type_mapping import quote_identifier, spark_schema

SEQUENCE_ORDER = "events of one time are ordered by the column {0}"
FRAME_ORDER = "events of one time are ordered by type (order of the mapping), then by row"
FILE_ORDER = "events of one time are ordered by type (order of the mapping), then by file name and row in the file"
UNCERTAIN = "events of one time are in no certain order: {0} has no order of its own and no sequence column; give {1}"
_LENGTH = r"(\d+(\.\d+)?\s*(year|month|week|day|hour|minute|second|millisecond|microsecond)s?\s*)+"
SEQUENCE_ARGUMENT = "sequence='column'"
_TYPE_BITS = 58  # a made sequence: the type above, below 2**25 partitions or files of 2**33 rows
_ROW_BITS = 33
_IN_ORDER = frozenset(
    "Project Filter ColumnarToRow Coalesce Union LocalTableScan Range InMemoryTableScan InMemoryRelation Scan FileScan "
    "Generate SerializeFromObject".split()
)


@dataclass(frozen=True, slots=True)
class TaggedStream:
    """The events of all types; `columns[i]` belong to type i, `read` are by type the properties that they hold, and
    `order` says how ties are broken. Unless `certain` two runs may order events of one time differently.
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


def column_name(tag: int, position: int) -> str:
    """The stream's column for property number `position` (of those read) of type number `tag`."""
    return f"e{tag}_{position}"


def check_frame(frame: Any, event_type: EventType, time: str | Mapping[str, str] | None, streams: bool = False) -> None:
    """Raise `UsageError` or `EventError` for what can be seen without Spark: told before a session starts.

    `streams`: the frames must be streaming ones, else they must not be.
    """
    name = event_type.name
    if streams and getattr(frame, "isStreaming", False) is not True:
        raise UsageError(f"the frame for `{name}` is no stream; give a DataFrame that was read with `spark.readStream`")
    if not streams and getattr(frame, "isStreaming", False) is True:
        raise UsageError(
            f"the DataFrame for `{name}` is a streaming one, which has no end; give one that was read with "
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


def check_path(given: str | os.PathLike[str]) -> None:
    """Raise `UsageError` for what is no Parquet file or directory, as far as its name and this machine tell."""
    path = os.fspath(given)
    if "://" not in path and not any(mark in path for mark in "*?[{") and not os.path.exists(path):
        raise UsageError(f"there is no file {path!r}")
    if not path.lower().rstrip("/").endswith((".parquet", ".pq")) and not os.path.isdir(path):
        raise UsageError(f"{path!r} is no Parquet file (.parquet, .pq) or directory; read it into a frame first")


def check_delay(delay: str) -> None:
    """Raise `UsageError` for what is no length of time as Spark reads them."""
    if re.fullmatch(_LENGTH, delay.strip(), re.IGNORECASE) is None:
        raise UsageError(f"a delay is a length of time such as '10 minutes', not {delay!r}")


def check_unique_columns(columns: Sequence[str], name: str) -> None:
    """Raise `EventError` for a name that several columns of the frame for events of type `name` bear."""
    twice = next((column for at, column in enumerate(columns) if column in columns[:at]), None)
    if twice is not None:
        raise EventError(f"the DataFrame for `{name}` has several columns `{twice}`: rename or drop all but one")


def frame_column_names(frame: Any) -> list[str] | None:
    """The names of a frame's or table's columns; None for something else."""
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
    time: str | Mapping[str, str] | None,
    sequence: str | Mapping[str, str] | None,
    second: int = 1000,
    streams: bool = False,
) -> TaggedStream:
    """The frames (event type name -> frame, table or path) as one stream with the properties in `read`.

    Streaming ones (`streams`) have the sequence 0 where none is named: who reads them numbers the events; times that
    are missing are null. Of others neither is; that times are within the clock sees who reads them.

    What was given has passed `check_frame`. Raises `UsageError` and `EventError` for a missing or ill-typed column.
    """
    found = {n: open_frame(session, frame) for n, frame in frames.items()}
    for name, frame in found.items():
        if frame is not frames[name]:  # what was given as such is checked
            check_frame(frame, types[name], time, streams)
    whole = not any(_is_spark(frame) for frame in found.values())
    tables = {}
    for name, frame in found.items():
        if not _is_spark(frame):
            at, number = time_column(time, types[name]), _chosen(sequence, name)
            tables[name] = _table_of(frame, types, name, read[name], at, number, second)
    if sequence is None and whole:
        tables = _numbered(tables)
    parts, orders = [], []
    for tag, (name, frame) in enumerate(found.items()):
        if name in tables:
            part = session.createDataFrame(tables[name], spark_schema(tables[name].schema))
            sequenced = SEQ if whole or sequence is not None else f"{SEQ} + {tag << _TYPE_BITS}"
            values, clock = [_property(i) for i in range(len(read[name]))], TIME
        else:
            column = time_column(time, types[name])
            place = ColumnLocation(column, name, row=column)
            clock = event_time_sql(_existing(frame, column, name), frame.schema[column].dataType, place, second)
            if streams:  # which leave out what has no time, and tell of it
                clock = bounded_event_time(clock, name, -CLOCK_END, second)
            else:
                clock = f"coalesce({clock}, {missing_value_error('time', name)})"
            values = [_property_column(frame, types[name], p, types, place, second) for p in read[name]]
            chosen = _chosen(sequence, name)
            if chosen is None and streams:
                part, sequenced = frame, "0L"
                orders.append(name)
            elif chosen is None:
                part, sequenced, order = _made_sequence(frame, tag, name)
                orders.append(order)
            else:
                part, sequenced = frame, _given_sequence(frame, chosen, name)
        named = [f"{v} AS {column_name(tag, i)}" for i, v in enumerate(values)]
        about = f"{tag} AS {TAG}", f"{clock} AS {TIME}", f"{sequenced} AS {SEQ}"
        parts.append(SqlQuery(part).select(*about, *named))
    columns = tuple(tuple(column_name(tag, i) for i in range(len(read[n]))) for tag, n in enumerate(frames))
    order, certain = _order_of(sequence, orders)
    events = parts[0] if len(parts) == 1 else SqlQuery(union([part.frame for part in parts]))
    return TaggedStream(events, columns, read, order, certain)


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """All rows of `parts`; columns that a part lacks are null."""
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def until_time(tagged: TaggedStream, until: int) -> TaggedStream:
    """Without events after `until`."""
    return replace(tagged, events=tagged.events.where(f"{TIME} <= {until}"))


def _is_spark(frame: Any) -> bool:
    return not isinstance(frame, pd.DataFrame | pa.Table)


def open_frame(session: SparkSession, frame: Any) -> Any:
    """What was given, or for the path of a Parquet file the frame of it. Errors: UsageError, as `loaded`."""
    return (
        load_files(session.read.format("parquet"), os.fspath(frame)) if isinstance(frame, str | os.PathLike) else frame
    )


def load_files(reader: DataFrameReader, path: str) -> DataFrame:
    """What is in the files of `path`. Errors: UsageError where there are none, and where they are of another format."""
    try:
        found = reader.load(path)
        found.schema  # noqa: B018  Spark Connect looks when asked
    except Exception as failed:  # pyspark's own, or py4j's where Spark has no name for it
        raise (unreadable_files_error(path, str(failed)) or failed) from failed
    return found


def unreadable_files_error(path: str, failure: str) -> UsageError | None:
    """The error for files of `path`, of what Spark says of its `failure` to read them; None where that is another."""
    found = re.search(r"\[((?:PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|FAILED_READ_FILE)[A-Z_.]*)\] *(.+)", failure)
    if found is None:
        return None
    said = re.sub(r" *\bSQLSTATE: \w+.*", "", found.group(2))
    if found.group(1) == "UNABLE_TO_INFER_SCHEMA":
        said = "there is no file with columns in it, only empty ones or none"
    return UsageError(f"{path} cannot be read: {said}")


# ---- the order


def _order_of(sequence: str | Mapping[str, str] | None, orders: Sequence[str]) -> tuple[str, bool]:
    if sequence is not None:
        shown = sequence if isinstance(sequence, str) else ", ".join(f"{t}.{c}" for t, c in sequence.items())
        return SEQUENCE_ORDER.format(shown), True
    uncertain = [order for order in orders if order not in (FRAME_ORDER, FILE_ORDER)]
    if uncertain:
        return UNCERTAIN.format(", ".join(uncertain), SEQUENCE_ARGUMENT), False
    return next((order for order in orders if order == FILE_ORDER), FRAME_ORDER), True


def _numbered(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """All rows numbered in their total order: the driver has them, so the numbers can be dense."""
    times = np.concatenate([t.column(TIME).to_numpy() for t in tables.values()] or [np.empty(0, np.int64)])
    place = np.empty(len(times), np.int64)
    place[np.argsort(times, kind="stable")] = np.arange(len(times))
    found, start = {}, 0
    for name, table in tables.items():
        numbers = pa.array(place[start : start + table.num_rows], pa.int64())
        found[name] = table.set_column(1, SEQ, numbers)
        start += table.num_rows
    return found


def _made_sequence(frame: DataFrame, tag: int, name: str) -> tuple[DataFrame, Sql, str]:
    """The frame with a sequence by which its rows can be ordered in tasks of their own, and what order that is."""
    first = tag << _TYPE_BITS
    plan = physical_plan(frame)
    nodes = set(re.findall(r"^[\s:+*\-|()\d]*([A-Z]\w+)", plan, re.MULTILINE))
    if plan.count("FileScan parquet") == 1 and nodes <= {"Project", "Filter", "ColumnarToRow", "FileScan", "Physical"}:
        found = _by_file(frame, first)
        if found is not None:
            return (*found, FILE_ORDER)
    scans = re.findall(r"(?:File|Batch)?Scan (\w+)", plan)
    files = [scan for scan in scans if scan != "ExistingRDD"]
    single = not files or (set(files) <= {"parquet", "orc", "csv", "json", "text"} and len(frame.inputFiles()) == 1)
    certain = nodes - {"Physical"} <= _IN_ORDER and single
    return frame, f"monotonically_increasing_id() + {first}", FRAME_ORDER if certain else name


def physical_plan(frame: DataFrame, mode: str = "simple") -> str:
    """Spark's physical plan as text; `mode` as in Spark's `explain`."""
    taken = io.StringIO()
    with redirect_stdout(taken):  # the one way to see it that Spark Connect has, too
        frame.explain(mode=mode)
    return taken.getvalue()


def _by_file(frame: DataFrame, first: int) -> tuple[DataFrame, Sql] | None:
    """By file and position in it, which filters, the division into tasks and the order of files do not change."""
    log = logging.getLogger("DataFrameQueryContextLogger")
    level, log.disabled = log.disabled, True  # that a frame does not hand on its files' metadata is no news
    try:
        kept = frame.withColumns({_ROW: F.col("_metadata.row_index"), _FILE: F.col("_metadata.file_path")})
        kept.schema  # noqa: B018  Spark Connect analyses when asked
    except AnalysisException:
        return None
    finally:
        log.disabled = level
    files = sorted(_path(path) for path in frame.inputFiles())
    if len(files) == 1:
        return kept, f"{_ROW} + {first}"
    ranks = pa.table({_FILE: files, _RANK: pa.array(range(len(files)), pa.int64())})
    ranked = kept.withColumn(_FILE, F.regexp_replace(_FILE, "^([a-z0-9]+):/+", "$1:/"))
    ranked = ranked.join(F.broadcast(frame.sparkSession.createDataFrame(ranks)), on=_FILE, how="left")
    unknown = f"raise_error(concat('cepbook.errors.EventError: a file came while it was read: ', {_FILE}))"
    return ranked, f"coalesce({_RANK}, CAST({unknown} AS BIGINT)) * {1 << _ROW_BITS} + {_ROW} + {first}"


_CASES = "spark.sql.caseSensitive"
_ROW, _FILE, _RANK = "__cepbook_row", "__cepbook_file", "__cepbook_rank"


def _path(path: str) -> str:
    return re.sub("^([a-z0-9]+):/+", r"\1:/", path)


def _given_sequence(frame: DataFrame, column: str, name: str) -> Sql:
    value = _existing(frame, column, name)
    found = frame.schema[column].dataType
    if not isinstance(found, st.IntegralType):
        raise EventError(f"the sequence column `{column}` of `{name}` is {found.simpleString()}, not a whole number")
    return f"coalesce({as_bigint(value, found)}, {missing_value_error('sequence number', name)})"


# ---- columns


def _property(position: int) -> str:
    return f"p{position}"


def _chosen(choice: str | Mapping[str, str] | None, type_name: str) -> str | None:
    if choice is None or isinstance(choice, str):
        return choice
    if type_name not in choice:
        raise UsageError(f"sequence= names no column for {type_name}")
    return choice[type_name]


def time_column(time: str | Mapping[str, str] | None, event_type: EventType) -> str:
    """The column of a frame that holds the times of its events. Errors: UsageError where nobody said."""
    column = time if isinstance(time, str) else (time or {}).get(event_type.name, event_type.time_property)
    if column is None:
        name = event_type.name
        raise UsageError(f"which column holds the time of {name}? say time='column' or time={{'{name}': 'column'}}")
    return column


def _existing(frame: DataFrame, column: str, type_name: str) -> Sql:
    if column not in frame.columns:
        raise EventError(_no_column(column, type_name, frame.columns))
    alike = [f"`{name}`" for name in frame.columns if name.lower() == column.lower()]
    if len(alike) > 1 and frame.sparkSession.conf.get(_CASES) != "true":
        raise EventError(
            f"the DataFrame for `{type_name}` has the columns {' and '.join(alike)}, which Spark does not tell apart\n"
            f"  hint: rename or drop all but one, or session.conf.set('{_CASES}', 'true')"
        )
    return quote_identifier(column)


def _property_column(
    frame: DataFrame,
    event_type: EventType,
    name: str,
    types: Mapping[str, EventType],
    time: ColumnLocation,
    second: int,
) -> Sql:
    place = ColumnLocation(name, event_type.name, time.row)
    value = _existing(frame, name, event_type.name)
    return cast_sql(value, frame.schema[name].dataType, event_type.properties[name], types, place, second)


def _table_of(
    frame: Any,
    types: Mapping[str, EventType],
    name: str,
    read: Sequence[str],
    time: str,
    sequence: str | None,
    second: int,
) -> pa.Table:
    """A pandas frame or Arrow table as a table of `TIME`, `SEQ`, p0, p1, …"""
    event_type = types[name]
    at = cast_event_times(_column(frame, time, name), f"time column `{time}` of `{name}`", second)
    if sequence is None:
        number = pa.array(np.arange(len(frame)))
    else:
        where = f"sequence column `{sequence}` of `{name}`"
        given = plain_array(_column(frame, sequence, name))
        if not pa.types.is_integer(given.type) or given.null_count:
            raise EventError(f"{where}: a sequence is whole numbers without gaps, not {given.type}")
        number = given.cast(pa.int64())
    values = []
    for p in read:
        where = f"column `{p}` of `{name}`"
        values.append(cast_property(_column(frame, p, name), event_type.properties[p], types, where, second))
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
    """As in an interactive replay, a frame must have a column for every property of its type."""
    lacking = [f"`{name}`" for name in event_type.properties if name not in columns]
    if lacking:
        what = "column" if len(lacking) == 1 else "columns"
        raise EventError(f"the DataFrame for event type `{event_type.name}` lacks the {what} {', '.join(lacking)}")


def _no_column(column: str, type_name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(column, known) or f"it has {', '.join(known)}"
    return f"the DataFrame for `{type_name}` has no column `{column}`; {hint}"
