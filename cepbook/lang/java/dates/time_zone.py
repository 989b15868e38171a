"""Offsets of time zones, in units of which a second has `second`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_CYCLE = 12_622_780_800  # seconds in 400 years, after which the calendar repeats itself
_FIRST, _LAST = -62_135_596_800 + 172_800, 253_402_300_799 - 172_800  # what datetime and any offset of it can hold


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return the zone called `name` in the tz database, or UTC. Raises ValueError if there is none."""
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # also names that are directories
        raise ValueError(f"no time zone {name!r}") from None


def _near(seconds: int) -> int:
    """Map to the same day of the calendar within the years of datetime."""
    if seconds > _LAST:
        return _LAST - _CYCLE + 1 + (seconds - _LAST - 1) % _CYCLE
    return max(seconds, _FIRST)


_EPOCH = datetime(1970, 1, 1)


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset.days * 86_400 + offset.seconds


def offset_at(zone: tzinfo, time: int, second: int) -> int:
    """Return the offset from UTC at the moment `time`."""
    if zone is UTC:
        return 0
    seconds = time // second
    known = _of_day(zone, seconds // 86_400)
    return (_at(zone, seconds) if known is None else known) * second


def moment_at(zone: tzinfo, seconds: int) -> datetime:
    """Return the moment `seconds` after 1970 in a zone. `fromtimestamp` of Windows refuses those before 1970."""
    return (_EPOCH.replace(tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone)


def _at(zone: tzinfo, seconds: int) -> int:
    return _seconds(moment_at(zone, _near(seconds)).utcoffset())


@lru_cache(maxsize=4096)
def _of_day(zone: tzinfo, day: int) -> int | None:
    """The offset during a whole UTC day, or None if it changes."""
    first = _at(zone, day * 86_400)
    return first if first == _at(zone, (day + 1) * 86_400) else None


@lru_cache(maxsize=4096)
def _of_local_day(zone: tzinfo, day: int) -> int | None:
    """The offset during a local day and its neighbours, or None if it changes."""
    offsets = {_of_day(zone, near) for near in (day - 1, day, day + 1)}
    return offsets.pop() if len(offsets) == 1 else None


def offset_of_local(zone: tzinfo, local: int, second: int, present: int, earlier: bool = False) -> int:
    """Return the offset from UTC of a local time.

    A time that clocks show twice keeps the offset `present` if that is one of the two; else it gets the later one (as
    in java.util.Calendar) or the `earlier` (as in java.time). A time that clocks skip counts on from before: 02:30 is
    03:30 if they go from 02:00 to 03:00.
    """
    if zone is UTC:
        return 0
    known = _of_local_day(zone, local // second // 86_400)
    if known is not None:
        return known * second
    wall = (_EPOCH + timedelta(seconds=_near(local // second))).replace(tzinfo=zone)
    first = _seconds(wall.utcoffset()) * second
    other = _seconds(wall.replace(fold=1).utcoffset()) * second
    if first <= other:
        return first
    if present in (first, other):
        return present
    return first if earlier else other
