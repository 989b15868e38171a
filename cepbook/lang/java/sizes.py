"""Limits of what expressions make out of values: texts, whole numbers and arrays.

A text that is joined to itself at each event doubles, and so do the digits of a number that is squared: some 30 events
would fill the memory. An expression that would pass a limit is an error of its statement instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_LENGTH = 1 << 24  # characters of a text, elements of an array
MAX_DIGITS = 4300  # of a biginteger; Python writes no longer ones
MAX_INTEGER = 10**MAX_DIGITS


def joined(*texts: str) -> str:
    """Return the texts as one. Errors: ValueError if it would be too long."""
    _check(sum(map(len, texts)), "characters")
    return "".join(texts)


def replaced(text: str, old: str, new: str) -> str:
    """Return `text` with every `old` replaced by `new`. Errors: ValueError if it would be too long."""
    _check(len(text) + text.count(old) * (len(new) - len(old)), "characters")
    return text.replace(old, new)


def united(items: Sequence[Any], others: Sequence[Any] | None) -> list[Any]:
    """Return the elements of both arrays. Errors: ValueError if they are too many."""
    _check(len(items) + len(others or ()), "elements")
    return [*items, *(others or ())]


def bounded_integer(value: int) -> int:
    """Return a biginteger. Errors: ValueError if it has too many digits."""
    if -MAX_INTEGER < value < MAX_INTEGER:
        return value
    raise ValueError(f"the result is a biginteger of more than {MAX_DIGITS:,} digits")


def _check(length: int, of: str) -> None:
    if length > MAX_LENGTH:
        raise ValueError(f"the result would have {length:,} {of}, more than {MAX_LENGTH:,}")
