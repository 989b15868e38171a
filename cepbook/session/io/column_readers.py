"""DataFrame columns as columns of events, checked as a whole and read in slices.

A column is checked once, vectorized where pandas allows, so a bad value is found before any event is sent. Numbers,
dates and repeated texts stay arrays; plain Python values of EPL types are made from these, or by ``tolist``, when they
are read. Float columns fit whole-number properties if all values are whole, because pandas turns integers with gaps
into floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.engine.expressions.plain_values import EXACT, plain_value
from cepbook.engine.time.clock import check_unit
from cepbook.engine.vectorized import array_columns as arrays
from cepbook.errors import CepbookError, EventError, UsageError
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.types import BITS, Type, is_integral
from cepbook.session.io.event_validation import EventTypes, TypeMismatch, value_converter
from cepbook.session.io.time_conversion import (
    MAX_CLOCK,
    beyond_clock,
    check_clock_range,
    to_clock_units,
    warn_of_cut_times,
)

ColumnValues = list[Any]
ColumnReader = Callable[["pd.Series[Any]"], arrays.ArrayColumn]
_FLOATING = ("float", "double")
_SAMPLE = 20_000  # texts that are sampled for repetition
_FINER = {1000: ("us", "ns"), 1_000_000: ("ns",)}  # units of columns that are finer than the clock
_DATE_HINT = '\n  hint: frame["{0}"] = pd.to_datetime(frame["{0}"], format=…)'
_ZONED = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"  # how a text with a zone ends
_NUMPY = {1000: "ms", 1_000_000: "us"}  # numpy's name of the clock's unit


Reasons = Iterator[tuple[int, str]]
"""Positions of rows that do not fit, ascending, with the reasons."""

ROW_OF_FILE = "row of the file"  # the name of an index that counts rows across several frames


def row_name(index: pd.Index[Any], position: int) -> str:
    """Return the name of a row in messages: its position from 0, with its index label if that says more."""
    label = plain_value(index[position])
    if index.name == ROW_OF_FILE:
        return f"row {label}"
    return f"row {position}" if isinstance(index, pd.RangeIndex) else f"row {position} (index {label!r})"


class WrongRows(EventError):
    """Rows of a frame whose values do not fit; the message has the first of them. `reasons` can be read once."""

    def __init__(self, where: str, index: pd.Index[Any], first: tuple[int, str], others: Reasons) -> None:
        super().__init__(f"{where}, {row_name(index, first[0])}: {first[1]}")
        self.where = where
        self.reasons: Iterable[tuple[int, str]] = chain((first,), others)


def refuse(where: str, index: pd.Index[Any], reasons: Reasons) -> None:
    """Raise WrongRows if there are reasons. `where` names the column."""
    first = next(reasons, None)
    if first is not None:
        raise WrongRows(where, index, first, reasons)


def masked(wrong: npt.NDArray[np.bool_], reason: Callable[[int], str]) -> Reasons:
    """Yield the positions of a mask, with reasons."""
    return ((at, reason(at)) for at in np.flatnonzero(wrong).tolist())


def column_reader(
    where: str,
    values: pd.Series[Any],
    of: Type,
    types: EventTypes,
    second: int = 1000,
    zone: str = "UTC",
    *,
    timed: bool = False,
) -> ColumnReader:
    """Return the function that turns a slice of `values` into engine values of type `of`.

    Dates and spans become clock units, `second` per second, dates without a zone as times of `zone`; if `timed`, texts
    of dates, too. Raises WrongRows with `where` (the column) if a value does not fit.
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(where, values, of, types, second, zone, timed=timed)
    if pd.api.types.is_bool_dtype(dtype) and of.name in ("boolean", "object"):
        return lambda rows: _with_gaps(rows.to_numpy(dtype=bool, na_value=False), rows)
    if pd.api.types.is_integer_dtype(dtype) and (is_integral(of) or of.name in (*_FLOATING, "object")):
        return _integers(where, values, of)
    if pd.api.types.is_float_dtype(dtype) and of.name in (*_FLOATING, "object"):
        return _floating(of)
    if pd.api.types.is_float_dtype(dtype) and is_integral(of):
        return _whole_floats(where, values, of)
    if pd.api.types.is_datetime64_any_dtype(dtype) and of.name == "long":
        return lambda rows: _with_gaps(datetime_units(rows, second, zone), rows)
    if pd.api.types.is_timedelta64_dtype(dtype) and of.name == "long":
        return lambda rows: _with_gaps(rows.to_numpy(dtype=f"timedelta64[{_NUMPY[second]}]").astype("int64"), rows)
    if of.name in ("string", "object") and _all_text(values):
        return _texts
    convert = value_converter(of, types, second, zone, timed=timed)
    refuse(where, values.index, _unfit(values, of, convert))
    return _computed(lambda rows: [convert(value) for value in rows.tolist()])


