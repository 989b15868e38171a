"""Conversions between the times of users and of the engine.

The engine counts milliseconds since 1970-01-01 UTC, or microseconds (`Config.microseconds`); `second` is always the
number of clock units per second, and `zone` (`Config.time_zone`) that of dates and times without one; of what clocks
show twice it is the first. Anything finer than the clock's unit is cut off towards the past, with a warning.
"""

from __future__ import annotations

import math
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import SupportsIndex

from cepbook.argument_checks import caller_stacklevel, short_repr
from cepbook.display import format_time
from cepbook.engine.expressions.plain_values import plain_value
from cepbook.errors import EventError, UsageError
from cepbook.lang.java.dates.time_zone import zone_of


class CutTimesWarning(UserWarning):
    """Times are finer than the clock and were cut."""


TimeLike = int | datetime | date | str
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_CLOCK = 2**53  # some 285,000 years (in µs 285); present times in nanoseconds are beyond it, so they are refused

# Units of EPL time periods with a fixed length in µs (Esper reference, "Specifying Time Periods").
_UNITS = {
    "week": 604_800_000_000, "weeks": 604_800_000_000,
    "day": 86_400_000_000, "days": 86_400_000_000,
    "hour": 3_600_000_000, "hours": 3_600_000_000,
    "minute": 60_000_000, "minutes": 60_000_000, "min": 60_000_000,
    "second": 1_000_000, "seconds": 1_000_000, "sec": 1_000_000,
    "millisecond": 1_000, "milliseconds": 1_000, "msec": 1_000,
    "microsecond": 1, "microseconds": 1, "usec": 1,
}  # fmt: skip
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")  # more digits than any clock has
_SINCE = re.compile(r"(-)?(?:(\d{1,3})d )?(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_PERIOD = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def clock_unit(second: int) -> str:
    """Return the clock's unit as written behind a number."""
    return "ms" if second == 1000 else "µs"


def format_span(start: int, end: int, unit: str) -> str:
    """Format the span of two times in the clock's `unit`."""
    second = 1000 if unit == "ms" else 1_000_000
    return f"{format_time(start, second=second)} to {format_time(end, second=second)}"


def to_clock_units(value: object, second: int = 1000, zone: str = "UTC") -> int:
    """Return clock units since the epoch for an int (already in units), a datetime, a date or an ISO 8601 text."""
    if type(value) is int:
        return value
    value = plain_value(value)
    if isinstance(value, bool) or value is None:
        raise UsageError(f"{short_repr(value)} is not a point in time")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise UsageError(f"{short_repr(value)} is not an ISO 8601 date and time") from None
    if isinstance(value, datetime):
        if value != value:  # NaT is a datetime and differs from itself
            raise UsageError("a missing time (NaT) is not a point in time")
        aware = value if value.tzinfo is not None else value.replace(tzinfo=zone_of(zone))
        if value.microsecond % (1_000_000 // second) or getattr(value, "nanosecond", 0):
            warn_of_cut_times("times", second)
        return timedelta_units(aware - EPOCH, second)
    if isinstance(value, date):
        return timedelta_units(datetime(value.year, value.month, value.day, tzinfo=zone_of(zone)) - EPOCH, second)
    if isinstance(value, SupportsIndex):
        with suppress(TypeError):  # an array has the method, but is no number
            return value.__index__()
    units = "milliseconds" if second == 1000 else "microseconds"
    raise UsageError(
        f"{short_repr(value)} is not a point in time: expected int {units}, a datetime or an ISO 8601 text"
    )


def warn_of_cut_times(what: str, second: int) -> None:
    """Warn that times are finer than the clock, and how they are kept."""
    if second == 1000:
        fact, hint = (
            "milliseconds",
            "Workbench(config=Config(microseconds=True)) counts microseconds (--microseconds in a shell)",
        )
    else:
        fact, hint = "microseconds", "no clock is finer; keep what is finer as a number in another property"
    message = f"{what} are cut to whole {fact}, the unit of the clock\n  hint: {hint}"
    warnings.warn(message, CutTimesWarning, stacklevel=caller_stacklevel())


def parse_time(text: str, second: int = 1000, zone: str = "UTC") -> int:
    """Return clock units of a time from a cell: ISO 8601, or ``00:05``, ``00:05:00.250``, ``2d 08:00`` for a clock that
    starts at 0.

    Raises UsageError.
    """
    match = _SINCE.fullmatch(text.strip())
    if match is None:
        return to_clock_units(text, second, zone)
    sign, days, hours, minutes, seconds, fraction = match.groups()
    whole = (int(days or 0) * 24 + int(hours)) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return (-1 if sign else 1) * (whole * second + int((fraction or "0").ljust(6, "0")) * second // 1_000_000)


def int_or_text(text: str) -> int | str:
    """Return the text as an int if it is one: a time in clock units or in ISO 8601."""
    return int(text) if _WHOLE.fullmatch(text) else text


def check_clock_range(time: int, second: int = 1000) -> int:
    """Return `time`. Raises UsageError if it is further from 1970 than the clock goes."""
    if -MAX_CLOCK <= time <= MAX_CLOCK:
        return time
    raise UsageError(beyond_clock(time, second))


def beyond_clock(time: float, second: int) -> str:
    """Return the message for a time that is further from 1970 than the clock goes."""
    unit = clock_unit(second)
    hint = f"are these nanoseconds? divide by {10**9 // second:,}"
    return f"{short_repr(time)} {unit} is beyond the clock, which goes to {MAX_CLOCK} {unit}\n  hint: {hint}"


def timedelta_units(value: timedelta, second: int = 1000) -> int:
    """Return whole clock units, rounded down, in integer arithmetic."""
    return value // timedelta(microseconds=1_000_000 // second)


def to_datetime(time: int, second: int = 1000) -> datetime | None:
    """Return a time as an aware UTC datetime; None beyond the years that datetime supports."""
    try:
        return EPOCH + timedelta(microseconds=time * (1_000_000 // second))
    except OverflowError:
        return None


def clock_text(time: int, second: int = 1000) -> str:
    """Format a time for people, like `format_time`."""
    return format_time(time, second=second)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A moment of the clock: `units` since 1970 UTC, with `second` units per second, also as `ms` and `datetime`."""

    units: int
    second: int = 1000

    @property
    def ms(self) -> int:
        """Milliseconds since 1970 UTC, cut off towards the past."""
        return self.units * 1000 // self.second

    @property
    def datetime(self) -> datetime | None:
        """An aware UTC datetime, None beyond the year 9999."""
        return to_datetime(self.units, self.second)

    def __int__(self) -> int:
        return self.units

    def __repr__(self) -> str:
        return f"{clock_text(self.units, self.second)} ({self.units} {clock_unit(self.second)})"


def period_units(value: str | timedelta, second: int = 1000) -> int:
    """Return clock units of a timedelta or an EPL time period such as ``"1 hour 30 min"``."""
    if isinstance(value, timedelta):
        return timedelta_units(value, second)
    units = parse_period(value, second) if isinstance(value, str) else None
    if units is None:
        raise UsageError(
            f"{short_repr(value)} is not a time period such as '10 sec' or '1 hour 30 minutes', or a timedelta"
        )
    return units


def parse_period(text: str, second: int = 1000) -> int | None:
    """Return clock units if `text` is an EPL time period with fixed units; else None."""
    position, total = 0, 0.0
    while position < len(text):
        match = _PERIOD.match(text, position)
        if match is None or match[2].lower() not in _UNITS:
            return None
        total += float(match[1]) * _UNITS[match[2].lower()] * second / 1_000_000
        position = match.end()
    if not math.isfinite(total):
        raise UsageError(f"`{text}` is longer than any clock goes")
    return round(total) if position else None


def before_clock_error(name: str, time: int, now: int, second: int) -> EventError:
    """Return the error of an event that is before the clock."""
    at, clock = (f"{value} {clock_unit(second)} ({clock_text(value, second)})" for value in (time, now))
    hint = '`cep.rewind()` (`%epl rewind`) begins anew with what is deployed; late="drop" leaves such events out'
    if time < 0:
        moment = to_datetime(time, second)
        start = time if moment is None else f'"{moment:%Y-%m-%d}"'
        hint = f"the clock begins in 1970 by default; Workbench(start={start}) begins earlier (--start in a shell)"
    return EventError(f"an event of `{name}` at {at} is before the clock, {clock}\n  hint: {hint}")
