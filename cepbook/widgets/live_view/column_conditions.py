"""Conditions that a reader writes below the heading of a column: ``> 100``, ``10 .. 20``, ``null``, ``rome or 'Bonn'``.

    condition = choice { "or" choice }
    choice    = test { "and" test }
    test      = ["not"] "null" | "not" test | sign value | "between" value "and" value | value ".." value | value

The signs are those of EPL: ``= != <> < <= > >=``. A value without a sign is a part of a text (in any case), a number,
or the time that it names: ``2013-07`` is any time of July. A range has both its ends, the last one whole:
``2013-07-01 .. 2013-07-02`` are two days. One end may be missing. Quotes keep a text together, and it must be equal.
Null passes nothing but ``null``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cepbook.errors import UsageError
from cepbook.widgets.live_view.column_texts import Array
from cepbook.widgets.live_view.value_columns import ValueColumn

Test = Callable[[ValueColumn], Array]

MAX_CONDITION = 1_000  # characters
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'[^']*'|"[^"]*")|(?P<sign><=|>=|<>|!=|==|[<>=])|(?P<range>\.\.)|(?P<word>(?:(?!\.\.)\S)+))"""
)
_SIGNS = {"<>": "!=", "==": "="}


def column_test(text: str) -> Test:
    """Return the test of a condition. Raises UsageError, and so does the test on a column of other values."""
    reader = _Reader(text)
    test = reader.condition()
    if reader.tokens:
        raise UsageError(f"`{text}`: `{reader.tokens[0][1]}` cannot be here\n  hint: put a text in quotes")
    return test


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens = [(str(m.lastgroup), m[str(m.lastgroup)]) for m in _TOKEN.finditer(text[:MAX_CONDITION])]

    def _is_next(self, token: str) -> bool:
        return bool(self.tokens) and self.tokens[0][0] != "quoted" and self.tokens[0][1].lower() == token

    def _takes(self, token: str) -> bool:
        if self._is_next(token):
            del self.tokens[0]
            return True
        return False

    def condition(self) -> Test:
        tests = [self._choice()]
        while self._takes("or"):
            tests.append(self._choice())
        return tests[0] if len(tests) == 1 else lambda column: _any([test(column) for test in tests])

    def _choice(self) -> Test:
        tests = [self._test()]
        while self._takes("and"):
            tests.append(self._test())
        return tests[0] if len(tests) == 1 else lambda column: ~_any([~test(column) for test in tests])

    def _test(self) -> Test:
        if self._takes("is"):
            return self._test()
        if self._takes("not"):
            if self._takes("null"):
                return lambda column: ~column.null
            test = self._test()
            return lambda column: ~test(column) & ~column.null
        if self._takes("null"):
            return lambda column: column.null
        if self._takes("between"):
            first = self._value()
            if not self._takes("and"):
                raise UsageError(f"`{self._text}`: between needs two values, for example `between 10 and 20`")
            return self._range(first)
        if self._takes(".."):
            return self._range("")
        if self.tokens and self.tokens[0][0] == "sign":
            written = self.tokens.pop(0)[1]
            sign, operand = _SIGNS.get(written, written), self._value()
            return lambda column: column.compared(sign, operand)
        quoted = bool(self.tokens) and self.tokens[0][0] == "quoted"
        value = self._value()
        if self._takes(".."):
            return self._range(value, open_end=not self.tokens or self._is_next("and") or self._is_next("or"))
        return lambda column: column.compared("=", value) if quoted else column.like(value)

    def _range(self, first: str, *, open_end: bool = False) -> Test:
        last = "" if open_end else self._value()
        return lambda column: column.between(first, last)

    def _value(self) -> str:
        if self.tokens and self.tokens[0][0] == "quoted":
            return self.tokens.pop(0)[1][1:-1]
        words = []
        while self.tokens and self.tokens[0][0] == "word" and not (self._is_next("and") or self._is_next("or")):
            words.append(self.tokens.pop(0)[1])
        if not words:
            raise UsageError(f"`{self._text}`: a value is missing, for example `> 100`")
        return " ".join(words)


def _any(passing: list[Array]) -> Array:
    first, *others = passing
    for other in others:
        first = first | other
    return first
