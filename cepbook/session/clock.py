"""Clock time between people and the engine: milliseconds since 1970-01-01 UTC on one side, dates on the other.

Dates and times without a zone are taken as UTC. Anything finer than a millisecond is cut off (towards the past).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import SupportsIndex

from cepbook.errors import UsageError

Moment = int | datetime | date | str
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FURTHEST = 2**53  # ms; some 285,000 years. Present times in nanoseconds lie beyond, so they are not taken for ms

# Units of EPL time periods with a fixed length (Esper reference, "Specifying Time Periods").
_UNITS = {
    "week": 604_800_000, "weeks": 604_800_000,
    "day": 86_400_000, "days": 86_400_000,
    "hour": 3_600_000, "hours": 3_600_000,
    "minute": 60_000, "minutes": 60_000, "min": 60_000,
    "second": 1_000, "seconds": 1_000, "sec": 1_000,
    "millisecond": 1, "milliseconds": 1, "msec": 1,
}  # fmt: skip
_PERIOD = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def to_ms(value: object) -> int:
    """Milliseconds since the epoch of an int (ms already), a datetime, a date or an ISO 8601 text."""
    if isinstance(value, bool) or value is None:
        raise UsageError(f"{value!r} is not a point in time")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise UsageError(f"{value!r} is not an ISO 8601 date and time") from None
    if isinstance(value, datetime):
        if value != value:  # NaT is a datetime and differs from itself
            raise UsageError("a missing time (NaT) is not a point in time")
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return timedelta_ms(aware - EPOCH)
    if isinstance(value, date):
        return timedelta_ms(datetime(value.year, value.month, value.day, tzinfo=UTC) - EPOCH)
    if isinstance(value, SupportsIndex):
        return value.__index__()
    raise UsageError(f"{value!r} is not a point in time: expected int milliseconds, a datetime or an ISO 8601 text")


def in_range(ms: int) -> int:
    """`ms`; UsageError when it is further from 1970 than the clock goes."""
    if -FURTHEST <= ms <= FURTHEST:
        return ms
    raise UsageError(
        f"{ms} ms is beyond the clock, which goes to {FURTHEST} ms\n  hint: are these nanoseconds? divide by 1,000,000"
    )


def timedelta_ms(value: timedelta) -> int:
    """Whole milliseconds of `value`, rounded down, in integer arithmetic."""
    return value // timedelta(milliseconds=1)


def to_datetime(ms: int) -> datetime | None:
    """`ms` as an aware UTC datetime, or None beyond the years that datetime knows."""
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None


def show(ms: int) -> str:
    """`ms` for people: ISO date and time in UTC with milliseconds only when there are some."""
    moment = to_datetime(ms)
    if moment is None:
        return f"{ms} ms"
    text = moment.isoformat(sep=" ", timespec="milliseconds" if ms % 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z"


def duration_ms(value: str | timedelta) -> int:
    """Milliseconds of a timedelta or an EPL time period such as ``"1 hour 30 min"``."""
    if isinstance(value, timedelta):
        return timedelta_ms(value)
    ms = is_period(value)
    if ms is None:
        raise UsageError(f"{value!r} is not a time period such as '10 sec' or '1 hour 30 minutes'")
    return ms


def is_period(text: str) -> int | None:
    """Milliseconds when `text` is an EPL time period with fixed units, else None."""
    position, total = 0, 0.0
    while position < len(text):
        part = _PERIOD.match(text, position)
        if part is None or part[2].lower() not in _UNITS:
            return None
        total += float(part[1]) * _UNITS[part[2].lower()]
        position = part.end()
    return round(total) if position else None