def _computed(read: Callable[[pd.Series[Any]], ColumnValues]) -> ColumnReader:
    """Return a reader of a column whose values `read` makes when they are needed."""
    return lambda values: arrays.ComputedColumn(lambda rows: read(values.iloc[rows]))


def _with_gaps(numbers: npt.NDArray[Any], values: pd.Series[Any]) -> arrays.ArrayColumn:
    """Return a column of numbers or truth values, null where `values` has none."""
    column, missing = arrays.NumberColumn(numbers), values.isna().to_numpy(dtype=bool)
    return arrays.NullableColumn(column, missing) if missing.any() else column


def _objects(rows: pd.Series[Any]) -> ColumnValues:
    array: Any = rows  # the type stubs do not allow None as na_value
    return arrays.python_values(array.to_numpy(dtype=object, na_value=None))


def _texts(values: pd.Series[Any]) -> arrays.ArrayColumn:
    """Return a column of texts. Repeated ones become codes: equal texts are one object, which is quick to compare."""
    sample = values.iloc[:_SAMPLE]
    if sample.nunique() * 4 > len(sample):
        return _computed(_objects)(values)
    codes, texts = pd.factorize(values)
    known = np.array([*texts, None], dtype=object)  # code -1 (missing) is the last one
    return arrays.TextColumn(codes.astype("int32"), known)


def _floating(of: Type) -> ColumnReader:
    if of.name == "float":
        return _computed(_singles)
    return lambda values: arrays.NumberColumn(values.to_numpy(dtype="float64", na_value=np.nan), gaps=True)


def _singles(rows: pd.Series[Any]) -> ColumnValues:
    with np.errstate(over="ignore"):
        return arrays.with_nulls(rows.to_numpy(dtype="float64", na_value=np.nan).astype("float32").astype("float64"))


def datetime_units(rows: pd.Series[Any], second: int, zone: str = "UTC") -> npt.NDArray[np.int64]:
    """Return clock units since 1970 of datetimes (naive ones are of `zone`), cut to the past; arbitrary if missing."""
    if rows.dt.tz is None and zone_of(zone) is not UTC:
        rows = _localized(rows, zone_of(zone))
    return rows.to_numpy(dtype=f"datetime64[{_NUMPY[second]}]").astype("int64")


def _localized(rows: pd.Series[Any], zone: tzinfo) -> pd.Series[Any]:
    """Return local times as moments: of those that clocks show twice the first, and on from before those they skip."""
    moments: pd.Series[Any] = rows.dt.tz_localize(zone, ambiguous=np.ones(len(rows), dtype=bool), nonexistent="NaT")
    skipped = moments.isna() & rows.notna()
    if skipped.any():
        before = rows[skipped].map(lambda local: local.to_pydatetime(warn=False).replace(tzinfo=zone).utcoffset())
        utc = (rows[skipped] - pd.to_timedelta(before)).dt.tz_localize(UTC)
        moments = moments.dt.tz_convert(UTC)
        moments[skipped] = utc.astype(moments.dtype)
    return moments


