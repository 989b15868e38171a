"""DataFrame columns as plain Python values of EPL types, checked as a whole and read in slices.

A column is checked once, vectorized where pandas allows, so a bad value is found before any event is sent. Reading uses
``tolist``, the fastest way from a frame to plain Python values. Float columns fit whole-number properties if all values
are whole, because pandas turns integers with gaps into floats.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.engine.vectorized import array_columns as arrays
from cepbook.errors import EventError, UsageError
from cepbook.lang.types import BITS, Type, is_integral
from cepbook.session.io.event_validation import EventTypes, TypeMismatch, value_converter
from cepbook.session.io.time_conversion import to_clock_units

ColumnValues = list[Any]
ColumnReader = Callable[["pd.Series[Any]"], ColumnValues]
_FLOATING = ("float", "double")
_SAMPLE = 20_000  # texts that are sampled for repetition
_NUMPY = {1000: "ms", 1_000_000: "us"}  # numpy's name of the clock's unit


ROW_OF_FILE = "row of the file"  # the name of an index that counts rows across several frames


def row_name(index: pd.Index[Any], position: int) -> str:
    """Return the name of a row in messages: its position from 0, with its index label if that says more."""
    label = index[position]
    if index.name == ROW_OF_FILE:
        return f"row {label}"
    return f"row {position}" if isinstance(index, pd.RangeIndex) else f"row {position} (index {label!r})"


def column_reader(where: str, values: pd.Series[Any], of: Type, types: EventTypes, second: int = 1000) -> ColumnReader:
    """Return the function that turns a slice of `values` into engine values of type `of`.

    Dates and spans become clock units, `second` per second. Raises EventError with `where` (the column) and the row if
    a value does not fit.
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(where, values, of, types, second)
    if pd.api.types.is_bool_dtype(dtype) and of.name in ("boolean", "object"):
        return _objects if pd.api.types.is_extension_array_dtype(dtype) else _as_is
    if pd.api.types.is_integer_dtype(dtype) and (is_integral(of) or of.name in (*_FLOATING, "object")):
        return _integers(where, values, of)
    if pd.api.types.is_float_dtype(dtype) and of.name in (*_FLOATING, "object"):
        return _singles if of.name == "float" else _floats
    if pd.api.types.is_float_dtype(dtype) and is_integral(of):
        return _whole_floats(where, values, of)
    if pd.api.types.is_datetime64_any_dtype(dtype) and of.name == "long":
        return lambda rows: _nullable(datetime_units(rows, second), rows)
    if pd.api.types.is_timedelta64_dtype(dtype) and of.name == "long":
        return lambda rows: _nullable(rows.to_numpy(dtype=f"timedelta64[{_NUMPY[second]}]").astype("int64"), rows)
    if of.name in ("string", "object") and _all_text(values):
        return _objects
    return _one_by_one(where, values, of, types, second)


def _as_is(rows: pd.Series[Any]) -> ColumnValues:
    return rows.tolist()


def _objects(rows: pd.Series[Any]) -> ColumnValues:
    array: Any = rows  # the type stubs do not allow None as na_value
    return arrays.python_values(array.to_numpy(dtype=object, na_value=None))


def engine_column(values: pd.Series[Any], read: ColumnReader) -> arrays.ArrayColumn:
    """Return the column whose values `read` makes, as arrays where possible.

    Repeated texts become codes: equal texts are one object, which is quick to compare.
    """
    if read is _floats:
        return arrays.NumberColumn(values.to_numpy(dtype="float64", na_value=np.nan), gaps=True)
    if read is _as_is:
        return arrays.NumberColumn(values.to_numpy())
    sample = values.iloc[:_SAMPLE]
    if read is not _objects or not isinstance(values.dtype, pd.StringDtype) or sample.nunique() * 4 > len(sample):
        return arrays.ComputedColumn(lambda rows: read(values.iloc[rows]))
    codes, texts = pd.factorize(values)
    return arrays.TextColumn(
        codes.astype("int32"), np.array([*texts, None], dtype=object)
    )  # code -1 (missing) is the last one


def _singles(rows: pd.Series[Any]) -> ColumnValues:
    with np.errstate(over="ignore"):
        return arrays.with_nulls(rows.to_numpy(dtype="float64", na_value=np.nan).astype("float32").astype("float64"))


def _floats(rows: pd.Series[Any]) -> ColumnValues:
    return arrays.with_nulls(rows.to_numpy(dtype="float64", na_value=np.nan))


def _nullable(numbers: npt.NDArray[np.int64], rows: pd.Series[Any]) -> ColumnValues:
    missing = rows.isna().to_numpy()
    if not missing.any():
        return arrays.python_values(numbers)
    values = numbers.astype(object)
    values[missing] = None
    return arrays.python_values(values)


