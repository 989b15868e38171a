"""EPL types as Spark and Arrow types, and conversion of Python values to Arrow arrays and back.

EPL                                                Spark and Arrow
whole numbers, floats, booleans, strings           the same
biginteger, bigdecimal                             decimal(38, 0), decimal(38, 18)
arrays, nested events                              lists, structs
timestamp, calendar                                timestamp (a moment in UTC, in any session zone)
localdatetime, localdate                           timestamp without zone, date
localtime, zoneddatetime                           text
object, map, null, events that contain themselves  JSON text
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from cepbook.errors import EventError
from cepbook.lang.java.date_text import local_text, parse_local_time, parse_zoned_datetime
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.types import Type
from cepbook.lazy_imports import StructType

ValueConverter = Callable[[Any], Any]

_SCALARS: dict[str, tuple[str, pa.DataType]] = {
    "boolean": ("boolean", pa.bool_()),
    "byte": ("tinyint", pa.int8()),
    "short": ("smallint", pa.int16()),
    "int": ("int", pa.int32()),
    "long": ("bigint", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "biginteger": ("decimal(38,0)", pa.decimal128(38, 0)),
    "bigdecimal": ("decimal(38,18)", pa.decimal128(38, 18)),
    "string": ("string", pa.string()),
    "char": ("string", pa.string()),
    **dict.fromkeys(("timestamp", "calendar"), ("timestamp", pa.timestamp("us", tz="UTC"))),
    "localdatetime": ("timestamp_ntz", pa.timestamp("us")),
    "localdate": ("date", pa.date32()),
    **dict.fromkeys(("zoneddatetime", "localtime"), ("string", pa.string())),
}
TEXT_TYPES: Mapping[str, ValueConverter] = {"localtime": parse_local_time, "zoneddatetime": parse_zoned_datetime}
"""What Spark has no type for: these travel as text, as `java.time` prints it, both ways."""

BINARY_HINT = ", and no type of EPL is binary\n  hint: encode the column (base64, hex) or drop it"


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """The Spark (`ddl`) and Arrow type of an EPL type; `convert` is None if values need no conversion."""

    ddl: str
    arrow: pa.DataType
    convert: ValueConverter | None = None
    json: bool = False


def type_mapping_of(t: Type, types: Mapping[str, EventType], inside: tuple[str, ...] = ()) -> TypeMapping:
    """Return the mapping of `t`; `types` resolves nested events, `inside` lists the event types around it."""
    if t.name == "biginteger":
        return TypeMapping(*_SCALARS[t.name], convert=Decimal)
    if t.name in TEXT_TYPES:
        return TypeMapping(*_SCALARS[t.name], convert=local_text)
    if t.name in _SCALARS:
        return TypeMapping(*_SCALARS[t.name])
    if t.of is not None:
        element = type_mapping_of(t.of, types, inside)
        return TypeMapping(
            f"array<{element.ddl}>", pa.list_(element.arrow), _convert_elements(element.convert), element.json
        )
    nested = types.get(t.event) if t.event is not None else None
    if nested is not None and nested.name not in inside and nested.properties:
        fields = {n: type_mapping_of(p, types, (*inside, nested.name)) for n, p in nested.properties.items()}
        ddl = ", ".join(f"{quote_identifier(n)}: {s.ddl}" for n, s in fields.items())
        arrow = pa.struct([pa.field(n, s.arrow) for n, s in fields.items()])
        converts = [(n, s.convert) for n, s in fields.items()]
        return TypeMapping(f"struct<{ddl}>", arrow, _convert_struct(converts), any(s.json for s in fields.values()))
    return TypeMapping("string", pa.string(), partial(json.dumps, default=str, ensure_ascii=False), json=True)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return columns as a Spark schema, which Spark reads faster than DDL."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)  # those without a zone stay so


def value_reader(t: Type, types: Mapping[str, EventType], inside: tuple[str, ...] = ()) -> ValueConverter | None:
    """Return the function that restores values from their form in Spark; None if they are the same."""
    if t.name == "biginteger":
        return int
    if t.name in TEXT_TYPES:
        return TEXT_TYPES[t.name]
    if t.name in _SCALARS:
        return None
    if t.of is not None:
        return _convert_elements(value_reader(t.of, types, inside))
    nested = types.get(t.event) if t.event is not None else None
    if nested is not None and nested.name not in inside and nested.properties:
        readers = [(n, value_reader(p, types, (*inside, nested.name))) for n, p in nested.properties.items()]
        return _convert_struct(readers) if any(read is not None for _, read in readers) else None
    return json.loads


def quote_identifier(name: str) -> str:
    """Return `name` as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def to_array(values: list[Any], shape: TypeMapping, location: str) -> pa.Array:
    """Return `values` as an Arrow array of type ``mapping.arrow``; raise `EventError`, naming `location`, if one does
    not fit.
    """
    try:
        converted = values if shape.convert is None else [None if v is None else shape.convert(v) for v in values]
        return pa.array(converted, type=shape.arrow, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as wrong:
        raise EventError(f"{location}: a value does not fit the declared type {shape.ddl}: {wrong}") from wrong


def from_array(array: pa.Array, type_: Type, types: Mapping[str, EventType]) -> list[Any]:
    """Return the values of a column as the engine holds them: maps as dicts, a biginteger as an int."""
    values: list[Any] = array.to_pylist()
    convert = _to_engine(array.type, type_, types)
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _to_engine(arrow_type: pa.DataType, type_: Type | None, types: Mapping[str, EventType]) -> ValueConverter | None:
    if type_ is not None and type_.name in TEXT_TYPES and pa.types.is_string(arrow_type):
        return partial(_parse_text, type_.name)
    if pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None:
        return _in_utc
    if pa.types.is_decimal(arrow_type):
        return int if type_ is not None and type_.name == "biginteger" else None
    if pa.types.is_map(arrow_type):
        inner = _to_engine(arrow_type.item_type, None, types)
        return dict if inner is None else lambda v: {k: None if x is None else inner(x) for k, x in v}
    if pa.types.is_list(arrow_type):
        return _convert_elements(_to_engine(arrow_type.value_type, None if type_ is None else type_.of, types))
    if pa.types.is_struct(arrow_type):
        event = types.get(type_.event) if type_ is not None and type_.event is not None else None
        known: Mapping[str, Type] = {} if event is None else event.properties
        parts = {field.name: _to_engine(field.type, known.get(field.name), types) for field in arrow_type}
        converts = {name: convert for name, convert in parts.items() if convert is not None}
        if not converts:
            return None
        return lambda v: {k: converts[k](x) if x is not None and k in converts else x for k, x in v.items()}
    return None


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; Spark's workers have moments in the session's zone."""
    return moment.astimezone(UTC)


def _parse_text(name: str, text: str) -> Any:
    try:
        return TEXT_TYPES[name](text)
    except ValueError:
        example = "10:20:30.5" if name == "localtime" else "2024-03-04T10:20:30-05:00[America/New_York]"
        raise EventError(f"{text!r} is no {name}, which travels as a text such as {example}") from None


def unique_names(names: Sequence[str], reserved: Sequence[str]) -> tuple[str, ...]:
    """Return `names` with underscores appended where a name would repeat; Spark ignores case."""
    used = {name.lower() for name in reserved}
    unique = []
    for name in names:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        unique.append(name)
    return tuple(unique)


def _convert_elements(convert: ValueConverter | None) -> ValueConverter | None:
    if convert is None:
        return None
    return lambda values: [None if v is None else convert(v) for v in values]


def _convert_struct(converts: Sequence[tuple[str, ValueConverter | None]]) -> ValueConverter:
    def convert_struct(event: Any) -> dict[str, Any]:
        struct = {}
        for name, convert in converts:
            value = event.get(name)
            struct[name] = value if convert is None or value is None else convert(value)
        return struct

    return convert_struct
