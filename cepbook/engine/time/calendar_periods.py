"""Calendar arithmetic of periods: when months are over, and grids of points a period apart."""

from __future__ import annotations

from cepbook.engine.expressions import primitives
from cepbook.lang.java.dates.time_zone import offset_at, offset_of_local, zone_of


def month_due(t: int, months: int, units: int, second: int, zone: str = "UTC") -> int:
    """The first instant at which ``now - months - units`` is not before `t`; `second` is one in units of the clock.

    Clamping makes this later than ``t + months`` at month ends: Jan 31 05:00 leaves on Mar 1 00:00, not on Feb 29.
    These are times of the `zone`.
    """
    candidate = primitives.add_months(t + units, months, second, zone)
    if primitives.add_months(candidate, -months, second, zone) - units >= t:
        return candidate
    local, day = zone_of(zone), 86_400 * second
    offset = offset_at(local, candidate, second)
    midnight = candidate + offset - (candidate + offset) % day + day
    while True:
        following = midnight - offset_of_local(local, midnight, second, offset, earlier=True)
        if primitives.add_months(following, -months, second, zone) - units >= t:
            return following
        midnight += day


def next_on_grid(now: int, grid: int, months: int, units: int, second: int = 1000, zone: str = "UTC") -> int:
    """The first point after `now` of the grid through `grid` with the given period.

    Calendar grids move month by month from their last point, so a day once clamped stays clamped.
    """
    if not months:
        return grid + ((now - grid) // units + 1) * units
    while grid > now:
        before = primitives.add_months(grid, -months, second, zone) - units
        if before <= now:
            return grid
        grid = before
    while grid <= now:
        grid = primitives.add_months(grid + units, months, second, zone)
    return grid
