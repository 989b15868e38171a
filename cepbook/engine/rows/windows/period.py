"""Calendar arithmetic of periods: when months are over, and grids of points a period apart."""

from __future__ import annotations

from cepbook.engine.rows import support


def month_due(t: int, months: int, units: int, second: int) -> int:
    """The first instant at which ``now - months - units`` is not before `t`; `second` is one in units of the clock.

    Clamping makes this later than ``t + months`` at month ends: Jan 31 05:00 leaves on Mar 1 00:00, not on Feb 29.
    """
    candidate = support.add_months(t + units, months, second)
    if support.add_months(candidate, -months, second) - units >= t:
        return candidate
    day = 86_400 * second
    following = candidate - candidate % day + day
    while support.add_months(following, -months, second) - units < t:
        following += day
    return following


def next_on_grid(now: int, grid: int, months: int, units: int, second: int = 1000) -> int:
    """The first point after `now` of the grid through `grid` with the given period.

    Calendar grids move month by month from their last point, so a day once clamped stays clamped.
    """
    if not months:
        return grid + ((now - grid) // units + 1) * units
    while grid > now:
        before = support.add_months(grid, -months, second) - units
        if before <= now:
            return grid
        grid = before
    while grid <= now:
        grid = support.add_months(grid + units, months, second)
    return grid
