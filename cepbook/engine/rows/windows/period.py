"""Durations of time windows as code, with calendar months."""

from __future__ import annotations

from cepbook.engine.rows import support
from cepbook.engine.rows.code import Code
from cepbook.lang import expr as x


def calendar_months(code: Code) -> str | None:
    """Code of the number of calendar months in the window's period, None if it has none."""
    period = _period(code)
    if isinstance(period, x.Period) and period.months is not None:
        return code.parameter(period.months)
    return None


def millis(code: Code) -> str:
    """Code of the period's milliseconds (besides its months)."""
    period = _period(code)
    if isinstance(period, x.Period):
        if period.millis is None:
            return "0"
        return code.parameter(period.millis)
    return code.parameter(period)


def due_of(code: Code, start: str) -> str:
    """Code of the first instant at which an event of time `start` has left."""
    months = calendar_months(code)
    if months is None:
        return f"{start} + {millis(code)}"
    return f"{code.source.bind('_month_due', month_due)}({start}, {months}, {millis(code)})"


def timer_of(code: Code, start: str) -> str:
    """Code of when to look at a window whose oldest event is of time `start`.

    Where nobody sees the expiry, a sweep one period later is enough to keep an idle window from holding on.
    """
    due = due_of(code, start)
    return f"{due} + {millis(code)}" if code.shape.lazy else due


def limit_of(code: Code, now: str) -> str:
    """Code of the newest arrival time that has left at `now`."""
    months = calendar_months(code)
    if months is None:
        return f"{now} - {millis(code)}"
    return f"{code.source.bind('_add_months', support.add_months)}({now}, -{months}) - {millis(code)}"


def _period(code: Code) -> x.Expr:
    window = code.shape.window
    assert window is not None
    return window.args[0]


def month_due(t: int, months: int, ms: int) -> int:
    """The first instant at which ``now - months - ms`` is not before `t`.

    Clamping makes this later than ``t + months`` at month ends: Jan 31 05:00 leaves on Mar 1 00:00, not on Feb 29.
    """
    candidate = support.add_months(t + ms, months)
    if support.add_months(candidate, -months) - ms >= t:
        return candidate
    day = 86_400_000
    following = candidate - candidate % day + day
    while support.add_months(following, -months) - ms < t:
        following += day
    return following


def next_on_grid(now: int, grid: int, months: int, ms: int) -> int:
    """The first point after `now` of the grid through `grid` with the given period.

    Calendar grids move month by month from their last point, so a day once clamped stays clamped.
    """
    if not months:
        return grid + ((now - grid) // ms + 1) * ms
    while grid > now:
        before = support.add_months(grid, -months) - ms
        if before <= now:
            return grid
        grid = before
    while grid <= now:
        grid = support.add_months(grid + ms, months)
    return grid
