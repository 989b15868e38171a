"""Character classes of Java's regular expressions that Python's do not have: ``\\p{Alpha}``, ``\\p{Lu}``, ``\\P{L}``.

The names of POSIX stand for ASCII, the others for categories of Unicode, with ``Is`` or without
(`java.util.regex.Pattern`, section "Summary of regular-expression constructs").
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

CodePointRanges = tuple[tuple[int, int], ...]  # code points, from and to, in order

_POSIX = {
    "Lower": "az",
    "Upper": "AZ",
    "ASCII": "\x00\x7f",
    "Alpha": "AZaz",
    "Digit": "09",
    "Alnum": "09AZaz",
    "Punct": "!/:@[`{~",
    "Graph": "!~",
    "Print": " ~",
    "Blank": "\t\t  ",
    "Cntrl": "\x00\x1f\x7f\x7f",
    "XDigit": "09AFaf",
    "Space": "\t\r  ",
}
_BINARY = {"IsAlphabetic": "L", "IsLetter": "L", "IsUppercase": "Lu", "IsLowercase": "Ll", "IsDigit": "Nd"}
_BINARY |= {"IsPunctuation": "P", "IsWhite_Space": "Z"}
_CATEGORIES = frozenset(
    "L M N P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
)
_PART = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))|\\.|\[\^?\]?|\]|&&|.", re.DOTALL)


class UnknownCharacterClass(ValueError):
    """A character class or operator without a counterpart in Python; `part` is its text."""

    def __init__(self, part: str) -> None:
        super().__init__(f"`{part}` in a regular expression")
        self.part = part


@lru_cache(maxsize=512)
def to_python_pattern(pattern: str) -> str:
    """Translate the character classes of a Java pattern. Raises UnknownCharacterClass."""
    if "\\p" not in pattern and "\\P" not in pattern and "&&" not in pattern:
        return pattern
    return "".join(_parts(pattern))


def _parts(pattern: str) -> Iterator[str]:
    in_brackets = False
    for match in _PART.finditer(pattern):
        token, (kind, name, letter) = match[0], match.groups()
        if kind is not None:
            code_points = _class(name or letter, kind == "P", token)
            ranges = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in code_points)
            yield ranges if in_brackets else f"[{ranges}]"
            continue
        if in_brackets and token == "&&":
            raise UnknownCharacterClass(token)
        if token.startswith("[") and not in_brackets:
            in_brackets = True
        elif token == "]":
            in_brackets = False
        yield token


def _class(name: str, negated: bool, token: str) -> CodePointRanges:
    if name in _POSIX:
        ends = [ord(character) for character in _POSIX[name]]
        ranges: CodePointRanges = tuple(zip(ends[::2], ends[1::2], strict=True))
    else:
        category = _BINARY.get(name, name.removeprefix("Is"))
        if category not in _CATEGORIES:
            raise UnknownCharacterClass(token)
        ranges = _of_category(category)
    return tuple(_others(ranges)) if negated else ranges


@lru_cache(maxsize=32)
def _of_category(category: str) -> CodePointRanges:
    ranges: list[tuple[int, int]] = []
    for run_category, low, high in _runs():
        if run_category.startswith(category):
            low = ranges.pop()[0] if ranges and ranges[-1][1] == low - 1 else low
            ranges.append((low, high))
    return tuple(ranges)


@lru_cache(maxsize=1)
def _runs() -> tuple[tuple[str, int, int], ...]:
    """All characters as runs of one category: (category, first, last)."""
    runs: list[tuple[str, int, int]] = []
    low = 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))):
        high = low + sum(1 for _ in run)
        runs.append((category, low, high - 1))
        low = high
    return tuple(runs)


def _others(ranges: CodePointRanges) -> Iterator[tuple[int, int]]:
    at = 0
    for low, high in ranges:
        if low > at:
            yield at, low - 1
        at = high + 1
    if at <= sys.maxunicode:
        yield at, sys.maxunicode
