"""Time periods of windows: fixed, or with calendar months."""

from __future__ import annotations

from typing import ClassVar

from cepbook.engine.state import State
from cepbook.engine.time.calendar_periods import add_days, add_months, month_due, next_day_on_grid, next_on_grid


class Duration(State):
    """A fixed number of clock units."""

    length: int
    steady: ClassVar[bool] = True  # True if the period is exactly `length` clock units

    def after(self, t: int) -> int:
        """Return the first time at which something of time `t` is one period old."""
        return t + self.length

    def before(self, now: int) -> int:
        """Return the latest time that is one period old at `now`."""
        return now - self.length

    def on_grid(self, now: int, point: int) -> int:
        """Return the first point after `now` of the grid through `point`."""
        return next_on_grid(now, point, 0, self.length)


class CalendarDuration(Duration):
    """Calendar months in a time zone (days clamped to the month's last), plus a fixed rest.

    A second has `second` clock units.
    """

    __slots__ = ("months", "second", "zone")
    steady = False

    def __init__(self, months: int, length: int, second: int, zone: str) -> None:
        super().__init__(length)
        self.months = months
        self.second = second
        self.zone = zone

    def after(self, t: int) -> int:
        return month_due(t, self.months, self.length, self.second, self.zone)

    def before(self, now: int) -> int:
        return add_months(now, -self.months, self.second, self.zone) - self.length

    def on_grid(self, now: int, point: int) -> int:
        return next_on_grid(now, point, self.months, self.length, self.second, self.zone)


class ZonedDays(Duration):
    """Whole days in a time zone, of which some have 23 or 25 hours. A second has `second` clock units."""

    __slots__ = ("days", "second", "zone")
    steady = False

    def __init__(self, days: int, second: int, zone: str) -> None:
        super().__init__(days * 86_400 * second)
        self.days = days
        self.second = second
        self.zone = zone

    def after(self, t: int) -> int:
        return add_days(t, self.days, self.second, self.zone)

    def before(self, now: int) -> int:
        return add_days(now, -self.days, self.second, self.zone)

    def on_grid(self, now: int, point: int) -> int:
        return next_day_on_grid(now, point, self.days, self.second, self.zone)


def duration(
    months: int | None, length: int | None, second: int, zone: str = "UTC", *, nonzero: bool = False
) -> Duration:
    """Return the period of `months` in the time zone plus `length` clock units, of which a second has `second`.

    A `nonzero` period divides time into batches: whole days are days of the zone then.

    Errors: ValueError if a value is null or negative; with `nonzero`, also if the period is 0.
    """
    if months is None or length is None:
        raise ValueError("the period of a window is null")
    if months < 0 or length < 0:
        raise ValueError(f"the period of a window is negative: {f'{months} months and ' if months else ''}{length}")
    if nonzero and not (months or length):
        raise ValueError("the period of a window must be above 0, found 0")
    days, rest = divmod(length, 86_400 * second)
    if nonzero and not (months or rest) and zone != "UTC":
        return ZonedDays(days, second, zone)
    return CalendarDuration(months, length, second, zone) if months else Duration(length)


def positive(size: int | None) -> int:
    """Return a window size. Errors: ValueError if it is null, zero or negative."""
    if size is None or size <= 0:
        raise ValueError(f"the size of a window must be above 0, found {'null' if size is None else size}")
    return size
