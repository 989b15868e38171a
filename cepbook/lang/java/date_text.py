"""How Java prints dates and times where no pattern is given."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def date_text(value: datetime | date | time) -> str:
    """``Mon Mar 04 10:20:30 UTC 2024`` for a moment, else as `local_text`."""
    if not isinstance(value, datetime) or value.tzinfo is not UTC:
        return local_text(value)
    day, month = DAYS[value.weekday()][:3], MONTHS[value.month - 1][:3]
    return f"{day} {month} {value.day:02} {value:%H:%M:%S} UTC {value.year:04}"


def local_text(value: datetime | date | time) -> str:
    """As `java.time` prints it: ``2024-03-04T10:20``, ``10:20:30.456``, ``…-05:00[America/New_York]``, ``…Z``."""
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
    """The time of day that `local_text` prints so. Errors: ValueError."""
    found = time.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError(f"{text!r} has a zone")
    return found


def parse_zoned_datetime(text: str) -> datetime:
    """The moment in a zone that `local_text` prints so; the name of a zone in brackets may be missing, its offset not.

    Errors: ValueError.
    """
    moment, bracket, rest = text.partition("[")
    found = datetime.fromisoformat(moment)
    if found.tzinfo is None or (bracket and not rest.endswith("]")):
        raise ValueError(f"{text!r} has no zone")
    if not bracket:
        return found if found.utcoffset() else found.replace(tzinfo=UTC)
    try:
        return found.astimezone(ZoneInfo(rest[:-1]))
    except (KeyError, OSError) as unknown:
        raise ValueError(f"there is no time zone {rest[:-1]!r}") from unknown
