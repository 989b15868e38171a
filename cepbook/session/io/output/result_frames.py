"""Rows of the engine as DataFrames. Column order and dtypes follow from EPL types, never from the values.

byte to long: nullable Int8 … Int64; float, double: float64 (null is NaN); boolean: nullable boolean; string, char:
nullable string; times (`io.output_times`), timestamp and localdatetime: datetime64; all else: object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from cepbook.display import unused_name
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.errors import UsageError
from cepbook.feeds import FeedColumns
from cepbook.lang.types import LONG, STRING, Type, is_hashable
from cepbook.session.io.event_validation import is_missing
from cepbook.session.io.output.output_times import clock_dates, local_dates, moment_dates, whole_numbers
from cepbook.session.io.output.parquet_writers import arrow_table

Row = Mapping[str, Any]
_DTYPES = {
    "byte": "Int8",
    "short": "Int16",
    "int": "Int32",
    "long": "Int64",
    "float": "float64",
    "double": "float64",
    "boolean": "boolean",
    "string": "string",
    "char": "string",
}
_DATES = {"clock time": clock_dates, "moment": moment_dates, "localdatetime": local_dates}


def typed_series(values: Sequence[Any], of: Type) -> pd.Series[Any]:
    """Return a column of type `of`; of dtype object if a registered function returned other types."""
    dtype = _DTYPES.get(of.name, "object")
    try:
        if of.name in _DATES:
            return _DATES[of.name](values, of)
        return pd.Series(list(values), dtype=dtype)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return pd.Series(list(values), dtype="object")


def rows_frame(rows: Iterable[Row], properties: Mapping[str, Type]) -> pd.DataFrame:
    """Return `rows` as a DataFrame with exactly the columns `properties`, in their order."""
    row_list = list(rows)
    data = {name: typed_series([row.get(name) for row in row_list], of) for name, of in properties.items()}
    return pd.DataFrame(data, index=pd.RangeIndex(len(row_list)), columns=list(properties))


def change_columns(properties: Mapping[str, Type], time: Type) -> dict[str, Type]:
    """Return the columns of deliveries: ``time`` of type `time`, ``seq`` (delivery number), ``kind`` (insert or
    remove), and the statement's.

    If the statement has a column of one of these names, the added one gets a trailing underscore.
    """
    added = {"time": time, "seq": LONG, "kind": STRING}
    return {**{unused_name(name, properties): of for name, of in added.items()}, **properties}


def changes_frame(columns: FeedColumns, properties: Mapping[str, Type], time: Type) -> pd.DataFrame:
    """Return one line per inserted or removed row, with `change_columns`."""
    kinds = ["insert" if insert else "remove" for insert in columns.inserts]
    added: list[pd.Series[Any]] = [
        pd.Series(columns.times, dtype="int64") if time == LONG else typed_series(columns.times, time),
        pd.Series(columns.numbers, dtype="int64"),
        pd.Series(kinds, dtype="string"),
    ]
    data: dict[str, pd.Series[Any]] = dict(zip(change_columns(properties, time), added, strict=False))
    for name, of in properties.items():
        values = columns.column(name)
        data[name] = typed_series(values if is_hashable(of) else [deep_copied(value) for value in values], of)
    return pd.DataFrame(data, index=pd.RangeIndex(len(columns.times)))


def convert_frame(frame: pd.DataFrame, properties: Mapping[str, Type], library: str) -> Any:
    """Return a frame as ``pandas``, ``arrow`` (`pyarrow.Table`) or ``polars``. Raises UsageError, also if a library is
    missing.

    Types that Arrow lacks (events, maps, exact numbers) become text, as in Parquet files (`io.writers`).
    """
    if library == "pandas":
        return frame
    if library not in ("arrow", "polars"):
        raise UsageError(f'a frame is "pandas", "arrow" or "polars", not {library!r}')
    units = {name: getattr(of, "unit", "us") for name, of in properties.items() if frame[name].dtype.kind == "M"}
    columns = [
        whole_numbers(frame[name], "us" if of.name == "moment" else units[name])
        if name in units
        else [None if is_missing(v) else v for v in frame[name].astype(object)]
        for name, of in properties.items()
    ]
    table = arrow_table(list(zip(*columns, strict=True)), properties)
    if library == "arrow":
        return table
    try:
        import polars  # optional; requested by name
    except ImportError:
        raise UsageError("frames of polars need it: pip install polars") from None
    return polars.from_arrow(table)
