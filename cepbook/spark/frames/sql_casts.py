"""Columns of Spark DataFrames as EPL types, checked: a value that does not fit ends the job, whatever the ANSI mode is.

The rules are those of `session.values.validate`: NaN is null, whole numbers fit within their range, a column of floats
or decimals fits a whole number when its values are whole (frames with gaps have such), texts are no numbers.

Expressions are text of Spark SQL: one call of the JVM, where columns take one for each operator and constant. Names in
it are quoted, texts are literals of hexadecimal digits (`text`): nothing that a user wrote is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import types as st

from cepbook.errors import EventError
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import BITS, Type
from cepbook.spark.task.stream_columns import Sql, sql_literal
from cepbook.spark.task.type_mapping import BINARY_HINT, quote_identifier, type_mapping_of

_TEXTS = (st.StringType, st.VarcharType, st.CharType)
_MOMENTS = (st.TimestampType, st.TimestampNTZType, st.DateType)
_ZONED = r"(Z|[+-]\d\d:?(\d\d)?)$"


@dataclass(frozen=True, slots=True)
class ColumnLocation:
    """What messages about a value name: the column `what` of the event type `type_name`, and how `row` tells a row: the
    name of a column, whose value they show.
    """

    what: str
    type_name: str
    row: str
    depth: int = 0

    def __str__(self) -> str:
        return f"column `{self.what}` of `{self.type_name}`"

    def inside(self, part: str) -> ColumnLocation:
        """A part of a nested value."""
        return replace(self, what=f"{self.what}.{part}", depth=self.depth + 1)


def raise_sql(place: ColumnLocation, value: Sql, reason: str) -> Sql:
    """What ends the job with an EventError where it is evaluated."""
    # its own line: Spark goes on behind the message; "%s" of null is "null"
    again = value == quote_identifier(place.row)
    shape = f"cepbook.errors.EventError: {place}, `{place.row}` = ".replace("%", "%%")
    shape += f"%1$s: {reason}%{1 if again else 2}$s%n"
    shown = (f"CAST({each} AS STRING)" for each in (quote_identifier(place.row), *(() if again else (value,))))
    return f"raise_error(format_string({sql_literal(shape)}, {', '.join(shown)}))"


def cast_sql(
    value: Sql, found: st.DataType, declared: Type, types: Mapping[str, EventType], place: ColumnLocation, second: int
) -> Sql:
    """`value`, of Spark's type `found`, as `declared`. Raises `EventError` when no value of the type can fit."""
    if _is_binary(found):
        raise EventError(f"{place} is {found.simpleString()}{BINARY_HINT}")
    if isinstance(found, st.NullType):
        return f"CAST(NULL AS {_ddl(declared, types)})"
    if declared.of is not None and isinstance(found, st.ArrayType):
        of, element, inner = declared.of, found.elementType, place.inside("[]")
        if not _changes(element, of, types):
            return value
        each = f"__cepbook_each{place.depth}"
        return f"transform({value}, {each} -> {cast_sql(each, element, of, types, inner, second)})"
    nested = types.get(declared.event) if declared.event is not None else None
    if nested is not None and isinstance(found, st.StructType):
        return _struct(value, found, nested, types, place, second)
    if declared.of is not None or nested is not None:
        raise _unfit(found, declared, place)
    if declared.name == "map":
        if not isinstance(found, (st.MapType, st.StructType)):
            raise _unfit(found, declared, place)
        return value
    if type_mapping_of(declared, types).json:  # no fixed shape: the values stay as Spark has them
        return value
    return _scalar(value, found, declared, place, second)


def _is_binary(found: st.DataType) -> bool:
    """Whether there is binary data in it, which would come out as text where nothing else is known of the shape."""
    if isinstance(found, st.ArrayType):
        return _is_binary(found.elementType)
    if isinstance(found, st.MapType):
        return _is_binary(found.keyType) or _is_binary(found.valueType)
    if isinstance(found, st.StructType):
        return any(_is_binary(field.dataType) for field in found.fields)
    return isinstance(found, st.BinaryType)


def _ddl(declared: Type, types: Mapping[str, EventType]) -> str:
    return type_mapping_of(declared, types).ddl


def _unfit(found: st.DataType, declared: Type, place: ColumnLocation) -> EventError:
    return EventError(f"{place} is {found.simpleString()}, but the property is {declared}")


def _struct(
    value: Sql,
    found: st.StructType,
    nested: EventType,
    types: Mapping[str, EventType],
    place: ColumnLocation,
    second: int,
) -> Sql:
    lacking = [name for name in nested.properties if name not in found.names]
    if lacking:
        raise EventError(f"{place} lacks `{lacking[0]}` of the event type `{nested.name}`; it has {found.names}")
    parts = []
    for name, of in nested.properties.items():
        own = f"coalesce({value}).{quote_identifier(name)}"  # bare it might be taken for a table's column
        part = cast_sql(own, found[name].dataType, of, types, place.inside(name), second)
        parts.append(f"{part} AS {quote_identifier(name)}")
    return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"


def _changes(found: st.DataType, declared: Type, types: Mapping[str, EventType]) -> bool:
    """Whether values of the type need a look, one by one."""
    return found.simpleString() != _ddl(declared, types) or declared.name in ("float", "double", "char")


