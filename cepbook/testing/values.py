"""Values and rows in scenario files: their notation, and their comparison with an engine's values.

A row is ``name=value name=value``. Values are JSON. A name that is no identifier (or identifiers joined by dots) is in
backticks: ``symbol="A" s.price=10.0 `count(*)`=2``. ``1`` is an integer and ``1.0`` a floating value, and the
difference counts. A float is the number that Java prints for it, ``1.1``. Not-a-number and the infinities are the
strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``. A row without columns is ``(no columns)``.

Rows are compared by column name, in any order of columns; floating values with the relative tolerance 1e-9. A decimal
equals any number of the same value.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cepbook.lang.java.date_text import local_text
from cepbook.lang.java.dates.date_parser import ISO_FORMAT, DateFormat
from cepbook.lang.java.numbers import shortest_float32, to_float32
from cepbook.lang.types import Type

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Row = Mapping[str, Any]
PropertyTypes = Mapping[str, Type]

NO_COLUMNS = "(no columns)"
TOLERANCE = 1e-9

_PATH = r"[A-Za-z_$][A-Za-z0-9_$]*(?:\.[A-Za-z_$][A-Za-z0-9_$]*)*"
_NAME = re.compile(_PATH + r"|`[^`]*`")
_PLAIN_NAME = re.compile(_PATH + r"\Z")
_DECODER = json.JSONDecoder()
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class ValueSyntaxError(ValueError):
    """Text that is no value or no row. The reader of the file adds file and line."""


def parse_value(text: str) -> Any:
    """Return the one JSON value in `text`. Errors: `ValueSyntaxError`."""
    value, end = _value_at(text, 0)
    if text[end:].strip():
        raise ValueSyntaxError(f"unexpected text after a value: {text[end:].strip()!r}")
    return value


def parse_name(text: str, start: int = 0) -> tuple[str, int]:
    """Return the plain or backticked name at `start`, and the offset after it. Errors: `ValueSyntaxError`."""
    match = _NAME.match(text, start)
    if match is None:
        raise ValueSyntaxError(f"expected a name at {text[start : start + 20]!r} (other names stand in backticks)")
    return match.group().strip("`"), match.end()


def parse_row(text: str) -> dict[str, Any]:
    """Return the row ``a=1 `b c`="x"``, in the order of the text. Errors: `ValueSyntaxError`."""
    row: dict[str, Any] = {}
    if text.strip() == NO_COLUMNS:
        return row
    at = _skip_blanks(text, 0)
    while at < len(text):
        name, at = parse_name(text, at)
        if text[at : at + 1] != "=":
            raise ValueSyntaxError(f"expected '=' after the name {name!r}")
        if name in row:
            raise ValueSyntaxError(f"the column {name!r} occurs twice")
        row[name], at = _value_at(text, at + 1)
        if at < len(text) and not text[at].isspace():
            raise ValueSyntaxError(f"expected a blank after the value of {name!r}, found {text[at : at + 20]!r}")
        at = _skip_blanks(text, at)
    return row


def _value_at(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, _skip_blanks(text, start))
    except (ValueError, RecursionError) as error:  # also of numbers of very many digits
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too long, or nested too deeply"
        raise ValueSyntaxError(f"not a JSON value: {text[start : start + 40]!r} ({why})") from None
    return value, end


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def format_name(name: str) -> str:
    """Return `name`, in backticks unless it is an identifier or identifiers joined by dots."""
    return name if _PLAIN_NAME.match(name) else f"`{name}`"


def format_row(row: Row) -> str:
    """Return the row as `parse_row` reads it, columns in the order of the mapping."""
    if not row:
        return NO_COLUMNS
    return " ".join(f"{format_name(str(name))}={format_value(value)}" for name, value in row.items())


def format_value(value: Any) -> str:
    """Return the value as `parse_value` reads it; values that JSON does not know as their text."""
    if isinstance(value, decimal.Decimal):
        return format(value, "f") if value.is_finite() else json.dumps(str(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'"{_not_finite_text(value)}"'
    if value is None or isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(key)}: {format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Iterable):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    if isinstance(value, datetime.datetime) and value.tzinfo is datetime.UTC:
        return str(_milliseconds(value))
    return _quoted(_text_of_object(value))


def _quoted(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _not_finite_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _text_of_object(value: object) -> str:
    return local_text(value) if isinstance(value, datetime.date | datetime.time) else str(value)


def same_value(expected: Any, actual: Any) -> bool:
    """Return whether an engine's value is the one in a scenario file."""
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(actual, decimal.Decimal):
        return _same_decimal(expected, actual)
    if isinstance(actual, float):
        return _same_float(expected, actual)
    if isinstance(actual, int | str):
        return type(expected) is type(actual) and bool(expected == actual)
    if isinstance(actual, Mapping):
        return isinstance(expected, Mapping) and _same_event(expected, actual)
    if isinstance(actual, Iterable):
        items = list(actual)
        return isinstance(expected, list) and len(expected) == len(items) and all(map(same_value, expected, items))
    if isinstance(actual, datetime.datetime) and isinstance(expected, int):
        return expected == _milliseconds(actual)
    return bool(expected == _text_of_object(actual))


