"""Times in ms: their texts as they are displayed, and the span of time that a reader's text means.

A text may leave out the end of a time: ``2013-07`` is all of July, ``2013-07-02 10`` an hour, ``10:30`` a minute.
"""

from __future__ import annotations

import re

import numpy as np

from cepbook.display import DATE_THRESHOLD_MS, format_time
from cepbook.errors import UsageError
from cepbook.widgets.live_view.column_texts import WIDTH, Array, TextMatrix

_TIME_CHARACTERS = frozenset("0123456789-:. dms")
_DAY = 86_400_000  # ms
_MAX_DATE_MS = 253_402_300_800_000  # ms since 1970 of the end of the year 9999, behind which a time is no date
_CLOCK = re.compile(r"(?:(\d+)d )?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?")
# The parts of the text of a time. Days are at the right, so that the text has no gap.
_TEXT = np.dtype(
    {
        "names": ["day", "hour", "minute", "second", "fraction"],
        "formats": ["S11", "S3", "S3", "S2", "S4"],
        "offsets": [0, 11, 14, 17, 19],
        "itemsize": WIDTH,
    }
)
_TWO_DIGITS = np.array([b"%02d" % number for number in range(60)])
_WITH_COLON = np.array([b"%02d:" % number for number in range(60)])
_FRACTIONS = np.array([b".%03d" % ms for ms in range(1000)])
_EXAMPLE = "for example `> 2013-07-02 10:00` or `2013-07-01 .. 2013-07-02`"


def is_in_times(word: str) -> bool:
    """Return whether a word in lower case may be part of a time as it is displayed."""
    return _TIME_CHARACTERS.issuperset(word)


def time_texts(times: Array) -> TextMatrix:
    """Return the texts of times in ms as `format_time` writes them.

    Many times have the same day, so a day is written once. Negative times and those behind the year 9999 are few, and
    written one by one.
    """
    texts = np.zeros(len(times), _TEXT)
    regular = (times >= 0) & (times < _MAX_DATE_MS)
    if not regular.all():
        others = [format_time(time) for time in times[~regular].tolist()]
        texts[~regular] = np.array(others, f"S{WIDTH}").view(_TEXT)
        times = times[regular]
    days, clocks = np.divmod(times, _DAY)
    days, places = np.unique(days, return_inverse=True)
    minutes, ms = np.divmod(clocks.astype(np.int32), 60_000)  # half as wide numbers are divided in half the time
    seconds, ms = np.divmod(ms, 1000)
    written = np.zeros(len(times), _TEXT)
    written["day"] = np.array([_day_text(day) for day in days.tolist()], _TEXT["day"])[places]
    written["hour"] = _WITH_COLON[minutes // 60]
    written["minute"] = _WITH_COLON[minutes % 60]
    written["second"] = _TWO_DIGITS[seconds]
    written["fraction"] = np.where((ms > 0) | (times < DATE_THRESHOLD_MS), _FRACTIONS[ms], b"")
    texts[regular] = written
    return TextMatrix(texts)


def _day_text(day: int) -> bytes:
    """Return what a time has before the hour, in equal width: a date, the days since 0, or nothing."""
    time = day * _DAY
    text = format_time(time)[:11] if time >= DATE_THRESHOLD_MS else f"{day}d " if day else ""
    return text.encode("ascii").rjust(11, b"\0")


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
