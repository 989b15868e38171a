"""Methods of strings (``symbol.length()``) after java.lang.String, and conversions of strings.

Positions and lengths count code points, unlike in Java, where they count UTF-16 units.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cepbook.lang import types as t
from cepbook.lang.java.numbers import java_text, to_float32
from cepbook.lang.java.regular_expressions import compile_regular_expression
from cepbook.lang.java.sizes import joined, replaced
from cepbook.lang.registry.functions.function_row import FunctionRow, ParameterKind, ResultRule, always


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise IndexError(f"substring({start}, {stop}) of a string of length {len(text)}")
    return text[start:stop]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index < len(text):
        raise IndexError(f"charAt({index}) of a string of length {len(text)}")
    return text[index]


_BLANKS = "".join(map(chr, range(ord(" ") + 1)))


def _trimmed(text: str) -> str:
    return text.strip(_BLANKS)


def _compare(text: str, other: str) -> int:
    """Compare UTF-16 code units, as String.compareTo does."""
    for a, b in zip(text, other, strict=False):
        if a != b:
            left, right = (character.encode("utf-16-be") for character in (a, b))
            unit = slice(0, 2) if left[:2] != right[:2] else slice(2, None)
            return int.from_bytes(left[unit]) - int.from_bytes(right[unit])
    return (len(text.encode("utf-16-be")) - len(other.encode("utf-16-be"))) // 2


def _method(
    name: str,
    parameters: tuple[ParameterKind, ...],
    result: ResultRule,
    doc: str,
    example: str,
    py: str | object,
    at_least: int = -1,
    fails: bool = False,
) -> FunctionRow:
    assert isinstance(py, str) or callable(py)
    kinds: tuple[ParameterKind, ...] = ("string", *parameters)
    return FunctionRow(f"string.{name}", kinds, result, doc, example, py, at_least, fails=fails)


def _whole(bits: int) -> Callable[[str], int]:
    """A parser of whole numbers of so many bits."""

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"[+-]?\d{1,40}", text) else None
        if number is None or not -1 << (bits - 1) <= number < 1 << (bits - 1):
            raise ValueError(f"{text!r} is not a whole number of {bits} bits")
        return number

    return read


def _double(text: str) -> float:
    """Parse a number as Java does."""
    match = re.fullmatch(r"\s*([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[dDfF]?\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    return float(match[1])


# Constants that are written as texts
PARSERS: dict[str, Callable[[str], object]] = {
    **{name: _whole(bits) for name, bits in t.BITS.items()},
    "float": lambda text: to_float32(_double(text)),
    "double": _double,
    "boolean": lambda text: text.lower() == "true",
}


def _parsed(name: str, type_: t.Type, example: str, read: Callable[[str], object]) -> FunctionRow:
    doc, call = f"string to {type_.name}", f"{name}({example})"
    return FunctionRow(name, ("string",), always(type_), doc, call, read, fails=True)


_INT = always(t.INT)
_STRING = always(t.STRING)
_BOOLEAN = always(t.BOOLEAN)

TEXT = (
    _method("length", (), _INT, "number of characters", "symbol.length()", "len({0})"),
    _method("isEmpty", (), _BOOLEAN, "whether the string is empty", "symbol.isEmpty()", "(not {0})"),
    _method("toUpperCase", (), _STRING, "converted to upper case", "symbol.toUpperCase()", "{0}.upper()"),
    _method("toLowerCase", (), _STRING, "converted to lower case", "symbol.toLowerCase()", "{0}.lower()"),
    _method(
        "trim", (), _STRING, "without leading and trailing blanks and control characters", "symbol.trim()", _trimmed
    ),
    _method(
        "substring",
        ("integer", "integer"),
        _STRING,
        "the part from a 0-based start up to an end (exclusive)",
        "symbol.substring(0, 1)",
        _substring,
        2,
        fails=True,
    ),
    _method(
        "charAt",
        ("integer",),
        always(t.CHAR),
        "the character at a 0-based index",
        "symbol.charAt(0)",
        _char_at,
        fails=True,
    ),
    _method(
        "indexOf", ("string",), _INT, "index of the first occurrence, or -1", "symbol.indexOf('a')", "{0}.find({1})"
    ),
    _method(
        "lastIndexOf",
        ("string",),
        _INT,
        "index of the last occurrence, or -1",
        "symbol.lastIndexOf('a')",
        "{0}.rfind({1})",
    ),
    _method("contains", ("string",), _BOOLEAN, "whether it contains another", "symbol.contains('a')", "({1} in {0})"),
    _method(
        "startsWith",
        ("string",),
        _BOOLEAN,
        "whether it starts with another",
        "symbol.startsWith('a')",
        "{0}.startswith({1})",
    ),
    _method(
        "endsWith", ("string",), _BOOLEAN, "whether it ends with another", "symbol.endsWith('a')", "{0}.endswith({1})"
    ),
    _method("concat", ("string",), _STRING, "the string followed by another", "symbol.concat('x')", joined),
    _method("equals", ("string",), _BOOLEAN, "whether both are equal", "symbol.equals('a')", "({0} == {1})"),
    _method(
        "equalsIgnoreCase",
        ("string",),
        _BOOLEAN,
        "whether both are equal but for case",
        "symbol.equalsIgnoreCase('a')",
        "({0}.lower() == {1}.lower())",
    ),
    _method(
        "compareTo",
        ("string",),
        _INT,
        "difference of the first differing characters, or else of the lengths",
        "symbol.compareTo('a')",
        _compare,
    ),
    _method(
        "replace",
        ("string", "string"),
        _STRING,
        "every occurrence replaced",
        "symbol.replace('a', 'b')",
        replaced,
    ),
    _method(
        "matches",
        ("string",),
        _BOOLEAN,
        "whether all of it matches a regular expression",
        "symbol.matches('[A-Z]+')",
        lambda text, pattern: compile_regular_expression(pattern).matches(text),
        fails=True,
    ),
    _parsed("Integer.parseInt", t.INT, "'5'", _whole(32)),
    _parsed("Integer.valueOf", t.INT, "'5'", _whole(32)),
    _parsed("Long.parseLong", t.LONG, "'5'", _whole(64)),
    _parsed("Long.valueOf", t.LONG, "'5'", _whole(64)),
    _parsed("Double.parseDouble", t.DOUBLE, "'5.5'", _double),
    _parsed("Double.valueOf", t.DOUBLE, "'5.5'", _double),
    FunctionRow(
        "Boolean.parseBoolean",
        ("string",),
        _BOOLEAN,
        "true if the string is 'true', ignoring case",
        "Boolean.parseBoolean(symbol)",
        lambda text: text is not None and text.lower() == "true",
        nulls="handled",
    ),
    FunctionRow(
        "String.valueOf",
        ("any",),
        _STRING,
        "a value as a string; 'null' for null",
        "String.valueOf(price)",
        lambda value: "null" if value is None else java_text(value),
        nulls="handled",
    ),
    FunctionRow(
        "cast of a date",
        ("string", "string", "any"),
        always(t.TIMESTAMP),
        "a string parsed as a date with the pattern dateformat",
        "cast('2024-03-04', date, dateformat: 'yyyy-MM-dd')",
        lambda text, pattern, date_format: date_format.read(text, pattern),
        fails=True,
    ),
)