def _milliseconds(moment: datetime.datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return (aware - _EPOCH) // datetime.timedelta(milliseconds=1)


def _same_float(expected: Any, actual: float) -> bool:
    if not math.isfinite(actual):
        return bool(expected == _not_finite_text(actual)) or (
            isinstance(expected, float) and (expected == actual or (math.isnan(expected) and math.isnan(actual)))
        )
    return isinstance(expected, float) and math.isclose(expected, actual, rel_tol=TOLERANCE, abs_tol=0.0)


def _same_decimal(expected: Any, actual: decimal.Decimal) -> bool:
    if isinstance(expected, float):
        return math.isclose(expected, float(actual), rel_tol=TOLERANCE, abs_tol=0.0)
    if isinstance(expected, int):
        return bool(actual == expected)
    return bool(expected == str(actual))


def same_row(expected: Row, actual: Row) -> bool:
    """Return whether both rows have the same columns with the same values, in any order."""
    return expected.keys() == actual.keys() and all(same_value(value, actual[name]) for name, value in expected.items())


def _same_event(expected: Row, actual: Row) -> bool:
    """Return whether two nested events or maps agree. A missing property counts as null."""
    return all(same_value(expected.get(name), actual.get(name)) for name in expected.keys() | actual.keys())


def same_rows(expected: Sequence[Row], actual: Sequence[Row], *, unordered: bool = False) -> bool:
    """Return whether two lists of rows agree, in order or (with `unordered`) as multisets."""
    if len(expected) != len(actual):
        return False
    if not unordered:
        return all(map(same_row, expected, actual))
    rest = list(actual)
    for row in expected:
        at = next((i for i, other in enumerate(rest) if same_row(row, other)), None)
        if at is None:
            return False
        del rest[at]
    return True


def coerce_row(row: Row, types: PropertyTypes, types_of: Callable[[str], PropertyTypes | None]) -> dict[str, Any]:
    """Return an event of the declared property types from a row of JSON values.

    Missing properties become null. Names that are not declared are kept as they are. `types_of` returns the property
    types of a (nested) event type by name, or None.
    """
    event = {name: coerce_value(row.get(name), of, types_of) for name, of in types.items()}
    event.update((name, value) for name, value in row.items() if name not in event)
    return event


def java_row(row: Row, types: PropertyTypes, types_of: Callable[[str], PropertyTypes | None]) -> Row:
    """Return the row with its floats (not doubles) as Java prints them: ``1.1`` for the single nearest to 1.1."""
    return {name: java_value(value, types[name], types_of) if name in types else value for name, value in row.items()}


def java_value(value: Any, of: Type, types_of: Callable[[str], PropertyTypes | None]) -> Any:
    """Return one value of type `of` as Java prints it; see `java_row`."""
    if of.of is not None and isinstance(value, list | tuple):
        element = of.of
        return [java_value(item, element, types_of) for item in value]
    if of.event is not None and isinstance(value, Mapping):
        return java_row(value, types_of(of.event) or {}, types_of)
    return shortest_float32(value) if of.name == "float" and isinstance(value, float) else value


def coerce_value(value: Any, to: Type, types_of: Callable[[str], PropertyTypes | None]) -> Any:
    """Convert a JSON value to the type `to`: 500 for a double becomes 500.0, also inside arrays and events."""
    if value is None:
        return None
    if to.of is not None and isinstance(value, list):
        element = to.of
        return [coerce_value(item, element, types_of) for item in value]
    if to.event is not None and isinstance(value, dict):
        nested = types_of(to.event)
        return value if nested is None else coerce_row(value, nested, types_of)
    if isinstance(value, bool):
        return value
    convert = _CONVERSIONS.get(to.name)
    return value if convert is None else convert(value)


def _to_float(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    return float(value) if isinstance(value, int) else value


def _to_single(value: Any) -> Any:
    number = _to_float(value)
    return to_float32(number) if isinstance(number, float) else number


def _to_decimal(value: Any) -> Any:
    return decimal.Decimal(str(value)) if isinstance(value, int | float | str) else value


def _to_integer(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value


def _to_timestamp(value: Any) -> Any:
    if isinstance(value, int):
        return _EPOCH + datetime.timedelta(milliseconds=value)
    try:
        return datetime.datetime.fromisoformat(value)
    except ValueError:
        return value  # text in another notation is for the engine to judge


def _local(target: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        try:
            return DateFormat(target).read(value, ISO_FORMAT) if isinstance(value, str) else value
        except ValueError:
            return value

    return convert


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    **{name: _local(name) for name in ("zoneddatetime", "localdatetime", "localdate", "localtime")},
    "calendar": _to_timestamp,
    "float": _to_single,
    "double": _to_float,
    "bigdecimal": _to_decimal,
    "biginteger": _to_integer,
    "timestamp": _to_timestamp,
}
