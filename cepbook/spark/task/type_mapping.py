"""EPL types as Spark and Arrow types, and Python values as Arrow arrays.

Whole numbers, floats, booleans and strings map one to one. ``biginteger`` is decimal(38, 0), ``bigdecimal`` is
decimal(38, 18), arrays are lists, nested events are structs. ``timestamp`` and ``calendar`` are timestamps (moments in
UTC, whatever the session's zone), ``localdatetime`` is a timestamp without zone, ``localdate`` a date; ``localtime``
and ``zoneddatetime`` travel as text. ``object``, ``map``, ``null`` and event types that contain themselves have no
fixed shape and travel out as JSON text.
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
from cepbook.spark.lazy_types import StructType

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
    """How one EPL type looks in Spark (`ddl`) and Arrow; `convert` is None where values need no change."""

    ddl: str
    arrow: pa.DataType
    convert: ValueConverter | None = None
    json: bool = False


def type_mapping_of(t: Type, types: Mapping[str, EventType], inside: tuple[str, ...] = ()) -> TypeMapping:
    """The shape of `t`; `types` resolves nested events, `inside` lists the event types around it."""
    if t.name == "biginteger":
        return TypeMapping(*_SCALARS[t.name], convert=_whole)
    if t.name in TEXT_TYPES:
        return TypeMapping(*_SCALARS[t.name], convert=local_text)
    if t.name in _SCALARS:
        return TypeMapping(*_SCALARS[t.name])
    if t.of is not None:
        element = type_mapping_of(t.of, types, inside)
        return TypeMapping(f"array<{element.ddl}>", pa.list_(element.arrow), _each(element.convert), element.json)
    nested = types.get(t.event) if t.event is not None else None
    if nested is not None and nested.name not in inside and nested.properties:
        fields = {n: type_mapping_of(p, types, (*inside, nested.name)) for n, p in nested.properties.items()}
        ddl = ", ".join(f"{quote_identifier(n)}: {s.ddl}" for n, s in fields.items())
        arrow = pa.struct([pa.field(n, s.arrow) for n, s in fields.items()])
        converts = [(n, s.convert) for n, s in fields.items()]
        return TypeMapping(f"struct<{ddl}>", arrow, _struct(converts), any(s.json for s in fields.values()))
    return TypeMapping("string", pa.string(), _as_json, json=True)


def spark_schema(schema: pa.Schema) -> StructType:
    """Columns as Spark has them: what the DDL of their shapes says, which Spark takes longer to read."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)  # those without a zone stay so


def value_reader(t: Type, types: Mapping[str, EventType], inside: tuple[str, ...] = ()) -> ValueConverter | None:
    """The way back from what `type_mapping_of` makes of values: to those that a statement delivers; None where they
    are the
    same.
    """
    if t.name == "biginteger":
        return int
    if t.name in TEXT_TYPES:
        return TEXT_TYPES[t.name]
    if t.name in _SCALARS:
        return None
    if t.of is not None:
        return _each(value_reader(t.of, types, inside))
    nested = types.get(t.event) if t.event is not None else None
    if nested is not None and nested.name not in inside and nested.properties:
        readers = [(n, value_reader(p, types, (*inside, nested.name))) for n, p in nested.properties.items()]
        return _struct(readers) if any(read is not None for _, read in readers) else None
    return json.loads


def quote_identifier(name: str) -> str:
    """`name` as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def to_array(values: list[Any], shape: TypeMapping, what: str) -> pa.Array:
    """`values` as an Arrow array of exactly ``shape.arrow``; `EventError` naming `what` when one does not fit."""
    try:
        found = values if shape.convert is None else [None if v is None else shape.convert(v) for v in values]
        return pa.array(found, type=shape.arrow, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as wrong:
        raise EventError(f"{what}: a value does not fit the declared type {shape.ddl}: {wrong}") from wrong


def from_array(array: pa.Array, of: Type, types: Mapping[str, EventType]) -> list[Any]:
    """What the engine holds for the values of a column: maps as dicts, a biginteger as an int."""
    values: list[Any] = array.to_pylist()
    convert = _back(array.type, of, types)
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _back(found: pa.DataType, of: Type | None, types: Mapping[str, EventType]) -> ValueConverter | None:
    if of is not None and of.name in TEXT_TYPES and pa.types.is_string(found):
        return partial(_textual, of.name)
    if pa.types.is_timestamp(found) and found.tz is not None:
        return _in_utc
    if pa.types.is_decimal(found):
        return int if of is not None and of.name == "biginteger" else None
    if pa.types.is_map(found):
        inner = _back(found.item_type, None, types)
        return dict if inner is None else lambda v: {k: None if x is None else inner(x) for k, x in v}
    if pa.types.is_list(found):
        return _each(_back(found.value_type, None if of is None else of.of, types))
    if pa.types.is_struct(found):
        event = types.get(of.event) if of is not None and of.event is not None else None
        known: Mapping[str, Type] = {} if event is None else event.properties
        parts = {field.name: _back(field.type, known.get(field.name), types) for field in found}
        converts = {name: convert for name, convert in parts.items() if convert is not None}
        if not converts:
            return None
        return lambda v: {k: converts[k](x) if x is not None and k in converts else x for k, x in v.items()}
    return None


def _in_utc(moment: datetime) -> datetime:
    """Spark's workers have moments in the session's zone."""
    return moment.astimezone(UTC)


def _textual(name: str, text: str) -> Any:
    try:
        return TEXT_TYPES[name](text)
    except ValueError:
        example = "10:20:30.5" if name == "localtime" else "2024-03-04T10:20:30-05:00[America/New_York]"
        raise EventError(f"{text!r} is no {name}, which travels as a text such as {example}") from None


def unique_names(wanted: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """`wanted` with underscores appended where a name would repeat (Spark compares names without regard to case)."""
    used = {name.lower() for name in taken}
    found = []
    for name in wanted:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        found.append(name)
    return tuple(found)


def _as_json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _whole(value: Any) -> Decimal:
    return Decimal(value)


def _each(convert: ValueConverter | None) -> ValueConverter | None:
    if convert is None:
        return None
    return lambda values: [None if v is None else convert(v) for v in values]


def _struct(converts: Sequence[tuple[str, ValueConverter | None]]) -> ValueConverter:
    def convert_struct(event: Any) -> dict[str, Any]:
        found = {}
        for name, convert in converts:
            value = event.get(name)
            found[name] = value if convert is None or value is None else convert(value)
        return found

    return convert_struct
