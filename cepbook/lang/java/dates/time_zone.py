"""Offsets of time zones, in units of which a second has `second`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_CYCLE = 12_622_780_800  # seconds in 400 years, after which the calendar repeats itself
_FIRST, _LAST = -62_135_596_800 + 172_800, 253_402_300_799 - 172_800  # what datetime and any offset of it can hold


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """The zone called `name`: of the tz database, or UTC. Errors: ValueError when there is none."""
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # also names that are directories
        raise ValueError(f"no time zone {name!r}") from None


def _near(seconds: int) -> int:
    """`seconds`, or those of the same day of the calendar in years that datetime knows."""
    if seconds > _LAST:
        return _LAST - _CYCLE + 1 + (seconds - _LAST - 1) % _CYCLE
    return max(seconds, _FIRST)


_EPOCH = datetime(1970, 1, 1)


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset.days * 86_400 + offset.seconds


def offset_at(zone: tzinfo, time: int, second: int) -> int:
    """What local time is ahead of UTC at the moment `time`."""
    if zone is UTC:
        return 0
    seconds = time // second
    known = _of_day(zone, seconds // 86_400)
    return (_at(zone, seconds) if known is None else known) * second


def _at(zone: tzinfo, seconds: int) -> int:
    return _seconds(datetime.fromtimestamp(_near(seconds), zone).utcoffset())


@lru_cache(maxsize=4096)
def _of_day(zone: tzinfo, day: int) -> int | None:
    """The offset all through a day of UTC; None where it changes."""
    first = _at(zone, day * 86_400)
    return first if first == _at(zone, (day + 1) * 86_400) else None


@lru_cache(maxsize=4096)
def _of_local_day(zone: tzinfo, day: int) -> int | None:
    """The offset all through a local day and those around it; None where it changes."""
    found = {_of_day(zone, each) for each in (day - 1, day, day + 1)}
    return found.pop() if len(found) == 1 else None


def offset_of_local(zone: tzinfo, local: int, second: int, present: int, earlier: bool = False) -> int:
    """What the local time `local` is ahead of UTC.

    A time that the clocks show twice keeps the offset that was at `present` when that is one of the two; else it is the
    later one (as in java.util.Calendar), or the `earlier` (as in java.time). A time that clocks pass over counts on
    from before: 02:30 is 03:30 where they go from 02:00 to 03:00.
    """
    if zone is UTC:
        return 0
    known = _of_local_day(zone, local // second // 86_400)
    if known is not None:
        return known * second
    shown = (_EPOCH + timedelta(seconds=_near(local // second))).replace(tzinfo=zone)
    first = _seconds(shown.utcoffset()) * second
    other = _seconds(shown.replace(fold=1).utcoffset()) * second
    if first <= other:
        return first
    if present in (first, other):
        return present
    return first if earlier else other
