"""Date patterns as in Java: ``yyyy-MM-dd HH:mm``, split into letters, literal text and optional sections.

Moments and calendars use those of `java.text.SimpleDateFormat`. Local and zoned date-times (`iso`) use those of
`java.time.format.DateTimeFormatter`, whose optional sections stand in brackets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

SIMPLE_LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
ISO_LETTERS = "GuyYDMLdQqwWEecFaHkKhmsSAnNVzOXxZ"
LETTERS_EXPLAINED = (
    "y year, M month, d day, H hour (h with a: AM or PM), m minute, s second, S millisecond, E day of week, D day of"
    " year, z Z X zone; other text stands in single quotes"
)


class DatePatternError(ValueError):
    """The pattern is malformed at position `at`."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class PatternLetter:
    """A letter, repeated `count` times."""

    letter: str
    count: int

    @property
    def numeric(self) -> bool:
        """True if the field is written in digits."""
        if self.letter in "MLQqEec":
            return self.count < 3 and (self.letter in "MLQqec")
        return self.letter not in "GazZXxOVv"


@dataclass(frozen=True, slots=True)
class OptionalSection:
    """A section in brackets."""

    parts: tuple[PatternLetter | str | OptionalSection, ...]


PatternElement = PatternLetter | str | OptionalSection
PatternElements = tuple[PatternElement, ...]


@lru_cache(maxsize=512)
def parse_date_pattern(pattern: str, iso: bool) -> PatternElements:
    """Parse a pattern. Raises DatePatternError."""
    open_: list[list[PatternElement]] = [[]]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            text, at = _quoted(pattern, at)
            _literal(open_[-1], text)
            continue
        if letter.isascii() and letter.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            open_[-1].append(_field(letter, end - at, at, iso))
            at = end
            continue
        if iso and letter == "[":
            open_.append([])
        elif iso and letter == "]":
            if len(open_) == 1:
                raise DatePatternError("`]` without a `[` before it", at)
            inner = OptionalSection(tuple(open_.pop()))
            open_[-1].append(inner)
        elif iso and letter in "{}#":
            raise DatePatternError(f"`{letter}` has no meaning here", at)
        else:
            _literal(open_[-1], letter)
        at += 1
    while len(open_) > 1:  # brackets may stay open
        inner = OptionalSection(tuple(open_.pop()))
        open_[-1].append(inner)
    return tuple(open_[0])


def _literal(parts: list[PatternElement], text: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += text
    else:
        parts.append(text)


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """Return the text of the quotes that open at `start`, and the position behind; two quotes are one."""
    if pattern[start + 1 : start + 2] == "'":
        return "'", start + 2
    text, at = "", start + 1
    while at < len(pattern):
        if pattern[at] != "'":
            text += pattern[at]
            at += 1
        elif pattern[at + 1 : at + 2] == "'":
            text += "'"
            at += 2
        else:
            return text, at + 1
    raise DatePatternError("the quote is not closed", start)


_MOST = {
    **dict.fromkeys("dhHkKmsQqEeMLGcwZXx", 5),
    **dict.fromkeys("dhHkKms", 2),
    "D": 3,
    "w": 2,
    "W": 1,
    "F": 1,
    "a": 1,
}


def _field(letter: str, count: int, at: int, iso: bool) -> PatternLetter:
    if letter not in (ISO_LETTERS if iso else SIMPLE_LETTERS):
        raise DatePatternError(f"`{letter}` is no letter of date patterns", at)
    if iso:
        wrong = {"V": count != 2, "O": count not in (1, 4), "c": count == 2}.get(letter, False)
        if wrong or count > _MOST.get(letter, 19):
            raise DatePatternError(f"`{letter * count}` is no form of `{letter}`", at)
    elif letter == "X" and count > 3:
        raise DatePatternError("`X` stands at most three times", at)
    return PatternLetter(letter, count)
