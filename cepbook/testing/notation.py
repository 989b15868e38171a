"""The scenario notation of Esper's online notebook: ``t = "…"``, ``t = t.plus(10 seconds)``, ``Type = {p = 'x'}``.

Python's notations are read, too: ``Type {'p': 'x'}``, ``Type(p='x')``, ``t + 10 seconds``, and ``:name`` for the value
of a variable.

Read by a scanner that knows values and nothing else: no text of a cell becomes code, and ``eval(…)`` is refused.
Values are ``'text'``, ``"text"``, ``12``, ``12L``, ``1.5``, ``1.5f``, ``true``, ``false``, ``null``, arrays ``[1, 2]``
or ``{1, 2}`` and nested ``{a = 1, b = {c = 2}}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from cepbook.engine.time.calendar_periods import add_months
from cepbook.errors import UsageError
from cepbook.session.io.time_conversion import parse_period, parse_time

CLOCK = re.compile(r"\s*t\s*[=+]")
EVENT = re.compile(r"\s*(?:[^\W\d][\w$.]*|`[^`\n]+`)\s*(?:=\s*)?[{(]")

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NAME = re.compile(r"[^\W\d][\w$.]*|`[^`\n]+`")
_NUMBER = re.compile(
    r"[+-]?(?P<whole>\d+)?(?P<fraction>\.\d*)?(?P<exponent>[eE][+-]?\d+)?(?P<suffix>[lLfFdD])?(?![\w.])"
)
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PLUS = re.compile(r"t\s*\.\s*plus\s*\(")
_SUM = re.compile(r"(?:\+\s*=|=\s*t\s*\+|\+)[ \t]*(?P<period>[^\n;#/]*)")
_KEY = re.compile(r"""(?:[^\W\d][\w$.]*|`[^`\n]+`|'[^'\n]*'|"[^"\n]*")\s*[:=]""")
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_CONSTANTS = {"true": True, "false": False, "null": None}

DIGITS = 400  # of a number: more than a biginteger of any use has
DEEPEST = 100  # values in values

_MONTHS = {**dict.fromkeys(("month", "months"), 1), **dict.fromkeys(("year", "years"), 12)}


class NotationError(Exception):
    """Text that is not in the notation, at offsets `start` to `end`."""

    def __init__(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        super().__init__(message)


def parse_event(
    text: str, start: int = 0, variables: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any], int]:
    """Parse ``Type = {…}``, ``Type {…}`` or ``Type(…)`` at `start`; return event type, event and the offset behind.

    `variables` are the values of ``:name``. Raises NotationError.
    """
    scanner = _Scanner(text, start, variables)
    name = scanner.name("an event type")
    scanner.take("=")
    opening = scanner.at
    value = scanner.properties("(", ")") if scanner.peek() == "(" else scanner.braces()
    if not isinstance(value, dict):
        raise NotationError(
            "the properties of an event are written name = value", opening, scanner.end, f"{name} = {{price = 10.0}}"
        )
    return name, value, scanner.end


def parse_value(text: str) -> Any:
    """Parse `text` as one value. Raises NotationError."""
    scanner = _Scanner(text, 0)
    value = scanner.value()
    if scanner.at < len(text):
        scanner.fail("there is something behind the value", length=len(text) - scanner.at)
    return value


def parse_clock(text: str, start: int, now: int | None, second: int = 1000) -> tuple[int, int]:
    """Parse ``t = …`` at `start`; return the clock time and the offset behind. Raises NotationError.

    `now` is the value of ``t`` before, or None.
    """
    scanner = _Scanner(text, start)
    scanner.name("t")
    total = _SUM.match(text, scanner.at)
    if total is not None:
        if now is None:
            raise NotationError("t has no value yet", start, total.end(), 't = "2024-01-01 08:00:00.000" first')
        return _plus(now, total["period"], total.start("period"), second), total.end()
    scanner.expect("=")
    at = scanner.at
    plus = _PLUS.match(text, at)
    if plus is not None:
        close = text.find(")", plus.end())
        line_end = text.find("\n", at)
        if close < 0 or 0 <= line_end < close:
            scanner.fail("the closing parenthesis of t.plus( is missing")
        if now is None:
            raise NotationError("t has no value yet", at, close + 1, 't = "2024-01-01 08:00:00.000" first')
        return _plus(now, text[plus.end() : close], plus.end(), second), close + 1
    value = scanner.value()
    if isinstance(value, int) and not isinstance(value, bool):
        return value, scanner.end
    if isinstance(value, str):
        return _moment(value, at, scanner.end, second), scanner.end
    raise NotationError("t takes a date and time in quotes, t.plus(…) or milliseconds", at, scanner.end)


def _moment(text: str, start: int, end: int, second: int) -> int:
    try:
        return parse_time(text, second)
    except UsageError as error:
        raise NotationError(str(error), start, end, 't = "2024-01-01 08:00:00.000"') from None


def _plus(now: int, period: str, start: int, second: int) -> int:
    """Add a time period such as ``1 hour 30 min``; months and years by the calendar (UTC)."""
    at, parts = 0, 0
    for match in _PERIOD.finditer(period):
        fixed, months = parse_period(match.group(), second), _MONTHS.get(match[2].lower())
        if period[at : match.start()].strip() or (fixed is None and (months is None or "." in match[1])):
            break
        now = now + fixed if fixed is not None else add_months(now, int(match[1]) * (months or 0), second)
        at, parts = match.end(), parts + 1
    if not parts or period[at:].strip():
        message = f"`{period.strip()}` is no time period"
        raise NotationError(message, start, start + max(1, len(period)), "t = t.plus(1 hour 30 seconds)")
    return now


class _Scanner:
    def __init__(self, text: str, at: int, variables: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self.variables = variables or {}
        self.depth = 0
        self.at = self.end = at  # `end` is behind the last token, `at` behind the blanks and comments after it
        self.skip()

    def skip(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        if blank is not None:
            self.at = blank.end()

    def move(self, to: int) -> None:
        self.at = self.end = to
        self.skip()

    def fail(self, message: str, hint: str | None = None, length: int = 1) -> NoReturn:
        raise NotationError(message, self.at, self.at + length, hint)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self.move(self.at + 1)
        return True

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            present = self.peek()
            self.fail(f"expected `{mark}`, found `{present}`" if present else f"expected `{mark}`, but the cell ends")

    def name(self, what: str) -> str:
        match = _NAME.match(self.text, self.at)
        if match is None:
            self.fail(f"expected {what}")
        self.move(match.end())
        return match.group().strip("`")

    def value(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail("values are nested too deeply")
        value = self._value()
        self.depth -= 1
        return value

    def _value(self) -> Any:
        mark = self.peek()
        if mark == "{":
            return self.braces()
        if mark == "[":
            return self.array("[", "]")
        if mark in ("'", '"'):
            return self.string()
        if mark == ":":
            return self.variable()
        number = _NUMBER.match(self.text, self.at)
        if number is not None and (number["whole"] or number["fraction"] not in (None, ".")):
            return self.number(number)
        return self.word()

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            self.fail("the closing quote is missing")
        self.move(match.end())
        return _ESCAPE.sub(_unescape, match.group()[1:-1])

    def number(self, found: re.Match[str]) -> int | float:
        self.move(found.end())
        suffix = (found["suffix"] or "").lower()
        text = found.group()[: -1 if suffix else None]
        if found["fraction"] or found["exponent"] or suffix in ("f", "d"):
            return float(text)
        if len(text) > DIGITS:
            raise NotationError(f"a number of {len(text):,} digits", found.start(), found.end())
        return int(text)

    def variable(self) -> Any:
        """The value of a Python variable: ``:limit``."""
        start = self.at
        self.take(":")
        name = self.name("the name of a Python variable")
        if name not in self.variables:
            raise NotationError(f"`:{name}` has no value", start, self.end, f"give it one: a Python variable `{name}`")
        return plain_value(self.variables[name])

    def word(self) -> Any:
        match = _NAME.match(self.text, self.at)
        if match is None:
            self.fail("expected a value" if self.peek() else "expected a value, but the cell ends")
        word = match.group()
        if word.lower() in _CONSTANTS:
            self.move(match.end())
            return _CONSTANTS[word.lower()]
        if self.text[match.end() :].lstrip(" \t").startswith("("):
            what = "eval(…) is not run" if word == "eval" else f"a call such as {word}(…) is not run"
            hint = "send computed events from Python: cep.send(…)"
            self.fail(f"{what}: values in a cell are constants", hint, len(word))
        self.fail(f"`{word}` is no value", f"a text stands in quotes: '{word}'", len(word))

    def braces(self) -> Any:
        """``{a = 1}`` as a dict, ``{1, 2}`` as a list, ``{}`` as an empty dict."""
        opening = self.at
        self.expect("{")
        self.at = opening
        inner = _BLANK.match(self.text, opening + 1)
        first = inner.end() if inner is not None else opening + 1
        name = _NAME.match(self.text, first)
        after = self.text[name.end() :].lstrip(" \t\r\n") if name is not None else ""
        is_map = name is not None and name.group().lower() not in _CONSTANTS and not after.startswith((",", "}"))
        if self.text[first : first + 1] == "}" or is_map or _KEY.match(self.text, first) is not None:
            return self.properties("{", "}")
        return self.array("{", "}")

    def properties(self, begin: str, end: str) -> dict[str, Any]:
        opening = self.at
        self.expect(begin)
        properties: dict[str, Any] = {}
        while not self.take(end):
            start = self.at
            if not self.peek():
                raise NotationError("the closing brace is missing", opening, opening + 1)
            quoted = self.peek() in ("'", '"')
            name = str(self.string()) if quoted else self.name(f"a property name or `{end}`")
            if name == "eval" and self.peek() == "(":
                self.at = start
                self.word()
            if not self.take(":"):
                self.expect("=")
            if name in properties:
                raise NotationError(f"the property `{name}` occurs twice", start, start + len(name))
            properties[name] = self.value()
            if self.peek() != end:
                self.separator()
        return properties

    def array(self, opening: str, closing: str) -> list[Any]:
        self.expect(opening)
        items: list[Any] = []
        while not self.take(closing):
            items.append(self.value())
            if self.peek() != closing:
                self.separator()
        return items

    def separator(self) -> None:
        if not self.take(","):
            present = self.peek()
            expected = f"expected `,` or the closing brace, found `{present}`"
            self.fail(expected if present else "the closing brace is missing")


def plain_value(value: object) -> Any:
    """Return a Python value as a value of an event: a scalar of numpy as Python's."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)
