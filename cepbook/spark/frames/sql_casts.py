"""Cast columns of Spark DataFrames to EPL types. A value that does not fit ends the job, in ANSI mode and outside of
it.

The rules are those of a replay: NaN is null, whole numbers fit within their range, a column of floats or decimals fits
a whole number if its values are whole (frames with gaps have such), texts are no numbers.

Casts are text of Spark SQL: one call of the JVM, where column objects need one per operator and constant. Names are
quoted, and texts of users become hexadecimal literals (`sql_literal`), so nothing that a user wrote is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC

from pyspark.sql import types as st

from cepbook.errors import EventError
from cepbook.lang.java.dates.time_zone import zone_of
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BITS, Type
from cepbook.spark.task.stream_columns import Sql, sql_literal
from cepbook.spark.task.type_mapping import BINARY_HINT, quote_identifier, type_mapping_of

_TEXT_TYPES = (st.StringType, st.VarcharType, st.CharType)
_DATE_TYPES = (st.TimestampType, st.TimestampNTZType, st.DateType)
_ZONED = r"(Z|[+-]\d\d:?(\d\d)?)$"


@dataclass(frozen=True, slots=True)
class ColumnLocation:
    """The column that an error names: `what` of the event type `type_name`, with the value of the column `row`."""

    what: str
    type_name: str
    row: str
    depth: int = 0

    def __str__(self) -> str:
        return f"column `{self.what}` of `{self.type_name}`"

    def inside(self, name: str) -> ColumnLocation:
        """Return the location of a part of a nested value."""
        return replace(self, what=f"{self.what}.{name}", depth=self.depth + 1)


def raise_sql(location: ColumnLocation, value: Sql, reason: str) -> Sql:
    """Return SQL that ends the job with an `EventError` where it is evaluated."""
    # its own line: Spark goes on behind the message; "%s" of null is "null"
    again = value == quote_identifier(location.row)
    shape = f"cepbook.errors.EventError: {location}, `{location.row}` = ".replace("%", "%%")
    shape += f"%1$s: {reason}%{1 if again else 2}$s%n"
    values = (f"CAST({column} AS STRING)" for column in (quote_identifier(location.row), *(() if again else (value,))))
    return f"raise_error(format_string({sql_literal(shape)}, {', '.join(values)}))"


def cast_sql(
    value: Sql,
    actual: st.DataType,
    declared: Type,
    types: Mapping[str, EventType],
    location: ColumnLocation,
    second: int,
) -> Sql:
    """Return `value`, of Spark's type `actual`, cast to `declared`. Raises `EventError` if no value of the type can
    fit.
    """
    if _is_binary(actual):
        raise EventError(f"{location} is {actual.simpleString()}{BINARY_HINT}")
    if isinstance(actual, st.NullType):
        return f"CAST(NULL AS {_ddl(declared, types)})"
    if declared.of is not None and isinstance(actual, st.ArrayType):
        element_type, element, inner = declared.of, actual.elementType, location.inside("[]")
        same = element.simpleString() == _ddl(element_type, types)
        if same and element_type.name not in ("float", "double", "char"):
            return value
        variable = f"__cepbook_each{location.depth}"
        return f"transform({value}, {variable} -> {cast_sql(variable, element, element_type, types, inner, second)})"
    nested = types.get(declared.event) if declared.event is not None else None
    if nested is not None and isinstance(actual, st.StructType):
        return _cast_struct(value, actual, nested, types, location, second)
    if declared.of is not None or nested is not None:
        raise _type_error(actual, declared, location)
    if declared.name == "map":
        if not isinstance(actual, (st.MapType, st.StructType)):
            raise _type_error(actual, declared, location)
        return value
    if type_mapping_of(declared, types).json:  # no fixed shape: the values stay as Spark has them
        return value
    return _cast_scalar(value, actual, declared, location, second)


def _is_binary(actual: st.DataType) -> bool:
    """Return whether a type is binary or contains a binary type."""
    if isinstance(actual, st.ArrayType):
        return _is_binary(actual.elementType)
    if isinstance(actual, st.MapType):
        return _is_binary(actual.keyType) or _is_binary(actual.valueType)
    if isinstance(actual, st.StructType):
        return any(_is_binary(field.dataType) for field in actual.fields)
    return isinstance(actual, st.BinaryType)


def _ddl(declared: Type, types: Mapping[str, EventType]) -> str:
    return type_mapping_of(declared, types).ddl


def _type_error(actual: st.DataType, declared: Type, location: ColumnLocation) -> EventError:
    return EventError(f"{location} is {actual.simpleString()}, but the property is {declared}")


def _cast_struct(
    value: Sql,
    actual: st.StructType,
    nested: EventType,
    types: Mapping[str, EventType],
    location: ColumnLocation,
    second: int,
) -> Sql:
    missing = [name for name in nested.properties if name not in actual.names]
    if missing:
        raise EventError(f"{location} lacks `{missing[0]}` of the event type `{nested.name}`; it has {actual.names}")
    parts = []
    for name, property_type in nested.properties.items():
        field = f"coalesce({value}).{quote_identifier(name)}"  # bare it might be taken for a table's column
        cast = cast_sql(field, actual[name].dataType, property_type, types, location.inside(name), second)
        parts.append(f"{cast} AS {quote_identifier(name)}")
    return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"


def _cast_scalar(value: Sql, actual: st.DataType, declared: Type, location: ColumnLocation, second: int) -> Sql:
    name = declared.name
    if isinstance(actual, (st.FloatType, st.DoubleType)):
        value = f"CASE WHEN NOT isnan({value}) THEN {value} END"
    if name in BITS:
        if name == "long" and isinstance(actual, _DATE_TYPES):
            return clock_units_sql(value, actual, second)
        return _cast_whole_number(value, actual, declared, location)
    if name in ("float", "double"):
        _require(isinstance(actual, st.NumericType), actual, declared, location)
        return value if actual.simpleString() == name else f"CAST({value} AS {name})"
    if name in ("biginteger", "bigdecimal"):
        return _cast_big_number(value, actual, declared, location)
    if name == "string":
        _require(isinstance(actual, _TEXT_TYPES), actual, declared, location)
        return value
    if name == "char":
        _require(isinstance(actual, _TEXT_TYPES), actual, declared, location)
        wrong = raise_sql(location, value, "the property is char (one character), not ")
        return f"CASE WHEN {value} IS NULL OR char_length({value}) = 1 THEN {value} ELSE {wrong} END"
    if name == "boolean":
        _require(isinstance(actual, st.BooleanType), actual, declared, location)
        return value
    expected = {
        "localdate": (st.DateType,),
        "localdatetime": (st.TimestampNTZType,),
        "timestamp": (st.TimestampType,),
        "calendar": (st.TimestampType,),
    }
    _require(isinstance(actual, expected.get(name, _TEXT_TYPES)), actual, declared, location)
    return value


def _require(fits: bool, actual: st.DataType, declared: Type, location: ColumnLocation) -> None:
    if not fits:
        raise _type_error(actual, declared, location)


def as_bigint(value: Sql, actual: st.DataType) -> Sql:
    """Return a whole number of Spark's type `actual` as a bigint."""
    return value if isinstance(actual, st.LongType) else f"CAST({value} AS BIGINT)"