def _scalar(value: Sql, found: st.DataType, declared: Type, place: ColumnLocation, second: int) -> Sql:
    name = declared.name
    if isinstance(found, (st.FloatType, st.DoubleType)):
        value = f"CASE WHEN NOT isnan({value}) THEN {value} END"
    if name in BITS:
        if name == "long" and isinstance(found, _MOMENTS):
            return clock_units_sql(value, found, second)
        return _whole(value, found, declared, place)
    if name in ("float", "double"):
        _require(isinstance(found, st.NumericType), found, declared, place)
        return value if found.simpleString() == name else f"CAST({value} AS {name})"
    if name in ("biginteger", "bigdecimal"):
        return _big(value, found, declared, place)
    if name == "string":
        _require(isinstance(found, _TEXTS), found, declared, place)
        return value
    if name == "char":
        _require(isinstance(found, _TEXTS), found, declared, place)
        wrong = raise_sql(place, value, "the property is char (one character), not ")
        return f"CASE WHEN {value} IS NULL OR char_length({value}) = 1 THEN {value} ELSE {wrong} END"
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


def _require(fits: bool, found: st.DataType, declared: Type, place: ColumnLocation) -> None:
    if not fits:
        raise _unfit(found, declared, place)


def as_bigint(value: Sql, found: st.DataType) -> Sql:
    """A whole number of Spark's type `found` as a bigint."""
    return value if isinstance(found, st.LongType) else f"CAST({value} AS BIGINT)"


def _whole(value: Sql, found: st.DataType, declared: Type, place: ColumnLocation) -> Sql:
    bits = BITS[declared.name]
    spark = _ddl(declared, {})
    if isinstance(found, st.IntegralType):
        if found.simpleString() == spark:
            return value
        if _WIDTHS[found.simpleString()] <= bits:
            return f"CAST({value} AS {spark})"
    elif not isinstance(found, (st.DecimalType, st.FloatType, st.DoubleType)):
        raise _unfit(found, declared, place)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    # a bound of floats must itself be a float: 2**63 - 1 would be rounded up to one that does not fit
    above = f"< {float(high + 1)!r}D" if bits == 64 else f"<= {high}"
    inside = f"({value}) >= {low} AND ({value}) {above}"
    if isinstance(found, st.DecimalType):
        inside = f"({value}) BETWEEN CAST({low} AS DECIMAL(20,0)) AND CAST({high} AS DECIMAL(20,0))"
        inside += f" AND ({value}) = floor({value})"
    elif not isinstance(found, st.IntegralType):
        inside += f" AND ({value}) = rint({value})"
    wrong = raise_sql(place, value, f"the property is {declared} ({low} … {high}), not ")
    return f"CASE WHEN ({value}) IS NULL OR ({inside}) THEN try_cast({value} AS {spark}) ELSE {wrong} END"


_WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _big(value: Sql, found: st.DataType, declared: Type, place: ColumnLocation) -> Sql:
    spark = _ddl(declared, {})
    _require(isinstance(found, st.NumericType), found, declared, place)
    if isinstance(found, st.IntegralType):
        return f"CAST({value} AS {spark})"
    taken = f"try_cast({value} AS {spark})"
    same = f"{taken} IS NOT NULL"
    if isinstance(found, st.DecimalType) or declared.name == "biginteger":
        same += f" AND CAST({taken} AS {found.simpleString()}) = ({value})"
    kept = "whole numbers of 38 digits" if declared.name == "biginteger" else "20 digits before the point, 18 behind"
    wrong = raise_sql(place, value, f"on Spark {declared} holds {kept}, not ")
    return f"CASE WHEN ({value}) IS NULL OR ({same}) THEN {taken} ELSE {wrong} END"


def clock_units_sql(value: Sql, found: st.DataType, second: int) -> Sql:
    """Units of the clock since 1970 UTC of a timestamp or date (zone-less ones are UTC), cut off to the past."""
    if isinstance(found, st.TimestampType):
        return f"unix_{'millis' if second == 1000 else 'micros'}({value})"
    ends = f"TIMESTAMP_NTZ'1970-01-01 00:00:00', CAST({value} AS TIMESTAMP_NTZ)"
    micros = f"timestampdiff(MICROSECOND, {ends})"
    if second != 1000:
        return micros
    millis = f"timestampdiff(MILLISECOND, {ends})"  # cut off towards 1970
    return f"{millis} - CASE WHEN {micros} < {millis} * 1000 THEN 1 ELSE 0 END"


def event_time_sql(value: Sql, found: st.DataType, place: ColumnLocation, second: int) -> Sql:
    """The event time: whole numbers as they are, dates, ISO 8601 texts; null where it is missing."""
    if isinstance(found, st.IntegralType):
        return as_bigint(value, found)
    if isinstance(found, _MOMENTS):
        return clock_units_sql(value, found, second)
    if isinstance(found, (st.FloatType, st.DoubleType, st.DecimalType)):
        return _scalar(value, found, Type("long"), place, second)
    if isinstance(found, _TEXTS):
        given = f"trim({value})"
        zoned = clock_units_sql(f"try_cast({given} AS TIMESTAMP)", st.TimestampType(), second)
        local = clock_units_sql(f"try_cast({given} AS TIMESTAMP_NTZ)", st.TimestampNTZType(), second)
        read = f"CASE WHEN {given} RLIKE {sql_literal('[T ].*' + _ZONED)} THEN {zoned} ELSE {local} END"
        wrong = raise_sql(place, value, "not an ISO 8601 date and time: ")
        return f"CASE WHEN {value} IS NULL OR ({read}) IS NOT NULL THEN {read} ELSE {wrong} END"
    shown = found.simpleString()
    raise EventError(f"{place} is {shown}: an event time is a date, ISO 8601 text or whole milliseconds")
