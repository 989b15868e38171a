"""Methods of strings (``symbol.length()``), as java.lang.String defines them, and conversions from text."""

from __future__ import annotations

from cepbook.lang import types as t
from cepbook.lang.functions.row import FunctionRow, ParameterKind, ResultRule, always


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise IndexError(f"substring({start}, {stop}) of a string of length {len(text)}")
    return text[start:stop]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index < len(text):
        raise IndexError(f"charAt({index}) of a string of length {len(text)}")
    return text[index]


def _method(
    name: str,
    parameters: tuple[ParameterKind, ...],
    result: ResultRule,
    doc: str,
    example: str,
    py: str | object,
    at_least: int = -1,
) -> FunctionRow:
    assert isinstance(py, str) or callable(py)
    return FunctionRow(f"string.{name}", ("string", *parameters), result, "propagate", doc, example, py, at_least)


_INT = always(t.INT)
_STRING = always(t.STRING)
_BOOLEAN = always(t.BOOLEAN)

TEXT = (
    _method("length", (), _INT, "number of characters", "symbol.length()", "len({0})"),
    _method("isEmpty", (), _BOOLEAN, "whether it has no characters", "symbol.isEmpty()", "(not {0})"),
    _method("toUpperCase", (), _STRING, "in capitals", "symbol.toUpperCase()", "{0}.upper()"),
    _method("toLowerCase", (), _STRING, "in small letters", "symbol.toLowerCase()", "{0}.lower()"),
    _method("trim", (), _STRING, "without blanks at both ends", "symbol.trim()", "{0}.strip()"),
    _method(
        "substring",
        ("integer", "integer"),
        _STRING,
        "from a 0-based start to before an end",
        "symbol.substring(0, 1)",
        _substring,
        2,
    ),
    _method("charAt", ("integer",), always(t.CHAR), "the character at a 0-based index", "symbol.charAt(0)", _char_at),
    _method(
        "indexOf",
        ("string",),
        _INT,
        "0-based index of the first occurrence or -1",
        "symbol.indexOf('a')",
        "{0}.find({1})",
    ),
    _method("lastIndexOf", ("string",), _INT, "of the last occurrence", "symbol.lastIndexOf('a')", "{0}.rfind({1})"),
    _method("contains", ("string",), _BOOLEAN, "whether a text occurs in it", "symbol.contains('a')", "({1} in {0})"),
    _method(
        "startsWith", ("string",), _BOOLEAN, "whether it starts so", "symbol.startsWith('a')", "{0}.startswith({1})"
    ),
    _method("endsWith", ("string",), _BOOLEAN, "whether it ends so", "symbol.endsWith('a')", "{0}.endswith({1})"),
    _method("concat", ("string",), _STRING, "both texts", "symbol.concat('x')", "({0} + {1})"),
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
        "negative, 0 or positive",
        "symbol.compareTo('a')",
        "(({0} > {1}) - ({0} < {1}))",
    ),
    _method(
        "replace",
        ("string", "string"),
        _STRING,
        "every occurrence replaced",
        "symbol.replace('a', 'b')",
        "{0}.replace({1}, {2})",
    ),
    FunctionRow("Integer.parseInt", ("string",), _INT, "propagate", "text to int", "Integer.parseInt('5')", "int({0})"),
    FunctionRow(
        "Long.parseLong", ("string",), always(t.LONG), "propagate", "text to long", "Long.parseLong('5')", "int({0})"
    ),
    FunctionRow(
        "Double.parseDouble",
        ("string",),
        always(t.DOUBLE),
        "propagate",
        "text to double",
        "Double.parseDouble('5.5')",
        "float({0})",
    ),
    FunctionRow(
        "cast of a date",
        ("string", "string", "any"),
        always(t.TIMESTAMP),
        "propagate",
        "a text as a date of the form that dateformat gives",
        "cast('2024-03-04', date, dateformat: 'yyyy-MM-dd')",
        lambda text, pattern, form: form.read(text, pattern),
        fails=True,
    ),
)
