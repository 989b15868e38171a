"""Calendar arithmetic of periods: when months are over, and grids of points a period apart."""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.lang.java.dates.civil import date_of, days_of, month_length
from cepbook.lang.java.dates.time_zone import offset_at, offset_of_local, zone_of


def add_months(t: int, months: int, second: int = 1000, zone: str = "UTC") -> int:
    """Return `t` moved by calendar months. The day is at most the last one of the month (Jan 31 + 1 month = Feb 28/29).

    The time of day in the time zone `zone` stays. A time that clocks skip is moved forward by the length of the gap. Of
    a time that clocks show twice, the one with the offset of `t` is returned, else the later one. `second` is the
    number of clock units in a second.
    """
    local = zone_of(zone)
    offset = offset_at(local, t, second)
    days, rest = divmod(t + offset, 86_400 * second)
    year, month, day = date_of(days, iso=True)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    day = min(day, month_length(year, month + 1, iso=True))
    moved = days_of(year, month + 1, day, iso=True) * 86_400 * second + rest
    return moved - offset_of_local(local, moved, second, offset)


def add_days(t: int, days: int, second: int, zone: str) -> int:
    """Return `t` moved by days of the time zone; the time of day stays, as in `add_months`."""
    local = zone_of(zone)
    offset = offset_at(local, t, second)
    moved = t + offset + days * 86_400 * second
    return moved - offset_of_local(local, moved, second, offset)


def next_day_on_grid(now: int, grid: int, days: int, second: int, zone: str) -> int:
    """Return the first point after `now` of the grid through `grid` with a point every `days` of the time zone."""
    steps = (now - grid) // (days * 86_400 * second)
    return next(
        t for n in (steps - 1, steps, steps + 1, steps + 2) if (t := add_days(grid, n * days, second, zone)) > now
    )


def period_after(now: int, months: int | None, units: float | None, second: int, zone: str = "UTC") -> int:
    """Return `now` plus calendar months in the time zone plus `units` of the clock, of which a second has `second`.

    Errors: ValueError for null.
    """
    if months is None or units is None:
        raise ValueError("a time period is null")
    if months:
        now = add_months(now, months, second, zone)
    return min(now + (units if isinstance(units, int) else round(units)), NEVER)


def month_due(t: int, months: int, units: int, second: int, zone: str = "UTC") -> int:
    """Return the first instant from which `months` and `units` go back to `t` or later.

    `second` is the number of clock units in a second.

    Clamping makes this later than ``t + months`` at month ends: Jan 31 05:00 leaves on Mar 1 00:00, not on Feb 29.
    These are times of the `zone`.
    """
    candidate = add_months(t + units, months, second, zone)
    if add_months(candidate, -months, second, zone) - units >= t:
        return candidate
    local, day = zone_of(zone), 86_400 * second
    offset = offset_at(local, candidate, second)
    midnight = candidate + offset - (candidate + offset) % day + day
    while True:
        following = midnight - offset_of_local(local, midnight, second, offset, earlier=True)
        if add_months(following, -months, second, zone) - units >= t:
            return following
        midnight += day


def next_on_grid(now: int, grid: int, months: int, units: int, second: int = 1000, zone: str = "UTC") -> int:
    """Return the first point after `now` of the grid through `grid` with the given period: months first, then units.

    Calendar grids move month by month from their last point, so a day once clamped stays clamped.
    """
    if not months:
        return grid + ((now - grid) // units + 1) * units
    while grid > now:
        before = add_months(grid, -months, second, zone) - units
        if before <= now:
            return grid
        grid = before
    while grid <= now:
        grid = add_months(grid, months, second, zone) + units
    return grid