def warn_of_cut_column(where: str, values: pd.Series[Any], second: int) -> None:
    """Warn if dates of a column are finer than the clock."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype) and values.dt.unit in _FINER[second]:
        step = np.timedelta64(1_000_000 // second * 1000, "ns")
        utc = values if values.dt.tz is None else values.dt.tz_convert(None)
        fine = int(((utc - utc.dt.floor(pd.Timedelta(step))) > pd.Timedelta(0)).sum())
        if fine:
            warn_of_cut_times(f"{where}: {fine:,} of {len(values):,} times", second)


def _all_text(values: pd.Series[Any]) -> bool:
    if isinstance(values.dtype, pd.StringDtype):
        return True
    if values.dtype != object or not EXACT.issuperset(map(type, values.tolist())):
        return False
    return pd.api.types.infer_dtype(values, skipna=True) in ("string", "empty")


def _range_check(where: str, values: pd.Series[Any], of: Type) -> None:
    bits = BITS.get(of.name)
    if bits is None or not values.notna().any():
        return
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if low <= int(values.min()) and int(values.max()) <= high:
        return
    wrong = ((values < low) | (values > high)).fillna(False).to_numpy(dtype=bool)
    refuse(
        where,
        values.index,
        masked(wrong, lambda at: f"the property is {of}, and {values.iloc[at]} is outside {low} … {high}"),
    )


def _integers(where: str, values: pd.Series[Any], of: Type) -> ColumnReader:
    if of.name in _FLOATING:
        return _floating(of)
    _range_check(where, values, of)
    if not pd.api.types.is_extension_array_dtype(values.dtype):
        return lambda rows: arrays.NumberColumn(rows.to_numpy())
    if of.name not in BITS:
        return _computed(_objects)
    return lambda rows: _with_gaps(rows.to_numpy(dtype="int64", na_value=0), rows)


def _whole_floats(where: str, values: pd.Series[Any], of: Type) -> ColumnReader:
    numbers = values.to_numpy(dtype="float64", na_value=np.nan)
    wrong = ~np.isnan(numbers) & ~(np.isfinite(numbers) & (numbers == np.trunc(numbers)))
    refuse(where, values.index, masked(wrong, lambda at: f"the property is {of}, not {numbers[at]} (float)"))
    _range_check(where, values, of)
    if of.name not in BITS:
        return _computed(lambda rows: [None if value is None else int(value) for value in _objects(rows)])
    return lambda rows: _with_gaps(rows.to_numpy(dtype="float64", na_value=0).astype("int64"), rows)


def _categories(
    where: str, values: pd.Series[Any], of: Type, types: EventTypes, second: int, zone: str, *, timed: bool
) -> ColumnReader:
    codes = values.cat.codes.to_numpy()
    used = np.sort(pd.unique(codes[codes >= 0])).tolist()
    categories, reasons = pd.Series(values.cat.categories[used]), dict[int, str]()
    try:
        read = column_reader(where, categories, of, types, second, zone, timed=timed)
    except WrongRows as error:
        reasons = {used[at]: reason for at, reason in error.reasons}
    refuse(where, values.index, masked(np.isin(codes, list(reasons)), lambda at: reasons[int(codes[at])]))
    category_values = np.full(len(values.cat.categories) + 1, None, dtype=object)  # code -1 (missing) is the last one
    for code, value in zip(used, read(categories).take(slice(None)), strict=True):
        category_values[code] = value
    if {str, type(None)}.issuperset(map(type, category_values)):
        return lambda rows: arrays.TextColumn(rows.cat.codes.to_numpy().astype("int32"), category_values)
    return _computed(lambda rows: [category_values[code] for code in rows.cat.codes.tolist()])


def _unfit(values: pd.Series[Any], of: Type, convert: Callable[[Any], Any]) -> Reasons:
    """Yield the rows whose values `convert` does not take."""
    for at, value in enumerate(values.tolist()):
        try:
            convert(value)
        except TypeMismatch as mismatch:
            reason = f"the property {mismatch} (dtype of the column: {values.dtype})"
            yield at, reason + _hint(of, value)
        except CepbookError as error:
            yield at, str(error)


def _hint(of: Type, value: object) -> str:
    if type(value) is not str or of.name not in ("long", "int"):
        return ""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return ""
    return "\n  hint: as a frame with dates it fits: pd.read_csv(…, parse_dates=[…]), or pd.to_datetime of the column"


def event_times(
    where: str, values: pd.Series[Any], second: int = 1000, zone: str = "UTC", now: int = 0
) -> npt.NDArray[np.int64]:
    """Return event times in clock units of datetimes, whole numbers or ISO 8601 texts.

    Raises EventError, also for numbers that can only be in another unit than that of the clock at `now`.
    """
    if values.dtype == object and not EXACT.issuperset(map(type, values.tolist())):
        values = pd.Series([plain_value(value) for value in values.tolist()], values.index, object, values.name)
    refuse(where, values.index, masked(values.isna().to_numpy(), lambda at: "the event time is missing"))
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return event_times(where, values.astype(dtype.categories.dtype), second, zone, now)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        warn_of_cut_column(where, values, second)
        return _within_clock(where, values, datetime_units(values, second, zone), second)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        raise EventError(f"{where}: an event time is a date or whole milliseconds, not {dtype}")
    if pd.api.types.is_integer_dtype(dtype):
        _check_unit(where, values, second, now)
        return _within_clock(where, values, values.to_numpy(), second)
    if pd.api.types.is_float_dtype(dtype):
        numbers = values.to_numpy(dtype="float64")
        wrong = ~np.isfinite(numbers) | (numbers != np.trunc(numbers))
        if np.isfinite(numbers).all():
            _check_unit(where, values, second, now)
        refuse(where, values.index, masked(wrong, lambda at: f"{numbers[at]} is no time in whole milliseconds"))
        return _within_clock(where, values, numbers, second)
    if _all_text(values):
        parsed = _parsed(values, zone)
        if not parsed.isna().any():
            warn_of_cut_column(where, parsed, second)
            return _within_clock(where, values, datetime_units(parsed, second), second)
    return _times_one_by_one(where, values, second, zone)


def dates_of_texts(where: str, values: pd.Series[Any], zone: str) -> pd.Series[Any]:
    """Return a column of times; texts in ISO 8601 as dates. Raises EventError with the row of another text."""
    if not _all_text(values) or values.isna().all():
        return values
    parsed = _parsed(values, zone)
    wrong = (parsed.isna() & values.notna()).to_numpy()
    hint = _DATE_HINT.format(values.name)
    reasons = masked(wrong, lambda at: f"{values.iloc[at]!r} is not an ISO 8601 date and time{hint}")
    refuse(where, values.index, reasons)
    return parsed


def _check_unit(where: str, values: pd.Series[Any], second: int, now: int) -> None:
    if len(values):
        check_unit(where, str(values.name), int(values.min()), int(values.max()), now, second)


def _within_clock(where: str, values: pd.Series[Any], times: npt.NDArray[Any], second: int) -> npt.NDArray[np.int64]:
    """Return the times of `values` as whole numbers. Raises WrongRows for those beyond the clock."""
    wrong = (times < -MAX_CLOCK) | (times > MAX_CLOCK)
    refuse(where, values.index, masked(wrong, lambda at: beyond_clock(times[at].item(), second)))
    return times.astype("int64", copy=False)


def _parsed(values: pd.Series[Any], zone: str) -> pd.Series[Any]:
    """Return texts in ISO 8601 as moments, missing where they are none; those without a zone are of `zone`."""
    if zone_of(zone) is UTC:
        return pd.to_datetime(values, utc=True, format="ISO8601", errors="coerce")
    zoned = values.str.contains(_ZONED, regex=True)
    moments = pd.to_datetime(values.where(zoned), utc=True, format="ISO8601", errors="coerce")
    local = pd.to_datetime(values.where(~zoned), format="ISO8601", errors="coerce")
    return moments.where(zoned, _localized(local, zone_of(zone)).dt.tz_convert(UTC).astype(moments.dtype))


def _times_one_by_one(where: str, values: pd.Series[Any], second: int, zone: str) -> npt.NDArray[np.int64]:
    times = np.empty(len(values), dtype="int64")

    def wrong() -> Reasons:
        for at, value in enumerate(values.tolist()):
            try:
                times[at] = check_clock_range(to_clock_units(value, second, zone), second)
            except UsageError as error:
                yield at, f"{error}{_DATE_HINT.format(values.name) if isinstance(value, str) else ''}"

    refuse(where, values.index, wrong())
    return times
