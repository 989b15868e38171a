"""Times in ms: those that contain a word as they are displayed, and the span of time that a reader's text means.

A text may leave out the end of a time: ``2013-07`` is all of July, ``2013-07-02 10`` an hour, ``10:30`` a minute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cepbook.display import DATE_THRESHOLD_MS, format_time
from cepbook.errors import UsageError

Array = np.ndarray[Any, Any]

_TIME_CHARACTERS = frozenset("0123456789-:. dms")
_DAY = 86_400_000  # ms
_MAX_DATE_MS = 253_402_300_800_000  # ms since 1970 of the end of the year 9999, behind which a time is no date
_CLOCK = re.compile(r"(?:(\d+)d )?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?")
_EXAMPLE = "for example `> 2013-07-02 10:00` or `2013-07-01 .. 2013-07-02`"


def is_in_times(word: str) -> bool:
    """Return whether a word in lower case may be part of a time as it is displayed."""
    return _TIME_CHARACTERS.issuperset(word)


def times_containing(times: Array, word: str) -> Array:
    """Return where times in ms contain a word as they are displayed.

    Many times are of the same days, so a day is looked at once. Times of day are compared by character. The word is in
    one of the two, or ends the day and begins the time of day.
    """
    dated = (times >= DATE_THRESHOLD_MS) & (times < _MAX_DATE_MS)
    where = np.zeros(len(times), np.bool_)
    where[~dated] = _hits(times[~dated], lambda time: word in format_time(time))
    days, clocks = np.divmod(times[dated], _DAY)
    head, space, tail = word.partition(" ")
    if space:
        hits = _hits(days, lambda day: _date(day).endswith(head))
        where[dated] = hits & _clocks_with(clocks, tail, range(1))
    else:
        hits = _hits(days, lambda day: word in _date(day))
        where[dated] = hits | _clocks_with(clocks, word, range(len(_CLOCK_SIGNS)))
    return where


def _hits(values: Array, is_so: Callable[[int], bool]) -> Array:
    first, last = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if last - first < _MANY:
        table = np.fromiter(map(is_so, range(first, last + 1)), np.bool_, last - first + 1)
        there: Array = table[values - first]
        return there
    different, places = np.unique(values, return_inverse=True)
    return np.fromiter(map(is_so, different.tolist()), np.bool_, len(different))[places]


def _date(day: int) -> str:
    return format_time(day * _DAY)[:10]


# The characters of a time of day: a sign, or how many ms the digit counts, and its base
_CLOCK_SIGNS: tuple[str | tuple[int, int], ...] = (
    *((36_000_000, 10), (3_600_000, 10), ":", (600_000, 6), (60_000, 10), ":", (10_000, 6), (1_000, 10)),
    *(".", (100, 10), (10, 10), (1, 10)),
)
_CLOCK_FORM = "00:00:00.000"
_MANY = 4_000  # values in a row that are looked at rather than sorted
_WHOLE = 8  # characters of a time of day without ms


def _clocks_with(clocks: Array, word: str, starts: Iterable[int]) -> Array:
    """Return where times of day in ms have a word at one of these positions of their text."""
    clocks = clocks.astype(np.int32)  # a day has fewer ms, and half as wide numbers are divided in half the time
    where, whole = np.zeros(len(clocks), np.bool_), clocks % 1000 == 0
    signs = len(_CLOCK_SIGNS) if not whole.all() else _WHOLE
    digits: dict[int, Array] = {}

    def has(position: int, character: str) -> Array | bool:
        sign = _CLOCK_SIGNS[position]
        if isinstance(sign, str):
            return sign == character
        if position not in digits:
            digits[position] = (clocks // sign[0] % sign[1]).astype(np.int8)
        at: Array = digits[position] == int(character)
        return at

    form = "".join("0" if "0" <= character <= "9" else character for character in word)
    for start in starts:
        end = start + len(word)
        if end <= signs and _CLOCK_FORM[start:end] == form:
            hits: Array | bool = True
            for position, character in enumerate(word, start):
                hits = hits & has(position, character)
            where |= hits & ~whole if end > _WHOLE else hits
    return where


def time_span(text: str, *, dated: bool) -> tuple[int, int]:
    """Return the first ms that a text means and the first ms behind it.

    A number is ms. With `dated` a time of day alone means nothing. Raises UsageError for what is no time.
    """
    plain = text.strip().removesuffix(" UTC").removesuffix("Z")
    if re.fullmatch(r"-?\d{5,}", plain):
        return int(plain), int(plain) + 1
    clock = _CLOCK.fullmatch(plain)
    if clock is not None and not dated:
        days, hours, minutes, seconds, digits = clock.groups()
        start = ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60_000
        start += int(seconds or 0) * 1000 + int((digits or "0").ljust(3, "0"))
        return start, start + (60_000 if seconds is None else 1000 if digits is None else 10 ** (3 - len(digits)))
    if re.match(r"\d{4}(-|$)", plain) is None:
        raise UsageError(f"`{text}` is no time, {_EXAMPLE if dated else 'for example `> 00:10:00`'}")
    try:
        moment = np.datetime64(re.sub(r"\.(\d{3})\d+$", r".\1", plain.replace(" ", "T", 1)))
    except ValueError:
        raise UsageError(f"`{text}` is no time, {_EXAMPLE}") from None
    start_ms, end_ms = (int(edge.astype("datetime64[ms]").astype(np.int64)) for edge in (moment, moment + 1))
    return start_ms, end_ms
