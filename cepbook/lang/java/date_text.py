"""Dates and times as Java prints them without a pattern."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def date_text(value: datetime | date | time) -> str:
    """Format a moment as ``Mon Mar 04 10:20:30 UTC 2024``, anything else as `local_text`."""
    if not isinstance(value, datetime) or value.tzinfo is not UTC:
        return local_text(value)
    day, month = DAYS[value.weekday()][:3], MONTHS[value.month - 1][:3]
    return f"{day} {month} {value.day:02} {value:%H:%M:%S} UTC {value.year:04}"


def local_text(value: datetime | date | time) -> str:
    """Format as `java.time`: ``2024-03-04T10:20``, ``10:20:30.456``, ``…-05:00[America/New_York]``, ``…Z``."""
    if not isinstance(value, (datetime, time)):
        return value.isoformat()
    fine = "minutes" if not value.second and not value.microsecond else "seconds"
    if value.microsecond:
        fine = "microseconds" if value.microsecond % 1000 else "milliseconds"
    if isinstance(value, time):
        return value.isoformat(fine)
    text = value.replace(tzinfo=None).isoformat(timespec=fine)
    if value.tzinfo is None:
        return text
    ahead = value.isoformat(timespec="minutes")[16:]
    key = getattr(value.tzinfo, "key", None)
    return text + ("Z" if ahead == "+00:00" else ahead) + (f"[{key}]" if key is not None else "")


def parse_local_time(text: str) -> time:
    """Parse a time of day in the form of `local_text`. Raises ValueError."""
    parsed = time.fromisoformat(text)
    if parsed.tzinfo is not None:
        raise ValueError(f"{text!r} has a zone")
    return parsed


def parse_zoned_datetime(text: str) -> datetime:
    """Parse a zoned date-time in the form of `local_text`; the zone in brackets is optional. Raises ValueError."""
    moment, bracket, rest = text.partition("[")
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None or (bracket and not rest.endswith("]")):
        raise ValueError(f"{text!r} has no zone")
    if not bracket:
        return parsed if parsed.utcoffset() else parsed.replace(tzinfo=UTC)
    try:
        return parsed.astimezone(ZoneInfo(rest[:-1]))
    except (KeyError, OSError) as unknown:
        raise ValueError(f"there is no time zone {rest[:-1]!r}") from unknown
