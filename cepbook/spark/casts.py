"""Columns of Spark DataFrames as EPL types, checked: a value that does not fit ends the job, whatever the ANSI mode is.

The rules are those of `cepbook.session.validate`: NaN is null, whole numbers fit within their range, a column of floats
or decimals fits a whole number when its values are whole (frames with gaps have such), texts are no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from cepbook.errors import EventError
from cepbook.lang.catalog import EventType
from cepbook.lang.types import BITS, Type
from cepbook.spark.schema import shape_of

FURTHEST = 2**53  # where the clock ends, see `cepbook.session.clock`
_TEXTS = (st.StringType, st.VarcharType, st.CharType)
_MOMENTS = (st.TimestampType, st.TimestampNTZType, st.DateType)
_ZONED = r"(Z|[+-]\d\d:?(\d\d)?)$"


@dataclass(frozen=True, slots=True)
class Place:
    """What messages about a value name: the column `what` of the event type `type_name`, and how `row` tells a row."""

    what: str
    type_name: str
    row: Column

    def __str__(self) -> str:
        return f"column `{self.what}` of `{self.type_name}`"

    def inside(self, part: str) -> Place:
        """A part of a nested value."""
        return replace(self, what=f"{self.what}.{part}")


def failing(place: Place, value: Column, reason: str) -> Column:
    """A column that ends the job with an EventError where it is evaluated."""
    shown = F.coalesce(value.cast("string"), F.lit("null"))
    # its own line: Spark goes on behind the message
    text = F.concat(F.lit(f"cepbook.errors.EventError: {place}, "), place.row, F.lit(f": {reason}"), shown, F.lit("\n"))
    return F.raise_error(text)


def checked(
    value: Column, found: st.DataType, declared: Type, types: Mapping[str, EventType], place: Place, second: int
) -> Column:
    """`value`, of Spark's type `found`, as `declared`. Raises `EventError` when no value of the type can fit."""
    if isinstance(found, st.NullType):
        return F.lit(None).cast(_ddl(declared, types))
    if declared.of is not None and isinstance(found, st.ArrayType):
        of, element, inner = declared.of, found.elementType, place.inside("[]")
        if not _changes(element, of, types):
            return value
        return F.transform(value, lambda each: checked(each, element, of, types, inner, second))
    nested = types.get(declared.event) if declared.event is not None else None
    if nested is not None and isinstance(found, st.StructType):
        return _struct(value, found, nested, types, place, second)
    if declared.of is not None or nested is not None:
        raise _unfit(found, declared, place)
    if declared.name == "map":
        if not isinstance(found, (st.MapType, st.StructType)):
            raise _unfit(found, declared, place)
        return value
    if shape_of(declared, types).json:  # no fixed shape: the values stay as Spark has them
        return value
    return _scalar(value, found, declared, place, second)


def _ddl(declared: Type, types: Mapping[str, EventType]) -> str:
    return shape_of(declared, types).ddl


def _unfit(found: st.DataType, declared: Type, place: Place) -> EventError:
    return EventError(f"{place} is {found.simpleString()}, but the property is {declared}")


def _struct(
    value: Column,
    found: st.StructType,
    nested: EventType,
    types: Mapping[str, EventType],
    place: Place,
    second: int,
) -> Column:
    lacking = [name for name in nested.properties if name not in found.names]
    if lacking:
        raise EventError(f"{place} lacks `{lacking[0]}` of the event type `{nested.name}`; it has {found.names}")
    parts = [
        checked(value.getField(name), found[name].dataType, of, types, place.inside(name), second).alias(name)
        for name, of in nested.properties.items()
    ]
    return F.when(value.isNotNull(), F.struct(*parts))


def _changes(found: st.DataType, declared: Type, types: Mapping[str, EventType]) -> bool:
    """Whether values of the type need a look, one by one."""
    return found.simpleString() != _ddl(declared, types) or declared.name in ("float", "double", "char")


def _scalar(value: Column, found: st.DataType, declared: Type, place: Place, second: int) -> Column:
    name = declared.name
    if isinstance(found, (st.FloatType, st.DoubleType)):
        value = F.when(~F.isnan(value), value)
    if name in BITS:
        if name == "long" and isinstance(found, _MOMENTS):
            return units(value, found, second)
        return _whole(value, found, declared, place)
    if name in ("float", "double"):
        _require(isinstance(found, st.NumericType), found, declared, place)
        return value.cast(name)
    if name in ("biginteger", "bigdecimal"):
        return _big(value, found, declared, place)
    if name == "string":
        _require(isinstance(found, _TEXTS), found, declared, place)
        return value
    if name == "char":
        _require(isinstance(found, _TEXTS), found, declared, place)
        alone = value.isNull() | (F.char_length(value) == 1)
        return F.when(alone, value).otherwise(failing(place, value, "the property is char (one character), not "))
    if name == "boolean":
        _require(isinstance(found, st.BooleanType), found, declared, place)
        return value
    wanted = {
        "localdate": (st.DateType,),
        "localdatetime": (st.TimestampNTZType,),
        "timestamp": (st.TimestampType,),
        "calendar": (st.TimestampType,),
    }
    _require(isinstance(found, wanted.get(name, _TEXTS)), found, declared, place)
    return value


