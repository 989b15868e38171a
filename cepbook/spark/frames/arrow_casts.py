"""Columns of Arrow tables and pandas frames as EPL types, checked as `session.values.validate` says; NaN is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepbook.errors import EventError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BITS, Type
from cepbook.spark.task.stream_columns import CLOCK_END
from cepbook.spark.task.type_mapping import BINARY_HINT, type_mapping_of

_EPOCH = {1000: "ms", 1_000_000: "us"}
_LONG = {"ms": "millisecond", "us": "microsecond"}


@dataclass(frozen=True, slots=True)
class _Place:
    """What messages name: `what` is the column, `rows` of which rows the values are (elements of arrays); None: own."""

    what: str
    rows: npt.NDArray[np.int64] | None = None

    def __str__(self) -> str:
        return self.what

    def inside(self, part: str) -> _Place:
        column, _, rest = self.what.partition("` of")
        return _Place(f"{column}.{part}` of{rest}", self.rows)

    def bad(self, array: pa.Array, at: int, reason: str) -> EventError:
        row = at if self.rows is None else int(self.rows[at])
        return EventError(f"{self.what}, row {row}: {reason} {array[at].as_py()!r}")


def arrow_from_pandas(series: pd.Series[Any], where: str) -> pa.Array:
    """A pandas column as Arrow has it; missing values (NaN, NaT, NA, None) are null."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    try:
        if series.dtype == object and pd.api.types.infer_dtype(series, skipna=True) == "integer":
            numbers = [None if gone else int(v) for v, gone in zip(series, series.isna(), strict=True)]
            large = any(v is not None and not -(2**63) <= v < 2**63 for v in numbers)
            return pa.array([None if v is None else Decimal(v) for v in numbers] if large else numbers)
        return _whole(pa.array(series, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as wrong:
        raise EventError(f"{where} holds values of several kinds: {wrong}") from wrong


def cast_property(array: pa.Array, declared: Type, types: Mapping[str, EventType], where: str, second: int) -> pa.Array:
    """The column as the stream has it: of the declared shape, or as it is where that has none.

    Raises `EventError`, naming `where` and the row, for a value that does not fit.
    """
    array = plain_array(array)
    if _is_binary(array.type):
        raise EventError(f"{where} is {array.type}{BINARY_HINT}")
    return _checked(array, declared, types, _Place(where), second)


def _is_binary(found: pa.DataType) -> bool:
    """Whether there is binary data in it."""
    of = pa.types
    if of.is_binary(found) or of.is_large_binary(found) or of.is_fixed_size_binary(found) or of.is_binary_view(found):
        return True
    return any(_is_binary(found.field(number).type) for number in range(found.num_fields))


def plain_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, without dictionaries and run lengths; texts of one width."""
    array = _whole(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    return array


def _whole(found: pa.Array | pa.ChunkedArray) -> pa.Array:
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _unfit(found: pa.DataType, declared: Type, where: _Place | str) -> EventError:
    return EventError(f"{where} is {found}, but the property is {declared}")


def _checked(array: pa.Array, declared: Type, types: Mapping[str, EventType], where: _Place, second: int) -> pa.Array:
    found, shape = array.type, type_mapping_of(declared, types)
    wanted = shape.arrow
    if pa.types.is_null(found):
        return pa.nulls(len(array), wanted)
    if shape.json and declared.of is None and declared.event is None:  # of no fixed shape
        _require(declared.name != "map" or pa.types.is_map(found) or pa.types.is_struct(found), found, declared, where)
        return array
    if declared.of is not None:
        if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
            raise _unfit(found, declared, where)
        array = array.cast(pa.list_(found.value_type))
        parents = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
        rows = parents if where.rows is None else where.rows[parents]
        inner = _checked(
            plain_array(array.flatten()), declared.of, types, replace(where.inside("[]"), rows=rows), second
        )
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy())]), pa.int32())
        return pa.ListArray.from_arrays(offsets, inner, mask=array.is_null() if array.null_count else None)
    nested = types.get(declared.event) if declared.event is not None else None
    if nested is not None:
        if not pa.types.is_struct(found):
            raise _unfit(found, declared, where)
        parts = []
        for name, of in nested.properties.items():
            at = found.get_field_index(name)
            if at < 0:
                raise EventError(f"{where} lacks `{name}` of the event type `{nested.name}`")
            parts.append(_checked(plain_array(pc.struct_field(array, at)), of, types, where.inside(name), second))
        fields = [pa.field(name, part.type) for name, part in zip(nested.properties, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)
    return _scalar(array, declared, wanted, where, second)


def _scalar(array: pa.Array, declared: Type, wanted: pa.DataType, where: _Place, second: int) -> pa.Array:
    found, name = array.type, declared.name
    if pa.types.is_floating(found):
        array = pc.if_else(pc.is_nan(array), None, array)
    if name == "long" and (pa.types.is_temporal(found)):
        return clock_units(array, where.what, second)
    number = pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
    if name in BITS or name == "biginteger":
        if not number:
            raise _unfit(found, declared, where)
    elif name in ("float", "double", "bigdecimal"):
        if not number:
            raise _unfit(found, declared, where)
        if pa.types.is_floating(found) or (pa.types.is_integer(found) and name != "bigdecimal"):
            if name == "bigdecimal":
                return _one_by_one(array, declared, wanted, where)
            return array.cast(wanted, safe=False)  # as Java: the nearest, infinite beyond single precision
        if name != "bigdecimal":
            return array.cast(wanted)
    elif name == "char":
        _require(pa.types.is_string(found), found, declared, where)
        long = pc.fill_null(pc.not_equal(pc.utf8_length(array), 1), False).to_numpy(zero_copy_only=False)
        if long.any():
            raise where.bad(array, int(long.argmax()), "the property is char (one character), not")
        return array
    elif name == "boolean":
        _require(pa.types.is_boolean(found), found, declared, where)
    elif name == "string":
        _require(pa.types.is_string(found), found, declared, where)
    elif found != wanted:
        moments = {"timestamp": pa.types.is_timestamp, "calendar": pa.types.is_timestamp, "localdate": pa.types.is_date}
        moments["localdatetime"] = pa.types.is_timestamp
        _require(moments.get(name, pa.types.is_string)(found), found, declared, where)
    try:
        taken = array if found == wanted else array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _one_by_one(array, declared, wanted, where)
    if pa.types.is_decimal(found) and found != wanted and pa.types.is_decimal(wanted):
        return _one_by_one(array, declared, wanted, where)  # Arrow does not tell of all that it cannot hold
    return taken


def _require(fits: bool, found: pa.DataType, declared: Type, where: _Place) -> None:
    if not fits:
        raise _unfit(found, declared, where)


def _one_by_one(array: pa.Array, declared: Type, wanted: pa.DataType, where: _Place) -> pa.Array:
    """Where the column as a whole cannot be cast: the first value that does not fit is the one to name."""
    bits = BITS.get(declared.name)
    limits = "" if bits is None else f" ({-(2 ** (bits - 1))} … {2 ** (bits - 1) - 1})"
    found = []
    for at, value in enumerate(array.to_pylist()):
        try:
            if pa.types.is_decimal(wanted) and value is not None:
                value = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
                if abs(value) >= 10 ** (wanted.precision - wanted.scale) or value != round(value, wanted.scale):
                    raise where.bad(array, at, f"on Spark {declared} is {wanted}, which cannot hold")
            found.append(pa.scalar(value).cast(wanted).as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, InvalidOperation):
            raise where.bad(array, at, f"the property is {declared}{limits}, not") from None
    return pa.array(found, wanted)


def clock_units(array: pa.Array, where: str, second: int) -> pa.Array:
    """Units of the clock of dates (since 1970 UTC; zone-less ones are UTC) and spans, cut off towards the past."""
    found, unit = array.type, _EPOCH[second]
    if pa.types.is_date(found):
        array = array.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(array.type):
        wanted = pa.timestamp(unit, array.type.tz)
        if array.type.unit not in (unit, "s"):
            array = pc.floor_temporal(array.cast(pa.timestamp(array.type.unit)), unit=_LONG[unit])
            wanted = pa.timestamp(unit)
        return array.cast(wanted, safe=False).cast(pa.int64())
    if pa.types.is_duration(found):
        spans = array.to_numpy(zero_copy_only=False).astype(f"timedelta64[{_EPOCH[second]}]").astype("int64")
        return pa.array(spans, mask=array.is_null().to_numpy(zero_copy_only=False))
    raise EventError(f"{where} is {found}, which is neither a date nor a span of time")


def cast_event_times(array: pa.Array, where: str, second: int) -> pa.Array:
    """Event times in units of the clock from whole numbers (units), dates or ISO 8601 texts; none may be missing."""
    array = plain_array(array)
    found = array.type
    if pa.types.is_floating(found):
        array = pc.if_else(pc.is_nan(array), None, array)
    if array.null_count:
        at = array.is_null().to_pylist().index(True)
        raise EventError(f"{where}, row {at}: the event time is missing ({array.null_count} of {len(array)} rows)")
    if pa.types.is_string(found):
        times = _texts(array, where, second)
    elif pa.types.is_date(found) or pa.types.is_timestamp(found):
        times = clock_units(array, where, second)
    elif pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found):
        times = _scalar(array, Type("long"), pa.int64(), _Place(where), second)
    elif pa.types.is_null(found):
        times = pa.array([], pa.int64())
    else:
        raise EventError(f"{where}: an event time is a date, ISO 8601 text or whole milliseconds, not {found}")
    numbers = times.to_numpy(zero_copy_only=False)
    beyond = np.abs(numbers) > CLOCK_END
    if beyond.any():
        raise _Place(where).bad(array, int(beyond.argmax()), "beyond the clock:")
    return times


def _texts(array: pa.Array, where: str, second: int) -> pa.Array:
    texts = array.to_pandas()
    parsed = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
    wrong = parsed.isna().to_numpy()
    if wrong.any():
        raise _Place(where).bad(array, int(wrong.argmax()), "not an ISO 8601 date and time:")
    naive = parsed.dt.tz_localize(None)
    return pa.array(naive.to_numpy(dtype=f"datetime64[{_EPOCH[second]}]").astype("int64"))
