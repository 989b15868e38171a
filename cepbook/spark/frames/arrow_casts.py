"""Cast columns of Arrow tables and pandas frames to EPL types, with the checks of a replay; NaN is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepbook.engine.time.clock import check_unit
from cepbook.errors import EventError
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BITS, Type
from cepbook.spark.task.stream_columns import CLOCK_END
from cepbook.spark.task.type_mapping import BINARY_HINT, type_mapping_of

_ZONED = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"  # how a text with a zone ends
_CLOCK_UNITS = {1000: "ms", 1_000_000: "us"}
_UNIT_NAMES = {"ms": "millisecond", "us": "microsecond"}


@dataclass(frozen=True, slots=True)
class _ValueLocation:
    """The place that an error names: the column `what`, and by value its row in the frame (None: the same position)."""

    what: str
    rows: npt.NDArray[np.int64] | None = None

    def __str__(self) -> str:
        return self.what

    def inside(self, name: str) -> _ValueLocation:
        """Return the location of a part of a nested value."""
        column, _, rest = self.what.partition("` of")
        return _ValueLocation(f"{column}.{name}` of{rest}", self.rows)

    def bad(self, array: pa.Array, at: int, reason: str) -> EventError:
        """Return the error for the value at position `at`."""
        row = at if self.rows is None else int(self.rows[at])
        return EventError(f"{self.what}, row {row}: {reason} {array[at].as_py()!r}")


def arrow_from_pandas(series: pd.Series[Any], where: str) -> pa.Array:
    """Return a pandas column as an Arrow array; missing values (NaN, NaT, NA, None) are null."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    try:
        if series.dtype == object and pd.api.types.infer_dtype(series, skipna=True) == "integer":
            numbers = [None if gone else int(v) for v, gone in zip(series, series.isna(), strict=True)]
            large = any(v is not None and not -(2**63) <= v < 2**63 for v in numbers)
            return pa.array([None if v is None else Decimal(v) for v in numbers] if large else numbers)
        return _combined(pa.array(series, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as wrong:
        raise EventError(f"{where} holds values of several kinds: {wrong}") from wrong


def cast_property(array: pa.Array, declared: Type, types: Mapping[str, EventType], where: str, second: int) -> pa.Array:
    """Return the column in the shape that the stream needs; a type without a fixed shape keeps its own.

    Raises `EventError`, naming `where` and the row, for a value that does not fit.
    """
    array = plain_array(array)
    if _is_binary(array.type):
        raise EventError(f"{where} is {array.type}{BINARY_HINT}")
    return _cast_array(array, declared, types, _ValueLocation(where), second)


def _is_binary(type_: pa.DataType) -> bool:
    """Return whether a type is binary or contains a binary type."""
    of = pa.types
    if of.is_binary(type_) or of.is_large_binary(type_) or of.is_fixed_size_binary(type_) or of.is_binary_view(type_):
        return True
    return any(_is_binary(type_.field(number).type) for number in range(type_.num_fields))


def plain_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a single array without dictionaries or run lengths, and with texts of one width."""
    array = _combined(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array


def _combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _type_error(actual: pa.DataType, declared: Type, where: _ValueLocation | str) -> EventError:
    return EventError(f"{where} is {actual}, but the property is {declared}")


def _cast_array(
    array: pa.Array, declared: Type, types: Mapping[str, EventType], where: _ValueLocation, second: int
) -> pa.Array:
    actual, shape = array.type, type_mapping_of(declared, types)
    target = shape.arrow
    if pa.types.is_null(actual):
        return pa.nulls(len(array), target)
    if shape.json and declared.of is None and declared.event is None:  # of no fixed shape
        _require(
            declared.name != "map" or pa.types.is_map(actual) or pa.types.is_struct(actual), actual, declared, where
        )
        return array
    if declared.of is not None:
        if not (pa.types.is_list(actual) or pa.types.is_large_list(actual)):
            raise _type_error(actual, declared, where)
        array = array.cast(pa.list_(actual.value_type))
        parents = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
        rows = parents if where.rows is None else where.rows[parents]
        inner = _cast_array(
            plain_array(array.flatten()), declared.of, types, replace(where.inside("[]"), rows=rows), second
        )
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy())]), pa.int32())
        return pa.ListArray.from_arrays(offsets, inner, mask=array.is_null() if array.null_count else None)
    nested = types.get(declared.event) if declared.event is not None else None
    if nested is not None:
        if not pa.types.is_struct(actual):
            raise _type_error(actual, declared, where)
        parts = []
        for name, kind in nested.properties.items():
            at = actual.get_field_index(name)
            if at < 0:
                raise EventError(f"{where} lacks `{name}` of the event type `{nested.name}`")
            parts.append(_cast_array(plain_array(pc.struct_field(array, at)), kind, types, where.inside(name), second))
        fields = [pa.field(name, cast.type) for name, cast in zip(nested.properties, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)
    return _cast_scalar(array, declared, target, where, second)


def _cast_scalar(array: pa.Array, declared: Type, target: pa.DataType, where: _ValueLocation, second: int) -> pa.Array:
    actual, name = array.type, declared.name
    if pa.types.is_floating(actual):
        array = pc.if_else(pc.is_nan(array), None, array)
    if name == "long" and (pa.types.is_temporal(actual)):
        return clock_units(array, where.what, second)
    number = pa.types.is_integer(actual) or pa.types.is_floating(actual) or pa.types.is_decimal(actual)
    if name in BITS or name == "biginteger":
        if not number:
            raise _type_error(actual, declared, where)
    elif name in ("float", "double", "bigdecimal"):
        if not number:
            raise _type_error(actual, declared, where)
        if pa.types.is_floating(actual) or (pa.types.is_integer(actual) and name != "bigdecimal"):
            if name == "bigdecimal":
                return _cast_each(array, declared, target, where)
            return array.cast(target, safe=False)  # as Java: the nearest, infinite beyond single precision
        if name != "bigdecimal":
            return array.cast(target)
    elif name == "char":
        _require(pa.types.is_string(actual), actual, declared, where)
        long = pc.fill_null(pc.not_equal(pc.utf8_length(array), 1), False).to_numpy(zero_copy_only=False)
        if long.any():
            raise where.bad(array, int(long.argmax()), "the property is char (one character), not")
        return array
    elif name == "boolean":
        _require(pa.types.is_boolean(actual), actual, declared, where)
    elif name == "string":
        _require(pa.types.is_string(actual), actual, declared, where)
    elif actual != target:
        moments = {"timestamp": pa.types.is_timestamp, "calendar": pa.types.is_timestamp, "localdate": pa.types.is_date}
        moments["localdatetime"] = pa.types.is_timestamp
        _require(moments.get(name, pa.types.is_string)(actual), actual, declared, where)
    try:
        cast = array if actual == target else array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _cast_each(array, declared, target, where)
    if pa.types.is_decimal(actual) and actual != target and pa.types.is_decimal(target):
        return _cast_each(array, declared, target, where)  # Arrow does not tell of all that it cannot hold
    return cast


def _require(fits: bool, actual: pa.DataType, declared: Type, where: _ValueLocation) -> None:
    if not fits:
        raise _type_error(actual, declared, where)


def _cast_each(array: pa.Array, declared: Type, target: pa.DataType, where: _ValueLocation) -> pa.Array:
    """Cast value by value, where the column as a whole cannot be cast, and name the first value that does not fit."""
    bits = BITS.get(declared.name)
    limits = "" if bits is None else f" ({-(2 ** (bits - 1))} … {2 ** (bits - 1) - 1})"
    values = []
    for at, value in enumerate(array.to_pylist()):
        try:
            if pa.types.is_decimal(target) and value is not None:
                value = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
                if abs(value) >= 10 ** (target.precision - target.scale) or value != round(value, target.scale):
                    raise where.bad(array, at, f"on Spark {declared} is {target}, which cannot hold")
            values.append(pa.scalar(value).cast(target).as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, InvalidOperation):
            raise where.bad(array, at, f"the property is {declared}{limits}, not") from None
    return pa.array(values, target)


def in_utc(array: pa.Array, zone: str) -> pa.Array:
    """Return dates without a zone, read in `zone`, as moments; anything else unchanged.

    A time that clocks show twice is the first one; one that they skip counts on from before.
    """
    array, tz = plain_array(array), zone_of(zone)
    if tz is UTC or not (pa.types.is_date(array.type) or (pa.types.is_timestamp(array.type) and array.type.tz is None)):
        return array
    local = array.cast(pa.timestamp("ms")) if pa.types.is_date(array.type) else array
    first = np.ones(len(local), dtype=bool)
    moments = local.to_pandas().dt.tz_localize(tz, ambiguous=first, nonexistent=pd.Timedelta("1h"))
    return pa.Array.from_pandas(moments.dt.tz_convert("UTC"))


def clock_units(array: pa.Array, where: str, second: int) -> pa.Array:
    """Return dates and durations as units of the clock since 1970 UTC, rounded down; dates without a zone are UTC."""
    actual, unit = array.type, _CLOCK_UNITS[second]
    if pa.types.is_date(actual):
        array = array.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(array.type):
        target = pa.timestamp(unit, array.type.tz)
        if array.type.unit not in (unit, "s"):
            array = pc.floor_temporal(array.cast(pa.timestamp(array.type.unit)), unit=_UNIT_NAMES[unit])
            target = pa.timestamp(unit)
        return array.cast(target, safe=False).cast(pa.int64())
    if pa.types.is_duration(actual):
        spans = array.to_numpy(zero_copy_only=False).astype(f"timedelta64[{_CLOCK_UNITS[second]}]").astype("int64")
        return pa.array(spans, mask=array.is_null().to_numpy(zero_copy_only=False))
    raise EventError(f"{where} is {actual}, which is neither a date nor a span of time")


def cast_event_times(array: pa.Array, where: str, second: int, zone: str = "UTC", name: str = "") -> pa.Array:
    """Return event times in units of the clock, from whole numbers (units), dates or ISO 8601 texts; none may be
    missing.

    Dates without a zone are read in `zone`. Numbers of the column `name` that can only be in another unit are refused.
    """
    array = in_utc(array, zone)
    actual = array.type
    if pa.types.is_floating(actual):
        array = pc.if_else(pc.is_nan(array), None, array)
    if array.null_count:
        at = array.is_null().to_pylist().index(True)
        raise EventError(f"{where}, row {at}: the event time is missing ({array.null_count} of {len(array)} rows)")
    if pa.types.is_string(actual):
        times = _parse_texts(array, where, second, zone)
    elif pa.types.is_date(actual) or pa.types.is_timestamp(actual):
        times = clock_units(array, where, second)
    elif pa.types.is_integer(actual) or pa.types.is_floating(actual) or pa.types.is_decimal(actual):
        times = _cast_scalar(array, Type("long"), pa.int64(), _ValueLocation(where), second)
    elif pa.types.is_null(actual):
        times = pa.array([], pa.int64())
    else:
        raise EventError(f"{where}: an event time is a date, ISO 8601 text or whole milliseconds, not {actual}")
    numbers = times.to_numpy(zero_copy_only=False)
    if name and len(numbers) and not (pa.types.is_string(actual) or pa.types.is_temporal(actual)):
        check_unit(where, name, int(numbers.min()), int(numbers.max()), 0, second)
    beyond = np.abs(numbers) > CLOCK_END
    if beyond.any():
        raise _ValueLocation(where).bad(array, int(beyond.argmax()), "beyond the clock:")
    return times


def _parse_texts(array: pa.Array, where: str, second: int, zone: str) -> pa.Array:
    texts = array.to_pandas()
    parsed = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
    if zone_of(zone) is not UTC:
        zoned = texts.str.contains(_ZONED, regex=True)
        local = pd.to_datetime(texts.where(~zoned), format="ISO8601", errors="coerce")
        moments = in_utc(pa.Array.from_pandas(local), zone).to_pandas()
        parsed = parsed.where(zoned, moments.astype(parsed.dtype))
    wrong = parsed.isna().to_numpy()
    if wrong.any():
        raise _ValueLocation(where).bad(array, int(wrong.argmax()), "not an ISO 8601 date and time:")
    naive = parsed.dt.tz_localize(None)
    return pa.array(naive.to_numpy(dtype=f"datetime64[{_CLOCK_UNITS[second]}]").astype("int64"))