def _cast_whole_number(value: Sql, actual: st.DataType, declared: Type, location: ColumnLocation) -> Sql:
    bits = BITS[declared.name]
    spark = _ddl(declared, {})
    if isinstance(actual, st.IntegralType):
        if actual.simpleString() == spark:
            return value
        if _WIDTHS[actual.simpleString()] <= bits:
            return f"CAST({value} AS {spark})"
    elif not isinstance(actual, (st.DecimalType, st.FloatType, st.DoubleType)):
        raise _type_error(actual, declared, location)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    # a bound of floats must itself be a float: 2**63 - 1 would be rounded up to one that does not fit
    above = f"< {float(high + 1)!r}D" if bits == 64 else f"<= {high}"
    inside = f"({value}) >= {low} AND ({value}) {above}"
    if isinstance(actual, st.DecimalType):
        inside = f"({value}) BETWEEN CAST({low} AS DECIMAL(20,0)) AND CAST({high} AS DECIMAL(20,0))"
        inside += f" AND ({value}) = floor({value})"
    elif not isinstance(actual, st.IntegralType):
        inside += f" AND ({value}) = rint({value})"
    wrong = raise_sql(location, value, f"the property is {declared} ({low} … {high}), not ")
    return f"CASE WHEN ({value}) IS NULL OR ({inside}) THEN try_cast({value} AS {spark}) ELSE {wrong} END"


_WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _cast_big_number(value: Sql, actual: st.DataType, declared: Type, location: ColumnLocation) -> Sql:
    spark = _ddl(declared, {})
    _require(isinstance(actual, st.NumericType), actual, declared, location)
    if isinstance(actual, st.IntegralType):
        return f"CAST({value} AS {spark})"
    cast = f"try_cast({value} AS {spark})"
    same = f"{cast} IS NOT NULL"
    if isinstance(actual, st.DecimalType) or declared.name == "biginteger":
        same += f" AND CAST({cast} AS {actual.simpleString()}) = ({value})"
    limits = "whole numbers of 38 digits" if declared.name == "biginteger" else "20 digits before the point, 18 behind"
    wrong = raise_sql(location, value, f"on Spark {declared} holds {limits}, not ")
    return f"CASE WHEN ({value}) IS NULL OR ({same}) THEN {cast} ELSE {wrong} END"


def utc_sql(value: Sql, actual: st.DataType, zone: str) -> Sql:
    """Return a date without a zone, read in `zone`, as a date without a zone in UTC; anything else unchanged."""
    if zone_of(zone) is UTC or not isinstance(actual, (st.TimestampNTZType, st.DateType)):
        return value
    return f"convert_timezone({sql_literal(zone)}, 'UTC', CAST({value} AS TIMESTAMP_NTZ))"


def clock_units_sql(value: Sql, actual: st.DataType, second: int) -> Sql:
    """Return a timestamp or date as units of the clock since 1970 UTC, rounded down; dates without a zone are UTC."""
    if isinstance(actual, st.TimestampType):
        return f"unix_{'millis' if second == 1000 else 'micros'}({value})"
    ends = f"TIMESTAMP_NTZ'1970-01-01 00:00:00', CAST({value} AS TIMESTAMP_NTZ)"
    micros = f"timestampdiff(MICROSECOND, {ends})"
    if second != 1000:
        return micros
    millis = f"timestampdiff(MILLISECOND, {ends})"  # cut off towards 1970
    return f"{millis} - CASE WHEN {micros} < {millis} * 1000 THEN 1 ELSE 0 END"


def event_time_sql(value: Sql, actual: st.DataType, location: ColumnLocation, second: int, zone: str = "UTC") -> Sql:
    """Return the event time from whole numbers, dates or ISO 8601 texts; null if it is missing.

    Dates without a zone are read in `zone`.
    """
    if isinstance(actual, st.IntegralType):
        return as_bigint(value, actual)
    if isinstance(actual, _DATE_TYPES):
        return clock_units_sql(utc_sql(value, actual, zone), actual, second)
    if isinstance(actual, (st.FloatType, st.DoubleType, st.DecimalType)):
        return _cast_scalar(value, actual, Type("long"), location, second)
    if isinstance(actual, _TEXT_TYPES):
        trimmed = f"trim({value})"
        zoned = clock_units_sql(f"try_cast({trimmed} AS TIMESTAMP)", st.TimestampType(), second)
        wall = utc_sql(f"try_cast({trimmed} AS TIMESTAMP_NTZ)", st.TimestampNTZType(), zone)
        local = clock_units_sql(wall, st.TimestampNTZType(), second)
        read = f"CASE WHEN {trimmed} RLIKE {sql_literal('[T ].*' + _ZONED)} THEN {zoned} ELSE {local} END"
        wrong = raise_sql(location, value, "not an ISO 8601 date and time: ")
        return f"CASE WHEN {value} IS NULL OR ({read}) IS NOT NULL THEN {read} ELSE {wrong} END"
    type_name = actual.simpleString()
    raise EventError(f"{location} is {type_name}: an event time is a date, ISO 8601 text or whole milliseconds")
