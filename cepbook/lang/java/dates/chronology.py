"""Chronologies: how date-time values of one type are read as a day and a time of day, and made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from cepbook.lang.java.dates.time_zone import offset_at, offset_of_local, zone_of
from cepbook.lang.java.numbers import wrap

WallTime = tuple[int, int]  # days since 1970-01-01, and units since midnight

_MICRO = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Chronology:
    """A type of date-time values. One second of local time has `second` units.

    With `iso` the values behave as those of `java.time`: months count from 1, a field out of range is an error, a day
    beyond its month becomes the last one, weeks count from 1 January. Without, they behave as `java.util.Calendar`:
    months count from 0, an excess carries into the next field, weeks begin on Sunday. `zone` applies to values without
    a zone.
    """

    second: int = 1_000_000
    iso: bool = False
    zone: str = "UTC"

    @property
    def day(self) -> int:
        """The units of a day."""
        return 86_400 * self.second

    def wall(self, value: Any) -> WallTime:
        """Return the local day and the units since local midnight."""
        raise NotImplementedError

    def at(self, days: int, rest: int, like: Any) -> Any:
        """Return the value with this local day and time in the zone of `like`, and with its offset if possible."""
        raise NotImplementedError

    def later(self, value: Any, units: int) -> Any:
        """Move `value` by an exact span of time."""
        raise NotImplementedError

    def instant(self, value: Any) -> int:
        """Return milliseconds since 1970 UTC."""
        return self.moment(value) // (self.second // 1000)

    def moment(self, value: Any) -> int:
        """Return units since 1970 UTC; a local time counts as UTC."""
        days, rest = self.wall(value)
        return days * self.day + rest

    def zone_at(self, value: Any) -> tuple[tzinfo | None, int]:
        """Return the zone of `value` and its offset from UTC in seconds."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.zone


@dataclass(frozen=True, slots=True)
class EpochChronology(Chronology):
    """Whole numbers since 1970 UTC in milliseconds or clock units, read in `zone`."""

    _zone: tzinfo = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", zone_of(self.zone))

    def wall(self, value: int) -> WallTime:
        return divmod(value + offset_at(self._zone, value, self.second), self.day)

    def at(self, days: int, rest: int, like: int) -> int:
        local = days * self.day + rest
        present = offset_at(self._zone, like, self.second)
        return wrap(local - offset_of_local(self._zone, local, self.second, present), 64)

    def later(self, value: int, units: int) -> int:
        return wrap(value + units, 64)

    def moment(self, value: int) -> int:
        return value

    def zone_at(self, value: int) -> tuple[tzinfo | None, int]:
        return self._zone, offset_at(self._zone, value, self.second) // self.second


@dataclass(frozen=True, slots=True)
class LocalChronology(Chronology):
    """Date-times without a zone (``localdatetime``). Converted to moments they are read in `zone`."""

    def wall(self, value: datetime) -> WallTime:
        return divmod((value.replace(tzinfo=None) - _EPOCH) // _MICRO, self.day)

    def at(self, days: int, rest: int, like: datetime) -> datetime:
        return _from_epoch(days * self.day + rest)

    def later(self, value: datetime, units: int) -> datetime:
        return _from_epoch((value - _EPOCH) // _MICRO + units)

    def moment(self, value: datetime) -> int:
        local = (value - _EPOCH) // _MICRO
        return local - offset_of_local(zone_of(self.zone), local, self.second, 0, earlier=True)

    def zone_at(self, value: datetime) -> tuple[tzinfo | None, int]:
        return None, 0


@dataclass(frozen=True, slots=True)
class ZonedChronology(Chronology):
    """Date-times with a zone of their own: ``zoneddatetime``, and ``calendar`` without `iso`."""

    def wall(self, value: datetime) -> WallTime:
        return divmod((value.replace(tzinfo=None) - _EPOCH) // _MICRO, self.day)

    def at(self, days: int, rest: int, like: datetime) -> datetime:
        zone, present = self.zone_at(like)
        local = days * self.day + rest
        units = local - offset_of_local(zone, local, self.second, present * self.second, earlier=self.iso)
        return in_zone(units, zone)

    def later(self, value: datetime, units: int) -> datetime:
        return in_zone(self.moment(value) + units, value.tzinfo or UTC)

    def moment(self, value: datetime) -> int:
        return (_aware(value) - _EPOCH_UTC) // _MICRO

    def zone_at(self, value: datetime) -> tuple[tzinfo, int]:
        offset = _aware(value).utcoffset() or timedelta()
        return value.tzinfo or UTC, offset.days * 86_400 + offset.seconds


@dataclass(frozen=True, slots=True)
class InstantChronology(Chronology):
    """Moments (``date``), read in `zone`."""

    def wall(self, value: datetime) -> WallTime:
        return divmod((_aware(value).astimezone(zone_of(self.zone)).replace(tzinfo=None) - _EPOCH) // _MICRO, self.day)

    def at(self, days: int, rest: int, like: datetime) -> datetime:
        zone, local = zone_of(self.zone), days * self.day + rest
        present = offset_at(zone, self.moment(like), self.second)
        return in_zone(local - offset_of_local(zone, local, self.second, present), UTC)

    def later(self, value: datetime, units: int) -> datetime:
        return in_zone(self.moment(value) + units, UTC)

    def moment(self, value: datetime) -> int:
        return (_aware(value) - _EPOCH_UTC) // _MICRO

    def zone_at(self, value: datetime) -> tuple[tzinfo | None, int]:
        zone = zone_of(self.zone)
        return zone, offset_at(zone, self.moment(value), self.second) // self.second


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _from_epoch(units: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=units)
    except OverflowError:
        raise ValueError("the date is not in the years 1 to 9999") from None


def in_zone(units: int, zone: tzinfo) -> datetime:
    """Convert microseconds since 1970 UTC to a datetime of `zone`. Raises ValueError beyond the years 1 to 9999."""
    try:
        return (_EPOCH_UTC + timedelta(microseconds=units)).astimezone(zone)
    except OverflowError:
        raise ValueError("the date is not in the years 1 to 9999") from None
