"""Time periods as window views use them: fixed, or with calendar months."""

from __future__ import annotations

from typing import ClassVar

from cepbook.engine.state import State
from cepbook.engine.time.calendar_periods import add_months, month_due, next_on_grid


class Duration(State):
    """A fixed number of clock units."""

    __slots__ = ("length",)
    steady: ClassVar[bool] = True  # whether `length` is all there is to it

    def __init__(self, length: int) -> None:
        self.length = length

    def after(self, t: int) -> int:
        """The first time at which something of time `t` is a period old."""
        return t + self.length

    def before(self, now: int) -> int:
        """The newest time that is a period old at `now`."""
        return now - self.length

    def on_grid(self, now: int, point: int) -> int:
        """The first point behind `now` of the grid through `point`."""
        return next_on_grid(now, point, 0, self.length)


class CalendarDuration(Duration):
    """Calendar months (days clamped to the month's last) in a time zone, and a fixed rest. `second` is one in units of
    the clock.
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


def duration(
    months: int | None, length: int | None, second: int, zone: str = "UTC", *, apart: bool = False
) -> Duration:
    """The period of `months` (of the time zone) and `length` clock units, of which a second has `second`.

    Errors: ValueError when a part is null or negative, with `apart` also when the whole is zero.
    """
    if months is None or length is None:
        raise ValueError("the period of a window is null")
    if months < 0 or length < 0:
        raise ValueError(f"the period of a window is negative: {f'{months} months and ' if months else ''}{length}")
    if apart and not (months or length):
        raise ValueError("the period of a window must be above 0, found 0")
    return CalendarDuration(months, length, second, zone) if months else Duration(length)


def positive(size: int | None) -> int:
    """A window size. Errors: ValueError when it is null, zero or negative."""
    if size is None or size <= 0:
        raise ValueError(f"the size of a window must be above 0, found {'null' if size is None else size}")
    return size