def _require(fits: bool, found: st.DataType, declared: Type, place: Place) -> None:
    if not fits:
        raise _unfit(found, declared, place)


def _whole(value: Column, found: st.DataType, declared: Type, place: Place) -> Column:
    bits = BITS[declared.name]
    spark = _ddl(declared, {})
    if isinstance(found, st.IntegralType):
        if found.simpleString() == spark or _WIDTHS[found.simpleString()] <= bits:
            return value.cast(spark)
    elif not isinstance(found, (st.DecimalType, st.FloatType, st.DoubleType)):
        raise _unfit(found, declared, place)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    # a bound of floats must itself be a float: 2**63 - 1 would be rounded up to one that does not fit
    inside = (value >= F.lit(low)) & (value < F.lit(float(high + 1)) if bits == 64 else value <= F.lit(high))
    if isinstance(found, st.DecimalType):
        inside = value.between(F.lit(str(low)).cast("decimal(20,0)"), F.lit(str(high)).cast("decimal(20,0)"))
        inside &= value == F.floor(value)
    elif not isinstance(found, st.IntegralType):
        inside &= value == F.rint(value)
    reason = f"the property is {declared} ({low} … {high}), not "
    return F.when(value.isNull() | inside, value.try_cast(spark)).otherwise(failing(place, value, reason))


_WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _big(value: Column, found: st.DataType, declared: Type, place: Place) -> Column:
    spark = _ddl(declared, {})
    _require(isinstance(found, st.NumericType), found, declared, place)
    if isinstance(found, st.IntegralType):
        return value.cast(spark)
    taken = value.try_cast(spark)
    same = taken.isNotNull()
    if isinstance(found, st.DecimalType) or declared.name == "biginteger":
        same &= taken.cast(found) == value
    kept = "whole numbers of 38 digits" if declared.name == "biginteger" else "20 digits before the point, 18 behind"
    reason = f"on Spark {declared} holds {kept}, not "
    return F.when(value.isNull() | same, taken).otherwise(failing(place, value, reason))


def units(value: Column, found: st.DataType, second: int) -> Column:
    """Units of the clock since 1970 UTC of a timestamp or date (zone-less ones are UTC), cut off to the past."""
    if isinstance(found, st.TimestampType):
        return F.unix_millis(value) if second == 1000 else F.unix_micros(value)
    origin, moment = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz"), value.cast("timestamp_ntz")
    micros = F.timestamp_diff("MICROSECOND", origin, moment)
    if second != 1000:
        return micros
    millis = F.timestamp_diff("MILLISECOND", origin, moment)  # cut off towards 1970
    return millis - F.when(micros < millis * 1000, 1).otherwise(0)


def event_time(value: Column, found: st.DataType, place: Place, second: int) -> Column:
    """The event time: whole numbers as they are, dates, ISO 8601 texts; null where it is missing."""
    if isinstance(found, st.IntegralType):
        time = value.cast("bigint")
    elif isinstance(found, _MOMENTS):
        time = units(value, found, second)
    elif isinstance(found, (st.FloatType, st.DoubleType, st.DecimalType)):
        time = _scalar(value, found, Type("long"), place, second)
    elif isinstance(found, _TEXTS):
        text = F.trim(value)
        zoned = units(text.try_cast("timestamp"), st.TimestampType(), second)
        local = units(text.try_cast("timestamp_ntz"), st.TimestampNTZType(), second)
        read = F.when(text.rlike("[T ].*" + _ZONED), zoned).otherwise(local)
        wrong = failing(place, value, "not an ISO 8601 date and time: ")
        time = F.when(value.isNull() | read.isNotNull(), read).otherwise(wrong)
    else:
        shown = found.simpleString()
        raise EventError(f"{place} is {shown}: an event time is a date, ISO 8601 text or whole milliseconds")
    inside = time.between(F.lit(-FURTHEST), F.lit(FURTHEST)) | time.isNull()
    return F.when(inside, time).otherwise(failing(place, time, "beyond the clock: "))
