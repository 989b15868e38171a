"""Arrow tables and Spark DataFrames as pandas frames, and their columns as EPL types. Neither library is imported here.

=========================================  =========================================================================
Arrow, Spark                               EPL
=========================================  =========================================================================
integers of 8, 16, 32, 64 bits             byte, short, int, long; unsigned ones the next wider, biginteger at last
half, float / double; bool; text           float / double; boolean; string
decimals                                   biginteger without digits behind the point, else bigdecimal
dates, timestamps, spans                   long: milliseconds since 1970 UTC, milliseconds
list, array                                X[]
struct                                     a nested event, of a type that is named by the event type and the column
map                                        map
=========================================  =========================================================================
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from cepbook.errors import UsageError
from cepbook.lang import types as t
from cepbook.lang.plan.catalog import EventType

_SPARK = {
    "byte": t.BYTE, "short": t.SHORT, "integer": t.INT, "long": t.LONG, "float": t.FLOAT, "double": t.DOUBLE,
    "boolean": t.BOOLEAN, "string": t.STRING, "varchar": t.STRING, "char": t.STRING, "date": t.LONG_DATE,
    "timestamp": t.LONG_DATE, "timestamp_ntz": t.LONG_DATE, "map": t.MAP, "void": t.OBJECT,
}  # fmt: skip
_ARROW = {
    "int8": t.BYTE, "int16": t.SHORT, "int32": t.INT, "int64": t.LONG, "uint8": t.SHORT, "uint16": t.INT,
    "uint32": t.LONG, "uint64": t.BIGINTEGER, "halffloat": t.FLOAT, "float": t.FLOAT, "double": t.DOUBLE,
    "bool": t.BOOLEAN, "string": t.STRING, "large_string": t.STRING, "string_view": t.STRING, "null": t.OBJECT,
}  # fmt: skip


def is_arrow(frame: object) -> bool:
    """Return True for a `pyarrow.Table`."""
    return type(frame).__module__.startswith("pyarrow") and hasattr(frame, "column_names")


def is_spark(frame: object) -> bool:
    """Return True for a Spark DataFrame."""
    return type(frame).__module__.startswith("pyspark") and hasattr(frame, "toArrow")


def as_pandas(source: Any) -> Any:
    """Return an Arrow table or a Spark DataFrame as a pandas frame; anything else unchanged.

    Whole numbers stay whole numbers, also with gaps. Raises UsageError for a streaming DataFrame.
    """
    if is_spark(source):
        if source.isStreaming:
            raise UsageError("a streaming DataFrame has no end; give one that was read with `spark.read`")
        source = source.toArrow()
    return frame_of_table(source) if is_arrow(source) else source


def date_index(table: Any) -> str | None:
    """Return the column of an Arrow table, or schema, that was a DatetimeIndex of pandas; None if there is none."""
    schema = getattr(table, "schema", table)
    columns = (schema.pandas_metadata or {}).get("index_columns", [])
    name = columns[0] if len(columns) == 1 and isinstance(columns[0], str) else None
    dates = name in schema.names and str(schema.field(name).type).startswith("timestamp")
    return name if dates else None


def with_named_index(table: Any) -> tuple[Any, str | None]:
    """Return an Arrow table whose DatetimeIndex of pandas has a name, ``time`` if it had none, and the name."""
    name = date_index(table)
    if name is None or not name.startswith("__index_level_"):
        return table, name
    return table.rename_columns(["time" if column == name else column for column in table.column_names]), "time"


def frame_of_table(table: Any) -> pd.DataFrame:
    """Return an Arrow table as a pandas frame; integers with gaps stay integers, nested values are lists and dicts."""
    from cepbook.spark.task.type_mapping import from_array  # needs pyarrow, which is installed if there is a table

    nested = [f.name for f in table.schema if str(f.type).startswith(("list", "large_list", "fixed", "struct", "map"))]
    frame: pd.DataFrame = table.select([n for n in table.column_names if n not in nested]).to_pandas()
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = str(field.type)
        if field.name in nested:
            values = from_array(column, t.OBJECT, {})
            frame[field.name] = pd.Series(values, index=frame.index, dtype=object)
        elif column.null_count and kind.startswith(("int", "uint")) and field.name in frame.columns:
            numbers: Any = pd.array(column.to_pylist(), dtype=kind.replace("i", "I", 1).replace("uI", "UI"))
            frame[field.name] = pd.Series(numbers, index=frame.index)
    return frame


def schema_properties(name: str, frame: Any, nested: dict[str, EventType]) -> dict[str, t.Type]:
    """Return column name -> EPL type of an Arrow table or Spark DataFrame; the types of structs go into `nested`.

    Raises UsageError for a column that has no type or occurs twice.
    """
    fields = frame.schema.fields if is_spark(frame) else list(frame.schema)
    names = [field.name for field in fields]
    if not names:
        raise UsageError(f"the frame for `{name}` has no columns")
    twice = next((column for column in names if names.count(column) > 1), None)
    if twice is not None:
        raise UsageError(f"the frame for `{name}` has the column `{twice}` twice")
    of_type = _of_spark if is_spark(frame) else _of_arrow
    return {f.name: of_type(name, f.name, f.dataType if is_spark(frame) else f.type, nested) for f in fields}


def _nothing(column: str, of: object) -> UsageError:
    return UsageError(f"column `{column}` has no EPL type: {of}\n  hint: convert or drop the column")


def _of_spark(name: str, column: str, of: Any, nested: dict[str, EventType]) -> t.Type:
    kind = of.typeName().split("(")[0]
    if kind in _SPARK:
        return _SPARK[kind]
    if kind == "decimal":
        return t.BIGDECIMAL if of.scale else t.BIGINTEGER
    if kind == "array":
        return t.array_of(_of_spark(name, column, of.elementType, nested))
    if kind == "struct":
        own = f"{name}_{column}"
        nested[own] = EventType(own, {f.name: _of_spark(own, f.name, f.dataType, nested) for f in of.fields})
        return t.event_of(own)
    if kind.startswith("interval day"):
        return t.LONG
    raise _nothing(column, of.simpleString())


def _of_arrow(name: str, column: str, of: Any, nested: dict[str, EventType]) -> t.Type:
    text = str(of)
    kind = text.split("<")[0].split("[")[0].split("(")[0]
    if text in _ARROW:
        return _ARROW[text]
    if kind == "dictionary":
        return _of_arrow(name, column, of.value_type, nested)
    if kind in ("timestamp", "date32", "date64"):
        return t.LONG_DATE
    if kind in ("time32", "time64"):
        return t.LOCALTIME
    if kind == "duration":
        return t.LONG
    if kind.startswith("decimal"):
        return t.BIGDECIMAL if of.scale else t.BIGINTEGER
    if kind in ("list", "large_list", "fixed_size_list"):
        return t.array_of(_of_arrow(name, column, of.value_type, nested))
    if kind == "struct":
        own = f"{name}_{column}"
        nested[own] = EventType(own, {f.name: _of_arrow(own, f.name, f.type, nested) for f in of})
        return t.event_of(own)
    if kind == "map":
        return t.MAP
    raise _nothing(column, of)