def datetime_units(rows: pd.Series[Any], second: int) -> npt.NDArray[np.int64]:
    """Return clock units since 1970 of datetimes (naive ones are UTC), cut off to the past; arbitrary if missing."""
    return rows.to_numpy(dtype=f"datetime64[{_NUMPY[second]}]").astype("int64")


def _all_text(values: pd.Series[Any]) -> bool:
    if isinstance(values.dtype, pd.StringDtype):
        return True
    return values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) in ("string", "empty")


def _range_check(where: str, values: pd.Series[Any], of: Type) -> None:
    bits = BITS.get(of.name)
    if bits is None or not values.notna().any():
        return
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if low <= int(values.min()) and int(values.max()) <= high:
        return
    wrong = ((values < low) | (values > high)).fillna(False).to_numpy(dtype=bool)
    at = int(wrong.argmax())
    place = row_name(values.index, at)
    raise EventError(f"{where}, {place}: the property is {of}, and {values.iloc[at]} is outside {low} … {high}")


def _integers(where: str, values: pd.Series[Any], of: Type) -> ColumnReader:
    if of.name in _FLOATING:
        return _singles if of.name == "float" else _floats
    _range_check(where, values, of)
    return _objects if pd.api.types.is_extension_array_dtype(values.dtype) else _as_is


def _whole_floats(where: str, values: pd.Series[Any], of: Type) -> ColumnReader:
    numbers = values.to_numpy(dtype="float64", na_value=np.nan)
    wrong = ~np.isnan(numbers) & ~(np.isfinite(numbers) & (numbers == np.trunc(numbers)))
    if wrong.any():
        at = int(wrong.argmax())
        raise EventError(f"{where}, {row_name(values.index, at)}: the property is {of}, not {numbers[at]} (float)")
    _range_check(where, values, of)
    return lambda rows: [None if v is None else int(v) for v in _floats(rows)]


def _categories(where: str, values: pd.Series[Any], of: Type, types: EventTypes, second: int) -> ColumnReader:
    categories = pd.Series(values.cat.categories)
    category_values = [
        *column_reader(where, categories, of, types, second)(categories),
        None,
    ]  # code -1 (missing) is the last one
    return lambda rows: [category_values[code] for code in rows.cat.codes.tolist()]


def _one_by_one(where: str, values: pd.Series[Any], of: Type, types: EventTypes, second: int) -> ColumnReader:
    convert = value_converter(of, types, second)
    at = 0
    try:
        for at, value in enumerate(values.tolist()):  # noqa: B007  the row is needed when convert fails
            convert(value)
    except TypeMismatch as mismatch:
        place = row_name(values.index, at)
        message = f"{where}, {place}: the property {mismatch} (dtype of the column: {values.dtype})"
        raise EventError(message + _hint(of, values.iloc[at])) from None
    return lambda rows: [convert(value) for value in rows.tolist()]


def _hint(of: Type, value: object) -> str:
    if not isinstance(value, str) or of.name not in ("long", "int"):
        return ""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return ""
    return "\n  hint: as a frame with dates it fits: pd.read_csv(…, parse_dates=[…]), or pd.to_datetime of the column"


def event_times(where: str, values: pd.Series[Any], second: int = 1000) -> npt.NDArray[np.int64]:
    """Return event times in clock units of datetimes, whole numbers or ISO 8601 texts. Raises EventError."""
    missing = values.isna().to_numpy()
    if missing.any():
        raise EventError(f"{where}, {row_name(values.index, int(missing.argmax()))}: the event time is missing")
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return event_times(where, values.astype(dtype.categories.dtype), second)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return datetime_units(values, second)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        raise EventError(f"{where}: an event time is a date or whole milliseconds, not {dtype}")
    if pd.api.types.is_integer_dtype(dtype):
        return values.to_numpy(dtype="int64")
    if pd.api.types.is_float_dtype(dtype):
        numbers = values.to_numpy(dtype="float64")
        wrong = ~np.isfinite(numbers) | (numbers != np.trunc(numbers))
        if wrong.any():
            at = int(wrong.argmax())
            raise EventError(f"{where}, {row_name(values.index, at)}: {numbers[at]} is no time in whole milliseconds")
        return numbers.astype("int64")
    if _all_text(values):
        parsed = pd.to_datetime(values, utc=True, format="ISO8601", errors="coerce")
        if not parsed.isna().any():
            return datetime_units(parsed, second)
    return _times_one_by_one(where, values, second)


def _times_one_by_one(where: str, values: pd.Series[Any], second: int) -> npt.NDArray[np.int64]:
    times = np.empty(len(values), dtype="int64")
    for at, value in enumerate(values.tolist()):
        try:
            times[at] = to_clock_units(value, second)
        except UsageError as error:
            raise EventError(f"{where}, {row_name(values.index, at)}: {error}") from None
    return times
